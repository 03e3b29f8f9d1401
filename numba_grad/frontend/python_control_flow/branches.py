"""A branch whose condition is known at run time only, as one operation."""

from collections.abc import Callable
from typing import Any

import numpy as np

from numba_grad.frontend.inputs.arrays import as_node, wrap
from numba_grad.frontend.inputs.code_names import contents_of
from numba_grad.frontend.inputs.tracing import (
    RaisesForCertain,
    any_of,
    note_raised,
    result_or_raised,
)
from numba_grad.frontend.loops_and_branches.branches import cond
from numba_grad.frontend.python_control_flow.flattened_values import (
    MISSING,
    FlattenedValue,
    Kind,
    Part,
    rebuilt,
    taken_apart,
    zero_of,
)
from numba_grad.frontend.python_control_flow.kinds_in_common import (
    are_same,
    common_kinds,
    found_or_absent,
    leaves_as,
)
from numba_grad.frontend.python_control_flow.parts import (
    TracedAgain,
    TracedParts,
    condition_node,
    found_before,
)
from numba_grad.frontend.python_control_flow.sites import Site
from numba_grad.frontend.python_control_flow.variables import (
    AssignedVariables,
    with_what_calls_change,
)
from numba_grad.frontend.tensors.python_numbers import handle_like, is_number
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.graph.node import OPS, Node, next_serial
from numba_grad.graph.walk import toposort
from numba_grad.ops.families import cast, literal

_BOOL = np.dtype(np.bool_)
_Values = dict[str, FlattenedValue]  # of the variables, by name
# What costs no more than to decide whether to compute it, and cannot fail.
_CHEAP = ("elementwise", "literal", "iota", "leaf")


def both(site: Site, name: str, first: Any, rest: Part) -> Any:
    """`first and rest()`, or `or`. Of booleans both are computed where that is cheap.

    `count and condition` is a boolean: where it is 0 for Python it is False, which is equal.
    """
    node = as_node(first)
    is_number_first = name == "logical_and" and node.dtype.kind in "iuf"
    if node.shape == () and (node.dtype == _BOOL or is_number_first):
        before = next_serial()
        with TracedParts(site):
            second, raised = result_or_raised(rest)
        other = as_node(second) if isinstance(second, (Tensor, bool, np.bool_)) else None
        if other is not None and other.dtype == _BOOL and other.shape == ():
            if is_number_first:
                node = cast(node, _BOOL)
                first = handle_like(True, node)
            if not raised and _is_cheap(other, before):
                like = first if not is_number(first) else second
                return handle_like(like if not is_number(like) else True, OPS[name](node, other))
    if name == "logical_and":
        return chosen(site, first, rest, lambda: first)
    return chosen(site, first, lambda: first, rest)


def _is_cheap(node: Node, first_serial: int) -> bool:
    def is_older(x: Node) -> bool:
        return x.value is not None or x.serial < first_serial

    order = toposort([node], stop=is_older)
    return all(is_older(x) or x.op.family in _CHEAP for x in order)


def chosen(site: Site, condition: Any, body: Part, orelse: Part) -> Any:
    """The result of one of two expressions."""
    name = "the value"
    variables = AssignedVariables(site, [body, orelse])
    choice = _Choice(site, ("of else", "of if"))
    results = choice.made(
        condition, lambda: {name: taken_apart(body())}, lambda: {name: taken_apart(orelse())}
    )
    variables.check_around()
    return results[name]


def branch(site: Site, condition: Any, body: Part | None, orelse: Part | None) -> None:
    """`if condition: body() else: orelse()`"""
    with_what_calls_change(
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
        found = {name: variables.value_after(name) for name in outputs}
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
    """The variables after one of two sides, of kinds that have room for either; after a side that
    raises an exception for certain they are what they are after the other one.

    A side that leaves None in a variable which holds values after the other side is one that raises
    an exception: there is none, but what the function gives then is found by Python's own run.
    """

    def __init__(self, site: Site, titles: tuple[str, str]) -> None:
        self._site = site
        self._titles = titles  # of the side of False, and that of True
        self._kinds: dict[str, list[Kind]] | None = None  # once both sides were traced
        self._sides: list[_Values | None] = []  # None: it raises an exception for certain
        self._found = found_before(site)
        self._or_none: set[str] = set()  # variables that are None after one of the sides

    def made(
        self, condition: Any, body: Callable[[], _Values], orelse: Callable[[], _Values]
    ) -> dict[str, Any]:
        """What the variables hold afterwards; those that have no value on either side are left
        out."""
        decided = handle_like(None, condition_node(self._site, condition))

        def if_so() -> list[Tensor]:
            return self._leaves(*result_or_raised(body))

        def if_not() -> list[Tensor]:
            return self._leaves(*result_or_raised(orelse))

        while True:
            self._sides.clear()
            try:
                with TracedParts(self._site), self._found.traced():
                    leaves = cond(decided, if_so, if_not)
            except TracedAgain:
                continue
            break
        assert self._kinds is not None, "both sides were traced"
        nodes = iter([x._node for x in leaves])
        if self._found.may_raise:
            note_raised(next(nodes))
        results = {}
        for name, kinds in self._kinds.items():
            value = next(x[name] for x in self._sides if x and x[name] is not MISSING)
            own = [next(nodes) for kind in kinds if kind.type is not None]
            results[name] = rebuilt(value, kinds, own)
        return results

    def _leaves(self, values: _Values | None, raised: list[Node]) -> list[Tensor]:
        """What a side returns, after whether it raises an exception. That of False is traced
        first."""
        absent = {x: MISSING for x in self._or_none if values and _is_none(values[x])}
        if values is not None and absent:
            values, raised = values | absent, [literal(True, _BOOL)]
        self._sides.append(values)
        if raised and not self._found.may_raise:
            self._found.may_raise = True
            raise TracedAgain
        first = {name: value.kinds for name, value in (self._sides[0] or {}).items()}
        before = self._found.kinds
        wanted = before[1] if before and are_same(first, before[0]) else first
        if len(self._sides) == 2:
            self._kinds = self._common()
            self._found.kinds = first, self._kinds
            if not are_same(self._kinds, wanted):
                raise TracedAgain
            wanted = self._kinds
        is_raised = any_of(raised or [literal(False, _BOOL)])
        return [*[wrap(is_raised)] * self._found.may_raise] + [
            x
            for name, kinds in wanted.items()
            for x in leaves_as(
                [zero_of(kind) for kind in kinds]
                if values is None
                else found_or_absent(self._site, name, values[name], kinds),
                kinds,
            )
        ]

    def _common(self) -> dict[str, list[Kind]]:
        first, second = self._sides
        first, second = second if first is None else first, first if second is None else second
        if first is None or second is None:
            raise RaisesForCertain
        or_none = {
            x for x in first if x not in self._or_none and _is_none_once(first[x], second[x])
        }
        if or_none:
            self._or_none |= or_none
            self._found.may_raise = True
            raise TracedAgain
        found = {
            name: next(x for x in (first[name], second[name]) if x is not MISSING).kinds
            if name in self._or_none
            else common_kinds(self._site, name, first[name], second[name], self._titles)
            for name in first
        }
        return {name: kinds for name, kinds in found.items() if kinds is not None}


def _is_none(value: FlattenedValue) -> bool:
    return value is not MISSING and value.structure == MISSING.structure


def _is_none_once(first: FlattenedValue, second: FlattenedValue) -> bool:
    """Whether a variable is None after one side, and has another value after the other."""
    return MISSING not in (first, second) and _is_none(first) is not _is_none(second)
