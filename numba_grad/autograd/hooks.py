"""Hooks: users' functions that a backward pass calls with gradients, which they may replace."""

import itertools
import weakref
from collections.abc import Callable, Container, Sequence
from typing import Any, Self

from numba_grad.autograd import anomaly
from numba_grad.autograd.state import dict_of, is_leaf, state_of
from numba_grad.autograd.tensor_class import is_tensor, tensor_of
from numba_grad.errors import GradientError, called, explain
from numba_grad.graph import traced_bodies
from numba_grad.graph.node import Node
from numba_grad.ops.control import custom
from numba_grad.transforms.vjp import Cotangent, contributions

Hook = Callable[[Any], Any]

_numbers = itertools.count()


class RemovableHandle:
    """What registering a hook returns; `remove()` takes the hook away. Also a context manager."""

    __slots__ = ("_hooks", "id")

    def __init__(self, hooks: dict[int, Any], hook: Any) -> None:
        self._hooks = hooks
        self.id = next(_numbers)
        hooks[self.id] = hook

    @property
    def is_registered(self) -> bool:
        return self.id in self._hooks

    def is_one_of(self, hooks: dict[int, Any]) -> bool:
        return self._hooks is hooks

    def remove(self) -> None:
        """Take the hook away; again does nothing."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def register_hook(tensor: Any, hook: Hook) -> RemovableHandle:
    """`tensor.register_hook(hook)`.

    `hook(grad)` is called with the summed gradient of the tensor, once per backward pass, and may
    return another one of the same shape and dtype. Hooks run in order of registration.
    """
    node = tensor._node
    _check_hook(node, hook)
    handle = RemovableHandle(dict_of(node, "hooks"), hook)
    traced_bodies.note_hook(node, handle)
    return handle


def register_post_accumulate_grad_hook(tensor: Any, hook: Hook) -> RemovableHandle:
    """`hook(tensor)` is called after a backward pass has set `.grad` of this leaf.

    As all hooks it runs without recording, unless the pass has `create_graph=True`: it may change
    the leaf, `tensor -= rate * tensor.grad`.
    """
    node = tensor._node
    _check_hook(node, hook)
    if not is_leaf(node):
        raise GradientError(
            "register_post_accumulate_grad_hook: post accumulate grad hooks cannot be registered "
            "on non-leaf tensors"
        )
    state_of(node).owner = weakref.ref(tensor)
    return RemovableHandle(dict_of(node, "post_accumulate_hooks"), hook)


def _check_hook(node: Node, hook: object) -> None:
    if not callable(hook):
        raise TypeError(explain("register_hook", "not a function", got={"hook": repr(hook)}))
    if not node.requires_grad:
        raise GradientError(
            "register_hook: cannot register a hook on a tensor that doesn't require gradient"
        )


def through_tensor_hooks(hooks: dict[int, Hook] | None, g: Node) -> Node:
    """What the hooks of a tensor make of its gradient."""
    if hooks:
        traced_bodies.note_hooks_run(hooks)
    for hook in tuple((hooks or {}).values()):
        tensor = tensor_of(g)
        replacement = called("a backward pass", hook, tensor)
        # What a hook writes to its argument counts, as in torch, though it is asked not to.
        g = tensor._node if replacement is None else _checked(hook, replacement, g)
    return g


def through_prehooks(hooks: dict[int, Hook] | None, g: Cotangent) -> Cotangent:
    """What the prehooks of an operation make of the gradients of its results."""
    is_list = g.__class__ is list
    result = list(g) if is_list else [g]
    for hook in tuple((hooks or {}).values()):
        replacement = hook(_tensors(result))
        if replacement is not None:
            result = _checked_all(hook, replacement, result)
    return result if is_list else result[0]


def through_posthooks(
    hooks: dict[int, Callable[..., Any]] | None,
    pulled: Sequence[Node | None],
    cotangents: Sequence[Node | None],
) -> list[Node | None]:
    """What the hooks of an operation make of the gradients of its inputs."""
    result = list(pulled)
    for hook in tuple((hooks or {}).values()):
        replacement = hook(_tensors(result), _tensors(cotangents))
        if replacement is not None:
            result = _checked_all(hook, replacement, result)
    return result


def hooked_contributions(
    node: Node, g: Cotangent, inside: Container[Node], checks: anomaly.Checks
) -> Sequence[Cotangent]:
    """As `contributions`, with the hooks of the operation itself. In anomaly mode `checks` gets
    what the rule gave."""
    state = node.autograd
    if state.node_prehooks:
        g = through_prehooks(state.node_prehooks, g)
    with anomaly.differentiating(node):
        pulled: Sequence[Cotangent] = contributions(node, g, inside)
    if anomaly.is_enabled():
        checks.append((node, pulled))
    if state.node_hooks:
        outgoing = g if g.__class__ is list else [g]
        # Of a user's Function, the inputs that gradients go to come first.
        count = node.params["context"].tensor_count if node.op is custom else len(pulled)
        pulled = through_posthooks(state.node_hooks, pulled[:count], outgoing)
    return pulled


def run_post_accumulate_hooks(hooks: dict[int, Hook], leaf: Any) -> None:
    """Call the hooks of a leaf whose `.grad` is set: nothing is theirs to replace."""
    for hook in tuple(hooks.values()):
        if hook(leaf) is not None:
            name = getattr(hook, "__name__", repr(hook))
            raise GradientError(
                f"hook {name!r}: Tensor post accumulate grad hooks should return None."
            )


def _tensors(nodes: Sequence[Node | None]) -> tuple[Any, ...]:
    return tuple([None if g is None else tensor_of(g) for g in nodes])


def _checked(hook: Callable[..., Any], replacement: Any, g: Node) -> Node:
    """The node of what a hook returned, which must have the type of what it got."""
    name = getattr(hook, "__name__", repr(hook))
    if not is_tensor(replacement):
        raise TypeError(
            f"hook {name!r}: expected a Tensor or None, but the hook returned "
            f"{type(replacement).__name__!r}"
        )
    node = replacement._node
    if node.shape != g.shape:
        raise GradientError(
            explain(
                f"hook {name!r}",
                "the hook has changed the size of value",
                got={"gradient": g.type, "returned": node.type},
            )
        )
    if node.dtype != g.dtype:
        raise GradientError(
            explain(
                f"hook {name!r}",
                "the hook has changed the type of value",
                got={"gradient": g.type, "returned": node.type},
            )
        )
    return node


def _checked_all(
    hook: Callable[..., Any], replacement: Any, previous: Sequence[Node | None]
) -> list[Node | None]:
    values = replacement if isinstance(replacement, tuple | list) else (replacement,)
    name = getattr(hook, "__name__", repr(hook))
    if len(values) != len(previous):
        raise GradientError(
            explain(
                f"hook {name!r}",
                "the hook has returned an incorrect number of values",
                got={"returned": len(values)},
                expected=str(len(previous)),
            )
        )
    return [
        None if value is None else value._node if g is None else _checked(hook, value, g)
        for value, g in zip(values, previous, strict=True)
    ]
