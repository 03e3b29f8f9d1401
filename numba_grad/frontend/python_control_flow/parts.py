"""Parts of loops and branches while they are traced: where they are, and what they test."""

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from numba_grad.errors import ShapeError, TracingError
from numba_grad.fresh_thread import carried
from numba_grad.frontend.inputs.arrays import as_node
from numba_grad.frontend.inputs.tracing import current
from numba_grad.frontend.python_control_flow.flattened_values import Kind
from numba_grad.frontend.python_control_flow.sites import Site
from numba_grad.graph.node import OPS, Node
from numba_grad.ops.families import cast

_BOOL = np.dtype(np.bool_)


class _Tracing(threading.local):
    site: Site | None = None  # the innermost loop or branch whose parts are traced
    found: "Found | None" = None  # of the innermost branch


_tracing = carried(_Tracing())


class TracedAgain(Exception):
    """No error: a variable needs room for more than what was traced; parts are traced once more."""


class TracedParts:
    """Parts of `site` are traced."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def __enter__(self) -> None:
        self._around, _tracing.site = _tracing.site, self._site

    def __exit__(self, *_: object) -> None:
        _tracing.site = self._around


class Found:
    """What tracing the sides of a branch has found out. If what is around it is traced once more,
    it begins with that: else sides inside of n branches would be traced 2^n times."""

    def __init__(self) -> None:
        # Functions that are jitted themselves are traced once, whatever is traced again.
        self.trace = current.trace
        self.may_raise = False
        # What its variables have room for, where the first side that is traced leaves those.
        self.kinds: tuple[dict[str, list[Kind]], dict[str, list[Kind]]] | None = None
        self._inside: dict[tuple[Site, int], Found] = {}
        self._met: Counter[Site] = Counter()  # in this trace

    @contextlib.contextmanager
    def traced(self) -> Iterator[None]:
        """While its sides are traced."""
        self._met.clear()
        around, _tracing.found = _tracing.found, self
        try:
            yield
        finally:
            _tracing.found = around

    def of(self, site: Site) -> "Found":
        """The same of the next branch at this place inside of it."""
        self._met[site] += 1
        return self._inside.setdefault((site, self._met[site]), Found())


def found_before(site: Site) -> Found:
    """What was found of the branch that is traced next, if it was traced before."""
    around = _tracing.found
    return Found() if around is None or around.trace is not current.trace else around.of(site)


def innermost_site() -> Site | None:
    """The innermost loop or branch whose parts are traced, its condition known at run time only."""
    return _tracing.site


def refused(site: Site) -> TracingError:
    if site.obstacle == site.kind:
        return TracingError(
            site.explain(
                f"what decides is known at run time only, and Python must know it in a {site.kind}",
                fix="if ... elif ... else in its place",
            )
        )
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


def refused_recursion(site: Site) -> TracingError:
    return TracingError(
        site.explain(
            "the condition is known at run time only, and what depends on it calls this function "
            "again, without end",
            fix="a loop; or, if an argument counts how deep it goes, ng.jit(..., static_argnums=k) "
            "for its position k, so that Python knows it",
        )
    )


def condition_node(site: Site, x: Any) -> Node:
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
