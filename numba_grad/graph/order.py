"""The order of what others wait for: communications between processes.

A communication reads a token, a number that means nothing, and gives one, which the next one reads.
So they are a chain that no pass can reorder, prune or merge. What is traced or differentiated is a
function of one more argument and one more result, the token, as soon as it communicates: a jitted
function gets it with its arguments, a loop carries it, a branch passes it on. The cotangent of a
token is the token of the adjoint, so the chain of the backward pass is this one reversed, and goes
through all of it, whether a cotangent of a value arrives or not.

Outside of traces a communication happens when it is recorded.
"""

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from numba_grad.errors import TracingError, explain
from numba_grad.fresh_thread import carried
from numba_grad.graph.node import OPS, Node, argument, grad_mode, leaf, recording
from numba_grad.graph.types import array_type
from numba_grad.graph.walk import is_traced, toposort

TOKEN = array_type((), np.dtype(np.float64))
VALUE = np.zeros((), np.float64)  # of every token


# What is said to whom, in order: communicators by handle, with what processes compare before they
# communicate by them.
Said = dict[int, tuple[Any, list[Any]]]


class Scope:
    """What is traced or differentiated, as a function of a token."""

    __slots__ = ("_make", "_outer", "first", "last", "refusal", "said")

    def __init__(self, make: Callable[[], Node] | None, refusal: str = "") -> None:
        self._make = make
        self._outer = _here.scope
        self.first: Node | None = None  # made for the first communication
        self.last: Node | None = None
        self.refusal = refusal
        self.said: Said = {}

    @property
    def communicates(self) -> bool:
        return self.last is not self.first

    def ends(self) -> tuple[Node, Node]:
        """The tokens before the first communication and after the last."""
        last = self.token()
        return (last if self.first is None else self.first), last

    def token(self) -> Node:
        if self._make is None:
            raise TracingError(self.refusal)
        if self.last is None:
            inner, _here.scope = _here.scope, self._outer
            try:
                self.first = self.last = self._make()
            finally:
                _here.scope = inner
        return self.last


class _Here(threading.local):
    scope: Scope | None = None
    # Outside of scopes: the token of the last communication that gradients flow through.
    history: Node | None = None


_here = carried(_Here())


# How values are computed, which what lies above knows, as soon as a program communicates.
evaluate: Callable[[Sequence[Node]], None] | None = None
# Before what was traced is run: whether all processes are about to run it. (name, what it says)
compare: Callable[[str, Said], None] | None = None


def new_argument() -> Node:
    """The token that a traced function gets. Gradients flow to it whatever flows to the other
    arguments: whether an adjoint communicates must not differ between processes."""
    return argument(TOKEN, requires_grad=grad_mode.enabled)


def is_communicated(node: Node) -> bool:
    """Whether this is a result of a communication."""
    return node.op.name == "item" and "communicates" in node.inputs[0].op.extras


def communicates(node: Node) -> bool:
    """Whether the operation communicates: itself, or in a graph that it calls."""
    if node.op.family != "call":
        return False
    if "communicates" in node.op.extras:
        return True
    values = [x for v in node.params.values() for x in (v if isinstance(v, tuple) else (v,))]
    return any(_graph_communicates(x) for x in values if hasattr(x, "outputs"))


_known: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


def _graph_communicates(target: Any) -> bool:
    found = _known.get(target)
    if found is None:
        found = _known[target] = any(communicates(node) for node in toposort(target.outputs))
    return found


def token() -> Node:
    """The token of the last communication, which the next one reads."""
    scope = _here.scope
    if scope is not None:
        return scope.token()
    history = _here.history
    if history is None or not history.requires_grad:
        _here.history = None
        return leaf(VALUE)
    return history


def advance(results: Sequence[Node], new: Node) -> None:
    """Say that a communication gave `new`, and compute it with its `results`, if they can be."""
    scope = _here.scope
    compute([*results, new])
    if scope is None:
        _here.history = new if new.requires_grad else _here.history
        return
    before = scope.token()
    if before.requires_grad and not new.requires_grad:
        # Within `no_grad`: gradients pass by.
        with recording(True):
            new = OPS["add"](before, new)
        compute([new])
    scope.last = new


def say(said: Said) -> None:
    """Note what is communicated here, and by whom."""
    scope = _here.scope
    if scope is not None:
        for handle, (communicator, words) in said.items():
            scope.said.setdefault(handle, (communicator, []))[1].extend(words)


def compute(nodes: Sequence[Node]) -> None:
    """Compute what a communication gave, all of it at once: who asks for a part of it later must
    not make it happen again."""
    pending = [node for node in nodes if node.value is None]
    if pending and evaluate is not None and not is_traced(*pending):
        evaluate(pending)


def is_differentiated() -> bool:
    """Whether gradients will flow through what communicates now, whatever it reads."""
    scope = _here.scope
    if scope is None or scope.refusal or not grad_mode.enabled:
        return False
    return scope.token().requires_grad


@contextlib.contextmanager
def scope(make: Callable[[], Node]) -> Iterator[Scope]:
    """While a function is run as one of a token that `make` gives."""
    outer = _here.scope
    _here.scope = found = Scope(make)
    try:
        yield found
    finally:
        _here.scope = outer
        say(found.said)


@contextlib.contextmanager
def refused(operation: str, why: str, fix: str) -> Iterator[None]:
    """While nothing may communicate.

    Raises
    ------
    TracingError
        If something does.
    """
    outer = _here.scope
    _here.scope = Scope(None, explain(operation, why, fix=fix))
    try:
        yield
    finally:
        _here.scope = outer


def root_of_backward(*, is_kept: bool) -> Node | None:
    """The token that a backward pass starts from beside its outputs, so that it goes through all
    that was communicated; None if there is none with a history. It is forgotten, unless the graph
    is kept."""
    scope = _here.scope
    if scope is not None:
        last = scope.last if scope.communicates else None
        return last if last is not None and last.requires_grad else None
    found = _here.history
    if found is None or not found.requires_grad:
        return None
    if not is_kept:
        _here.history = None
    return found


def gone_back(found: dict[Node, Node]) -> None:
    """Say what the cotangents of a pass from `root_of_backward` are."""
    scope = _here.scope
    if scope is not None and scope.first is not None:
        token = found.pop(scope.first, None)
        if token is not None:
            advance([], token)


def is_first(node: Node) -> bool:
    """Whether this is the token that what is traced begins with: no leaf of the user's."""
    scope = _here.scope
    return scope is not None and node is scope.first
