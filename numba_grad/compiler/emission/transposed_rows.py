"""Loops over rows of a few numbers each, such as points in space: blocks of rows are transposed.

Vector code wants equal components of neighbouring rows side by side; in memory the components of
one row are. Where there are many of them LLVM takes them one by one, and leaves all of the loop
scalar. So the loop is cut into blocks: components are copied to local arrays, the body computes
with these alone, its results are copied to where they belong.

So is the test of an index, whose branch would leave the body scalar: it is done before the block.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np

from numba_grad.compiler.loop_nests.iteration_spaces import (
    LONGEST_SHUFFLED,
    ONE,
    Factor,
    Index,
)
from numba_grad.compiler.loop_nests.kernel_ir import (
    Apply,
    Body,
    Buffer,
    Let,
    Load,
    LoopNest,
    Piece,
    Store,
)
from numba_grad.compiler.scalar_expressions import functions_in
from numba_grad.dtypes import INT64
from numba_grad.immutable import immutable

# Rows of a block: its local arrays stay in the first-level cache, and vector code has some turns.
ROWS_OF_BLOCK = 16
FIRST_ROW = "first_row"  # the name of the first of them
LOCAL = -1  # the word of a buffer that is a local array
# Of fewer, reading them one by one is cheap. Of more, the local arrays would not stay in the
# first-level cache.
FEWEST_COMPONENTS = 4
MOST_COMPONENTS = 96
# Scalar operations for each component that make the copies worth it: of two or three, as a sum of
# rows or a product of small matrices takes, loops as they are take 0.3 to 0.8 of the time.
FEWEST_OPERATIONS = 3.5
OF_COMPLEX = 3  # an operation of complex numbers is several
# One by one these take long. Beside them it pays to test indices in a loop of their own where
# nothing is copied: 0.2 to 0.6 of the time. Beside arithmetic alone it does not (1.0 to 1.3).
_LONG_FUNCTIONS = frozenset(
    ["cos", "erf", "exp", "expm1", "log", "log1p", "power", "sigmoid", "sin", "tanh"]
)


@immutable
class Copy:
    """`target[target_position] = source[source_position]`."""

    target: Buffer
    target_position: Index
    source: Buffer
    source_position: Index
    is_streamed: bool = False  # goes past the caches


@dataclass(slots=True)
class PieceInBlocks(Piece):
    """A piece that runs in blocks of `ROWS_OF_BLOCK` rows: indices are tested and what comes in is
    copied, then the body runs, then what goes out is copied."""

    tests_in: Body = field(default_factory=Body)
    copies_in: tuple[Copy, ...] = ()
    copies_out: tuple[Copy, ...] = ()


@dataclass(slots=True)
class LoopNestInBlocks(LoopNest):
    """A loop nest some pieces of which run in blocks."""

    locals: tuple[Buffer, ...] = ()  # arrays of `ROWS_OF_BLOCK` elements


def transposed_rows(kernel: LoopNest, streamed: Collection[Buffer] = ()) -> LoopNest:
    """The kernel with its innermost loops cut into blocks where that pays.

    What is copied to `streamed` buffers goes past the caches.
    """
    if not kernel.axes or kernel.accumulates_in_memory or kernel.has_few_points:
        return kernel
    variable = kernel.axes[-1].variable
    arrays: list[Buffer] = []
    variants = [
        replace(
            variant,
            pieces=[
                _transposed(piece, kernel.operations, variable, arrays, streamed)
                for piece in variant.pieces
            ],
        )
        if not variant.has_common_body
        else variant
        for variant in kernel.variants
    ]
    if not arrays:
        return kernel
    return LoopNestInBlocks(
        kernel.axes,
        kernel.words,
        kernel.buffers,
        kernel.accumulators,
        variants,
        kernel.comment,
        kernel.blocks,
        kernel.blocks_word,
        kernel.operations,
        kernel.merges,
        tuple(arrays),
    )


def _transposed(
    piece: Piece,
    operations: int,
    variable: str,
    arrays: list[Buffer],
    streamed: Collection[Buffer],
) -> Piece:
    body = piece.body
    if not body.updates and all(isinstance(let.expression, Load) for let in body.lets):
        return piece  # a copy is what a block would begin with
    inside = {let.name for let in body.lets} | {update.name for update in body.updates}

    def is_component(position: Index) -> bool:
        return _is_component(position, variable, inside)

    loads = [
        let.expression
        for let in body.lets
        if isinstance(let.expression, Load) and is_component(let.expression.position)
    ]
    stores = [store for store in body.stores if is_component(store.position)]
    tests = _index_tests(body)
    if not _is_worth_copying([*loads, *stores], operations):
        loads, stores = [], []
        if not tests or not _calls_long_functions(body):
            return piece
    here = Index(((variable, ONE), (FIRST_ROW, Factor(-1, True))))
    tested = {let.name for let in tests if _is_index_test(let)}
    dtypes = [x.buffer.dtype for x in [*loads, *stores]] + [INT64] * len(tested)
    local_of = dict(zip([*loads, *stores, *sorted(tested)], _locals(arrays, dtypes), strict=True))

    def from_local(let: Let) -> Let:
        key = let.name if let.name in tested else let.expression
        if isinstance(key, str | Load) and key in local_of:
            return Let(let.name, Load(local_of[key], here))
        return let

    def to_local(store: Store) -> Store:
        return Store(local_of[store], here, store.value) if store in local_of else store

    return PieceInBlocks(
        piece.start,
        piece.stop,
        Body(
            [from_local(let) for let in body.lets],
            body.updates,
            [to_local(store) for store in body.stores],
        ),
        piece.is_scalar,
        Body(tests, stores=[Store(local_of[name], here, name) for name in sorted(tested)]),
        tuple([Copy(local_of[x], here, x.buffer, x.position) for x in loads]),
        tuple(
            [Copy(x.buffer, x.position, local_of[x], here, x.buffer in streamed) for x in stores]
        ),
    )


def _is_worth_copying(accesses: list[Load | Store], operations: int) -> bool:
    if not FEWEST_COMPONENTS <= len(accesses) <= MOST_COMPONENTS:
        return False
    is_complex = any(access.buffer.dtype.kind == "c" for access in accesses)
    return operations * (OF_COMPLEX if is_complex else 1) >= FEWEST_OPERATIONS * len(accesses)


def _calls_long_functions(body: Body) -> bool:
    terms = [let.expression.term for let in body.lets if isinstance(let.expression, Apply)]
    return any(not _LONG_FUNCTIONS.isdisjoint(functions_in(term)) for term in terms)


def _index_tests(body: Body) -> list[Let]:
    """Tests of indices, whose branch would leave all of the body scalar, with what they need; none
    where that is more than what they read."""
    made = {let.name: let for let in body.lets}
    needed = [let.name for let in body.lets if _is_index_test(let)]
    for name in needed:  # which grows
        expression = made[name].expression
        if isinstance(expression, Load):
            names = [x for term, _ in expression.position.terms for x in term.split(" * ")]
        elif isinstance(expression, Apply):
            if not functions_in(expression.term) <= {"check_index", "cast"}:
                return []
            names = [x for _, x in expression.operands]
        else:
            names = []
        needed += [x for x in dict.fromkeys(names) if x in made and x not in needed]
    return [let for let in body.lets if let.name in needed]


def _is_index_test(let: Let) -> bool:
    return isinstance(let.expression, Apply) and "check_index" in functions_in(let.expression.term)


def _locals(arrays: list[Buffer], dtypes: list[np.dtype]) -> list[Buffer]:
    """A local array for each dtype; all pieces use the same."""
    free = list(arrays)
    result: list[Buffer] = []
    for dtype in dtypes:
        local = next((local for local in free if local.dtype == dtype), None)
        if local is None:
            local = Buffer(f"r{len(arrays)}", LOCAL, dtype)
            arrays.append(local)
        else:
            free.remove(local)
        result.append(local)
    return result


def _is_component(position: Index, variable: str, inside: set[str]) -> bool:
    """Whether rows lie a few elements apart, as the text shows, at places known before the loop."""
    is_strided = False
    for name, factor in position.terms:
        if name == variable:
            is_strided = factor.literal and abs(factor.value) > LONGEST_SHUFFLED
        elif not inside.isdisjoint(name.split(" * ")) or variable in name.split(" * "):
            return False
    return is_strided
