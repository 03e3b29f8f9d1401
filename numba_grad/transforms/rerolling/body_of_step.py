"""One step of a Python loop that was recorded step by step, as the body of an operation."""

from collections.abc import Sequence

from numba_grad.graph.node import OPS, Node, argument, recording
from numba_grad.graph.walk import lets_gradients_through, rebuilt
from numba_grad.ops.families import reshape
from numba_grad.transforms.call_target import CallTarget
from numba_grad.transforms.rerolling.assigned_rows import row_axis
from numba_grad.transforms.rerolling.rows_of_steps import (
    as_read_again,
    elements_of,
    one_after_the_other,
    picked_row,
    row_of,
    rows_in_front,
)
from numba_grad.transforms.rerolling.steps_before import Carried
from numba_grad.transforms.rerolling.steps_of_loop import WHICH_ROW, Reads, StepsOfLoop

# What reads an array, of which each has a row, or one which has all of it.
Read = tuple[list[Reads], Node]


class BodyOfStep:
    """The body, and the constants that it takes.

    Parameters
    ----------
    loop : what its steps read, and what others read of them
    initial : what it carries at first, of which a row may have a gradient where those that steps
        assign have none; of passes of a loop inside these are rows of one array (`carried_runs`)
    sequences : arrays that a step gets one row of each, with what reads that: where these are
        several passes of a loop inside, they read its rows
    of_passes : arrays whose rows passes read, the same in all steps
    """

    def __init__(
        self,
        loop: StepsOfLoop,
        initial: Sequence[Node],
        sequences: Sequence[Read],
        of_passes: Sequence[Read],
    ) -> None:
        self.loop, self.recorded = loop, loop.recorded
        self.first = first = loop.steps.first
        follows = {
            place
            for run, x in zip(loop.carried_runs, initial, strict=True)
            for place, _ in run
            if x.requires_grad
        }
        states: list[Node] = []
        self.carried: dict[Carried, tuple[Node, int | None]] = {}  # and which row of it
        for run in loop.carried_runs:
            [(place, _), *others] = run
            x = self.recorded.nodes[first + place]
            type = x.type.of_shape((len(run), *x.shape)) if others else x.type
            states.append(argument(type, x.requires_grad or place in follows))
            self.carried |= {key: (states[-1], k if others else None) for k, key in enumerate(run)}
        rows = [argument(x.type.of_shape(x.shape[1:]), x.requires_grad) for _, x in sequences]
        arrays = [_stand_in(x) for _, x in of_passes]
        self.rows: dict[Reads, tuple[Node, int | None]] = {}  # and which row of it
        for (run, _), x in zip([*sequences, *of_passes], [*rows, *arrays], strict=True):
            self.rows |= {key: (x, k if len(run) > 1 else None) for k, key in enumerate(run)}
        read = {x for key, x in loop.constant_reads.items() if key not in self.rows}
        read.update([first + place for place in loop.invariant.values()])
        given = {number: x for number, x in loop.constants.items() if number in read}
        self.constants = {number: _stand_in(x) for number, x in given.items()}
        own = {number - first: x for number, x in self.constants.items()}  # by place
        self.made = {place: own[same] for place, same in loop.invariant.items() if same in own}
        self.views: dict[tuple[int, ...], Node] = {}
        arguments = [*states, *rows, *self.constants.values(), *arrays]
        self.target = CallTarget("steps", arguments, self._outputs())
        self.given_constants = [*given.values(), *[x for _, x in of_passes]]

    def _outputs(self) -> list[Node]:
        loop, made = self.loop, self.made
        for place in range(loop.steps.period):
            if place not in loop.invariant and place not in loop.assigned:
                made[place] = self._value(place)
        outputs = [
            [
                made[place] if delay == 1 else self.carried[place, delay - 1][0]
                for place, delay in run
            ]
            for run in loop.carried_runs
        ]
        outputs += [[made[x] for x in run] for run in loop.stacked]
        return [one_after_the_other(run) for run in outputs]

    def _value(self, place: int) -> Node:
        recorded, number = self.recorded, self.first + place
        node = recorded.nodes[number]
        if (place, 0) in self.rows and self.loop.reads_next_row(place):
            row = reshape(self._row((place, 0)), node.shape)
            return row if lets_gradients_through(node) else OPS["detach"](row)
        following = recorded.inputs_of(number + self.loop.steps.period)
        pairs = zip(recorded.inputs_of(number), following, strict=True)
        given = [self._input((place, k), x, y) for k, (x, y) in enumerate(pairs)]
        if number in recorded.read_again or number in recorded.windows:
            return as_read_again(node, given, recorded.read_within.get(number))
        if (place, WHICH_ROW) in self.rows:
            return self._picked(place, given[0])
        if number in recorded.powers:
            base, exponent = given
            if (place, 1) in self.rows:
                with recording(node.requires_grad):
                    return OPS["power"](base, exponent)
            given = [base]  # the same in all steps
        # A step that says `y[0]` several times is differentiated as if it said so once.
        own = int(recorded.signatures[number]), int(recorded.row_starts[number])
        key = (*own, *map(id, given))
        if node.op.family != "movement" or key not in self.views:
            with recording(node.requires_grad):  # not of what the user has recorded without
                self.views[key] = rebuilt(node, tuple(given), {})
        return self.views[key]

    def _picked(self, place: int, x: Node) -> Node:
        """A row of what a step computes, in each step another one."""
        node = self.recorded.nodes[self.first + place]
        with recording(node.requires_grad):
            if self.recorded.are_elements[self.first + place]:
                x, params = elements_of(x)
            else:
                x, params = rows_in_front(x, node.params, row_axis(node))
            return reshape(picked_row(x, params, self._row((place, WHICH_ROW))), node.shape)

    def _input(self, key: Reads, number: int, following: int) -> Node:
        """What has this number in the first of the steps, and the other one in the next."""
        period = self.loop.steps.period
        if key in self.rows:
            return self._row(key)
        if following - number != period or number < 0:
            return self.constants[number]  # which a loop may begin with, too
        if number >= self.first:
            return self.made[number - self.first]
        steps_back = -((number - self.first) // period)
        return _row_in(self.carried[(number - self.first) % period, steps_back])

    def _row(self, key: Reads) -> Node:
        return _row_in(self.rows[key])


def _row_in(array_and_row: tuple[Node, int | None]) -> Node:
    x, number = array_and_row
    # Recorded where it is read, so that passes look alike.
    return x if number is None else row_of(x, number)


def _stand_in(x: Node) -> Node:
    return argument(x.type, x.requires_grad)
