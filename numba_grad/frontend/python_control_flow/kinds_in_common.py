"""What a variable can hold after either side of a branch, before and after a step of a loop; or the
message that says how these differ."""

from collections.abc import Sequence
from typing import Any

from numba_grad.errors import ShapeError, TracingError
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.python_control_flow.flattened_values import (
    MISSING,
    FlattenedValue,
    Kind,
    has_nan,
    is_same_number,
    joined,
    leaf_of,
    node_as,
    unassigned,
    zero_of,
)
from numba_grad.frontend.python_control_flow.sites import Site
from numba_grad.frontend.tensors.tensor import Tensor


def are_same(first: dict[str, list[Kind]], second: dict[str, list[Kind]]) -> bool:
    return first.keys() == second.keys() and all(
        len(first[name]) == len(second[name]) and all(map(Kind.is_same, first[name], second[name]))
        for name in first
    )


def found_or_absent(
    site: Site, name: str, value: FlattenedValue, kinds: Sequence[Kind]
) -> Sequence[Any]:
    """The leaves of a variable; where it has no value, what stands for that."""
    return absent(site, name, kinds) if value is MISSING else value.leaves


def absent(site: Site, name: str, kinds: Sequence[Kind]) -> list[Any]:
    """What is in a variable without a value: nan, which shows if the program reads it."""
    is_read = name not in site.filled
    return [unassigned(kind) if is_read and has_nan(kind) else zero_of(kind) for kind in kinds]


def leaves_as(leaves: Sequence[Any], kinds: Sequence[Kind]) -> list[Tensor]:
    given = zip(leaves, kinds, strict=True)
    return [leaf_of(node_as(x, kind), kind) for x, kind in given if kind.type is not None]


def common_kinds(
    site: Site, name: str, first: FlattenedValue, second: FlattenedValue, titles: tuple[str, str]
) -> list[Kind] | None:
    """The kinds of a variable's leaves after either side; None if it has no value."""
    if first is MISSING or second is MISSING:
        if first is second:
            return None
        kinds = (second if first is MISSING else first).kinds
        is_unread = name in site.filled or site.returns[0 if first is MISSING else 1]
        if is_unread or (kinds and all(map(has_nan, kinds))):
            return kinds
        raise missing_value(site, name, first, second, titles)
    if first.structure != second.structure:
        raise different_values(site, name, first, second, titles)
    result = []
    for number, (a, b) in enumerate(zip(first.leaves, second.leaves, strict=True)):
        # A tensor that both sides have left alone, if there are two.
        is_older = a is b and isinstance(a, Tensor) and first is not second
        if is_older or is_same_number(a, b):
            result.append(Kind(None, constant=a))
            continue
        kind = joined(
            FlattenedValue([a], first.structure).kinds[0],
            FlattenedValue([b], second.structure).kinds[0],
        )
        if kind is None:
            raise different_values(site, name, first, second, titles, number)
        result.append(kind)
    return result


def _title(name: str) -> str:
    if name.startswith("_control_flow"):
        return "the returned value"
    return name if " " in name else f"`{name}`"


def missing_value(
    site: Site, name: str, first: FlattenedValue, second: FlattenedValue, titles: tuple[str, str]
) -> TracingError:
    shown: dict[str, object] = {
        f"{_title(name)} {title}": "has no value" if value is MISSING else _shown(value)
        for title, value in zip(titles, (first, second), strict=True)
    }
    return TracingError(
        site.explain(
            f"the condition is known at run time only, and so whether {_title(name)} has a value",
            got=shown,
            expected="a value in either case, as it may be read afterwards; of floats, nan is one",
            fix=f"a value for {_title(name)} before line {site.line}",
        )
    )


def _shown(value: FlattenedValue) -> str:
    if value.structure == trees.flatten(0)[1]:
        return str(value.kinds[0])
    if not value.leaves:
        return str(trees.unflatten(value.structure, []))
    shown = [_Text(str(kind)) for kind in value.kinds]
    return repr(trees.unflatten(value.structure, shown))


class _Text(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def different_values(
    site: Site,
    name: str,
    first: FlattenedValue,
    second: FlattenedValue,
    titles: tuple[str, str],
    number: int | None = None,
) -> Exception:
    title = _title(name)
    error: type[Exception] = TypeError
    what, fix = "another structure", ""
    if number is None:
        held = [trees.unflatten(x.structure, x.leaves) for x in (first, second)]
        if isinstance(held[0], list) and isinstance(held[1], list):
            what, fix = "another length", site.instead_of_growing(name)
        elif isinstance(held[0], dict) and isinstance(held[1], dict):
            what, fix = "other keys", f"all keys of {title} from the start, with a number each"
        elif held[0] is None and site.kind in ("while", "for"):
            fix = f"a first value for {title} of the type that steps give it"
    else:
        a, b = first.kinds[number], second.kinds[number]
        if a.type is None or b.type is None:
            what = "another value, which is no number"
            fix = "numbers, in its place"
            if type(a.constant) is type(b.constant) and hasattr(a.constant, "__dict__"):
                fix += (
                    f"; or @dataclass for {type(a.constant).__name__}, of which fields are chosen"
                )
        elif a.type.shape != b.type.shape:
            error, what = ShapeError, "another shape"
            fix = f"{title} of one shape from the start: np.zeros(...), np.full(...)"
        else:
            what = "another dtype"
            fix = f"{title} of one dtype from the start; .astype({a.type.dtype.name})"
    shown: dict[str, object] = {
        f"{title} {when}": _shown(value)
        for when, value in zip(titles, (first, second), strict=True)
    }
    return error(
        site.explain(
            f"the condition is known at run time only, and {title} has {what} {titles[1]}",
            got=shown,
            expected="the same shape, dtype and structure",
            fix=fix,
        )
    )
