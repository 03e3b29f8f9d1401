"""Which states an adjoint keeps: the kernel that says what comes next, driven alone."""

import functools
from collections.abc import Iterator

import numpy as np
import pytest

from numba_grad.compiler.building.build import build
from numba_grad.compiler.building.engine_build import native_engine
from numba_grad.compiler.control_flow.checkpoint_schedule import (
    NEXT_SOURCE,
    START_SOURCE,
    Action,
    ScheduleWord,
    schedule_bytes,
)
from numba_grad.runtime.plan import Plan, PlanBuilder
from perf.control_flow import steps_done_again

INT = np.dtype(np.int64)


def plan_of(source: str, inputs: int, *numbers: int) -> Plan:
    """A plan that runs one of the kernels on its inputs, the first of which it writes to."""
    builder = PlanBuilder(inputs, [])
    words: list[object] = [(builder.input(k), 0) for k in range(inputs)]
    builder.step(builder.kernel(build(source)), [*words, *numbers])
    return builder.build()


next_plan = functools.cache(lambda: plan_of(NEXT_SOURCE, 1))


def schedule_of(steps: int, slots: int, together: int = 1) -> Iterator[np.ndarray]:
    """The schedule's words at each action."""
    words = np.zeros(schedule_bytes(slots) // 8, INT)
    native_engine().run(plan_of(START_SOURCE, 2, slots, together), [words, np.array(steps)])
    while True:
        native_engine().run(next_plan(), [words])
        if not words[ScheduleWord.IS_RUNNING]:
            return
        yield words


def steps_of_all_actions(steps: int, slots: int, together: int = 1) -> int:
    """How many steps are done for their states; checks that each finds the states that it needs,
    and that all steps are gone back over in order."""
    step_in = {0: 0}  # by slot
    left, done = steps, 0
    for words in schedule_of(steps, slots, together):
        action = Action(words[ScheduleWord.ACTION])
        slot, step, count = (
            int(words[k]) for k in (ScheduleWord.SLOT, ScheduleWord.STEP, ScheduleWord.COUNT)
        )
        assert step_in[slot] == step
        if action in (Action.RETURN, Action.RETURN_TOGETHER):
            if action is Action.RETURN_TOGETHER:
                count *= together
            else:
                assert together == 1 or count < together
            assert step == left - 1
            before = int(words[ScheduleWord.BEFORE])
            assert all(step_in[slot - k] == step - k for k in range(before + 1))
            assert all(step_in[slot - k] == step - k for k in range(count))
            left -= count
            continue
        done += count
        if action is Action.LEAP:
            step_in[int(words[ScheduleWord.TARGET])] = step + count
        else:
            step_in.update({slot + k: step + k for k in range(count + 1)})
        assert max(step_in) <= slots
    assert left == 0
    return done


@pytest.mark.parametrize("slots", [1, 2, 3, 4, 7, 20])
@pytest.mark.parametrize("together", [1, 4])
def test_steps_done_again_are_those_of_the_formula(slots, together):
    for steps in (0, 1, 2, 3, 4, 5, 8, 13, 21, 34, 55, 89, 144):
        expected = steps_done_again(steps, slots)
        assert steps_of_all_actions(steps, slots, together) == expected, steps


@pytest.mark.parametrize(
    ("slots", "per_step"), [(10, 5.8), (40, 2.9), (100, 2.5), (450, 2.0), (1500, 1.9)]
)
def test_ten_thousand_steps_take_what_griewanks_formula_says(slots, per_step):
    assert steps_done_again(10_000, slots) / 10_000 == pytest.approx(per_step, abs=0.06)
    assert steps_of_all_actions(10_000, slots) == steps_done_again(10_000, slots)


@pytest.mark.parametrize(
    ("slots", "per_step"), [(10, 11.7), (40, 4.9), (100, 3.8), (450, 2.9), (1500, 2.0)]
)
def test_a_million_steps_by_the_formula(slots, per_step):
    assert steps_done_again(1_000_000, slots) / 1_000_000 == pytest.approx(per_step, abs=0.06)


def test_with_room_for_all_states_each_step_is_done_once():
    for slots in (5, 6, 100):
        assert steps_of_all_actions(5, slots) == 4
    actions = [Action(words[ScheduleWord.ACTION]) for words in schedule_of(5, 5)]
    assert actions == [Action.STORE, Action.RETURN]


def test_actions_are_runs_of_many_steps():
    # For each kept state at most a few, not for each step.
    assert len(list(schedule_of(1000, 200))) == 17
    assert len(list(schedule_of(4000, 390))) == 32


@pytest.mark.thorough
def test_counts_are_those_of_revolve():
    schedules = pytest.importorskip("checkpoint_schedules")
    for steps in (2, 3, 5, 10, 37, 100):
        for slots in (1, 2, 3, 5, 10):
            revolve = schedules.MultistageCheckpointSchedule(steps, slots, 0)
            forward = 0
            for action in revolve:
                if isinstance(action, schedules.Forward):
                    forward += action.n1 - action.n0
                elif isinstance(action, schedules.EndReverse):
                    break
            # Theirs does each step once more, for its derivative; so does our VJP of a step.
            assert steps_of_all_actions(steps, slots) == forward - steps, (steps, slots)
