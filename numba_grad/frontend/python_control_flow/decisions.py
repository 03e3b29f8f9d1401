"""What rewritten functions call at their loops and branches.

Each decides: is the condition known, now that the function is traced? Then Python goes on as it
would. Else the parts are traced, and become one operation.
"""

import builtins
import itertools
import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import GeneratorType
from typing import Any

import numpy as np

from numba_grad.errors import ShapeError, TracingError
from numba_grad.fresh_thread import carried
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node
from numba_grad.frontend.loops_and_branches.branches import cond
from numba_grad.frontend.loops_and_branches.loops import while_loop
from numba_grad.frontend.python_control_flow.flattened_values import (
    MISSING,
    FlattenedValue,
    Kind,
    has_nan,
    is_same_number,
    joined,
    leaf_of,
    node_as,
    rebuilt,
    taken_apart,
    unassigned,
    zero_of,
)
from numba_grad.frontend.python_control_flow.sites import Site
from numba_grad.frontend.python_control_flow.variables import (
    GROWING,
    AssignedVariables,
    Part,
    contents_of,
)
from numba_grad.frontend.tensors.python_numbers import handle_like, is_number
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.graph import traced_bodies
from numba_grad.graph.node import OPS, Node, next_serial
from numba_grad.graph.walk import is_traced, toposort
from numba_grad.ops.families import cast

_BOOL = np.dtype(np.bool_)
_ENDLESS = 2**62  # steps
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "is": operator.is_,
    "is not": operator.is_not,
    "in": lambda x, y: x in y,
    "not in": lambda x, y: x not in y,
}
# What costs no more than to decide whether to compute it, and cannot fail.
_CHEAP = ("elementwise", "literal", "iota", "leaf")


class _Tracing(threading.local):
    site: Site | None = None  # the innermost loop or branch whose parts are traced


_tracing = carried(_Tracing())


class _Again(Exception):
    """No error: a variable needs room for more than what was traced; parts are traced once more."""


@dataclass(frozen=True, slots=True)
class RangeAtRunTime:
    """A range whose bounds are known at run time only."""

    start: Any
    count: Any
    step: Any


class Decisions:
    """What one function calls. `number`: of the site."""

    def __init__(self, sites: Sequence[Site]) -> None:
        self._sites = sites

    # Statements

    def branch(self, number: int, condition: Any, body: Part | None, orelse: Part | None) -> None:
        """`if condition: body() else: orelse()`"""
        if not _is_undecided(condition):
            chosen = body if condition else orelse
            if chosen is not None:
                chosen()
            return
        _branch(_usable(self._sites[number]), condition, body, orelse)

    def while_loop(self, number: int, test: Part, body: Part) -> None:
        """`while test(): body()`"""
        while True:
            condition = test()
            if _is_undecided(condition):
                _loop(_usable(self._sites[number]), test, body)
                return
            if not condition:
                return
            body()

    def for_loop(self, number: int, items: Iterable[Any], body: Part, test: Part | None) -> None:
        """`for item in items: body(item)`, as long as `test()` holds."""
        site = self._sites[number]
        if isinstance(items, RangeAtRunTime):
            _counted_loop(_usable(site), items, body, test)
            return
        for position, item in enumerate(items):
            goes_on = True if test is None else test()
            if _is_undecided(goes_on):
                if isinstance(items, itertools.count):
                    rest = RangeAtRunTime(item, _ENDLESS, next(items) - item)
                elif isinstance(items, range):
                    steps = items[position:]
                    rest = RangeAtRunTime(steps.start, len(steps), steps.step)
                else:
                    raise TracingError(_usable(site).explain("this is not Python's own `range`"))
                _counted_loop(_usable(site), rest, body, test)
                return
            if not goes_on:
                return
            body(item)

    def range(self, number: int, function: Callable[..., Any], *bounds: Any) -> Any:
        """What `range(*bounds)` gives."""
        undecided = [x for x in bounds if _is_undecided(x)]
        if function is not builtins.range or not undecided or not 1 <= len(bounds) <= 3:
            return function(*bounds)
        site = self._sites[number]
        for x in undecided:
            if x.shape != () or x.dtype.kind not in "iub":
                raise (TypeError if x.shape == () else ShapeError)(
                    site.explain(
                        "the bounds of a range must be integers",
                        got={"bound": x._node.type},
                        expected="an integer, 0-d",
                    )
                )
        start, stop, *rest = (0, *bounds) if len(bounds) == 1 else bounds
        start, stop, step = (_as_integer(x) for x in (start, stop, *(rest or [1])))
        # Rounded up, for steps of either sign.
        count = (stop - start + step - _sign(step)) // step
        return RangeAtRunTime(start, count, step)

    def known(self, number: int, condition: Any) -> Any:
        """A condition of what cannot be an operation."""
        if not _is_undecided(condition):
            return condition
        site = self._sites[number]
        if site.kind == "assert":
            raise TracingError(
                site.explain(
                    "what is asserted is known at run time only",
                    fix="return the condition, and assert it outside of the jitted function",
                )
            )
        raise _refused(site)

    def before_raise(self, number: int) -> None:
        """Called before a `raise` inside of a loop or branch."""
        if _tracing.site is None:
            return
        site = self._sites[number]
        raise TracingError(
            site.explain(
                "whether to raise this is known at run time only",
                got={"decided by": f"{_tracing.site.place}"},
                fix="np.nan as a result; or return the condition, and raise outside of the jitted "
                "function",
            )
        )

    def is_known_to_hold(self, *flags: Any) -> bool:
        """Whether one of these flags is set for certain."""
        return any(not _is_undecided(x) and x for x in flags)

    # Expressions

    def conditional(self, number: int, condition: Any, body: Part, orelse: Part) -> Any:
        """`body() if condition else orelse()`"""
        if not _is_undecided(condition):
            return body() if condition else orelse()
        return _chosen(_usable(self._sites[number]), condition, body, orelse)

    def extreme(self, number: int, function: Callable[..., Any], *values: Any) -> Any:
        """`max(*values)` or `min(*values)`, which take the first of the largest or smallest."""
        if function is not max and function is not min:
            return function(*values)
        given = values
        if len(values) == 1 and type(values[0]) in (list, tuple, GeneratorType):
            given = tuple(values[0])
        if len(given) < 2 or not any(map(_is_undecided, given)):
            return function(*values) if given is values else function(given)
        compare = operator.gt if function is max else operator.lt
        found = given[0]
        for x in given[1:]:
            found = self.conditional(number, compare(x, found), _giving(x), _giving(found))
        return found

    def any_or_all(self, number: int, function: Callable[..., Any], *values: Any) -> Any:
        """`any(*values)` or `all(*values)`"""
        is_python = (function is any or function is all) and len(values) == 1
        if not is_python or type(values[0]) not in (list, tuple, GeneratorType):
            return function(*values)
        found = None
        for x in values[0]:
            if not _is_undecided(x):
                if bool(x) is (function is any):
                    return function is any
                continue
            condition = _condition(self._sites[number], x)
            name = "logical_or" if function is any else "logical_and"
            found = condition if found is None else OPS[name](found, condition)
        return function is all if found is None else handle_like(True, found)

    def and_(self, number: int, first: Any, *rest: Part) -> Any:
        """`first and rest[0]() and ...`"""
        if not rest:
            return first
        if _is_undecided(first):
            site = _usable(self._sites[number])
            return _both(
                site, "logical_and", first, lambda: self.and_(number, rest[0](), *rest[1:])
            )
        return self.and_(number, rest[0](), *rest[1:]) if first else first

    def or_(self, number: int, first: Any, *rest: Part) -> Any:
        """`first or rest[0]() or ...`"""
        if not rest:
            return first
        if _is_undecided(first):
            site = _usable(self._sites[number])
            return _both(site, "logical_or", first, lambda: self.or_(number, rest[0](), *rest[1:]))
        return first if first else self.or_(number, rest[0](), *rest[1:])

    def not_(self, number: int, x: Any) -> Any:
        """`not x`"""
        if not _is_undecided(x):
            return not x
        return handle_like(True, OPS["logical_not"](_condition(self._sites[number], x)))

    def comparisons(self, number: int, symbols: str, *operands: Part) -> Any:
        """`operands[0]() < operands[1]() < ...`, each computed once. `symbols`: "<,<"."""
        operators = [_OPERATORS[symbol] for symbol in symbols.split(",")]

        def compared(k: int, left: Any) -> Any:
            right = operands[k + 1]()
            result = operators[k](left, right)
            if k + 1 == len(operators):
                return result
            return self.and_(number, result, lambda: compared(k + 1, right))

        return compared(0, operands[0]())


def is_tracing_parts() -> bool:
    """Whether a loop or a branch is traced, whose condition is known at run time only."""
    return _tracing.site is not None


def _giving(x: Any) -> Part:
    return lambda: x


def _is_undecided(condition: Any) -> bool:
    return isinstance(condition, Tensor) and is_traced(condition._node)


def _usable(site: Site) -> Site:
    if site.obstacle:
        raise _refused(site)
    return site


def _refused(site: Site) -> TracingError:
    return TracingError(
        site.explain(
            "the condition is known at run time only, and Python must know it here",
            got={
                "because of": f"{site.obstacle} around it"
                if site.obstacle == "try"
                else f"{site.obstacle} in it"
                if ":=" in site.obstacle
                else f"{site.obstacle} in the function"
            },
            fix="a function of its own for this, called from here",
        )
    )


def _condition(site: Site, x: Any) -> Node:
    """A condition as one boolean."""
    node = as_node(x)
    if node.type.size != 1:
        raise ShapeError(
            site.explain(
                "the condition must be one value",
                got={"condition": node.type},
                expected="bool[]",
                fix="np.any(...) or np.all(...); np.where(condition, x, y) to choose element by "
                "element",
            )
        )
    if node.shape != ():
        node = OPS["reshape"](node, shape=())
    return cast(node, _BOOL)


def _as_integer(x: Any) -> Any:
    """A bound as a Python integer, or what stands for one."""
    if not isinstance(x, Tensor):
        return operator.index(x)
    return handle_like(0, cast(x._node, np.dtype(np.int64)))


def _sign(step: Any) -> Any:
    if not isinstance(step, Tensor):
        if step == 0:
            raise ValueError("range() arg 3 must not be zero")  # as Python says
        return 1 if step > 0 else -1
    return handle_like(0, OPS["sign"](step._node))


class _Parts:
    """Parts of `site` are traced."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def __enter__(self) -> None:
        self._around, _tracing.site = _tracing.site, self._site

    def __exit__(self, *_: object) -> None:
        _tracing.site = self._around


def _with_what_calls_change(
    site: Site, parts: Sequence[Part | None], record: Callable[[AssignedVariables], None]
) -> None:
    """Record a loop or a branch. The source says what its statements change; what functions that
    they call change in place is found while it is traced, and is then a variable of it as well."""
    while True:
        variables = AssignedVariables(site, parts)
        traced_bodies.current.assigned = None
        try:
            record(variables)
            return
        except TracingError:
            name = variables.changed_by_calls(traced_bodies.current.assigned)
            variables.put_back()
            if name is None:
                raise
        variables.undo()
        site = site.changing(name)


# Branches


def _both(site: Site, name: str, first: Any, rest: Part) -> Any:
    """`first and rest()`, or `or`. Of booleans both are computed where that is cheap."""
    node = as_node(first)
    if node.dtype == _BOOL and node.shape == ():
        before = next_serial()
        second = rest()
        other = as_node(second) if isinstance(second, (Tensor, bool, np.bool_)) else None
        if (
            other is not None
            and other.dtype == _BOOL
            and other.shape == ()
            and _is_cheap(other, before)
        ):
            like = first if not is_number(first) else second
            return handle_like(like if not is_number(like) else True, OPS[name](node, other))
    if name == "logical_and":
        return _chosen(site, first, rest, lambda: first)
    return _chosen(site, first, lambda: first, rest)


def _is_cheap(node: Node, first_serial: int) -> bool:
    def is_older(x: Node) -> bool:
        return x.value is not None or x.serial < first_serial

    order = toposort([node], stop=is_older)
    return all(is_older(x) or x.op.family in _CHEAP for x in order)


def _chosen(site: Site, condition: Any, body: Part, orelse: Part) -> Any:
    """The result of one of two expressions."""
    name = "the value"
    variables = AssignedVariables(site, [body, orelse])
    choice = _Choice(site, ("of else", "of if"))
    results = choice.made(
        condition, lambda: {name: taken_apart(body())}, lambda: {name: taken_apart(orelse())}
    )
    variables.check_around()
    return results[name]


def _branch(site: Site, condition: Any, body: Part | None, orelse: Part | None) -> None:
    _with_what_calls_change(
        site, [body, orelse], lambda x: _record_branch(x, condition, body, orelse)
    )


def _record_branch(
    variables: AssignedVariables, condition: Any, body: Part | None, orelse: Part | None
) -> None:
    site = variables.site
    lasting = {*site.read_after, *variables.containers_that_change}
    outputs = [name for name in variables.names if name in lasting]
    # What a variable held may change in place on one side, though it holds another thing after the
    # other one: so that is a result of its own, for who else holds it.
    arrays = variables.arrays_that_change
    replaced: set[str] = set()  # variables that hold another thing after a side

    def side(part: Part | None) -> dict[str, FlattenedValue]:
        variables.restore()
        given = {name: contents_of(variables.cells[name]) for name in (*outputs, *arrays)}
        variables.begin_part()
        if part is not None:
            part()
        variables.end_part()
        for name in outputs:
            if contents_of(variables.cells[name]) is not given[name]:
                replaced.add(name)
        found = {name: variables.value(name) for name in outputs}
        return found | {_former(name): taken_apart(given[name]) for name in arrays}

    choice = _Choice(site, ("without it", "after it"))
    try:
        results = choice.made(condition, lambda: side(body), lambda: side(orelse))
        variables.check_around()
    finally:
        variables.restore()
    for name in arrays:
        variables.finish(name, results[_former(name)], is_same=True)
    for name in variables.names:
        if name in results:
            variables.finish(name, results[name], is_same=name not in replaced)
        else:
            variables.forget(name)


def _former(name: str) -> str:
    return f"what {name} held"


class _Choice:
    """The variables after one of two sides, of kinds that have room for either."""

    def __init__(self, site: Site, titles: tuple[str, str]) -> None:
        self._site = site
        self._titles = titles  # of the side of False, and that of True
        self._kinds: dict[str, list[Kind]] | None = None  # once both sides were traced
        self._sides: list[dict[str, FlattenedValue]] = []

    def made(
        self,
        condition: Any,
        body: Callable[[], dict[str, FlattenedValue]],
        orelse: Callable[[], dict[str, FlattenedValue]],
    ) -> dict[str, Any]:
        """What the variables hold afterwards; those that have no value on either side are left
        out."""
        decided = handle_like(None, _condition(self._site, condition))

        def if_so() -> list[Tensor]:
            return self._leaves(body())

        def if_not() -> list[Tensor]:
            return self._leaves(orelse())

        while True:
            self._sides.clear()
            try:
                with _Parts(self._site):
                    leaves = cond(decided, if_so, if_not)
            except _Again:
                continue
            break
        assert self._kinds is not None, "both sides were traced"
        nodes = iter([x._node for x in leaves])
        results = {}
        for name, kinds in self._kinds.items():
            value = next(x[name] for x in self._sides if x[name] is not MISSING)
            own = [next(nodes) for kind in kinds if kind.type is not None]
            results[name] = rebuilt(value, kinds, own)
        return results

    def _leaves(self, values: dict[str, FlattenedValue]) -> list[Tensor]:
        """What a side returns. That of False is traced first."""
        self._sides.append(values)
        if len(self._sides) == 2:
            kinds = self._common()
            is_known = self._kinds is not None and _are_same(kinds, self._kinds)
            own = {name: value.kinds for name, value in self._sides[0].items()}
            if not is_known and not _are_same(kinds, own):
                self._kinds = kinds
                raise _Again
            self._kinds = kinds
        wanted = self._kinds
        if wanted is None:
            wanted = {name: value.kinds for name, value in values.items()}
        return [
            x
            for name, kinds in wanted.items()
            for x in _leaves_as(_found_or_absent(self._site, name, values[name], kinds), kinds)
        ]

    def _common(self) -> dict[str, list[Kind]]:
        first, second = self._sides
        found = {
            name: _common(self._site, name, first[name], second[name], self._titles)
            for name in first
        }
        return {name: kinds for name, kinds in found.items() if kinds is not None}


def _are_same(first: dict[str, list[Kind]], second: dict[str, list[Kind]]) -> bool:
    return first.keys() == second.keys() and all(
        len(first[name]) == len(second[name]) and all(map(Kind.is_same, first[name], second[name]))
        for name in first
    )


def _found_or_absent(
    site: Site, name: str, value: FlattenedValue, kinds: Sequence[Kind]
) -> Sequence[Any]:
    """The leaves of a variable; where it has no value, what stands for that."""
    return _absent(site, name, kinds) if value is MISSING else value.leaves


def _absent(site: Site, name: str, kinds: Sequence[Kind]) -> list[Any]:
    """What is in a variable without a value: nan, which shows if the program reads it."""
    is_read = name not in site.filled
    return [unassigned(kind) if is_read and has_nan(kind) else zero_of(kind) for kind in kinds]


def _leaves_as(leaves: Sequence[Any], kinds: Sequence[Kind]) -> list[Tensor]:
    given = zip(leaves, kinds, strict=True)
    return [leaf_of(node_as(x, kind), kind) for x, kind in given if kind.type is not None]


def _common(
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
        raise _missing(site, name, first, second, titles)
    if first.structure != second.structure:
        raise _different(site, name, first, second, titles)
    result = []
    for number, (a, b) in enumerate(zip(first.leaves, second.leaves, strict=True)):
        if is_same_number(a, b):
            result.append(Kind(None, constant=a))
            continue
        kind = joined(
            FlattenedValue([a], first.structure).kinds[0],
            FlattenedValue([b], second.structure).kinds[0],
        )
        if kind is None:
            raise _different(site, name, first, second, titles, number)
        result.append(kind)
    return result


def _title(name: str) -> str:
    if name.startswith("_control_flow"):
        return "the returned value"
    return name if " " in name else f"`{name}`"


def _missing(
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


def _different(
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
            what, fix = "another length", GROWING.format(name=name)
        elif held[0] is None and site.kind in ("while", "for"):
            fix = f"a first value for {title} of the type that steps give it"
    else:
        a, b = first.kinds[number], second.kinds[number]
        if a.type is None or b.type is None:
            what = "another value, which is no number"
            fix = "numbers, in its place"
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


# Loops

_BEFORE_AND_AFTER = ("before the loop", "after a step")


def _loop(site: Site, test: Part, body: Part) -> None:
    _with_what_calls_change(
        site,
        [test, body],
        lambda x: _TracedLoop(x, lambda _: test(), lambda _: body()).record(),
    )


def _counted_loop(site: Site, items: RangeAtRunTime, body: Part, test: Part | None) -> None:
    def goes_on(k: Any) -> Any:
        is_left = k < items.count
        if test is None:
            return is_left
        return _both(site, "logical_and", is_left, test)

    def step(k: Any) -> Any:
        return body(items.start + k * items.step)

    counter = handle_like(0, as_node(0))
    _with_what_calls_change(
        site, [test, body], lambda x: _TracedLoop(x, goes_on, step, counter).record()
    )


class _TracedLoop:
    """A loop as an operation. It is traced until what its variables hold is the same before and
    after a step."""

    def __init__(
        self,
        variables: AssignedVariables,
        test: Callable[[Any], Any],
        body: Callable[[Any], Any],
        counter: Any = None,
    ) -> None:
        """`counter`: the number of the first step, if steps are counted; `test` and `body` get it,
        or else None."""
        self.site = site = variables.site
        self.variables = variables
        self.test = test
        self.body = body
        self.counter = counter
        self.names = [name for name in variables.names if name in site.carried]
        self.values = {name: variables.value(name) for name in self.names}
        # What is known of the leaves of each variable that has a value before the loop.
        self.kinds: dict[str, list[Kind]] = {
            name: value.kinds for name, value in self.values.items() if value is not MISSING
        }
        self.replaced: set[str] = set()  # variables that hold another thing after a step

    def record(self) -> None:
        """Record the loop, and let its variables hold what they do after it."""
        try:
            results = None
            while results is None:
                try:
                    with _Parts(self.site):
                        results = iter(while_loop(self.goes_on, self.step, self.initial()))
                except _Again:
                    pass
            self.variables.check_around()
            self._check_progress()
        finally:
            self.variables.restore()
        if self.counter is not None:
            next(results)
        for name in self.variables.names:
            if name not in self.kinds:
                self.variables.forget(name)
                continue
            held = self.rebuilt(name, results)
            self.variables.finish(name, held, is_same=name not in self.replaced)

    def _check_progress(self) -> None:
        """Once it is traced: a function that a step calls may be what changes something."""
        if not self.names and self.counter is None:
            raise TracingError(
                self.site.explain(
                    "the loop changes nothing that its condition depends on",
                    expected="a variable that a step assigns, and the condition reads",
                )
            )

    def initial(self) -> list[Tensor]:
        """The leaves of the variables before the loop, after the counter."""
        found = [] if self.counter is None else [handle_like(None, self.counter._node)]
        for name in self.variables.names:
            if name in self.kinds:
                leaves = _leaves_as(self.values[name].leaves, self.kinds[name])
                found += [handle_like(None, x._node) for x in leaves]
        return found

    def rebuilt(self, name: str, leaves: Iterator[Tensor]) -> Any:
        """What a variable holds, of the next leaves."""
        kinds = self.kinds[name]
        nodes = [next(leaves)._node for kind in kinds if kind.type is not None]
        return rebuilt(self.values[name], kinds, nodes)

    def put(self, leaves: Sequence[Tensor]) -> tuple[Any, dict[str, Any]]:
        """Let the variables hold these leaves; the counter, and what they hold by name."""
        rest = iter(leaves)
        k = None if self.counter is None else handle_like(0, next(rest)._node)
        given = {}
        for name in self.variables.names:
            if name not in self.kinds:
                self.variables.forget(name)
                continue
            given[name] = self.rebuilt(name, rest)
            self.variables.put(name, given[name])
        return k, given

    def goes_on(self, leaves: Sequence[Tensor]) -> Tensor:
        k, _ = self.put(leaves)
        return handle_like(None, _condition(self.site, self.test(k)))

    def step(self, leaves: Sequence[Tensor]) -> list[Tensor]:
        k, given = self.put(leaves)
        self.variables.begin_part()
        self.body(k)
        self.variables.end_part()
        unsettled = [name for name in self.names if not self.is_settled(name, given)]
        if unsettled:
            raise _Again
        after: list[Tensor] = [] if k is None else [k + 1]
        for name in self.variables.names:
            if name in self.kinds:
                after += _leaves_as(self.variables.value(name).leaves, self.kinds[name])
        return after

    def is_settled(self, name: str, given: dict[str, Any]) -> bool:
        """Whether a variable holds the kinds after a step that it is said to hold before; if not,
        it is said to hold what both can be."""
        now = self.variables.value(name)
        if name not in self.kinds:
            if now is MISSING:
                return True
            _fill(self.site, name, now, self.values, self.kinds)
            return False
        value, kinds = self.values[name], self.kinds[name]
        if now is MISSING:
            before = FlattenedValue(value.leaves, value.structure)
            raise _missing(self.site, name, before, now, _BEFORE_AND_AFTER)
        if contents_of(self.variables.cells[name]) is not given[name]:
            self.replaced.add(name)
        self.kinds[name] = _after_step(self.site, name, value, kinds, now)
        return all(map(Kind.is_same, self.kinds[name], kinds))


def _fill(
    site: Site,
    name: str,
    now: FlattenedValue,
    values: dict[str, FlattenedValue],
    kinds: dict[str, list[Kind]],
) -> None:
    """A variable that a step assigns, and that has no value before the loop."""
    if name not in site.filled and not (now.kinds and all(map(has_nan, now.kinds))):
        raise _missing(site, name, MISSING, now, _BEFORE_AND_AFTER)
    kinds[name] = now.kinds
    values[name] = FlattenedValue(_absent(site, name, now.kinds), now.structure)


def _after_step(
    site: Site, name: str, before: FlattenedValue, kinds: Sequence[Kind], now: FlattenedValue
) -> list[Kind]:
    if now.structure != before.structure:
        raise _different(site, name, before, now, _BEFORE_AND_AFTER)
    result = []
    for number, (own, leaf) in enumerate(zip(kinds, now.kinds, strict=True)):
        kind = joined(own, leaf)
        if kind is None:
            raise _different(site, name, before, now, _BEFORE_AND_AFTER, number)
        result.append(kind)
    return result
