"""Parts of loops and branches while they are traced: where they are, and what they test."""

import threading
from typing import Any

import numpy as np

from numba_grad.errors import ShapeError, TracingError
from numba_grad.fresh_thread import carried
from numba_grad.frontend.inputs.arrays import as_node
from numba_grad.frontend.python_control_flow.sites import Site
from numba_grad.graph.node import OPS, Node
from numba_grad.ops.families import cast

_BOOL = np.dtype(np.bool_)


class _Tracing(threading.local):
    site: Site | None = None  # the innermost loop or branch whose parts are traced


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
