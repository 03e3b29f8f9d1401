"""Arrays that are swapped live equally long.

An array that a pass of a loop makes ends with the pass. If it is swapped with one from outside, the
name outside has it from then on: so it is made outside as well, once, and each pass writes its
elements anew. That would show in an array of the caller's, which is swapped, and written to by the
next pass: this is refused.
"""

from collections.abc import Sequence

from numba_grad.compiler.numba_functions.analyses import swapped_together
from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.regions import (
    Allocate,
    Function,
    Memory,
    Scalar,
    Statement,
    defined,
    nested,
    walk,
    with_regions,
)
from numba_grad.errors import KernelError, explain


def with_equal_lifetimes(function: Function, builder: Builder) -> list[Statement]:
    """The statements of a function, with such arrays made at the beginning.

    Raises
    ------
    KernelError
        If the shape of one is not known there, or one is swapped with an argument or a result.
    """
    body = function.body
    groups = swapped_together(body)
    homes: dict[Memory, int] = {}

    def find(statements: Sequence[Statement], region: int) -> None:
        for s in statements:
            if isinstance(s, Allocate):
                homes[s.memory] = region
            for part in nested(s):
                find(part, id(part))

    find(body, 0)  # where parameters are, too
    short = {
        memory
        for memory, group in groups.items()
        if homes.get(memory, 0) and len({homes.get(other, 0) for other in group}) > 1
    }
    if not short:
        return body
    visible: set[Scalar] = set()
    result: list[Statement] = []
    for s in body:
        for inner in walk([s]):
            if not isinstance(inner, Allocate) or inner.memory not in short:
                continue
            is_seen = not groups[inner.memory].isdisjoint(
                (*function.parameters, *function.returned)
            )
            if is_seen or not all(x in visible for x in inner.shape if isinstance(x, Scalar)):
                names = sorted(m.name for m in groups[inner.memory])
                raise KernelError(
                    explain(
                        function.name,
                        "an array that is made in a loop or a branch is swapped with one from "
                        "outside",
                        got={"swapped": ", ".join(names)},
                        fix="an array made before the loop, and array[:] = ... in place of "
                        "array = ...",
                    )
                )
            result.append(Allocate(inner.memory, inner.shape, None))
        (s,) = _without(short, [s], builder)
        target = defined(s)
        if target is not None:
            visible.add(target)
        result.append(s)
    return result


def _without(
    short: set[Memory], statements: Sequence[Statement], builder: Builder
) -> list[Statement]:
    """The statements, which fill those arrays in place of making them."""
    result: list[Statement] = []
    for s in statements:
        if isinstance(s, Allocate) and s.memory in short:
            if s.fill is not None:
                with builder.region(result), builder.elements(s.shape) as at:
                    builder.store(s.memory, at, s.fill)
            continue
        result.append(with_regions(s, lambda region: _without(short, region, builder)))
    return result
