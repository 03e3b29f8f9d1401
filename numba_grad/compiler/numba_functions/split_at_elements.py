"""Loops that read one element in all passes, and write it in one of them: cut at that pass.

    for j in range(n):                          for j in range(k): ...
        a[i, j] = min(a[i, j], a[i, k] + x)     a[i, k] = min(a[i, k], a[i, k] + x)
                                                for j in range(k + 1, n): ...

In the loops that are left the element is the same in all passes: it is loaded once, its cotangent
is one sum, and both can be vector code. Only where it is known that `k` is one of the loop's
indices.
"""

from collections.abc import Sequence
from dataclasses import replace

from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.index_ranges import Form, IndexRanges
from numba_grad.compiler.numba_functions.regions import (
    Define,
    For,
    Load,
    Scalar,
    Size,
    Statement,
    Store,
    Value,
    defined,
    substituted,
    with_regions,
)

_LONGEST_BODY = 32  # statements, that are written three times


def split_at_elements(body: list[Statement], builder: Builder) -> list[Statement]:
    """The statements, with such loops in three parts."""
    return _split(body, IndexRanges(body), builder)


def _split(
    statements: Sequence[Statement], ranges: IndexRanges, builder: Builder
) -> list[Statement]:
    result: list[Statement] = []
    for s in statements:
        s = with_regions(s, lambda region: _split(region, ranges, builder))
        place = _place(s, ranges) if isinstance(s, For) else None
        if place is None:
            result.append(s)
            continue
        assert isinstance(s, For)
        made = [x for inner in s.body if (x := defined(inner)) is not None]
        for part in range(3):
            names: dict[Scalar, Value] = {x: builder.scalar(x.dtype) for x in made}
            if part == 1:
                result += substituted(s.body, names | {s.index: place})
                continue
            index = builder.scalar("int64", "i")
            with builder.region(result):
                start, stop = s.start, place
                if part:
                    start, stop = builder.define("add", place, 1), s.stop
            rest = substituted(s.body, names | {s.index: index})
            result.append(replace(s, index=index, start=start, stop=stop, body=rest))
    return result


def _place(loop: For, ranges: IndexRanges) -> Value | None:
    """The pass to cut a loop at, if there is one."""
    if loop.leave is not None or loop.is_parallel or loop.step != 1:
        return None
    if len(loop.body) > _LONGEST_BODY:
        return None
    if not all(isinstance(s, Define | Size | Load | Store) for s in loop.body):
        return None
    inside = {defined(s) for s in loop.body} | {loop.index}
    stores = [s for s in loop.body if isinstance(s, Store) and s.memory.rank]
    for load in loop.body:
        if not isinstance(load, Load) or any(x in inside for x in load.indices):
            continue
        for store in stores:
            if store.memory != load.memory or ranges.differ(
                load.memory, load.indices, store.indices
            ):
                continue
            for place, index in zip(load.indices, store.indices, strict=True):
                if index == loop.index and _is_inside(place, loop, ranges):
                    return place
    return None


def _is_inside(place: Value, loop: For, ranges: IndexRanges) -> bool:
    """Whether it is one of the loop's indices, wherever the loop is run."""
    forms = [ranges.form(x) for x in (loop.start, place, loop.stop)]
    if None in forms:
        return False
    start, own, stop = (form for form in forms if form is not None)
    after, before = own.plus(start, -1), stop.plus(own, -1).plus(Form(-1))
    return all((least := ranges.least(form)) is not None and least >= 0 for form in (after, before))
