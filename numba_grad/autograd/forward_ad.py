"""Dual numbers: `dual_level`, `make_dual`, `unpack_dual`, with torch's signatures.

Within a level each operation on a tensor that has a tangent gets its own as soon as it is recorded.
The tangent is kept with the node, marked by the level, and means nothing any more when the level is
over. Whether history is recorded for gradients has no part in this.

A level belongs to the thread that has entered it. A jitted function that is called in one runs as
it is written. For derivatives of functions there is `ng.jvp`, which nests and is compiled.
"""

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from numba_grad.autograd.state import state_of
from numba_grad.autograd.tensor_class import is_tensor, new_tensor
from numba_grad.dtypes import is_inexact
from numba_grad.errors import GradientError, explain
from numba_grad.fresh_thread import carried
from numba_grad.graph import observers
from numba_grad.graph.node import OPS, Node
from numba_grad.immutable import NamedTuple
from numba_grad.ops.control import several_results
from numba_grad.ops.families import cast
from numba_grad.transforms.jvp import Tangent, tangent_of

Tensor = Any


class _Level:
    """What one level has recorded tangents for."""

    is_paused = False  # while a tangent is recorded, which has none itself

    def observe(self, node: Node) -> None:
        """Record the tangent of an operation that was recorded just now."""
        if self.is_paused or node.op.vjp is None:
            return
        own = [self.tangent(x) for x in node.inputs]
        if all(t is None for t in own):
            return
        if not several_results(node) and not is_inexact(node.dtype):
            return
        with self.paused():
            self.set_tangent(node, tangent_of(node, node.inputs, own))

    def tangent(self, node: Node) -> Tangent:
        state = node.autograd
        if state is None or state.tangent is None or state.tangent[0] is not self:
            return None
        return state.tangent[1]

    def set_tangent(self, node: Node, tangent: Tangent) -> None:
        if tangent is not None:
            state_of(node).tangent = (self, tangent)

    @contextmanager
    def paused(self) -> Iterator[None]:
        before, self.is_paused = self.is_paused, True
        try:
            yield
        finally:
            self.is_paused = before


class _OfThread(threading.local):
    level: _Level | None = None


_of_thread = carried(_OfThread())


def current_level() -> _Level | None:
    """The level that this thread is in."""
    return _of_thread.level


def has_tangent(node: Node) -> bool:
    """Whether the node has a tangent in the level that this thread is in."""
    level = _of_thread.level
    return level is not None and level.tangent(node) is not None


def with_tangents(nodes: Sequence[Node]) -> list[Node]:
    """These, and the tangents that they have in the level that this thread is in."""
    level = _of_thread.level
    if level is None:
        return list(nodes)
    return [*nodes, *(t for x in nodes if (t := level.tangent(x)) is not None)]


def enter_dual_level() -> int:
    """Begin a level; returns its number, 0.

    Raises
    ------
    GradientError
        In a level: `ng.jvp` nests, levels do not.
    """
    if _of_thread.level is not None:
        raise GradientError(
            "Nested forward mode AD is not supported at the moment: use ng.jvp, which can be nested"
        )
    _of_thread.level = _Level()
    observers.set_tangent_observer(_of_thread.level.observe)
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level: its tangents are gone."""
    if _of_thread.level is None or level not in (None, 0):
        raise GradientError(
            "Trying to exit a forward AD level that was not the last one that was created. This is "
            "not supported."
        )
    _of_thread.level = None
    observers.set_tangent_observer(None)


class dual_level:
    """A block, or as a decorator a function, that is a level.

    Examples
    --------
    >>> from numba_grad.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(ng.tensor(2.0), ng.tensor(1.0))
    ...     value, tangent = forward_ad.unpack_dual(x**3)
    >>> tangent
    tensor(12.)
    """

    __slots__ = ()

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *error: object) -> None:
        exit_dual_level()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def in_level(*args: Any, **kwargs: Any) -> Any:
            with dual_level():
                return function(*args, **kwargs)

        return in_level


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A tensor of the value of `tensor` that has a tangent, of the same shape.

    Raises
    ------
    GradientError
        Outside of a level, or if the shapes differ.
    ValueError
        If one of them holds integers.
    """
    current = _level(level)
    if current is None:
        raise GradientError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    for name, x in (("primal", tensor), ("tangent", tangent)):
        if not is_tensor(x):
            raise TypeError(f"make_dual: {name} must be a Tensor, not {type(x).__name__}")
        if not is_inexact(x._node.dtype):
            raise ValueError(
                f"Expected {name} to be floating point or complex, but got: {x._node.dtype}"
            )
    value, t = tensor._node, tangent._node
    if t.shape != value.shape or (t.dtype.kind == "c" and value.dtype.kind != "c"):
        raise GradientError(
            explain(
                "make_dual",
                "the tangent is not of the type of the tensor",
                got={"tensor": value.type, "tangent": t.type},
                expected=repr(value.type),
            )
        )
    with current.paused():
        dual = OPS["identity"](value)
        current.set_tangent(dual, cast(t, value.dtype))
    return new_tensor(dual)


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` gives."""

    primal: Tensor
    tangent: Tensor | None


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value of a tensor, which has no tangent, and its tangent: None if it has none, and
    outside of a level."""
    current = _level(level)
    if current is None:
        return UnpackedDualTensor(tensor, None)
    t = current.tangent(tensor._node)
    with current.paused():
        value = new_tensor(OPS["identity"](tensor._node))
        # A handle of its own: the tensor that was given to make_dual has one already.
        return UnpackedDualTensor(value, None if t is None else new_tensor(OPS["identity"](t)))


def _level(number: int | None) -> _Level | None:
    """The thread's level, by its number."""
    if number is not None and number < 0:
        return None
    if number not in (None, 0):
        raise GradientError(f"there is no forward AD level {number}: only one can be entered")
    return _of_thread.level
