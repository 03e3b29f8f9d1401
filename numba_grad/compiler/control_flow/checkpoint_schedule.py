"""Which states of a loop its adjoint keeps, and which steps it does again: a kernel that says what
comes next, so that the number of steps may be known at run time only.

A loop of n steps is gone through backwards with memory for s states, the first one among them. What
is left between the last kept state and the step to be gone back over is split so that the steps
done again are as few as can be: the binomial schedule of Griewank and Walther (Algorithm 799:
Revolve, ACM TOMS 26, 2000). In all they are

    r n - C(s + r, s + 1),    with the least r for which C(s + r, s) >= n

Where what is left fits, all of its states are kept, and it is gone back over in one run. The state
that is used at once has a slot of its own, so s + 1 steps in one run fit into s free ones: of 1,000
steps with 200 states 17 runs are made, where runs of s steps would leave some 2,000 single ones.
"""

import enum


class ScheduleWord(enum.IntEnum):
    """The words of a schedule; after them the numbers of the steps whose states are kept, one for
    each slot."""

    IS_RUNNING = 0
    ACTION = 1
    SLOT = 2  # where the action's first state is
    TARGET = 3  # where a LEAP's state goes
    STEP = 4  # the number of the action's first step
    COUNT = 5  # steps of the action; of a RETURN passes, of several steps maybe
    LEFT = 6  # steps that are still to be gone back over
    TOP = 7  # the last slot that is in use
    SLOTS = 8
    PENDING = 9  # steps whose states are there, to be gone back over next
    PENDING_SLOT = 10  # of the last of them
    ADVANCED = 11  # steps done so far, for their states
    TOGETHER = 12  # steps of a pass of RETURN_TOGETHER
    BEFORE = 13  # of a RETURN: states of its run before the first one that it needs
    END = 14


class Action(enum.IntEnum):
    """What an adjoint does next."""

    LEAP = 0  # COUNT steps from the state in SLOT; the state after them goes to TARGET
    STORE = 1  # the same, but the state after each step goes to the next slot
    RETURN = 2  # back over COUNT steps, the last one first: its state is in SLOT
    RETURN_TOGETHER = 3  # the same, over COUNT times TOGETHER steps


def _constants() -> str:
    return "".join(
        f"{enumeration.__name__.removesuffix('Word').upper()}_{word.name} = {word.value}\n"
        for enumeration in (ScheduleWord, Action)
        for word in enumeration
    )


# Words: the schedule, where the number of steps is, slots, and how many steps back share a pass
# where there are as many. There is one slot more than these, for a state that is used at once.
START_SOURCE = f"""\
# checkpoints: start
{_constants()}
def kernel(args, lo, hi):
    schedule = buffer(args, 0, int64)
    steps = buffer(args, 1, int64)
    schedule[SCHEDULE_IS_RUNNING] = 1
    schedule[SCHEDULE_LEFT] = steps[0]
    schedule[SCHEDULE_TOP] = 0
    schedule[SCHEDULE_SLOTS] = integer(args, 2)
    schedule[SCHEDULE_PENDING] = 0
    schedule[SCHEDULE_ADVANCED] = 0
    schedule[SCHEDULE_TOGETHER] = integer(args, 3)
    schedule[SCHEDULE_END] = 0
"""

# Word: the schedule.
NEXT_SOURCE = f"""\
# checkpoints: next
{_constants()}
def kernel(args, lo, hi):
    schedule = buffer(args, 0, int64)
    left = schedule[SCHEDULE_LEFT]
    top = schedule[SCHEDULE_TOP]
    pending = schedule[SCHEDULE_PENDING]
    if pending > 0:
        together = schedule[SCHEDULE_TOGETHER]
        schedule[SCHEDULE_ACTION] = ACTION_RETURN
        schedule[SCHEDULE_SLOT] = schedule[SCHEDULE_PENDING_SLOT]
        schedule[SCHEDULE_STEP] = left - 1
        schedule[SCHEDULE_BEFORE] = pending - 1
        count = pending
        passes = pending
        if together > 1 and pending >= together:
            schedule[SCHEDULE_ACTION] = ACTION_RETURN_TOGETHER
            passes = pending // together
            count = passes * together
        schedule[SCHEDULE_COUNT] = passes
        schedule[SCHEDULE_PENDING] = pending - count
        schedule[SCHEDULE_PENDING_SLOT] -= count
        left -= count
        schedule[SCHEDULE_LEFT] = left
        while top > 0 and schedule[SCHEDULE_END + top] >= left:
            top -= 1
        schedule[SCHEDULE_TOP] = top
    elif left <= 0:
        schedule[SCHEDULE_IS_RUNNING] = 0
    else:
        step = schedule[SCHEDULE_END + top]
        remaining = left - step
        slots = schedule[SCHEDULE_SLOTS]
        free = slots - 1 - top
        schedule[SCHEDULE_SLOT] = top
        schedule[SCHEDULE_STEP] = step
        if free >= remaining - 2:  # the last one is used at once
            schedule[SCHEDULE_ACTION] = ACTION_STORE
            schedule[SCHEDULE_COUNT] = remaining - 1
            schedule[SCHEDULE_PENDING] = remaining
            schedule[SCHEDULE_PENDING_SLOT] = top + remaining - 1
        elif free == 0:
            schedule[SCHEDULE_ACTION] = ACTION_LEAP
            schedule[SCHEDULE_COUNT] = remaining - 1
            schedule[SCHEDULE_TARGET] = slots
            schedule[SCHEDULE_PENDING] = 1
            schedule[SCHEDULE_PENDING_SLOT] = slots
        else:
            states = free + 1
            repeats = 1
            before = 1
            reach = states + 1
            while reach < remaining:
                repeats += 1
                before = reach
                reach = reach * (states + repeats) // repeats
            count = min(before, remaining - before * states // (states + repeats - 1))
            schedule[SCHEDULE_ACTION] = ACTION_LEAP
            schedule[SCHEDULE_COUNT] = count
            schedule[SCHEDULE_TARGET] = top + 1
            schedule[SCHEDULE_END + top + 1] = step + count
            schedule[SCHEDULE_TOP] = top + 1
        schedule[SCHEDULE_ADVANCED] += schedule[SCHEDULE_COUNT]
"""

# Words: the schedule, what is written, arrays of a slot. Where steps back begin, in arrays, if a
# slot has several: what is carried, and its former values. Then the states of a run are one array
# apart from each other, from its first slot on.
PLACE_SOURCE = f"""\
# checkpoints: place
{_constants()}
def kernel(args, lo, hi):
    schedule = buffer(args, 0, int64)
    place = buffer(args, 1, int64)
    before = schedule[SCHEDULE_BEFORE]
    place[0] = (schedule[SCHEDULE_SLOT] - before) * integer(args, 2) + before
"""


def schedule_bytes(slots: int) -> int:
    return 8 * (ScheduleWord.END + slots + 1)
