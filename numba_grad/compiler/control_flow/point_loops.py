"""Loops whose points never meet, where a device does all steps of a point in one kernel."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from numba_grad.compiler.control_flow.carried_state import (
    after,
    again_in,
    step_of_several,
    two_buffers,
)
from numba_grad.compiler.control_flow.writer import Moving, Opened, Writer, further, rows_from
from numba_grad.compiler.loop_nests.point_loops import Member, Pointee, PointLoop
from numba_grad.compiler.partition.flat_graph import ClosedGraph
from numba_grad.compiler.partition.roles import INLINE_FAMILIES
from numba_grad.compiler.segment_memory import Place
from numba_grad.compiler.steps.schedule import ScheduledStep
from numba_grad.compiler.words import Pointer, Word
from numba_grad.graph.node import Node
from numba_grad.graph.types import Type
from numba_grad.graph.walk import toposort

# Operations of a kernel: of one point, which wait for each other, and of all of them. So Ctrl-C
# need not wait for longer than some 20 ms.
_OPERATIONS_OF_A_POINT = 1 << 21
_OPERATIONS_OF_ALL = 1 << 37


def write_point_loop(
    writer: Writer,
    call: Node,
    rows: Sequence[tuple[Type, Moving]],
    constants: Sequence[Pointer],
) -> bool:
    """Append the loop, if the device can do it so; whether it can."""
    body: ClosedGraph = call.params["body"]
    if writer.target.point_loop is None or not call.params["length"] or not _is_inline(body):
        return False
    carried = call.params["carried"]
    steps = writer.compiled(body, range(len(body.outputs))).steps
    members = [_member(step, carried, len(rows), constants) for step in steps]
    if not members or None in members:
        return False
    loop = _PointLoop(writer, call, [x for x in members if x is not None], rows)
    if not loop.loop.can_be_done:
        return False
    loop.write()
    return True


def _is_inline(body: ClosedGraph) -> bool:
    """Whether it is worth a look: all of it is computed element by element."""
    nodes = toposort(body.outputs)
    return all(x.op.family in (*INLINE_FAMILIES, "leaf") and x.type.size for x in nodes)


def _member(
    step: ScheduledStep, carried: int, rows: int, constants: Sequence[Pointer]
) -> tuple[Member, list[Word]] | None:
    """A step of the body, and its words, with constants in their places."""
    nest = step.loop_nest
    if nest is None:
        return None
    dtypes = {buffer.word: buffer.dtype for buffer in nest.buffers}
    pointees: dict[int, Pointee] = {}
    words = [*step.words]
    for number, word in enumerate(step.words):
        if not (isinstance(word, Pointer) and isinstance(word.memory, Opened)):
            continue
        if number not in dtypes:
            return None
        which = word.memory.number
        first, rest = divmod(word.offset, dtypes[number].itemsize)
        match word.memory.kind:
            case "arena":
                # Elements are told apart by their bytes.
                pointees[number] = Pointee("arena", word.offset, 0)
            case "result":
                is_carried = which < carried
                kind = "next" if is_carried else "result"
                pointees[number] = Pointee(kind, which if is_carried else which - carried, first)
            case _ if which < carried:
                pointees[number] = Pointee("carried", which, first)
            case _ if which < carried + rows:
                pointees[number] = Pointee("row", which - carried, first)
            case _:
                words[number] = further(constants[which - carried - rows], word.offset)
        assert not rest
    return Member(nest, pointees), words


def _most_steps(loop: PointLoop) -> int:
    """Of one kernel."""
    operations = min(_OPERATIONS_OF_A_POINT, _OPERATIONS_OF_ALL // loop.points)
    return max(operations // loop.operations, 1)


class _PointLoop:
    def __init__(
        self,
        writer: Writer,
        call: Node,
        members: Sequence[tuple[Member, list[Word]]],
        rows: Sequence[tuple[Type, Moving]],
    ) -> None:
        self.writer = writer
        self.carried: int = call.params["carried"]
        self.length: int = call.params["length"]
        self.reverse: bool = call.params["reverse"]
        self.body: ClosedGraph = call.params["body"]
        self.types = [node.type for node in self.body.outputs]
        self.words = [words for _, words in members]
        self.moving = {("row", k): moving for k, (_, moving) in enumerate(rows)}
        carried, types, needed = self.carried, self.types, writer.is_needed
        self.loop = PointLoop(
            [member for member, _ in members],
            types[:carried],
            [type for type, _ in rows],
            types[carried:],
            read_out=frozenset(k for k in range(carried) if needed(k)),
            read_entries=frozenset(k for k in range(carried) if needed(len(types) + k)),
            read_results=frozenset(k for k in range(len(types) - carried) if needed(carried + k)),
        )

    def write(self) -> None:
        self.share_rows()
        writer, loop, types, carried = self.writer, self.loop, self.types, self.carried
        for k in sorted(loop.read_results):
            if ("result", k) not in self.moving:
                self.moving["result", k] = self.rows_of(carried + k, types[carried + k])
        for k in sorted(loop.read_entries):
            self.moving["entry", k] = self.rows_of(len(types) + k, types[k])
        most = _most_steps(loop)
        if self.length > most:
            self.write_passes(most)
            return
        places = {k: self.place_of(k) for k in sorted(loop.read_out)}
        starts = {key: x.start for key, x in self.moving.items()}
        self.append(loop, self.length, [writer.input(k) for k in range(carried)], places, starts)
        for k, place in places.items():
            if not writer.is_own(k):
                writer.finish(k, place, types[k])

    def share_rows(self) -> None:
        """Where results are what is carried on, have the values at the beginning of steps in the
        same memory: the first one, and these results."""
        writer, types, carried, length = self.writer, self.types, self.carried, self.length
        shared: set[int] = set()
        for number, k in again_in(self.body, carried).items():
            entry = len(types) + k
            is_read = number - carried in self.loop.read_results and k in self.loop.read_entries
            if not is_read or k in shared or writer.is_own(number) or writer.is_own(entry):
                continue
            shared.add(k)
            nbytes, size = types[k].nbytes, types[k].size
            memory = writer.temporary((length + 1) * nbytes)
            of_result, of_entry = (0, 1) if self.reverse else (1, 0)
            writer.placed[number] = Place(memory, of_result * size)
            writer.placed[entry] = Place(memory, of_entry * size)
            first = Pointer(memory, of_result * nbytes)
            self.moving["result", number - carried] = rows_from(first, nbytes, length, self.reverse)
            start = Pointer(memory, length * nbytes if self.reverse else 0)
            writer.copy(writer.input(k), start, types[k])
        self.loop = replace(self.loop, read_entries=self.loop.read_entries - shared)

    def write_passes(self, most: int) -> None:
        """Several kernels, of so many steps, from one of two buffers to the other."""
        writer, types = self.writer, self.types[: self.carried]
        loop = replace(self.loop, read_out=frozenset(range(self.carried)))
        buffers = [two_buffers(writer, type) for type in types]
        for k, ((read, _), type) in enumerate(zip(buffers, types, strict=True)):
            writer.copy(writer.input(k), read.start, type)
        passes, left = divmod(self.length, most)
        rows = {key: step_of_several(x, 0, most) for key, x in self.moving.items()}
        reads, writes = [read for read, _ in buffers], [write for _, write in buffers]
        writer.loop(passes, lambda _: self.append(loop, most, reads, dict(enumerate(writes)), rows))
        if left:
            starts = {key: after(x, passes) for key, x in rows.items()}
            places = dict(enumerate(after(write, passes) for write in writes))
            self.append(loop, left, [after(read, passes) for read in reads], places, starts)
        for k, (read, type) in enumerate(zip(reads, types, strict=True)):
            writer.finish(k, after(read, passes + (left > 0)), type)

    def rows_of(self, number: int, type: Type) -> Moving:
        return self.writer.rows_of(number, type, self.length, self.reverse)

    def place_of(self, number: int) -> Pointer:
        """Where what is carried out goes."""
        writer = self.writer
        if writer.is_own(number):
            return writer.output(number)
        return Pointer(writer.temporary(self.types[number].nbytes), 0)

    def append(
        self,
        loop: PointLoop,
        steps: int,
        reads: Sequence[Pointer | Moving],
        writes: Mapping[int, Pointer | Moving],
        rows: Mapping[tuple[str, int], Pointer | Moving],
    ) -> list[tuple[int, Moving]]:
        """A kernel of so many steps, from what is read to what is written, with these rows of the
        first one."""
        assert self.writer.target.point_loop is not None
        kernel = self.writer.target.point_loop(loop)
        types = {"row": loop.rows, "result": loop.results, "entry": loop.carried}
        words: list[Word | Moving] = []
        for kind, *numbers in kernel.words:
            match kind, numbers:
                case "steps", []:
                    words.append(steps)
                case "in", [k]:
                    words.append(reads[k])
                case "out", [k]:
                    words.append(writes[k])
                case "word", [member, k]:
                    words.append(self.words[member][k])
                case (("row" | "result" | "entry"), [k]):
                    # The first of them in memory.
                    back = min(0, (steps - 1) * self.moving[kind, k].stride)
                    start = rows[kind, k]
                    is_moving = isinstance(start, Moving)
                    words.append(start.after(back) if is_moving else further(start, back))
                case _, [k]:
                    kind = kind.removesuffix(" stride")
                    words.append(self.moving[kind, k].stride // types[kind][k].dtype.itemsize)
        moved = sum(types[kind][k].nbytes for kind, k in rows)
        step = ScheduledStep(
            kernel.source,
            [],
            kernel.launch,
            [],
            2 * sum(type.nbytes for type in loop.carried) + steps * moved,
            steps * loop.points * loop.operations,
            written=frozenset(
                k for k, (kind, *_) in enumerate(kernel.words) if kind in ("out", "entry", "result")
            ),
        )
        return self.writer.pointing(step, words)
