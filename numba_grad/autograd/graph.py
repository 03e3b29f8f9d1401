"""The recorded graph as torch shows it: `grad_fn`, its links, its hooks, and `GradientEdge`."""

import weakref
from collections.abc import Callable
from typing import Any

from numba_grad.autograd.hooks import RemovableHandle
from numba_grad.autograd.state import dict_of, is_leaf, is_revalued, state_of
from numba_grad.autograd.tensor_class import tensor_of
from numba_grad.errors import GradientError
from numba_grad.graph.node import Node, record
from numba_grad.immutable import NamedTuple
from numba_grad.ops.control import custom, item, several_results


class GradFn:
    """One operation, seen from the backward pass. The same object as long as somebody holds it.

    Of a leaf it is named AccumulateGrad: what adds to `.grad`. Of a user's Function, attributes are
    those of its `ctx`.
    """

    __slots__ = ("__weakref__", "_node")

    def __init__(self, node: Node) -> None:
        self._node = node

    def name(self) -> str:
        """The operation's name in CamelCase, with "Backward" after it."""
        node = self._node
        if node.op.vjp is None:
            return "AccumulateGrad"
        if node.op is custom:
            return node.params["context"].name
        words = node.op.name.split("_")
        return "".join(word[:1].upper() + word[1:] for word in words) + "Backward"

    @property
    def next_functions(self) -> tuple[tuple["GradFn | None", int], ...]:
        """For each input, the function that its gradient goes to and which of its results the input
        is.

        (None, 0) for an input that needs no gradient. Empty for a leaf, and after a backward pass
        freed the links.
        """
        node = self._node
        if node.op.vjp is None:
            return ()
        inputs = node.inputs
        if node.op is custom:
            inputs = inputs[: node.params["context"].tensor_count]
        return tuple([(_function(x), _output_number(x)) for x in inputs])

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict of the user's own."""
        return dict_of(self._node, "metadata")

    @property
    def variable(self) -> Any:
        """The leaf, of AccumulateGrad."""
        if self._node.op.vjp is not None:
            raise AttributeError("variable")  # reported by __getattr__
        return tensor_of(self._node)

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(grad_inputs, grad_outputs)`, tuples, is called after the derivative of this
        operation.

        It may return a tuple that takes the place of `grad_inputs`.
        """
        return RemovableHandle(dict_of(self._node, "node_hooks"), hook)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(grad_outputs)`, a tuple, is called before the derivative of this operation.

        It may return a tuple that takes its place.
        """
        return RemovableHandle(dict_of(self._node, "node_prehooks"), hook)

    def __getattr__(self, name: str) -> Any:
        # Only called for names that are not found here.
        node = object.__getattribute__(self, "_node")
        if node.op is custom:
            return getattr(node.params["context"].context, name)
        raise AttributeError(f"{type(self).__name__} of {node.op.name} has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<{self.name()}>"


class GradientEdge(NamedTuple):
    """Where a gradient flows: what autograd.grad and backward take in place of a tensor."""

    node: GradFn
    output_nr: int
    ownership_token: Any = None  # keeps the edge's own value alive


def grad_fn(tensor: Any) -> GradFn | None:
    """`tensor.grad_fn`: None for a leaf."""
    node = tensor._node
    return None if is_leaf(node) else _function(node)


def output_nr(tensor: Any) -> int:
    """Which result of `tensor.grad_fn` it is."""
    return _output_number(tensor._node)


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """The edge that the gradient of `tensor` flows along; `autograd.grad` takes it in place of the
    tensor.

    It does not keep the tensor's value, and outlives in-place assignment to the tensor.
    """
    node = tensor._node
    if not node.requires_grad:
        raise GradientError(
            "get_gradient_edge: It is not possible to get the gradient edge for a Tensor that "
            "does not require gradients"
        )
    return GradientEdge(_function(node), _output_number(node), node)  # type: ignore[arg-type]


def node_of_edge(edge: GradientEdge) -> Node:
    """The node whose cotangent flows along `edge`."""
    if isinstance(edge.ownership_token, Node):
        return edge.ownership_token
    node = edge.node._node
    if several_results(node):
        return record(item, (node,), {"number": edge.output_nr})
    return node


def _function(x: Node) -> GradFn | None:
    if not x.requires_grad:
        return None
    x = _with_own_history(x)
    node = x.inputs[0] if x.op is item and x.inputs else x
    state = state_of(node)
    view = None if state.view is None else state.view()
    if view is None:
        view = GradFn(node)
        state.view = weakref.ref(view)
    return view


def _output_number(x: Node) -> int:
    x = _with_own_history(x)
    return x.params["number"] if x.op is item else 0


def _with_own_history(x: Node) -> Node:
    """`x`, or what it has the history of: where only the value was replaced."""
    return x.inputs[0].inputs[0] if is_revalued(x) else x
