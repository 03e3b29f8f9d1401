"""Where what a loop carries is from step to step, if it does not fit in registers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from numba_grad.compiler.control_flow.joinable_steps import TOGETHER
from numba_grad.compiler.control_flow.writer import Moving, Overwriting, Writer, further
from numba_grad.compiler.partition.flat_graph import ClosedGraph
from numba_grad.compiler.segment_memory import Place
from numba_grad.compiler.words import Pointer
from numba_grad.graph.types import MOST_WRITTEN_OUT, Type

# Bytes of a page, and how far apart in pages buffers of a ring begin. A load waits for a store to
# the same place in another page: 2 to 12 % of a loop over 64 x 64 numbers, whose buffers are whole
# pages.
_PAGE = 4096
_APART = 1344
# Vectors of a buffer that begins in a line of the cache lie within lines. One that is stored across
# two pages, in every second step, took 0.1 us: 60 % of a loop over 100 numbers.
_LINE = 64


@dataclass(slots=True)
class CarriedState:
    """Where carried values are from step to step.

    What is computed is written to another buffer than the one that is read, in a ring of buffers.
    What is but the former value of something else, as in a delay line, reads an earlier buffer of
    that ring. Where values at the beginning of all steps are wanted, the ring is long enough for
    all of them. What a body computes in the memory of its argument has one buffer.
    """

    computed: list[int]  # the numbers of what is computed, in the order of the body's results
    reads: list[Moving]
    writes: list[Moving]  # of what is computed


def followers_in(body: ClosedGraph, carried: int) -> dict[int, int]:
    """Carried values that are the former values of others: by number, that of the other one, with
    the one that is computed at the end of each chain."""
    number_of = {node: k for k, node in enumerate(body.arguments[:carried])}
    result: dict[int, int] = {}
    taken: set[int] = set()
    for k, node in enumerate(body.outputs[:carried]):
        source = number_of.get(node)
        if source is not None and source not in taken:
            result[k] = source
            taken.add(source)
    for k in list(result):  # cycles have no end: one of each is copied
        seen, last = {k}, k
        while last in result:
            last = result[last]
            if last in seen:
                del result[last]
                break
            seen.add(last)
    return result


def again_in(body: ClosedGraph, carried: int) -> dict[int, int]:
    """Stacked results that are what is carried on: by number, that of the carried value. Their rows
    are the values at the beginning of all steps but the first, and the last one."""
    followers = followers_in(body, carried)
    number_of = {
        node: k
        for k, node in reversed(list(enumerate(body.outputs[:carried])))
        if k not in followers and node not in body.arguments
    }
    stacked = list(enumerate(body.outputs))[carried:]
    return {k: number_of[node] for k, node in stacked if node in number_of}


def chains_of(followers: dict[int, int], carried: int) -> list[list[int]]:
    """Each computed value with those that follow it, the first one first."""
    after = {source: k for k, source in followers.items()}
    result = []
    for k in range(carried):
        if k in followers:
            continue
        chain = [k]
        while chain[-1] in after:
            chain.append(after[chain[-1]])
        result.append(chain)
    return result


def state_of(
    writer: Writer,
    body: ClosedGraph,
    types: Sequence[Type],
    entries: dict[int, int],
    length: int | None,
    *,
    reverse: bool = False,
    in_place: Collection[int] = (),
    again: Mapping[int, int] = MappingProxyType({}),
    read_later: Collection[int] = (),
) -> CarriedState:
    """Memory for what is carried, without anything in it.

    `entries`: by the number of a carried value that of the result with its values at the beginning
    of all steps, where that is needed; `in_place`: what the body computes in place; `again`: by the
    number of a stacked result that of the carried value that it is, where that is needed;
    `read_later`: what is read once more behind several steps.
    """
    followers = followers_in(body, len(types))
    reads: dict[int, Moving] = {}
    writes: dict[int, Moving] = {}
    for chain in chains_of(followers, len(types)):
        nbytes, size = types[chain[0]].nbytes, types[chain[0]].size
        last = len(chain) - 1
        if any(k in entries for k in chain) or chain[0] in again.values():
            assert length is not None
            buffers = length + 1 + last
            memory = writer.temporary(buffers * nbytes)
            for age, k in enumerate(chain):
                # At the beginning of step t the value is in buffer t + last - age; in reverse the
                # buffers are taken from the other end.
                first = last - age
                start = buffers - 1 - first if reverse else first
                sign = -1 if reverse else 1
                reads[k] = Moving(Pointer(memory, start * nbytes), sign * nbytes)
                if k in entries:
                    row = start - (length - 1) if reverse else start
                    writer.placed[entries[k]] = Place(memory, row * size)
            writes[chain[0]] = reads[chain[0]].after(reads[chain[0]].stride)
            for number, k in again.items():
                if k == chain[0]:
                    writer.placed[number] = Place(memory, 0 if reverse else (last + 1) * size)
            continue
        if chain[0] in in_place or not nbytes:
            only = Moving(Pointer(writer.temporary(nbytes), 0))
            reads.update(dict.fromkeys(chain, only))
            writes[chain[0]] = only
            continue
        # The one that is written to, and those that are read.
        buffers = last + 2
        if any(k in read_later for k in chain):
            buffers += TOGETHER - 1
        ring = _ring(writer, types[chain[0]], buffers)
        for age, k in enumerate(chain):
            reads[k] = moved(ring, last - age)
        writes[chain[0]] = moved(ring, last + 1)
    computed = [k for k in range(len(types)) if k not in followers]
    return CarriedState(
        computed, [reads[k] for k in range(len(types))], [writes[k] for k in computed]
    )


def after(moving: Moving, passes: int) -> Pointer:
    """Where a pointer is after so many passes."""
    offset = passes * moving.stride
    if moving.limit is not None:
        start = moving.start.offset - (moving.limit.offset - moving.ring)
        offset = (start + offset) % moving.ring - start
    return further(moving.start, offset)


def moved(moving: Moving, passes: int) -> Moving:
    """The pointer that begins where this one is after so many passes."""
    return moving._replace(start=after(moving, passes))


def step_of_several(moving: Moving, number: int, steps: int) -> Moving:
    """In passes of several steps the pointer of one of them."""
    stride = steps * moving.stride
    if moving.limit is not None:
        stride %= moving.ring
    return moving._replace(start=after(moving, number), stride=stride)


def overwriting_in(
    body: ClosedGraph,
    types: Sequence[Type],
    entries: Collection[int],
    outputs: Sequence[int],
    sums: int = 0,
) -> Overwriting:
    """What a body may compute in place: large arrays, which nobody wants the former values of.
    `outputs`: what it computes, by number."""
    followers = followers_in(body, len(types))
    followed = {*followers, *followers.values()}
    results = {
        k: number
        for number, k in enumerate(outputs)
        if k < len(types)
        and types[k].size > MOST_WRITTEN_OUT
        and k not in entries
        and k not in followed
    }
    of_sums = frozenset(k for k in range(len(types) - sums, len(types)) if k in results)
    return Overwriting(results, of_sums)


def two_buffers(writer: Writer, type: Type) -> tuple[Moving, Moving]:
    """Where a carried value is read, and where it is written."""
    ring = _ring(writer, type, 2)
    return ring, moved(ring, 1)


def _ring(writer: Writer, type: Type, buffers: int) -> Moving:
    """Buffers that are taken in turn: the first of them."""
    pitch = type.nbytes
    if pitch > _LINE:
        pitch += -pitch % _LINE
    if pitch >= _PAGE:
        pitch += (_APART - pitch) % _PAGE
    memory = writer.temporary(buffers * pitch)
    return Moving(Pointer(memory, 0), pitch, Pointer(memory, buffers * pitch), buffers * pitch)
