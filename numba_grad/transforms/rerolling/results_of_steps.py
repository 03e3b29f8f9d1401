"""What who reads steps of a Python loop reads where these have become one operation."""

from collections.abc import Sequence

from numba_grad.graph.node import OPS, Node, record, recording
from numba_grad.ops.families import reshape
from numba_grad.ops.movement import region_params
from numba_grad.transforms.rerolling.assigned_rows import UPDATE
from numba_grad.transforms.rerolling.repeated_steps import fewest_of
from numba_grad.transforms.rerolling.rerolled import Rerolled, Runs
from numba_grad.transforms.rerolling.rows_of_steps import (
    RowsOfPlace,
    flipped,
    row_of,
    rows_along,
    rows_of,
)
from numba_grad.transforms.rerolling.steps_before import Carried
from numba_grad.transforms.rerolling.steps_of_loop import StepsOfLoop
from numba_grad.transforms.rerolling.written_parts import WrittenPart, with_written

_RESHAPE, _CONCATENATE = OPS["reshape"], OPS["concatenate"]


class ResultsOfSteps(StepsOfLoop):
    """Says what others read from now on."""

    def _replace(
        self,
        made: Rerolled,
        reads: dict[int, list[int]],
        finals: Sequence[Node],
        stacks: Sequence[Node],
    ) -> None:
        """Say what others read from now on."""
        stack_of = self._rows_of_places(stacks)
        final_of: dict[Carried, tuple[Node, int | None]] = {}  # and which row of it
        for run, x in zip(self.carried_runs, finals, strict=True):
            final_of |= {key: (x, k if len(run) > 1 else None) for k, key in enumerate(run)}
        place_of: dict[Node, tuple[int, int]] = {}  # of what is stacked: (place, step)
        for place in stack_of:
            for step in reads.get(place, ()):
                place_of[self._node(place, step)] = place, step
        only_joined = self._join(made, place_of, stack_of)
        arrays = self._arrays_after(stack_of)
        for place, read in reads.items():
            if place in arrays:
                made.instead[self._node(place, self.count - 1)] = arrays[place]
                continue
            for step in read:
                node = self._node(place, step)
                final = final_of.get((place, self.count - step))
                if final is not None:
                    x, row = final
                    made.instead[node] = x if row is None else row_of(x, row)
                elif node not in only_joined:
                    rows = stack_of[place]
                    made.instead[node] = row_of(rows.stack, rows.row(step))

    def _rows_of_places(self, stacks: Sequence[Node]) -> dict[int, RowsOfPlace]:
        found: dict[int, RowsOfPlace] = {}
        for places, stack in zip(self.stacked, stacks, strict=True):
            count = len(places)
            if count > 1:
                stack = reshape(stack, (self.count * count, *stack.shape[2:]))
            found |= {place: RowsOfPlace(stack, k, count) for k, place in enumerate(places)}
        return found

    def _join(
        self,
        made: Rerolled,
        place_of: dict[Node, tuple[int, int]],
        stack_of: dict[int, RowsOfPlace],
    ) -> set[Node]:
        """Concatenations of rows, one after the other: `np.stack` of what a loop has appended.
        Returns the nodes that nobody else reads."""
        recorded, end = self.recorded, self.steps.end
        fewest = fewest_of(recorded, self.steps.period)
        joined: set[Node] = set()
        others: set[Node] = set()
        reshaped: dict[Node, Node] = {}  # a row, as a piece
        concatenations = []
        readers = recorded.readers_of(self.steps, self._numbers_before())
        for number in sorted({*readers, *recorded.concatenations_after(end)}):
            if number < end:
                continue
            node = recorded.nodes[number]
            if node.op is _CONCATENATE and len(node.inputs) >= fewest:
                concatenations.append(node)
                continue
            for x in node.inputs:
                if x in place_of:
                    if node.op is _RESHAPE and recorded.signatures[number]:
                        reshaped[node] = x
                    else:
                        others.add(x)
        used_pieces: set[Node] = set()
        for node in concatenations:
            pieces = self._pieces(node, place_of, stack_of, reshaped)
            if pieces is None:
                others.update(reshaped[x] for x in node.inputs if x in reshaped)
                others.update(x for x in node.inputs if x in place_of)
                continue
            made.others[node] = pieces
            used_pieces.update(x for x in node.inputs if x in reshaped)
            joined.update(reshaped[x] for x in node.inputs if x in reshaped)
        for piece, row in reshaped.items():
            if piece not in used_pieces:
                others.add(row)
        return joined - others

    def _pieces(
        self,
        node: Node,
        place_of: dict[Node, tuple[int, int]],
        stack_of: dict[int, RowsOfPlace],
        reshaped: dict[Node, Node],
    ) -> Runs | None:
        """Of the inputs of a concatenation, those that steps gave one after the other, as pieces;
        None if that is not how it is."""
        axis = node.params["axis"]
        runs: dict[int, list[tuple[Node, int]]] = {}  # (stack, row), one after the other
        run: list[tuple[Node, int]] = []
        for number, x in enumerate(node.inputs):
            row = reshaped.get(x)
            if row is None or row not in place_of:
                run = []
                continue
            shape = row.shape
            if x.shape != (*shape[:axis], 1, *shape[axis:]):
                return None
            place, step = place_of[row]
            stack, k = stack_of[place].stack, stack_of[place].row(step)
            if not run or run[-1] != (stack, k - 1):
                run = runs[number] = []
            run.append((stack, k))
        if all(len(run) == 1 for run in runs.values()):
            return None
        return {
            number: (len(run), rows_of(*run[0], len(run), axis)) for number, run in runs.items()
        }

    def _arrays_after(self, stack_of: dict[int, RowsOfPlace]) -> dict[int, Node]:
        """By the last place of assignments to it, each array after all steps."""
        steps, recorded = self.steps, self.recorded
        found: dict[int, Node] = {}
        for chain in self._chains():
            array = recorded.node(self._array_before(chain))
            if self._writes_anywhere(chain[0]):
                with recording(recorded.nodes[steps.first + chain[-1]].requires_grad):
                    found[chain[-1]] = with_written(array, self._written(chain, stack_of))
                continue
            for places in self._side_by_side(chain, stack_of):
                number, count = steps.first + places[0], len(places)
                first, move = self._rows(number)
                part = recorded.row_parts[recorded.part_numbers[number]]
                values = stack_of[self.assigned[places[0]]]
                with recording(recorded.nodes[number].requires_grad):
                    rows = values.stack if count > 1 else values.of_all_steps(self.count)
                    rows = reshape(rows, (count * self.count, *part.sizes))
                    rows = rows if move > 0 else flipped(rows)
                    apart = abs(move) // count
                    first -= (count - 1) * apart if move < 0 else 0
                    starts, _, steps_apart = part.of_rows(first, 1, apart)
                    params = region_params(starts, steps_apart)
                    array = record(UPDATE, (array, rows_along(rows, part.axis)), params)
            found[chain[-1]] = array
        return found

    def _side_by_side(
        self, chain: Sequence[int], stack_of: dict[int, RowsOfPlace]
    ) -> list[list[int]]:
        """Assignments of one step, those together whose rows come one after the other as what is
        assigned does."""
        runs: list[list[int]] = []
        for place in chain:
            if not (runs and self._is_next(runs[-1], place, stack_of)):
                runs.append([])
            runs[-1].append(place)
        found: list[list[int]] = []
        for run in runs:
            found += [run] if self._fills_rows(run, stack_of) else [[place] for place in run]
        return found

    def _is_next(self, run: list[int], place: int, stack_of: dict[int, RowsOfPlace]) -> bool:
        """Whether a place assigns the row after those of a run, which are in the order of what is
        assigned."""
        before, rows = (stack_of[self.assigned[x]] for x in (run[-1], place))
        if rows.stack is not before.stack or rows.first != before.first + 1:
            return False
        starts, parts = self.recorded.row_starts, self.recorded.part_numbers
        last, number = self.steps.first + run[-1], self.steps.first + place
        distance = self._rows(number)[1] // rows.stride
        return parts[last] == parts[number] and starts[number] == starts[last] + distance

    def _fills_rows(self, run: list[int], stack_of: dict[int, RowsOfPlace]) -> bool:
        """Whether a run and that of the next step have no rows in between."""
        move = self._rows(self.steps.first + run[0])[1]
        return len(run) == stack_of[self.assigned[run[0]]].stride and move % len(run) == 0

    def _written(
        self, chain: Sequence[int], stack_of: dict[int, RowsOfPlace]
    ) -> list[tuple[Node, list[WrittenPart]]]:
        """By place of a chain, the values of all steps, and what is known of them."""
        written, steps = self.recorded.written, range(self.count)
        return [
            (
                stack_of[self.assigned[place]].of_all_steps(self.count),
                [written[self._node(place, k)] for k in steps],
            )
            for place in chain
        ]
