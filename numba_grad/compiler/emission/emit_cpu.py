"""Kernel IR -> Numba source of `kernel(args, lo, hi)`, which does the tasks lo, ..., hi - 1.

What a task is:

- without reductions, one point of the loops' space, points counted in C order;
- with a reduction in registers, one result and one block of what it sums: `task = result * blocks +
block`;
- with a reduction in memory, one chunk of results along the innermost axis and one block:
  `task = (outer result * blocks + block) * chunks + chunk`.

The same kernel always gives the same bytes: no addresses, no counters that depend on history.
"""

import functools
import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from numba_grad.compiler.emission.text import SourceText, index_text
from numba_grad.compiler.emission.transposed_rows import (
    FIRST_ROW,
    ROWS_OF_BLOCK,
    Copy,
    LoopNestInBlocks,
    PieceInBlocks,
)
from numba_grad.compiler.loop_nests.kernel_ir import (
    Accumulator,
    Apply,
    Axis,
    Body,
    Constant,
    Expression,
    IndexValue,
    Let,
    Load,
    LoopNest,
    Piece,
    Variant,
    first_of,
)
from numba_grad.compiler.scalar_expressions import text_of
from numba_grad.dtypes import computed_in, is_floating, is_storage_only

# Results per task of a reduction in memory: a row of partial results that stays in the first-level
# cache.
CHUNK = 512
NO_PLACES: Mapping[str, str] = MappingProxyType({})


def number_of_tasks(kernel: LoopNest) -> int:
    """How many tasks there are for the sizes of this graph."""
    kept = [axis.extent for axis in kernel.kept]
    if kernel.accumulates_in_memory:
        return math.prod(kept[:-1]) * kernel.blocks * -(-kept[-1] // CHUNK)
    return math.prod(kept) * kernel.blocks


def emit(kernel: LoopNest) -> str:
    """The source text."""
    source = SourceText()
    with source.block("def kernel(args, lo, hi):"):
        for comment in kernel.comment:
            source.line(f"# {comment}")
        _emit_arguments(source, kernel)
        if kernel.has_few_points:
            source.line("few_points()")
        if _stores_rows(kernel):
            source.line("stores_apart()")
        for local in kernel.locals if isinstance(kernel, LoopNestInBlocks) else ():
            source.line(f"{local.name} = local({ROWS_OF_BLOCK}, {dtype_name(local.dtype)})")
        level_zero = [let for variant in kernel.variants for let in variant.lets[0]]
        _emit_lets(source, level_zero)
        if not kernel.axes:
            _emit_body(source, kernel.variants[0].pieces[0].body)
        elif kernel.accumulates_in_memory:
            _emit_memory_reduction(source, kernel)
        elif kernel.accumulators:
            _emit_register_reduction(source, kernel)
        else:
            _emit_pointwise(source, kernel)
    return str(source)


def _stores_rows(kernel: LoopNest) -> bool:
    """Whether it stores several elements of a buffer at each point, which are others than those of
    other points."""
    bodies = [[x.buffer for x in p.body.stores] for v in kernel.variants for p in v.pieces]
    if kernel.accumulates_in_memory:
        bodies.append([x.buffer for x in kernel.accumulators if x.buffer is not None])
    return bool(kernel.axes) and any(len(set(buffers)) < len(buffers) for buffers in bodies)


def _emit_arguments(source: SourceText, kernel: LoopNest) -> None:
    pointers = {buffer.word: buffer for buffer in kernel.buffers}
    for number, word in enumerate(kernel.words):
        if number in pointers:
            dtype = dtype_name(pointers[number].dtype)
            source.line(f"{word.name} = buffer(args, {number}, {dtype})")
        else:
            source.line(f"{word.name} = integer(args, {number})")


def _emit_pointwise(source: SourceText, kernel: LoopNest) -> None:
    *outer, inner = kernel.axes
    if not outer:
        _emit_inner_loop(source, kernel, kernel.variants[0], "lo", "hi")
        return
    n = inner.word
    with source.block(f"for row in range(quotient(lo, {n}), quotient(hi + {n} - 1, {n})):"):
        _emit_decoding(source, "row", outer)
        source.line(f"first = max(lo - row * {n}, 0)")
        source.line(f"last = min(hi - row * {n}, {n})")
        _emit_variants(source, kernel, len(outer), "first", "last")


def _emit_register_reduction(source: SourceText, kernel: LoopNest) -> None:
    with source.block("for task in range(lo, hi):"):
        _emit_task(source, kernel, "task", kernel.kept)
        if len(kernel.variants) == 1:
            for level in range(1, len(kernel.kept) + 1):
                _emit_lets(source, _lets_of(kernel, level))
        for accumulator in kernel.accumulators:
            source.line(f"{accumulator.name} = {constant_text(accumulator.identity)}")
        _emit_reduced_loops(source, kernel, kernel.reduced)
        for accumulator in kernel.accumulators:
            if accumulator.buffer is not None:
                _emit_result(source, accumulator, accumulator.name)


def _emit_task(source: SourceText, kernel: LoopNest, task: str, kept: list[Axis]) -> None:
    """Decode a task into `block` and the indices of the kept axes."""
    if kernel.blocks_word and not kept:
        source.line(f"block = {task}")
    elif kernel.blocks_word:
        source.line(f"result = quotient({task}, {kernel.blocks_word})")
        source.line(f"block = {task} - result * {kernel.blocks_word}")
        task = "result"
    _emit_decoding(source, task, kept)


def _emit_reduced_loops(source: SourceText, kernel: LoopNest, reduced: list[Axis]) -> None:
    """The loops over reduced axes, the first of them cut into blocks, down to the innermost one."""
    *outer, inner = reduced
    first = reduced[0]
    start, stop = "0", first.word
    if kernel.blocks_word:
        start, stop = _emit_block(source, first, kernel.blocks_word)
    _nest(source, kernel, outer, inner, start, stop)


def _emit_block(source: SourceText, axis: Axis, blocks: str) -> tuple[str, str]:
    """The part of an axis that is the task's block."""
    source.line(f"start = quotient({axis.word} * block, {blocks})")
    source.line(f"stop = quotient({axis.word} * (block + 1), {blocks})")
    return "start", "stop"


def _nest(
    source: SourceText, kernel: LoopNest, outer: list[Axis], inner: Axis, start: str, stop: str
) -> None:
    if not outer:
        _emit_variants(source, kernel, len(kernel.axes) - 1, start, stop)
        return
    axis = outer[0]
    with source.block(f"for {axis.variable} in range({start}, {stop}):"):
        _emit_level(source, kernel, axis)
        _nest(source, kernel, outer[1:], inner, "0", ([*outer[1:], inner])[0].word)


def _emit_level(source: SourceText, kernel: LoopNest, axis: Axis) -> None:
    if len(kernel.variants) == 1:
        _emit_lets(source, _lets_of(kernel, kernel.axes.index(axis) + 1))


def _lets_of(kernel: LoopNest, level: int) -> list[Let]:
    lets = kernel.variants[0].lets
    return lets[level] if level < len(lets) else []


def _emit_memory_reduction(source: SourceText, kernel: LoopNest) -> None:
    inner = kernel.axes[-1]
    outer_kept = kernel.kept[:-1]
    places = _places_in_memory(kernel)
    kept_apart = [a for a in kernel.accumulators if a.buffer and is_storage_only(a.buffer.dtype)]
    for accumulator in kept_apart:
        dtype = compute_name(accumulator.identity.dtype)
        source.line(f"chunk_{accumulator.name} = local({CHUNK}, {dtype})")
    with source.block("for task in range(lo, hi):"):
        source.line(f"chunks = quotient({inner.word} + {CHUNK - 1}, {CHUNK})")
        source.line("group = quotient(task, chunks)")
        source.line(f"first = (task - group * chunks) * {CHUNK}")
        source.line(f"last = min(first + {CHUNK}, {inner.word})")
        _emit_task(source, kernel, "group", outer_kept)
        if len(kernel.variants) == 1:
            for level in range(1, len(outer_kept) + 1):
                _emit_lets(source, _lets_of(kernel, level))
        with source.block(f"for {inner.variable} in range(first, last):"):
            for accumulator in kernel.accumulators:
                identity = constant_text(accumulator.identity)
                source.line(f"{places[accumulator.name]} = {identity}")
        reduced = kernel.reduced
        start, stop = "0", reduced[0].word
        if kernel.blocks_word:
            start, stop = _emit_block(source, reduced[0], kernel.blocks_word)
        _memory_nest(source, kernel, reduced, start, stop)
        if kept_apart:
            with source.block(f"for {inner.variable} in range(first, last):"):
                for accumulator in kept_apart:
                    _emit_result(source, accumulator, places[accumulator.name])


def _places_in_memory(kernel: LoopNest) -> dict[str, str]:
    """Where each accumulator is meanwhile: where its result goes, or if it would be rounded there
    each time, in an array of the task's own."""
    places = {}
    for accumulator in kernel.accumulators if kernel.accumulates_in_memory else ():
        assert accumulator.buffer is not None
        if is_storage_only(accumulator.buffer.dtype):
            places[accumulator.name] = (
                f"chunk_{accumulator.name}[{kernel.axes[-1].variable} - first]"
            )
        else:
            where = result_position(accumulator)
            places[accumulator.name] = f"{accumulator.buffer.name}[{where}]"
    return places


def _memory_nest(
    source: SourceText, kernel: LoopNest, reduced: list[Axis], start: str, stop: str
) -> None:
    if not reduced:
        _emit_variants(source, kernel, len(kernel.axes) - 1, "first", "last")
        return
    axis, *rest = reduced
    with source.block(f"for {axis.variable} in range({start}, {stop}):"):
        _emit_level(source, kernel, axis)
        _memory_nest(source, kernel, rest, "0", rest[0].word if rest else "")


def _emit_decoding(source: SourceText, number: str, axes: list[Axis]) -> None:
    """C-order indices of `axes` out of one number."""
    for k, axis in reversed(list(enumerate(axes))):
        if k == 0:
            source.line(f"{axis.variable} = {number}")
        else:
            source.line(f"rest{k} = quotient({number}, {axis.word})")
            source.line(f"{axis.variable} = {number} - rest{k} * {axis.word}")
            number = f"rest{k}"


def _emit_variants(
    source: SourceText, kernel: LoopNest, levels_outside: int, first: str, last: str
) -> None:
    """The innermost loop, for the rows of each variant."""
    *special, general = kernel.variants
    already = levels_outside if kernel.accumulators and not special else 0
    if not special:
        for level in range(already + 1, levels_outside + 1):
            _emit_lets(source, _lets_of(kernel, level))
        _emit_inner_loop(source, kernel, general, first, last)
        return
    keyword = "if"
    for variant in special:
        tests = " and ".join(f"{r.start} <= {r.variable} < {r.stop}" for r in variant.where)
        with source.block(f"{keyword} {tests}:"):
            _emit_variant(source, kernel, variant, first, last)
        keyword = "elif"
    with source.block("else:"):
        _emit_variant(source, kernel, general, first, last)


def _emit_variant(
    source: SourceText, kernel: LoopNest, variant: Variant, first: str, last: str
) -> None:
    for level in variant.lets[1:]:
        _emit_lets(source, level)
    _emit_inner_loop(source, kernel, variant, first, last)


def _emit_inner_loop(
    source: SourceText, kernel: LoopNest, variant: Variant, first: str, last: str
) -> None:
    inner = kernel.axes[-1]
    places = _places_in_memory(kernel)
    ranges = [_range_of(piece, inner, first, last) for piece in variant.pieces]
    if variant.has_common_body:
        _emit_common_body(source, variant, inner, ranges, places)
        return
    for piece, (start, stop) in zip(variant.pieces, ranges, strict=True):
        if isinstance(piece, PieceInBlocks):
            _emit_blocks(source, kernel, piece, start, stop)
            continue
        with source.block(f"for {inner.variable} in range({start}, {stop}):"):
            if piece.is_scalar:
                source.line(f"{inner.variable} = opaque({inner.variable})")
            _emit_body(source, piece.body, places)


def _emit_common_body(
    source: SourceText,
    variant: Variant,
    inner: Axis,
    ranges: list[tuple[str, str]],
    places: Mapping[str, str],
) -> None:
    """One body for all pieces, in turn."""
    start, stop = ranges[0]
    with source.block(f"for part in range(0, {len(ranges)}):"):
        for number, (other_start, other_stop) in enumerate(ranges[1:], start=1):
            start = f"select(part < {number}, {start}, {other_start})"
            stop = f"select(part < {number}, {stop}, {other_stop})"
        source.line(f"{first_of(inner.variable)} = {start}")
        with source.block(f"for {inner.variable} in range({first_of(inner.variable)}, {stop}):"):
            _emit_body(source, variant.pieces[0].body, places)


def _range_of(piece: Piece, inner: Axis, first: str, last: str) -> tuple[str, str]:
    """The part of a piece's range from `first` to before `last`."""
    start = first if piece.start == "0" else f"max({first}, {piece.start})"
    stop = last if piece.stop == inner.word else f"min({last}, {piece.stop})"
    if first == "0":
        start = piece.start
    if last == inner.word:
        stop = piece.stop
    return start, stop


def _emit_blocks(
    source: SourceText, kernel: LoopNest, piece: PieceInBlocks, start: str, stop: str
) -> None:
    rows = f"for {kernel.axes[-1].variable} in range({FIRST_ROW}, last_row):"
    source.line(f"stop_row = {stop}")
    with source.block(f"for {FIRST_ROW} in range({start}, stop_row, {ROWS_OF_BLOCK}):"):
        source.line(f"last_row = min({FIRST_ROW} + {ROWS_OF_BLOCK}, stop_row)")
        if piece.copies_in or piece.tests_in.lets:
            with source.block(rows):
                _emit_copies(source, piece.copies_in)
                _emit_body(source, piece.tests_in)
        with source.block(rows):
            _emit_body(source, piece.body)
        if piece.copies_out:
            with source.block(rows):
                _emit_copies(source, piece.copies_out)


def _emit_copies(source: SourceText, copies: tuple[Copy, ...]) -> None:
    # Vector code would gather, which is slower: 10 % of a kernel with 48 components.
    source.line("keep_scalar()")
    for copy in copies:
        target, where = copy.target.name, index_text(copy.target_position)
        value = f"{copy.source.name}[{index_text(copy.source_position)}]"
        if copy.is_streamed:
            source.line(f"store_past_caches({target}, {where}, {value})")
        else:
            source.line(f"{target}[{where}] = {value}")


def _emit_body(source: SourceText, body: Body, places: Mapping[str, str] = NO_PLACES) -> None:
    """`places` of accumulators that are in memory."""
    _emit_lets(source, body.lets)
    for update in body.updates:
        place = places.get(update.name, update.name)
        if place != update.name:
            source.line(f"{update.name} = {place}")
        source.line(f"{place} = {expression_text(update.expression)}")
    for store in body.stores:
        source.line(f"{store.buffer.name}[{index_text(store.position)}] = {store.value}")


def _emit_result(source: SourceText, accumulator: Accumulator, value: str) -> None:
    assert accumulator.buffer is not None
    source.line(f"{accumulator.buffer.name}[{result_position(accumulator)}] = {value}")


def result_position(accumulator: Accumulator) -> str:
    """Where a result of a block goes."""
    where = index_text(accumulator.position)
    if accumulator.block_size == "0":
        return where
    return f"block * {accumulator.block_size} + {where}"


def _emit_lets(source: SourceText, lets: list[Let]) -> None:
    for let in lets:
        source.line(f"{let.name} = {expression_text(let.expression)}")


def expression_text(expression: Expression) -> str:
    """An expression of the kernel language."""
    match expression:
        case Load(buffer, where):
            return f"{buffer.name}[{index_text(where)}]"
        case Constant():
            return constant_text(expression)
        case IndexValue(index):
            return f"int64({index_text(index)})"
        case Apply(term, operands, dtype, casts):
            text = text_of(term, dict(operands), compute_name(dtype))
            return f"{dtype_name(dtype)}({text})" if casts else text


def constant_text(constant: Constant) -> str:
    """A typed literal: an untyped one would turn a float32 kernel into a float64 one."""
    value = np.frombuffer(constant.bytes, constant.dtype)[0]
    name = dtype_name(constant.dtype)
    if constant.dtype.kind == "c":
        return f"{name}(complex({float(value.real)!r}, {float(value.imag)!r}))"
    if is_floating(constant.dtype):
        return f"{compute_name(constant.dtype)}({float(value)!r})"
    return f"{name}({int(value)})" if constant.dtype.kind != "b" else f"bool_({bool(value)})"


@functools.cache  # NumPy works a name out each time: 2 us
def dtype_name(dtype: np.dtype) -> str:
    """The name of a dtype in kernel source."""
    return "bool_" if dtype.kind == "b" else dtype.name


def compute_name(dtype: np.dtype) -> str:
    """The name of the dtype that values of `dtype` are computed in."""
    return dtype_name(computed_in(dtype))
