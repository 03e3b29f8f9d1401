"""Scans: sums, products, recurrences and positions of extremes, up to each element.

Many lines are a thread's work each, unless their own elements are neighbours: then long ones are a
block's. Few long ones are cut into parts, a block's work each: first each part's total, then the
results, which start from the total of the parts before. Threads of a block take a few neighbouring
elements each, and combine what they have by a fixed tree.
"""

import math

import numpy as np

from numba_grad.compiler import library_kernels as of_cpu
from numba_grad.compiler.cuda.library_kernels.kernel_source import (
    THREADS,
    blocks_for,
    computed_name,
    each_task,
    indented,
    kernel_source,
    pointer_to,
    stored_name,
    zero,
)
from numba_grad.compiler.cuda.library_kernels.registry import stands_for
from numba_grad.compiler.library_kernels import LibraryCall, Memory
from numba_grad.compiler.library_kernels.calls import LibraryStep, Shape
from numba_grad.dtypes import is_inexact
from numba_grad.immutable import immutable
from numba_grad.runtime.plan import Grid

# From so many lines on, a thread each keeps a device busy; shorter lines are not worth a block. But
# where lines lie one after another, threads of neighbouring lines read far apart: a multiprocessor
# then does an element in a cycle, and in a block that scans 256 some two (by arithmetic).
_MANY_LINES = 1 << 14
_SHORT_LINE = 64
_LONG_LINE = 256
# Elements that a thread takes at a time, and blocks that a few lines should have together.
_ITEMS = 4
_CHUNK = THREADS * _ITEMS
_ENOUGH_BLOCKS = 512


@immutable
class Scan:
    """What is scanned: values of one or two parts, and how two of them become one.

    `combine` has the names `a0`, `a1` of the parts before, and `b0`, `b1` of those after.
    """

    parts: tuple[np.dtype, ...]
    load: tuple[str, ...]  # of an element at `place`, number `i` of its line
    combine: tuple[str, ...]
    identity: tuple[str, ...]
    result: int  # the part that is stored


@stands_for(of_cpu.cumsum_call)
def cumsum_call(
    dtype: np.dtype, out_dtype: np.dtype, shape: Shape, axis: int, *, reverse: bool = False
) -> LibraryCall:
    """Sums along an axis, up to each element, or from each one on. Input: x. One output."""
    name = computed_name(out_dtype)
    combined = "a0 | b0" if out_dtype == np.bool_ else "a0 + b0"
    scan = Scan(
        (out_dtype,), (f"{name}(x[place])",), (f"{name}({combined})",), (zero(out_dtype),), 0
    )
    return _scan_call(scan, dtype, out_dtype, shape, axis, reverse=reverse)


@stands_for(of_cpu.cumprod_call)
def cumprod_call(dtype: np.dtype, out_dtype: np.dtype, shape: Shape, axis: int) -> LibraryCall:
    """Products along an axis, up to each element. Input: x. One output."""
    name = computed_name(out_dtype)
    one = zero(out_dtype, 1)
    scan = Scan((out_dtype,), (f"{name}(x[place])",), (f"{name}(a0 * b0)",), (one,), 0)
    return _scan_call(scan, dtype, out_dtype, shape, axis)


@stands_for(of_cpu.linear_recurrence_call)
def linear_recurrence_call(
    dtype: np.dtype, shape: Shape, axis: int, *, reverse: bool = False
) -> LibraryCall:
    """y[i] = a[i] y[i - 1] + b[i] along an axis, or y[i + 1]. Inputs: a, b. One output.

    The first a is not read: it would be multiplied by nothing. Of a long line products of factors
    are formed: where they overflow results are nan, or infinite, also if y is not.
    """
    name = computed_name(dtype)
    nothing = zero(dtype)
    factor = f"{name}(x[place]) if i > 0 else {nothing}"
    scan = Scan(
        (dtype, dtype),
        (factor, f"{name}(b[place])"),
        ("a0 * b0", "b0 * a1 + b1"),
        (zero(dtype, 1), nothing),
        1,
    )
    return _scan_call(scan, dtype, dtype, shape, axis, reverse=reverse, reads_b=True)


@stands_for(of_cpu.cumulative_position_call)
def cumulative_position_call(
    dtype: np.dtype, shape: Shape, axis: int, *, comparison: str
) -> LibraryCall:
    """int64 positions of the last element along an axis, up to each one, that compares with all
    before it; of the last NaN if there is one. Input: x. One output."""
    int64 = np.dtype(np.int64)
    name = computed_name(dtype)
    is_new = _is_new(dtype, comparison)
    scan = Scan(
        (dtype, int64),
        (f"{name}(x[place])", "i"),
        (f"b0 if {is_new} else a0", f"b1 if {is_new} else a1"),
        (zero(dtype), "int64(-1)"),
        1,
    )
    return _scan_call(scan, dtype, int64, shape, axis)


def _is_new(dtype: np.dtype, comparison: str) -> str:
    """Whether what comes after replaces what was before: never by nothing, always of nothing."""
    better = f"b0 {comparison} a0"
    if dtype.kind == "c":
        # By real parts, then by imaginary parts; nothing compares with a nan.
        numbers = "b0.imag == b0.imag and a0.imag == a0.imag"
        better = (
            f"(b0.real {comparison[0]} a0.real and {numbers})"
            f" or (b0.real == a0.real and b0.imag {comparison} a0.imag)"
        )
    if is_inexact(dtype):
        # Of a part with a nan the last one counts; no number replaces it.
        better = f"({better} or b0 != b0)"
    return f"(b1 >= int64(0) and (a1 < int64(0) or {better}))"


def _scan_call(
    scan: Scan,
    dtype: np.dtype,
    out_dtype: np.dtype,
    shape: Shape,
    axis: int,
    *,
    reverse: bool = False,
    reads_b: bool = False,
) -> LibraryCall:
    n, inner = shape[axis], math.prod(shape[axis + 1 :])
    lines = math.prod(shape[:axis]) * inner
    if n == 0 or lines == 0:
        return LibraryCall(())
    operands = [Memory("input"), *([Memory("input", 1)] if reads_b else [])]
    kind = _Kind(scan, dtype, out_dtype, reverse, reads_b)
    is_far_apart = inner == 1 and n >= _LONG_LINE
    if n <= _SHORT_LINE or (lines >= _MANY_LINES and not is_far_apart):
        words = (*operands, Memory("output"), n, inner, lines)
        step = LibraryStep(_lines_source(kind), words, Grid(blocks_for(lines), THREADS))
        return LibraryCall((step,))
    chunks = -(-n // _CHUNK)
    parts = max(1, min(-(-_ENOUGH_BLOCKS // lines), chunks, THREADS))
    length = -(-chunks // parts) * _CHUNK
    parts = -(-n // length)
    if parts == 1:
        words = (*operands, Memory("output"), n, inner, length, parts)
        step = LibraryStep(_block_source(kind, "results"), words, Grid(lines, THREADS))
        return LibraryCall((step,))
    totals: list[Memory] = []
    scratch_bytes = 0
    for part in scan.parts:
        totals.append(Memory("scratch", 0, scratch_bytes))
        nbytes = lines * parts * np.dtype(computed_name(part)).itemsize
        scratch_bytes += -(-nbytes // 64) * 64
    steps = []
    for mode, target in (("totals", ()), ("results after others", (Memory("output"),))):
        words = (*operands, *target, *totals, n, inner, length, parts)
        steps.append(LibraryStep(_block_source(kind, mode), words, Grid(lines * parts, THREADS)))
    return LibraryCall(tuple(steps), scratch_bytes)


@immutable
class _Kind:
    scan: Scan
    dtype: np.dtype
    out_dtype: np.dtype
    reverse: bool
    reads_b: bool

    @property
    def operands(self) -> list[tuple[str, str]]:
        pointer = pointer_to(stored_name(self.dtype))
        return [("x", pointer), *([("b", pointer)] if self.reads_b else [])]

    @property
    def place(self) -> str:
        """Where element `i` of `line` is; elements count in the direction of the scan."""
        number = "(n - 1 - i)" if self.reverse else "i"
        return f"place = line // inner * n * inner + line % inner + {number} * inner"

    def lets(self, letter: str, values: tuple[str, ...]) -> str:
        return "".join(f"{letter}{k} = {value}\n" for k, value in enumerate(values))

    @property
    def load(self) -> str:
        return f"{self.place}\n{self.lets('b', self.scan.load)}"

    def combine(self, target: str) -> str:
        """The parts of `target` from those of a and b."""
        count = range(len(self.scan.parts))
        return self.lets("c", self.scan.combine) + "".join(f"{target}{k} = c{k}\n" for k in count)

    def each(self, text: str) -> str:
        """A line of text for each part, whose number is {k} and whose dtype {name}."""
        return "".join(
            text.replace("{k}", str(k)).replace("{name}", computed_name(dtype)) + "\n"
            for k, dtype in enumerate(self.scan.parts)
        )


def _lines_source(kind: _Kind) -> str:
    """Words: the operands, out, length of a line, elements after one step along it, lines.
    Task: line."""
    integers = [(name, "int64") for name in ("n", "inner", "tasks")]
    parameters = [*kind.operands, ("out", pointer_to(stored_name(kind.out_dtype))), *integers]
    return kernel_source(
        parameters,
        each_task(
            "line = task\ni = int64(0)\n"
            + kind.lets("a", kind.scan.identity)
            + "while i < n:\n"
            + indented(kind.load + kind.combine("a"), 1)
            + f"    out[place] = a{kind.scan.result}\n    i += 1\n"
        ),
    )


def _block_source(kind: _Kind, mode: str) -> str:
    """Block: (line, part of it). Mode "totals" writes that of each part; "results" the results of a
    line in one part; "results after others" starts from the totals of the parts before.

    Words: the operands, out if there are results, totals unless "results", length of a line,
    elements after one step along it, length of a part, parts.
    """
    scan = kind.scan
    has_results = mode != "totals"
    parameters = list(kind.operands)
    if has_results:
        parameters.append(("out", pointer_to(stored_name(kind.out_dtype))))
    if mode != "results":
        parameters += [
            (f"totals{k}", pointer_to(computed_name(dtype))) for k, dtype in enumerate(scan.parts)
        ]
    parameters += [(name, "int64") for name in ("n", "inner", "length", "parts")]
    after = ""
    if mode == "totals":
        after = "if thread == 0:\n" + indented(
            kind.each("totals{k}[line * parts + part] = carry{k}"), 1
        )
    return kernel_source(
        parameters,
        kind.each(f"shared{{k}} = cuda.shared.array({THREADS}, {{name}})")
        + "thread = int64(cuda.threadIdx.x)\n"
        + "line = int64(cuda.blockIdx.x) // parts\n"
        + "part = int64(cuda.blockIdx.x) % parts\n"
        + kind.lets("carry", scan.identity)
        + (_carried_from_parts_before(kind) if mode == "results after others" else "")
        + "start = part * length\nend = min(start + length, n)\n"
        + "while start < end:\n"
        + indented(_chunk_source(kind, has_results=has_results), 1)
        + after,
    )


def _carried_from_parts_before(kind: _Kind) -> str:
    return (
        kind.lets("own", kind.scan.identity)
        + "if thread < part:\n"
        + indented(kind.each("own{k} = totals{k}[line * parts + thread]"), 1)
        + _block_scan(kind)
        + "if part > 0:\n"
        + indented(kind.each("carry{k} = shared{k}[int32(part - 1)]"), 1)
        + "cuda.syncthreads()\n"
    )


def _chunk_source(kind: _Kind, *, has_results: bool) -> str:
    """The elements from `start` on that the threads of a block have some each of."""
    items = f"item = 0\nwhile item < {_ITEMS}:\n    i = first + item\n    if i < end:\n"
    own = (
        f"first = start + thread * {_ITEMS}\n"
        + kind.lets("own", kind.scan.identity)
        + items
        + indented(kind.load + kind.each("a{k} = own{k}") + kind.combine("own"), 2)
        + "    item += 1\n"
        + _block_scan(kind)
    )
    if has_results:
        own += (
            kind.each("a{k} = carry{k}")
            + "if thread > 0:\n"
            + indented(kind.each("b{k} = shared{k}[thread - 1]") + kind.combine("a"), 1)
            + items
            + indented(kind.load + kind.combine("a") + f"out[place] = a{kind.scan.result}", 2)
            + "    item += 1\n"
        )
    return own + (
        kind.each("a{k} = carry{k}")
        + kind.each(f"b{{k}} = shared{{k}}[{THREADS - 1}]")
        + kind.combine("carry")
        + f"cuda.syncthreads()\nstart += {_CHUNK}\n"
    )


def _block_scan(kind: _Kind) -> str:
    """`shared` of each thread becomes the combination of `own` of all up to it (Hillis, Steele)."""
    return (
        kind.each("shared{k}[thread] = own{k}")
        + "cuda.syncthreads()\ndistance = 1\n"
        + f"while distance < {THREADS}:\n"
        + "    if thread >= distance:\n"
        + indented(
            kind.each("a{k} = shared{k}[thread - distance]")
            + kind.each("b{k} = own{k}")
            + kind.combine("own"),
            2,
        )
        + "    cuda.syncthreads()\n"
        + indented(kind.each("shared{k}[thread] = own{k}"), 1)
        + "    cuda.syncthreads()\n    distance *= 2\n"
    )
