"""A loop whose length is known at run time only, as one operation."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from numba_grad.errors import TracingError
from numba_grad.frontend.inputs.arrays import as_node, wrap
from numba_grad.frontend.inputs.code_names import contents_of
from numba_grad.frontend.inputs.tracing import (
    any_of,
    note_raised,
    noting_raised,
    raised_so_far,
    result_or_raised,
)
from numba_grad.frontend.loops_and_branches.while_loops import while_loop
from numba_grad.frontend.python_control_flow.branches import both
from numba_grad.frontend.python_control_flow.flattened_values import (
    MISSING,
    FlattenedValue,
    Kind,
    Part,
    has_nan,
    joined,
    rebuilt,
)
from numba_grad.frontend.python_control_flow.kinds_in_common import (
    absent,
    different_values,
    leaves_as,
    missing_value,
)
from numba_grad.frontend.python_control_flow.parts import TracedAgain, TracedParts, condition_node
from numba_grad.frontend.python_control_flow.sites import Site
from numba_grad.frontend.python_control_flow.variables import (
    AssignedVariables,
    with_what_calls_change,
)
from numba_grad.frontend.tensors.python_numbers import handle_like
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.graph.node import OPS
from numba_grad.ops.families import literal

_BOOL = np.dtype(np.bool_)


@dataclass(frozen=True, slots=True)
class RangeAtRunTime:
    """A range whose bounds are known at run time only."""

    start: Any
    count: Any
    step: Any


_BEFORE_AND_AFTER = ("before the loop", "after a step")


def uncounted_loop(site: Site, test: Part, body: Part) -> None:
    """`while test(): body()`"""
    with_what_calls_change(
        site,
        [test, body],
        lambda x: _TracedLoop(x, lambda _: test(), lambda _: body()).record(),
    )


def counted_loop(site: Site, items: RangeAtRunTime, body: Part, test: Part | None) -> None:
    """`for item in items: body(item)`, as long as `test()` holds."""

    def goes_on(k: Any) -> Any:
        is_left = k < items.count
        if test is None:
            return is_left
        return both(site, "logical_and", is_left, test)

    def step(k: Any) -> Any:
        return body(items.start + k * items.step)

    counter = handle_like(0, as_node(0))
    with_what_calls_change(
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
        self.raised_before = [] if counter is not None else raised_so_far()
        self.step_may_raise = self.test_may_raise = False

    def record(self) -> None:
        """Record the loop, and let its variables hold what they do after it."""
        try:
            results = None
            while results is None:
                try:
                    with TracedParts(self.site):
                        results = iter(while_loop(self.goes_on, self.step, self.initial()))
                except TracedAgain:
                    pass
            self.variables.check_around()
            self._check_progress()
        finally:
            self.variables.restore()
        last = None if self.counter is None else handle_like(0, next(results)._node)
        for name in self.variables.names:
            if name not in self.kinds:
                self.variables.forget(name)
                continue
            held = self.rebuilt(name, results)
            self.variables.finish(name, held, is_same=name not in self.replaced)
        if self.step_may_raise:
            note_raised(next(results)._node)
        if self.test_may_raise:
            self.test(last)  # as it was when the loop ended

    def _check_progress(self) -> None:
        """Once it is traced: a function that a step calls may be what changes something."""
        if not self.names and self.counter is None and not self.step_may_raise:
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
                leaves = leaves_as(self.values[name].leaves, self.kinds[name])
                found += [handle_like(None, x._node) for x in leaves]
        return [*found, *[wrap(literal(False, _BOOL))] * self.step_may_raise]

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
        with noting_raised() as raised:
            condition = condition_node(self.site, self.test(k))
        self.test_may_raise = bool(raised)
        raised += self.raised_before
        if self.step_may_raise:
            raised.append(leaves[-1]._node)
        if raised:
            condition = OPS["logical_and"](condition, OPS["logical_not"](any_of(raised)))
        return handle_like(None, condition)

    def step(self, leaves: Sequence[Tensor]) -> list[Tensor]:
        k, given = self.put(leaves)
        self.variables.begin_part()
        goes_on, raised = result_or_raised(lambda: (self.body(k),))
        if goes_on is None:  # what nobody reads
            self.put(leaves)
        else:
            self.variables.end_part()
        unsettled = [name for name in self.names if not self.is_settled(name, given)]
        if unsettled or (raised and not self.step_may_raise):
            self.step_may_raise = self.step_may_raise or bool(raised)
            raise TracedAgain
        after: list[Tensor] = [] if k is None else [k + 1]
        for name in self.variables.names:
            if name in self.kinds:
                after += leaves_as(self.variables.value(name).leaves, self.kinds[name])
        is_raised = any_of(raised or [literal(False, _BOOL)])
        return [*after, *[wrap(is_raised)] * self.step_may_raise]

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
            raise missing_value(self.site, name, before, now, _BEFORE_AND_AFTER)
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
        raise missing_value(site, name, MISSING, now, _BEFORE_AND_AFTER)
    kinds[name] = now.kinds
    values[name] = FlattenedValue(absent(site, name, now.kinds), now.structure)


def _after_step(
    site: Site, name: str, before: FlattenedValue, kinds: Sequence[Kind], now: FlattenedValue
) -> list[Kind]:
    if now.structure != before.structure:
        raise different_values(site, name, before, now, _BEFORE_AND_AFTER)
    result = []
    for number, (own, leaf) in enumerate(zip(kinds, now.kinds, strict=True)):
        kind = joined(own, leaf)
        if kind is None:
            raise different_values(site, name, before, now, _BEFORE_AND_AFTER, number)
        result.append(kind)
    return result
