"""What gradients keep per tensor: `.grad`, retention, hooks. It is on the node, made when first
needed.

Functions here are the bodies of Tensor's methods, with torch's conditions.
"""

import warnings
import weakref
from typing import Any

from numba_grad.autograd.tensor_class import is_tensor
from numba_grad.dtypes import is_inexact
from numba_grad.errors import GradientError, explain
from numba_grad.graph import traced_bodies
from numba_grad.graph.node import OPS, Node, leaf, record
from numba_grad.locks import new_lock
from numba_grad.ops.control import custom_node, item

# Guards every `.grad` that a backward pass adds to: two threads may share leaves.
accumulation_lock = new_lock()
_creation_lock = new_lock()


class GradientState:
    """What is per tensor. Versions of a leaf that was assigned into share one, as do those of any
    tensor that was assigned into outside of recording."""

    __slots__ = (
        "grad",
        "hooks",
        "is_frozen",
        "metadata",
        "node_hooks",
        "node_prehooks",
        "owner",
        "post_accumulate_hooks",
        "retains_grad",
        "tangent",
        "trace",
        "view",
    )

    grad: Any  # Tensor or None
    retains_grad: bool
    is_frozen: bool  # a leaf that required grad, and does not now
    hooks: dict[int, Any] | None  # of the tensor
    post_accumulate_hooks: dict[int, Any] | None  # of the leaf
    node_hooks: dict[int, Any] | None  # of the operation, after its derivative
    node_prehooks: dict[int, Any] | None  # of the operation, before its derivative
    owner: weakref.ref[Any] | None  # the leaf's tensor, for post_accumulate_hooks
    metadata: dict[Any, Any] | None  # the user's, on the operation
    view: weakref.ref[Any] | None  # what `grad_fn` gave, while somebody holds it
    tangent: tuple[Any, Any] | None  # a level of dual numbers, and the node's tangent in it
    trace: Any  # anomaly mode: where the operation was recorded

    def __init__(self) -> None:
        self.grad = None
        self.retains_grad = False
        self.is_frozen = False
        self.hooks = None
        self.post_accumulate_hooks = None
        self.node_hooks = None
        self.node_prehooks = None
        self.owner = None
        self.metadata = None
        self.view = None
        self.tangent = None
        self.trace = None


def state_of(node: Node) -> GradientState:
    """The record of `node`, made if there is none."""
    state = node.autograd
    if state is None:
        with _creation_lock:
            state = node.autograd
            if state is None:
                state = node.autograd = GradientState()
    return state


def dict_of(node: Node, field: str) -> dict[Any, Any]:
    """The hooks of one kind, or the metadata, to add to: made if there are none yet."""
    state = state_of(node)
    with _creation_lock:
        found: dict[Any, Any] | None = getattr(state, field)
        if found is None:
            found = {}
            setattr(state, field, found)
        return found


def is_leaf(node: Node) -> bool:
    """Whether gradients end here: nothing below, or an operation that lets none through."""
    return not node.requires_grad or node.op.vjp is None


def get_grad(tensor: Any) -> Any:
    """`tensor.grad`."""
    node = tensor._node
    state = node.autograd
    grad = None if state is None else state.grad
    if grad is None and not is_leaf(node) and (state is None or not state.retains_grad):
        warnings.warn(
            "the .grad of a tensor that is not a leaf is read, and backward() does not set it; "
            "call .retain_grad() on the tensor before backward(), or read the .grad of a leaf",
            UserWarning,
            stacklevel=3,
        )
    return grad


def set_grad(tensor: Any, value: Any) -> None:
    """`tensor.grad = value`."""
    node = tensor._node
    if value is None:
        if node.autograd is not None:
            node.autograd.grad = None
        return
    if not is_tensor(value):
        raise TypeError(
            explain(
                "grad",
                "assigned grad expected to be a Tensor or None but got grad of type "
                f"{type(value).__name__}",
                fix="x.grad = ng.tensor(value, dtype=x.dtype)",
            )
        )
    if value is tensor:
        raise GradientError("grad: can't assign a tensor as its own grad")
    if value._node.type != node.type:
        raise GradientError(
            explain(
                "grad",
                "a gradient has the shape and dtype of its tensor",
                got={"tensor": node.type, "grad": value._node.type},
                expected=repr(node.type),
            )
        )
    state_of(node).grad = value


def requires_grad_(tensor: Any, flag: bool = True) -> Any:
    """`tensor.requires_grad_(flag)`, and the setter of `tensor.requires_grad`."""
    node = tensor._node
    flag = bool(flag)
    if not is_leaf(node):
        if not flag:
            raise GradientError(
                explain(
                    "requires_grad",
                    "you can only change requires_grad flags of leaf variables",
                    got={"tensor": node},
                    fix="x.detach() for the same values without history",
                )
            )
        return tensor
    if flag and not is_inexact(node.dtype):
        raise GradientError(
            explain(
                "requires_grad",
                "only Tensors of floating point and complex dtype can require gradients",
                got={"tensor": node.type},
                fix="x.astype(numpy.float64)",
            )
        )
    if flag == node.requires_grad:
        return tensor
    # What was recorded before goes on from the former node, which requires grad as it did then, and
    # from what that was computed from.
    own = OPS["detach"](node) if node.value is None else leaf(node.value)
    own.requires_grad = flag
    if node.requires_grad or node.autograd is not None:
        own.autograd = state_of(node)
        own.autograd.is_frozen = not flag
        _show(own)
    rebind(tensor, own)
    return tensor


def _show(node: Node) -> None:
    """Let what `grad_fn` gave of a leaf be of this version."""
    state = node.autograd
    view = None if state is None or state.view is None else state.view()
    if view is not None:
        view._node = node


def rebind(tensor: Any, node: Node) -> None:
    """Make `tensor` a handle of `node` instead of its present one."""
    tensor._node.handle = None
    tensor._node = node
    node.handle = weakref.ref(tensor)


def replace(tensor: Any, node: Node, *, keeps_history: bool = False) -> None:
    """Make `tensor` a handle of `node`, its new value: assignment in place. Under torch's
    conditions: see `successor`."""
    move_on(tensor, successor(tensor, node, keeps_history))


def successor(tensor: Any, node: Node, keeps_history: bool) -> Node:
    """The node that `tensor` becomes a handle of when it is given the value of `node`.

    A leaf that requires grad stays one. What else has history keeps it where `keeps_history`, as
    torch has it outside of recording: the derivative is that of the old value.

    Raises
    ------
    GradientError
        If the tensor is a leaf that requires grad, and history is recorded.
    """
    old = tensor._node
    if not old.requires_grad:
        return node
    if old.op.vjp is None:
        if node.requires_grad:
            raise GradientError(
                explain(
                    "in-place assignment",
                    "a leaf Variable that requires grad is being used in an in-place operation",
                    got={"tensor": old},
                    fix="with ng.no_grad(): ..., or a new tensor for the result",
                )
            )
        if node.op.vjp is not None or node.handle is not None or node.autograd is not None:
            node = OPS["detach"](node)
        node.requires_grad = True
        node.autograd = state_of(old)
        return node
    if keeps_history and not node.requires_grad:
        return revalued(old, node)
    return node


def move_on(tensor: Any, node: Node) -> None:
    """Make `tensor` a handle of its `successor`.

    A leaf keeps `.grad`, hooks and `requires_grad`. Any other tensor keeps retention; its hooks
    stay with the old value.
    """
    old = tensor._node
    if node.handle is not None:
        node = OPS["identity"](node)  # a node knows one tensor, and whether that is still there
    if traced_bodies.current.body is not None:
        traced_bodies.check_assigned_inside(old)
    if traced_bodies.current.compiled is not None:
        traced_bodies.note_assigned(tensor, old)
    state = old.autograd
    if old.requires_grad and old.op.vjp is None:
        _show(node)
    elif (
        state is not None
        and state is not node.autograd
        and (state.retains_grad or state.grad is not None)
    ):
        own = state_of(node)
        own.grad, own.retains_grad = state.grad, state.retains_grad
        state.grad, state.retains_grad = None, False
    rebind(tensor, node)


class _History:
    """The context of a node whose value was replaced: gradients go where they went before."""

    name = "Revalued"
    tensor_count = 1
    has_tangent = True

    @staticmethod
    def pullback(cotangents: list[Node | None], out: Node) -> list[Node | None]:
        return cotangents

    @staticmethod
    def push_forward(tangents: list[Node | None], out: Node) -> list[Node | None]:
        return tangents

    @staticmethod
    def release() -> None:
        """Nothing is kept."""


_history = _History()


def revalued(old: Node, value: Node) -> Node:
    """The value of `value` with the history of `old`, and what gradients keep of that."""
    if is_revalued(old):
        old = old.inputs[0].inputs[0]  # however often it is replaced
    node = record(item, (custom_node(_history, [old], [value]),), {"number": 0})
    node.requires_grad = True
    node.autograd = state_of(old)
    return node


def is_revalued(node: Node) -> bool:
    """Whether this stands for another node, to which its gradient goes as it is."""
    return (
        node.op is item and bool(node.inputs) and node.inputs[0].params.get("context") is _history
    )


def retain_grad(tensor: Any) -> None:
    """`tensor.retain_grad()`: backward() will set `.grad`, though this is not a leaf."""
    node = tensor._node
    if not node.requires_grad:
        raise GradientError("retain_grad: can't retain_grad on Tensor that has requires_grad=False")
    if not is_leaf(node):
        state_of(node).retains_grad = True


def retains_grad(tensor: Any) -> bool:
    """`tensor.retains_grad`: False for leaves, which need not ask."""
    state = tensor._node.autograd
    return state is not None and state.retains_grad
