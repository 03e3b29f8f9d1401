"""What rewritten functions call at their loops and branches.

Each decides: is the condition known, now that the function is traced? Then Python goes on as it
would. Else the parts are traced, and become one operation.
"""

import builtins
import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from types import GeneratorType
from typing import Any

import numpy as np

from numba_grad.errors import ShapeError, TracingError
from numba_grad.frontend.functions.joining import stack
from numba_grad.frontend.functions.sorting import sort
from numba_grad.frontend.inputs.tracing import (
    RaisesForCertain,
    note_raised,
    raised_so_far,
)
from numba_grad.frontend.python_control_flow.branches import both, branch, chosen
from numba_grad.frontend.python_control_flow.flattened_values import Part
from numba_grad.frontend.python_control_flow.loops import (
    RangeAtRunTime,
    counted_loop,
    uncounted_loop,
)
from numba_grad.frontend.python_control_flow.parts import (
    condition_node,
    innermost_site,
    refused,
    refused_recursion,
)
from numba_grad.frontend.python_control_flow.sites import Site
from numba_grad.frontend.tensors.python_numbers import handle_like
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.graph.node import OPS
from numba_grad.graph.walk import is_traced
from numba_grad.ops.families import cast, reshape

_ENDLESS = 2**62  # steps
_ITERABLES = (list, tuple, GeneratorType, range, map, zip, dict, type({}.values()))
_NUMBERS = (bool, float, int, round)
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "is": operator.is_,
    "is not": operator.is_not,
}


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
        site = _usable(self._sites[number])
        _ending(site, lambda: branch(site, condition, body, orelse))

    def while_loop(self, number: int, test: Part, body: Part) -> None:
        """`while test(): body()`"""
        while True:
            condition = test()
            if _is_undecided(condition):
                uncounted_loop(_usable(self._sites[number]), test, body)
                return
            if not condition:
                return
            body()

    def for_loop(self, number: int, items: Iterable[Any], body: Part, test: Part | None) -> None:
        """`for item in items: body(item)`, as long as `test()` holds."""
        site = self._sites[number]
        if isinstance(items, RangeAtRunTime):
            counted_loop(_usable(site), items, body, test)
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
                counted_loop(_usable(site), rest, body, test)
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
        raise refused(self._sites[number])

    def asserted(self, number: int, condition: Any) -> Any:
        """The condition of an `assert`."""
        if not _is_undecided(condition):
            return condition
        note_raised(OPS["logical_not"](condition_node(self._sites[number], condition)))
        return True

    def raises(self, number: int, condition: Any) -> Any:
        """The condition of a branch that is but a `raise`, and so is no operation."""
        if not _is_undecided(condition):
            return condition
        note_raised(condition_node(self._sites[number], condition))
        return False

    def before_raise(self) -> None:
        """Called before a `raise`: an exception where values decide whether Python comes to it, or
        whether there was another one, is raised by Python's own run of the function."""
        if innermost_site() is not None or raised_so_far():
            raise RaisesForCertain

    def before_none(self) -> None:
        """Called before a `return` of None in a function that returns a value elsewhere: no
        exception, but what values decide about is what Python's own run of the function gives."""
        self.before_raise()

    def is_known_to_hold(self, *flags: Any) -> bool:
        """Whether one of these flags is set for certain."""
        return any(not _is_undecided(x) and x for x in flags)

    # Expressions

    def conditional(self, number: int, condition: Any, body: Part, orelse: Part) -> Any:
        """`body() if condition else orelse()`"""
        if not _is_undecided(condition):
            return body() if condition else orelse()
        site = _usable(self._sites[number])
        return _ending(site, lambda: chosen(site, condition, body, orelse))

    def extreme(
        self, number: int, function: Callable[..., Any], *values: Any, **options: Any
    ) -> Any:
        """`max(*values)` or `min(*values)`, which take the first of the largest or smallest, or of
        those with the largest or smallest `key`."""
        if function is not max and function is not min:
            return function(*values, **options)
        given: tuple[Any, ...] = values
        if len(values) == 1 and (type(values[0]) in _ITERABLES or isinstance(values[0], Tensor)):
            given = tuple(values[0])
        key = options.get("key")
        keys: tuple[Any, ...] = given if key is None or len(given) < 2 else tuple(map(key, given))
        if len(given) < 2 or not any(map(_is_undecided, keys)):
            return function(*values, **options) if given is values else function(given, **options)
        compare = operator.gt if function is max else operator.lt
        found, best = given[0], keys[0]
        for x, k in zip(given[1:], keys[1:], strict=True):
            is_better = compare(k, best)
            best = self.conditional(number, is_better, _giving(k), _giving(best))
            if key is not None:
                found = self.conditional(number, is_better, _giving(x), _giving(found))
        return best if key is None else found

    def any_or_all(
        self, number: int, function: Callable[..., Any], *values: Any, **options: Any
    ) -> Any:
        """`any(*values)` or `all(*values)`"""
        is_python = (function is any or function is all) and len(values) == 1
        if not is_python or type(values[0]) not in (list, tuple, GeneratorType):
            return function(*values, **options)
        found = None
        for x in values[0]:
            if not _is_undecided(x):
                if bool(x) is (function is any):
                    return function is any
                continue
            condition = condition_node(self._sites[number], x)
            name = "logical_or" if function is any else "logical_and"
            found = condition if found is None else OPS[name](found, condition)
        return function is all if found is None else handle_like(True, found)

    def in_order(
        self, number: int, function: Callable[..., Any], *values: Any, **options: Any
    ) -> Any:
        """`sorted(*values)`; with a `key`, Python must know the values."""
        if function is not sorted or len(values) != 1 or not options.keys() <= {"reverse"}:
            return function(*values, **options)
        (items,) = values
        if type(items) in _ITERABLES or isinstance(items, Tensor):
            items = tuple(items)
            if any(map(_is_undecided, items)) and not any(map(np.ndim, items)):
                # Equal ones cannot be told apart, so "reverse" may turn them around.
                ordered = [*sort(stack(items))]
                return ordered[::-1] if options.get("reverse") else ordered
        return function(items, **options)

    def number(
        self, number: int, function: Callable[..., Any], *values: Any, **options: Any
    ) -> Any:
        """`int(x)`, `float(x)`, `bool(x)`, `round(x)`."""
        x = values[0] if len(values) == 1 and not options and _is_undecided(values[0]) else None
        if x is None or function not in _NUMBERS or x.size != 1 or x.dtype.kind == "c":
            return function(*values, **options)
        if function is bool:
            return handle_like(True, condition_node(self._sites[number], x))
        node = reshape(x._node, ())
        if function is round:
            node = OPS["rint"](node)
        kind = float if function is float else int
        return handle_like(kind(), cast(node, np.dtype(kind)))

    def and_(self, number: int, first: Any, *rest: Part) -> Any:
        """`first and rest[0]() and ...`"""
        if not rest:
            return first
        if _is_undecided(first):
            site = _usable(self._sites[number])
            return both(site, "logical_and", first, lambda: self.and_(number, rest[0](), *rest[1:]))
        return self.and_(number, rest[0](), *rest[1:]) if first else first

    def or_(self, number: int, first: Any, *rest: Part) -> Any:
        """`first or rest[0]() or ...`"""
        if not rest:
            return first
        if _is_undecided(first):
            site = _usable(self._sites[number])
            return both(site, "logical_or", first, lambda: self.or_(number, rest[0](), *rest[1:]))
        return first if first else self.or_(number, rest[0](), *rest[1:])

    def not_(self, number: int, x: Any) -> Any:
        """`not x`"""
        if not _is_undecided(x):
            return not x
        return handle_like(True, OPS["logical_not"](condition_node(self._sites[number], x)))

    def truth(self, number: int, x: Any) -> Any:
        """`bool(x)`, of an operand of `and` or `or` in a test."""
        if not _is_undecided(x):
            return bool(x)
        return handle_like(True, condition_node(self._sites[number], x))

    def _contains(self, number: int, item: Any, items: Any) -> Any:
        """`item in items`"""
        if isinstance(items, (np.ndarray, Tensor)):
            found = items == item
            return found.any() if isinstance(found, Tensor) else item in items
        is_pythons = isinstance(items, (tuple, list, set, frozenset, dict))
        if not is_pythons or not any(map(_is_undecided, (item, *items))):
            return item in items
        return self.any_or_all(number, any, [x is item or x == item for x in items])

    def comparisons(self, number: int, symbols: str, *operands: Part) -> Any:
        """`operands[0]() < operands[1]() < ...`, each computed once. `symbols`: "<,<"."""
        operators = {
            **_OPERATORS,
            "in": lambda x, y: self._contains(number, x, y),
            "not in": lambda x, y: self.not_(number, self._contains(number, x, y)),
        }
        chain = [operators[symbol] for symbol in symbols.split(",")]

        def compared(k: int, left: Any) -> Any:
            right = operands[k + 1]()
            result = chain[k](left, right)
            if k + 1 == len(chain):
                return result
            return self.and_(number, result, lambda: compared(k + 1, right))

        return compared(0, operands[0]())


def _giving(x: Any) -> Part:
    return lambda: x


def _is_undecided(condition: Any) -> bool:
    return isinstance(condition, Tensor) and is_traced(condition._node)


def _usable(site: Site) -> Site:
    if site.obstacle:
        raise refused(site)
    return site


def _ending(site: Site, trace: Callable[[], Any]) -> Any:
    """What `trace` gives, unless a side of this branch comes to the branch again, and so on."""
    if innermost_site() is not None:
        return trace()
    try:
        return trace()
    except RecursionError as error:
        raise refused_recursion(site) from error


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
