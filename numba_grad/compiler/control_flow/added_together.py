"""What several steps of a loop add to sums, in one kernel behind them: `joinable_steps.py` says of
which loops."""

from collections.abc import Callable, Mapping, Sequence

from numba_grad.compiler.control_flow.carried_state import step_of_several, two_buffers
from numba_grad.compiler.control_flow.joinable_steps import SumOfSteps, SumsOfSteps
from numba_grad.compiler.control_flow.steps_together import joined_steps
from numba_grad.compiler.control_flow.writer import BodySteps, Moving, Writer
from numba_grad.compiler.partition.flat_graph import ClosedGraph
from numba_grad.compiler.words import Pointer
from numba_grad.graph.node import OPS, Node, argument, record
from numba_grad.graph.types import Type
from numba_grad.graph.walk import substitute
from numba_grad.ops.families import zeros_like

Inside = Callable[[int], list[tuple[int, Moving]]]


class AddedTogether:
    """The sums of a loop, of each of which there are two buffers: of the region that steps add to,
    where that is a part of it."""

    def __init__(self, writer: Writer, body: ClosedGraph, carried: int, found: SumsOfSteps) -> None:
        self.writer, self.body, self.carried = writer, body, carried
        self.sums, self.read = found.sums, found.read
        self.numbers = [x.number for x in found.sums]
        self.held = [argument(x.added.type) for x in found.sums]
        self.buffers = [two_buffers(writer, x.type) for x in self.held]

    def begin(self, inputs: Sequence[Pointer]) -> None:
        """`inputs`: where the sums are at first."""
        for sum, node, (read, _), start in zip(
            self.sums, self.held, self.buffers, inputs, strict=True
        ):
            if sum.region is None:
                self.writer.copy(start, read.start, node.type)
            else:
                self._write_graph(zeros_like(node), [], read.start)

    def whole(self, number: int, start: Pointer, final: Pointer, type: Type) -> Pointer:
        """Where one of the sums is in the end, which was at `start` at first."""
        region = self.sums[number].region
        if region is None:
            return final
        place = Pointer(self.writer.temporary(type.nbytes), 0)
        whole, held = argument(type), self.held[number]
        added = record(OPS["add_slice"], (whole, held), region)
        self._write_graph(added, [(whole, start), (held, final)], place)
        return place

    def _write_graph(
        self, node: Node, given: Sequence[tuple[Node, Pointer]], place: Pointer
    ) -> None:
        steps = self.writer.compiled_nodes([node], [x for x, _ in given])
        self.writer.body(steps, [pointer for _, pointer in given], [place])

    def inside(
        self,
        steps: BodySteps,
        count: int,
        buffers: Sequence[tuple[Moving, Moving]],
        reads: Mapping[int, Moving],
        rows: Sequence[Moving],
        writes: Sequence[Moving],
        constants: Sequence[Pointer],
    ) -> Inside:
        """What a pass of `count` steps appends, and of what these add to sums.

        Parameters
        ----------
        steps : a step without sums
        buffers : of the sums, at the first pass
        reads : what is carried, by number, of single steps, as are `rows` and `writes`, of what
            a step computes
        """
        writer, body = self.writer, self.body
        own = [body.arguments[k] for k in self.read] + [*body.arguments[self.carried :]]
        sums = [_with_step(x, node, body) for x, node in zip(self.sums, self.held, strict=True)]
        read_again = [*[reads[k] for k in self.read], *rows]
        joined = joined_steps([*self.held, *own], sums, len(self.held), len(read_again), count)
        added = writer.compiled_nodes(joined.outputs[-1], joined.arguments)

        def inside(_: int) -> list[tuple[int, Moving]]:
            moving: list[tuple[int, Moving]] = []
            for n in range(count):
                given = [step_of_several(x, n, count) for x in (*reads.values(), *rows)]
                places = [step_of_several(x, n, count) for x in writes]
                moving += writer.body(steps, [*given, *constants], places)
            given = [read for read, _ in buffers]
            given += [step_of_several(x, n, count) for n in range(count) for x in read_again]
            places = [written for _, written in buffers]
            return moving + writer.body(added, [*given, *constants], places)

        return inside


def _with_step(sum: SumOfSteps, held: Node, body: ClosedGraph) -> Node:
    """A sum, or the region of it that steps add to, with what a step adds."""
    if sum.region is not None:
        # Rounded, as it is where it is added to a region in memory.
        return OPS["add"](held, OPS["positive"](sum.added))
    [result] = substitute([sum.added], {body.arguments[sum.number]: held})
    return result
