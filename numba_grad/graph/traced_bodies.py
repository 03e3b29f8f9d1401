"""Functions of loops and branches while they are traced, and what must not cross their border.

Such a function runs once, on arguments without values. A tensor that it keeps elsewhere than in its
result has no value when the trace is over, and what it assigns to a tensor of its surroundings
would happen once, not in each step.
"""

import contextlib
import functools
import linecache
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from numba_grad.errors import TracingError, explain
from numba_grad.fresh_thread import carried
from numba_grad.graph import observers
from numba_grad.graph.node import ARGUMENT, Node, held_tensor
from numba_grad.immutable import NamedTuple

Place = tuple[CodeType, int]  # an instruction of the user's code
_NOT_THE_USERS = ("numba_grad", "numpy")  # packages


@dataclass(slots=True, eq=False, weakref_slot=True)
class TracedBody:
    """A function that is being traced, or was."""

    operation: str  # what it is given to: "scan"
    name: str
    first_serial: int  # of its own nodes
    outer: "TracedBody | None"
    # What depends on its arguments and is not returned, and where it was made.
    own: dict[Node, "Place | None"] = field(default_factory=dict)
    # Tensors of its surroundings that it assigns to, with what they were: of compiled functions.
    assigned: list[tuple[Any, Node]] = field(default_factory=list)
    of_former: dict[Node, Any] = field(default_factory=dict)  # the same, by what they were
    is_running: bool = True
    asks_for_mode: bool = False  # whether history is recorded
    has_backward_pass: bool = False  # so that hooks of others are run
    # Hooks of tensors that it has registered, and that no backward pass of its own has run.
    hooks: list[tuple[Node, Any]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.name}, the function of {self.operation}"

    def returned(self, nodes: Sequence[Node]) -> None:
        """Say that the function has returned these."""
        for node in nodes:
            self.own.pop(node, None)


class _Current(threading.local):
    body: TracedBody | None = None
    compiled: TracedBody | None = None
    is_rebuilding: bool = False
    assigned: Node | None = None  # what was refused last, by `check_assigned_inside`


current = carried(_Current())  # the innermost that this thread is in
_body_of: weakref.WeakKeyDictionary[Node, TracedBody] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def tracing_body(
    operation: str,
    name: str,
    arguments: Sequence[Node],
    stand_ins: Sequence[Node],
    first_serial: int,
) -> Iterator[TracedBody]:
    """While a function is run on `stand_ins` of `arguments`, which no other call has. Nodes from
    `first_serial` on are its own."""
    own: dict[Node, Place | None] = dict.fromkeys(stand_ins)
    body = TracedBody(operation, name, first_serial, current.body, own)

    def note(node: Node) -> None:
        for x in node.inputs:
            if x in own:
                own[node] = _place()
                return

    current.body = body
    try:
        for node in arguments:
            _body_of[node] = body
        with observers.noting(note):
            yield body
    finally:
        body.is_running = False
        current.body = body.outer
        _look_out_for(own, body)
        own.clear()


# Arguments of compiled functions. Apart, since graphs of these are taken to pieces when their trace
# is over: who asks here has found that an argument has no value.
_compiled_of: weakref.WeakKeyDictionary[Node, TracedBody] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def tracing_compiled(
    name: str, arguments: Sequence[Node], first_serial: int
) -> Iterator[TracedBody]:
    """While a function is run on `arguments` in order to be compiled."""
    function = TracedBody("jit", name, first_serial, None)
    for node in arguments:
        _compiled_of[node] = function
    outer, current.compiled = current.compiled, function
    try:
        yield function
    finally:
        function.is_running = False
        function.of_former.clear()
        current.compiled = outer


def note_assigned(tensor: Any, old: Node) -> None:
    """Say that `tensor`, whose value was `old`, is assigned to: if that is older than the function
    that is being compiled, each call of it assigns to the tensor."""
    function = current.compiled
    if function is not None and old.serial < function.first_serial:
        function.assigned.append((tensor, old))
        function.of_former[old] = tensor


def note_backward_pass() -> None:
    """Say that a pass goes backward through what is traced."""
    if current.compiled is not None:
        current.compiled.has_backward_pass = True


def note_hook(node: Node, handle: Any) -> None:
    """Say that a hook was registered on `node`, which `handle` removes."""
    function = _innermost()
    if function is not None:
        function.hooks.append((node, handle))


def note_hooks_run(hooks: dict[int, Any]) -> None:
    """Say that a backward pass has run these."""
    function = _innermost()
    if function is not None and function.hooks:
        function.hooks = [x for x in function.hooks if not x[1].is_one_of(hooks)]


def hooks_left(function: TracedBody) -> bool:
    """Whether there are hooks of a function whose trace ends that nobody has run: its graph has no
    place for them. Those of tensors that it has not made go."""
    left = [(node, handle) for node, handle in function.hooks if handle.is_registered]
    for node, handle in left:
        if node.serial < function.first_serial:
            handle.remove()
    return bool(left)


def _innermost() -> TracedBody | None:
    running = [x for x in (current.body, current.compiled) if x is not None]
    return max(running, key=lambda x: x.first_serial, default=None)


def tensor_that_was(node: Node) -> Any | None:
    """The tensor whose value `node` was before the function that is being compiled assigned to it:
    in the next call that may have another value."""
    function = current.compiled
    return None if function is None else function.of_former.get(node)


def check_compiled(argument: Node) -> None:
    """Raise if `argument`, of which a value is wanted, is of a function whose trace is over.

    Raises
    ------
    TracingError
        If it is.
    """
    function = _compiled_of.get(argument)
    if function is not None and not function.is_running:
        raise _used_outside(
            function,
            None,
            "the tensor as part of what the function returns; or an assignment in place to what it "
            "closes over (state.x[...] = y, in place of state.x = y), which each call does",
        )


# Names of modules: whether they are neither this library's nor NumPy's.
_is_users: dict[str, bool] = {}


def _place() -> Place | None:
    """Where the innermost code is that is neither this library's nor NumPy's."""
    frame: FrameType | None = sys._getframe(3)  # of who records
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        is_users = _is_users.get(name)
        if is_users is None:
            is_users = _is_users[name] = not name.startswith(_NOT_THE_USERS)
        if is_users:
            return frame.f_code, frame.f_lasti
        frame = frame.f_back
    return None


class _Leak(NamedTuple):
    """A node of a body whose trace is over, as long as somebody has its tensor."""

    node: weakref.ref[Node]
    tensor: weakref.ref[Any]  # kept for what it calls when the tensor goes
    body: TracedBody
    place: Place | None


def _used_outside(
    body: TracedBody,
    place: Place | None,
    fix: str = "the tensor as part of what the function returns",
) -> TracingError:
    line = None if place is None else _line(*place)
    return TracingError(
        explain(
            body.operation,
            "a tensor of the inside is used outside, where it has no value",
            got={"made in": body, **({"at": line} if line else {})},
            expected="use of what the function returns",
            fix=fix,
        )
    )


def _line(code: CodeType, instruction: int) -> str | None:
    for first, end, number in code.co_lines():
        if first <= instruction < end and number is not None:
            text = linecache.getline(code.co_filename, number).strip()
            where = f"line {number} of {Path(code.co_filename).name}"
            return f"{where}: {text}" if text else where
    return None


_leaks: dict[int, _Leak] = {}  # by the `id` of the node


def _look_out_for(nodes: dict[Node, Place | None], body: TracedBody) -> None:
    """See that whoever uses the tensors of these, that are still there, is told so. They go soon,
    but for those that leak, and then recording costs what it did before; their nodes may stay with
    what was compiled."""
    for node, place in nodes.items():
        tensor = held_tensor(node)
        if tensor is None:
            continue
        key = id(node)
        # At any time, in any thread: no locks here.
        held = weakref.ref(tensor, functools.partial(_forget, _leaks, key))
        _leaks[key] = _Leak(weakref.ref(node), held, body, place)
    if _leaks:
        observers.set_leak_observer(_check_inputs)


def _forget(leaks: dict[int, _Leak], key: int, _: weakref.ref[Any]) -> None:
    leaks.pop(key, None)


@contextlib.contextmanager
def rebuilding() -> Iterator[None]:
    """While what belongs to a body is recorded for others to be rebuilt from."""
    before, current.is_rebuilding = current.is_rebuilding, True
    try:
        yield
    finally:
        current.is_rebuilding = before


def _check_inputs(node: Node) -> None:
    if not _leaks:
        observers.set_leak_observer(None)
    if current.is_rebuilding:
        return
    for x in node.inputs:
        leak = _leak_of(x)
        if leak is not None:
            raise _used_outside(leak.body, leak.place)


def _leak_of(node: Node) -> _Leak | None:
    leak = _leaks.get(id(node))
    return leak if leak is not None and leak.node() is node else None


def check_assigned_inside(old: Node) -> None:
    """Raise if `old`, the value of a tensor that is assigned to, is older than the body that is
    being traced.

    Raises
    ------
    TracingError
        If it is.
    """
    body = current.body
    if body is not None and old.serial < body.first_serial:
        current.assigned = old
        raise TracingError(
            explain(
                body.operation,
                f"{body.name} assigns to a tensor of its surroundings: it is traced once, so "
                "this would not happen in each step",
                got={"tensor": old.type},
                expected="assignments to tensors that the function gets or makes",
                fix="the tensor as part of what is carried, or y = x.copy() inside, and y returned",
            )
        )


def check_inside(argument: Node, asked: Node | None = None) -> None:
    """Raise if `argument` belongs to a body whose trace is over.

    `asked`: what is made of it, and of which a value is wanted.

    Raises
    ------
    TracingError
        If it does.
    """
    body = _body_of.get(argument) if argument.op is ARGUMENT else None
    if body is not None and not body.is_running:
        leak = None if asked is None else _leak_of(asked)
        raise _used_outside(body, None) if leak is None else _used_outside(leak.body, leak.place)
