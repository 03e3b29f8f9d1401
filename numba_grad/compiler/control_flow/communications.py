"""Communications -> steps: calls of MPI by address, with handles and ranks from memory.

A kernel reads the place (`ops/communication.py`) when it runs. Of a dtype that MPI lacks bytes are
moved. In a program of a GPU the host calls MPI, with the same kernels, on copies of the memory that
these read and write (`HostCopy`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from numba_grad.compiler.control_flow.writer import Writer
from numba_grad.compiler.library_kernels.calls import kernel_dtype, sum_text
from numba_grad.compiler.steps.schedule import Phase
from numba_grad.compiler.target import HostCopy
from numba_grad.compiler.words import Errors, Pointer, Symbol, Word
from numba_grad.graph.node import Node
from numba_grad.graph.types import Type
from numba_grad.immutable import immutable
from numba_grad.ops.communication import PlaceWord, units
from numba_grad.runtime.mpi import WRONG_SIZE
from numba_grad.runtime.plan import ERROR_WORDS, ErrorSite

# The words of every kernel; then its own.
_PLACE, _TOKEN, _ERRORS, _SITE, _OWN = range(5)

_HEAD = f"""\
def kernel(args, lo, hi):
    words = pointer(args, int64)
    place = pointer(words[{_PLACE}], int64)
"""
_TOKEN_GIVEN = f"""\
    token = pointer(words[{_TOKEN}], float64)
    token[0] = 0.0
"""
# MPI's codes are ints.
_TAIL = f"""\
    if failed & 0xFFFFFFFF != 0:
        record = pointer(words[{_ERRORS}], int64)
        if record[0] == 0:
            record[0] = 1
            record[1] = words[{_SITE}]
            record[2] = failed & 0xFFFFFFFF
            record[3] = 0
"""


@immutable
class _Memory:
    """A word that points to memory, and what a call does with it."""

    pointer: Pointer
    nbytes: int
    use: HostCopy


# What MPI alone touches, which an MPI that knows GPUs takes where it is.
_SENT = HostCopy.READ | HostCopy.MPI
_RECEIVED = HostCopy.WRITTEN | HostCopy.MPI
_BOTH = _SENT | _RECEIVED


def write_communication(writer: Writer, call: Node) -> None:
    """Append the steps of a communication."""
    _WRITERS[call.op.name](writer, call)


def _result(writer: Writer, number: int, type: Type) -> Pointer:
    """Where a result goes, needed or not: what arrives must go somewhere."""
    if writer.is_needed(number):
        return writer.output(number)
    return Pointer(writer.temporary(max(type.nbytes, 8)), 0)


def _operand(writer: Writer, call: Node, number: int = 0, use: HostCopy = _SENT) -> _Memory:
    return _Memory(writer.input(number), call.inputs[number].type.nbytes, use)


def _received(writer: Writer, call: Node, use: HostCopy = _RECEIVED, number: int = 0) -> _Memory:
    type = call.type.items[number]
    return _Memory(_result(writer, number, type), type.nbytes, use)


def _step(
    writer: Writer,
    call: Node,
    text: str,
    words: "Sequence[Word | _Memory]",
    *,
    symbols: Sequence[str],
    phase: Phase = Phase.WHOLE,
) -> None:
    """A kernel of `text`, which says `failed`, and reads {0}, {1}, ...: its words, and then the
    addresses of MPI's functions. The one that waits for what was started gives no token."""
    names = [f"words[{_OWN + k}]" for k in range(len(words) + len(symbols))]
    body = "".join(f"    {line}\n" for line in text.format(*names).splitlines())
    token: Word | _Memory = 0
    given = ""
    if phase is not Phase.END or call.op.name == "mpi_wait":
        token = _received(writer, call, HostCopy.WRITTEN, len(call.type.items) - 1)
        given = _TOKEN_GIVEN
    source = f"# {call.op.name}: {phase.name.lower()}\n{_HEAD}{given}{body}{_TAIL}"
    all_words: list[Word | _Memory] = [
        _operand(writer, call, call.op.extras["operands"], HostCopy.READ),  # the place
        token,
        Errors(),
        ErrorSite("communication", call.op.name.removeprefix("mpi_")),
        *words,
        *[Symbol(f"mpi.MPI_{name}") for name in symbols],
    ]
    held = {k: word for k, word in enumerate(all_words) if isinstance(word, _Memory)}
    written = frozenset([k for k, word in held.items() if word.use & HostCopy.WRITTEN])
    plain: list[Word] = [word.pointer if isinstance(word, _Memory) else word for word in all_words]
    host = writer.target.host
    if host is not None:
        # After the words of the kernel how each of them is copied.
        source = host.call(source)
        copies = [
            host.copied(held[k].nbytes, held[k].use) if k in held else 0 for k in range(len(plain))
        ]
        copies[_ERRORS] = host.copied(8 * ERROR_WORDS, HostCopy.READ | HostCopy.WRITTEN)
        plain += copies
    writer.kernel(source, plain, written, phase)


def _operation(combine: str) -> str:
    return f"place[{int(PlaceWord[combine.upper()])}]"


_COMM, _TYPE, _ROOT = (
    f"place[{int(word)}]" for word in (PlaceWord.COMMUNICATOR, PlaceWord.DATATYPE, PlaceWord.ROOT)
)


def _write_allreduce(writer: Writer, call: Node) -> None:
    type = call.type.items[0]
    if call.params["ordered"]:
        _write_ordered(writer, call, type)
        return
    operation = _operation(call.params["combine"])
    text = f"failed = call({{3}}, {{0}}, {{1}}, {{2}}, {_TYPE}, {operation}, {_COMM})"
    words = [_operand(writer, call), _received(writer, call), type.size * units(type)]
    _step(writer, call, text, words, symbols=["Allreduce"])


def _write_ordered(writer: Writer, call: Node, type: Type) -> None:
    """What all ranks have, and its sum in their order."""
    ranks, name = call.params["ranks"], kernel_dtype(type.dtype)
    nbytes = max(type.nbytes, 8) * ranks
    rows = _Memory(Pointer(writer.temporary(nbytes), 0), nbytes, HostCopy.SCRATCH)
    text = f"""\
failed = call({{5}}, {{0}}, {{3}}, {_TYPE}, {{2}}, {{3}}, {_TYPE}, {_COMM})
rows = pointer({{2}}, {name})
out = pointer({{1}}, {name})
size = {{3}}
for i in range(size):
    out[i] = rows[i]
for k in range(1, {{4}}):
    for i in range(size):
        out[i] = {sum_text(type.dtype, "out[i]", "rows[k * size + i]")}"""
    total = _received(writer, call, HostCopy.WRITTEN)
    words = [_operand(writer, call), total, rows, type.size * units(type), ranks]
    _step(writer, call, text, words, symbols=["Allgather"])


def _write_reduce(writer: Writer, call: Node) -> None:
    """Zeros, where nothing else arrives."""
    type = call.type.items[0]
    text = f"""\
out = pointer({{1}}, uint8)
for i in range({{3}}):
    out[i] = uint8(0)
failed = call({{4}}, {{0}}, {{1}}, {{2}}, {_TYPE}, {_operation("sum")}, {_ROOT}, {_COMM})"""
    total = _received(writer, call, HostCopy.WRITTEN)
    words = [_operand(writer, call), total, type.size * units(type), type.nbytes]
    _step(writer, call, text, words, symbols=["Reduce"])


def _write_bcast(writer: Writer, call: Node) -> None:
    type = call.type.items[0]
    y = _received(writer, call, _BOTH)
    writer.copy(writer.input(0), y.pointer, type)
    text = f"failed = call({{2}}, {{0}}, {{1}}, {_TYPE}, {_ROOT}, {_COMM})"
    _step(writer, call, text, [y, type.size * units(type)], symbols=["Bcast"])


def _write_barrier(writer: Writer, call: Node) -> None:
    _step(writer, call, f"failed = call({{0}}, {_COMM})", [], symbols=["Barrier"])


# Rows. Where ranks have different numbers of them, MPI reads counts and displacements from memory:
# the words themselves, two ints in each.


def _item_size(type: Type) -> int:
    size = 1
    for extent in type.shape[1:]:
        size *= extent
    return size * units(type)


def _packed(numbers: Sequence[int]) -> list[int]:
    pairs = [*numbers, 0][: len(numbers) + len(numbers) % 2]
    return [int(np.array(pairs[k : k + 2], "<i4").view("<i8")[0]) for k in range(0, len(pairs), 2)]


class _Counts:
    """Counts and displacements of parts of rows, as words, and the text of where they are."""

    def __init__(self, position: int, counts: Sequence[int], item: int) -> None:
        sizes = [count * item for count in counts]
        starts = [sum(sizes[:k]) for k in range(len(sizes))]
        own = _packed(sizes)
        self.words = [*own, *_packed(starts)]
        self.counts = f"args + {8 * (_OWN + position)}"
        self.starts = f"args + {8 * (_OWN + position + len(own))}"


def _rows_writer(
    plain: str, general: str, *, arguments: str, general_arguments: str, rooted: bool
) -> Callable[[Writer, Node], None]:
    """The writer of a communication of rows: by the function for equal parts, or the general one.

    The texts of arguments name `x`, `y`, `own` and `part` (elements of this rank's operand or
    result, of an equal part), `counts`, `starts`.
    """
    end = f"{_ROOT}, {_COMM}" if rooted else _COMM

    def write(writer: Writer, call: Node) -> None:
        given, type = call.inputs[0].type, call.type.items[0]
        x, y = _operand(writer, call), _received(writer, call)
        counts = call.params["counts"]
        item = _item_size(given)
        is_equal = len(set(counts)) <= 1
        own = counts[0] * item if is_equal else min(given.size, type.size) * units(type)
        if not is_equal and rooted:
            # The root has all rows on one side, and others none: its own number is on the other.
            own = (given.shape[0] if call.op.name == "mpi_gather" else type.shape[0]) * item
        packed = _Counts(3, counts, item)
        words = [x, y, own, *([] if is_equal else packed.words)]
        text = (arguments if is_equal else general_arguments).format(
            x="{0}",
            y="{1}",
            own="{2}",
            type=_TYPE,
            sum=_operation("sum"),
            counts=packed.counts,
            starts=packed.starts,
        )
        function = plain if is_equal else general
        _step(
            writer,
            call,
            f"failed = call({{{len(words)}}}, {text}, {end})",
            words,
            symbols=[function],
        )

    return write


_write_allgather = _rows_writer(
    "Allgather",
    "Allgatherv",
    arguments="{x}, {own}, {type}, {y}, {own}, {type}",
    general_arguments="{x}, {own}, {type}, {y}, {counts}, {starts}, {type}",
    rooted=False,
)
_write_gather = _rows_writer(
    "Gather",
    "Gatherv",
    arguments="{x}, {own}, {type}, {y}, {own}, {type}",
    general_arguments="{x}, {own}, {type}, {y}, {counts}, {starts}, {type}",
    rooted=True,
)
_write_scatter = _rows_writer(
    "Scatter",
    "Scatterv",
    arguments="{x}, {own}, {type}, {y}, {own}, {type}",
    general_arguments="{x}, {counts}, {starts}, {type}, {y}, {own}, {type}",
    rooted=True,
)
_write_reduce_scatter = _rows_writer(
    "Reduce_scatter_block",
    "Reduce_scatter",
    arguments="{x}, {y}, {own}, {type}, {sum}",
    general_arguments="{x}, {y}, {counts}, {type}, {sum}",
    rooted=False,
)


def _write_alltoall(writer: Writer, call: Node) -> None:
    given = call.inputs[0].type
    x, y = _operand(writer, call), _received(writer, call)
    counts, received = call.params["counts"], call.params["received"]
    item = _item_size(given)
    if len({*counts, *received}) <= 1:
        text = f"failed = call({{3}}, {{0}}, {{2}}, {_TYPE}, {{1}}, {{2}}, {_TYPE}, {_COMM})"
        _step(writer, call, text, [x, y, counts[0] * item], symbols=["Alltoall"])
        return
    out = _Counts(2, counts, item)
    back = _Counts(2 + len(out.words), received, item)
    words = [x, y, *out.words, *back.words]
    text = (
        f"failed = call({{{len(words)}}}, {{0}}, {out.counts}, {out.starts}, {_TYPE}, "
        f"{{1}}, {back.counts}, {back.starts}, {_TYPE}, {_COMM})"
    )
    _step(writer, call, text, words, symbols=["Alltoallv"])


# Messages. All of them are under way before one is waited for, so no order of ranks can block.
# Requests are ints or pointers: each has a word.


def _write_exchange(writer: Writer, call: Node) -> None:
    given, type = call.inputs[0].type, call.type.items[0]
    x, y = _operand(writer, call), _received(writer, call, _BOTH)
    writer.copy(writer.input(1), y.pointer, type)
    count = given.shape[0]
    if not count:
        _step(writer, call, "failed = 0", [], symbols=[])
        return
    # A request for each message, and whether starting them failed.
    nbytes = 8 * (2 * count + 1)
    requests = _Memory(Pointer(writer.temporary(nbytes), 0), nbytes, HostCopy.WRITTEN)
    _start_exchange(writer, call, x, y, requests)
    _end_exchange(writer, call, x, y, replace(requests, use=HostCopy.READ))


def _start_exchange(writer: Writer, call: Node, x: _Memory, y: _Memory, requests: _Memory) -> None:
    given, type = call.inputs[0].type, call.type.items[0]
    count = given.shape[0]
    to, source = (1, 0) if call.params["backward"] else (0, 1)
    text = f"""\
requests = {{2}}
failed = 0
for k in range({count}):
    peer = {int(PlaceWord.PEERS)} + {int(PlaceWord.OF_PEER)} * k
    at = {{1}} + k * {{4}}
    source = place[peer + {source}]
    tag = place[peer + {source + 2}]
    code = call({{7}}, at, {{6}}, {_TYPE}, source, tag, {_COMM}, requests + 8 * k)
    if failed & 0xFFFFFFFF == 0:
        failed = code
for k in range({count}):
    peer = {int(PlaceWord.PEERS)} + {int(PlaceWord.OF_PEER)} * k
    at = {{0}} + k * {{3}}
    to = place[peer + {to}]
    tag = place[peer + {to + 2}]
    code = call({{8}}, at, {{5}}, {_TYPE}, to, tag, {_COMM}, requests + 8 * ({count} + k))
    if failed & 0xFFFFFFFF == 0:
        failed = code
state = pointer(requests, int64)
state[{2 * count}] = failed & 0xFFFFFFFF"""
    kept = [replace(x, use=x.use | HostCopy.KEPT), replace(y, use=y.use | HostCopy.KEPT)]
    of_rows = [given.nbytes // count, type.nbytes // count, _item_size(given), _item_size(type)]
    words = [*kept, requests, *of_rows]
    _step(writer, call, text, words, symbols=["Irecv", "Isend"], phase=Phase.START)


def _end_exchange(writer: Writer, call: Node, x: _Memory, y: _Memory, requests: _Memory) -> None:
    count = call.inputs[0].type.shape[0]
    source = 0 if call.params["backward"] else 1
    text = f"""\
requests = {{2}}
state = pointer(requests, int64)
status = stack_words(8)
counting = stack_words(1)
counted = pointer(counting, int64)
failed = 0
if state[{2 * count}] == 0:
    for k in range({count}):
        code = call({{4}}, requests + 8 * k, status)
        counted[0] = 0
        peer = {int(PlaceWord.PEERS)} + {int(PlaceWord.OF_PEER)} * k
        call({{5}}, status, {_TYPE}, counting)
        if failed & 0xFFFFFFFF == 0:
            failed = code
            is_short = counted[0] & 0xFFFFFFFF != {{3}}
            if is_short and place[peer + {source}] != place[{int(PlaceWord.NOBODY)}]:
                failed = {WRONG_SIZE}
    for k in range({count}, {2 * count}):
        code = call({{4}}, requests + 8 * k, status)
        if failed & 0xFFFFFFFF == 0:
            failed = code"""
    found = [replace(x, use=x.use | HostCopy.FOUND), replace(y, use=y.use | HostCopy.FOUND)]
    words = [*found, requests, _item_size(call.type.items[0])]
    _step(writer, call, text, words, symbols=["Wait", "Get_count"], phase=Phase.END)


# The place says the one peer of a message that is under way.


def _write_start(writer: Writer, call: Node) -> None:
    type = call.type.items[0]
    buffer = _received(writer, call, _BOTH | HostCopy.KEPT)
    request = _received(writer, call, HostCopy.WRITTEN, 1)
    writer.copy(writer.input(0), buffer.pointer, type)
    sends = call.op.name == "mpi_isend"
    peer = PlaceWord.PEERS + (0 if sends != call.params["backward"] else 1)
    text = f"""\
request = pointer({{1}}, int64)
request[0] = 0
failed = call({{3}}, {{0}}, {{2}}, {_TYPE}, place[{peer}], place[{peer + 2}], {_COMM}, {{1}})"""
    words = [buffer, request, type.size * units(type)]
    symbols = ["Isend" if sends else "Irecv"]
    _step(writer, call, text, words, symbols=symbols, phase=Phase.START)


def _write_wait(writer: Writer, call: Node) -> None:
    type = call.type.items[0]
    text = """\
request = stack_words(1)
waiting = pointer(request, int64)
given = pointer({1}, int64)
waiting[0] = given[0]
status = stack_words(8)
failed = call({2}, request, status)"""
    buffer = _operand(writer, call, 0, _BOTH | HostCopy.FOUND)
    words = [buffer, _operand(writer, call, 1, HostCopy.READ)]
    _step(writer, call, text, words, symbols=["Wait"], phase=Phase.END)
    writer.copy(buffer.pointer, _result(writer, 0, type), type)


_WRITERS: dict[str, Callable[[Writer, Node], None]] = {
    "mpi_allreduce": _write_allreduce,
    "mpi_reduce": _write_reduce,
    "mpi_bcast": _write_bcast,
    "mpi_allgather": _write_allgather,
    "mpi_gather": _write_gather,
    "mpi_scatter": _write_scatter,
    "mpi_reduce_scatter": _write_reduce_scatter,
    "mpi_alltoall": _write_alltoall,
    "mpi_exchange": _write_exchange,
    "mpi_isend": _write_start,
    "mpi_irecv": _write_start,
    "mpi_wait": _write_wait,
    "mpi_barrier": _write_barrier,
}
