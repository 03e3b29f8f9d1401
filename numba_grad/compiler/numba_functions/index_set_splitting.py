"""Loops whose passes a condition on the index chooses from, written as loops over those passes.

    for j in range(n):          for k in range(2):
        if j != i:                      passes = range(0, i) if k == 0 else range(i + 1, n)
            ...                         for j in passes:
                                            ...

The branch is what keeps a compiler from making vector code of all pairs of particles. The text is
not doubled: a loop of two passes goes over both parts. The order of passes is what it was. The
term of the field is index set splitting (M. Griebl, P. Feautrier, C. Lengauer: Index set
splitting, Int. J. Parallel Programming 28, 2000).
"""

from collections.abc import Sequence
from dataclasses import replace

from numba_grad.compiler.numba_functions.analyses import is_long, needed_for
from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.regions import (
    Define,
    For,
    If,
    Load,
    Scalar,
    Size,
    Statement,
    Value,
    defined,
    nested,
    operands,
    with_regions,
)
from numba_grad.compiler.numba_functions.scalar_operations import OPPOSITE, dtype_of
from numba_grad.immutable import immutable

# The condition with its sides exchanged.
_EXCHANGED = {
    **{"equal": "equal", "not_equal": "not_equal"},
    **{"less": "greater", "greater": "less"},
    **{"less_equal": "greater_equal", "greater_equal": "less_equal"},
}


def with_split_index_sets(statements: Sequence[Statement], builder: Builder) -> list[Statement]:
    """The statements, with such loops over the passes that their conditions choose."""
    result: list[Statement] = []
    for s in statements:
        s = with_regions(s, lambda region: with_split_index_sets(region, builder))
        if isinstance(s, For) and (choice := _choice(s)) is not None:
            with builder.region(result):
                _write(s, choice, builder)
            continue
        result.append(s)
    return result


@immutable
class _Choice:
    """The passes that do something, those whose index compares so, and what they do."""

    comparison: str
    bound: Value
    body: list[Statement]


def _choice(loop: For) -> _Choice | None:
    if loop.leave is not None or loop.is_parallel or loop.step not in (1, -1) or not is_long(loop):
        return None
    if not loop.body:
        return None
    *before, branch = loop.body
    if not isinstance(branch, If) or (branch.then and branch.otherwise):
        return None
    done = branch.then or branch.otherwise
    if not all(isinstance(s, Define | Size | Load) for s in before) or any(map(nested, done)):
        return None
    inside = {defined(s): s for s in before}
    condition, is_wanted = branch.condition, bool(branch.then)
    made = inside.get(condition)  # type: ignore[arg-type]
    while isinstance(made, Define) and made.operation in ("bool", "not"):
        is_wanted ^= made.operation == "not"
        made = inside.get(made.arguments[0])  # type: ignore[arg-type]
    if not isinstance(made, Define) or made.operation not in OPPOSITE:
        return None
    comparison, (index, bound) = made.operation, made.arguments
    if bound == loop.index:
        comparison, index, bound = _EXCHANGED[comparison], bound, index
    if index != loop.index or bound in inside or bound == index or dtype_of(bound) != "int64":
        return None
    comparison = comparison if is_wanted else OPPOSITE[comparison]
    if comparison == "equal":
        return None
    used = [x for s in done for x in operands(s) if isinstance(x, Scalar)]
    return _Choice(comparison, bound, [*needed_for(before, used, ()), *done])


def _write(loop: For, choice: _Choice, builder: Builder) -> None:
    goes_up = loop.step == 1

    def ends_first(x: Value, y: Value) -> Value:
        """The one that a pass comes to first."""
        return builder.define("least" if goes_up else "most", x, y)

    def ends_last(x: Value, y: Value) -> Value:
        return builder.define("most" if goes_up else "least", x, y)

    def over(start: Value, stop: Value) -> None:
        builder.body.append(replace(loop, start=start, stop=stop, body=choice.body))

    # From the pass before the first one to the one after the last, so that nothing overflows.
    forth, back = ("add", "subtract") if goes_up else ("subtract", "add")
    before = builder.define(back, loop.start, 1)
    bound = ends_first(ends_last(choice.bound, before), loop.stop)
    after = builder.define(forth, bound, 1)
    if choice.comparison == "not_equal":
        with builder.loop(2) as part:
            is_first = builder.define("equal", part, 0)
            start = builder.define("select", is_first, loop.start, after)
            over(start, builder.define("select", is_first, bound, loop.stop))
        return
    is_strict = choice.comparison in ("less", "greater")
    if choice.comparison.startswith("less" if goes_up else "greater"):
        over(loop.start, bound if is_strict else ends_first(after, loop.stop))
    else:
        over(after if is_strict else ends_last(bound, loop.start), loop.stop)
