"""Conditions on indices: where pads, concatenations and slice assignments begin and end.

What loop ranges decide is known here, and costs nothing in the kernel.
"""

from numba_grad.compiler.loop_nests.iteration_spaces import (
    ONE,
    Index,
    constant_index,
    is_loop,
    variable,
)
from numba_grad.compiler.loop_nests.loop_cuts import Interval
from numba_grad.compiler.loop_nests.value_numbering import BOOL, INT64, Values


def holds(values: Values, index: Index, low: int, high: int) -> bool | str:
    """Whether `low <= index < high`: known for the whole piece, or the name of a bool value."""
    known = _known(values, index, low, high, is_of_index=False)
    if known is not None:
        return known
    solved = _solved(values, index, low, high)
    if solved is not None:
        name, a, b = solved
        return _between(values, variable(name), values.bound(name, a), values.bound(name, b))
    low_word = values.word(("low", index, low), "b", low) if low else "0"
    return _between(values, index, low_word, values.word(("high", index, high), "b", high))


def _known(values: Values, index: Index, low: int, high: int, *, is_of_index: bool) -> bool | None:
    """Whether `low <= index < high`, if that is the same for the whole piece. A survey notes what
    it depends on, and `is_of_index`, whether it chooses between indices."""
    if index.is_constant:
        return low <= index.constant < high
    if values.survey is not None:
        # Also where the answer is known: it would not be for the longer range of a merged loop.
        values.survey.irregular.update(name for name, _ in index.terms)
    solved = _solved(values, index, low, high)
    if solved is None:
        return None
    name, a, b = solved
    known = values.known[name]
    if all(a <= start and stop <= b for start, stop in known):
        return True
    if all(b <= start or stop <= a for start, stop in known):
        return False
    if values.survey is not None:
        values.survey.conditions.append(Interval(name, a, b, is_of_index))
    return None


def _solved(values: Values, index: Index, low: int, high: int) -> tuple[str, int, int] | None:
    """`low <= index < high` as `a <= v < b`, if the index is a loop's variable and a number."""
    name, factor = index.terms[0]
    if len(index.terms) > 1 or name not in values.known or abs(factor.value) != 1:
        return None
    if factor.value == 1:
        return name, low - index.constant, high - index.constant
    return name, index.constant - high + 1, index.constant - low + 1


def _between(values: Values, index: Index, low: str, high: str) -> str:
    values.operations += 2
    value = values.index_value(index)
    return values.apply("({low} <= {i}) & ({i} < {high})", BOOL, low=low, i=value, high=high)


def _both(values: Values, a: bool | str, b: bool | str) -> bool | str:
    if a is False or b is False:
        return False
    if a is True:
        return b
    if b is True:
        return a
    return values.apply("{a} & {b}", BOOL, a=a, b=b)


def guarded(values: Values, condition: bool | str, index: Index) -> Index:
    """`index` where the condition holds, else 0, so that a load is always inside its buffer."""
    if isinstance(condition, bool) or values.survey is not None:
        # The survey finds conditions of what is read there, to cut the loop at their bounds too.
        return index
    zero = values.constant(0, INT64)
    return variable(values.select(condition, values.index_value(index), zero, INT64))


def rotated(values: Values, index: Index, cut: int, size: int, is_literal: bool) -> Index:
    """`(index + cut) % size`, where `index` is an index of as many elements."""
    before = values.rotations.get(index)
    if before is not None and before[2] == size:
        # A rotation of a rotation is one, and one back is none: its loads are known.
        index, cut = before[0], (before[1] + cut) % size
        if cut == 0:
            return index
    ahead = index.shifted(cut, is_literal)
    behind = index.shifted(cut - size, is_literal)
    is_ahead = _known(values, ahead, 0, size, is_of_index=True)
    if values.survey is not None:
        # Of another rotation, the loop is cut at the bounds of both.
        _known(values, behind, 0, size, is_of_index=True)
        return ahead
    if is_ahead is not None:
        return ahead if is_ahead else behind
    first = _first_of_piece(values, ahead, size)
    limit = values.index_value(constant_index(size, is_literal))
    if first is None:
        tested, x, y = ahead, ahead, behind
    else:
        tested = first
        x, y = constant_index(cut, is_literal), constant_index(cut - size, is_literal)
    values.operations += 1
    condition = values.apply("{i} < {n}", BOOL, i=values.index_value(tested), n=limit)
    chosen = values.select(condition, values.index_value(x), values.index_value(y), INT64)
    result = variable(chosen) if first is None else index.plus(variable(chosen))
    values.rotations[result] = (index, cut, size)
    return result


def _first_of_piece(values: Values, index: Index, size: int) -> Index | None:
    """`index` where a piece of the innermost loop begins, if several pieces have this body, and
    whether `index < size` changes in none of them."""
    solved = _solved(values, index, 0, size)
    if not values.first or solved is None or index.terms != ((values.order[-1], ONE),):
        return None
    _, low, high = solved
    for start, stop in values.known[values.order[-1]]:
        if (start < high < stop) or (start < low < stop):
            return None
    return Index(((values.first, ONE),), index.literal, index.runtime)


def region(
    values: Values,
    index: tuple[Index, ...],
    outer: tuple[int, ...],
    inner: tuple[int, ...],
    starts: tuple[int, ...],
    steps: tuple[int, ...],
) -> tuple[bool | str, tuple[Index, ...]]:
    """Whether `index` of an array `outer` lies in the region `starts + steps * k`, and k,
    guarded."""
    condition: bool | str = True
    result: list[Index] = []
    for i, outer_size, size, start, step in zip(index, outer, inner, starts, steps, strict=True):
        if start == 0 and step == 1 and size == outer_size:
            result.append(i)
            continue
        is_literal = not is_loop(outer_size)
        k = i.shifted(-start, is_literal)
        if step == 1:
            here = holds(values, k, 0, size)
        elif k.is_constant:
            here = k.constant % step == 0 and 0 <= k.constant // step < size
            k = constant_index(k.constant // step, is_literal)
        else:
            span = holds(values, k, 0, (size - 1) * step + 1 if size else 0)
            value, divisor = values.index_value(k), values.constant(step, INT64)
            zero = values.constant(0, INT64)
            hit = values.apply("{k} % {d} == {zero}", BOOL, k=value, d=divisor, zero=zero)
            here = _both(values, span, hit)
            k = variable(values.apply("{k} // {d}", INT64, k=value, d=divisor))
        result.append(Index() if size == 1 else guarded(values, here, k))
        condition = _both(values, condition, here)
    return condition, tuple(result)
