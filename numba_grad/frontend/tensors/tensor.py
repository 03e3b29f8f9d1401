"""Tensor: a user's handle on a node. Its state, indexing, gradients and device.

A node's value never changes. Assigning into a tensor makes the handle point to a new node, so what
was recorded before keeps the old value; the handles of its views move on with it
(`autograd/views.py`). Operators are in `tensor_operators.py`, NumPy's functions
as methods in `tensor_methods.py`, arrays, numbers and text made of it in `tensor_conversions.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from numba_grad.autograd import graph, hooks, state, tensor_class, views
from numba_grad.autograd.backward import backward as backward_from
from numba_grad.autograd.running import transform_behind
from numba_grad.autograd.tensor_class import new_tensor, recorded_tensor
from numba_grad.compiler.backends import copied_to
from numba_grad.errors import GradientError, explain
from numba_grad.frontend.functions import assignments, elementwise, indexing, reductions, sorting
from numba_grad.frontend.inputs.arrays import (
    ArrayLike,
    as_assigned,
    flush,
    value_of,
)
from numba_grad.frontend.inputs.constants import value_of_constant
from numba_grad.frontend.inputs.devices import device_name, on_device
from numba_grad.frontend.inputs.known_calls import by_types
from numba_grad.frontend.inputs.tracing import current
from numba_grad.frontend.tensors.absent_attributes import AbsentAttributes
from numba_grad.frontend.tensors.conversions import Conversions
from numba_grad.frontend.tensors.masked_selections import MaskedSelection, selected
from numba_grad.frontend.tensors.methods import Methods
from numba_grad.frontend.tensors.operators import Operators
from numba_grad.graph.node import (
    LEAF,
    NO_PARAMS,
    OPS,
    Inferred,
    Node,
    Op,
    inferred_of,
    leaf,
    new_node,
    recorded,
)
from numba_grad.graph.types import CPU, Type
from numba_grad.graph.walk import is_traced
from numba_grad.ops.index_expressions import (
    assign_index,
    basic_expression,
    basic_key,
    normalize_index,
    take,
)

__all__ = ["Tensor"]

T = TypeVar("T")
Index = Any  # int | slice | None | Ellipsis | integer or boolean array or tensor | tuple of these


class Tensor(Operators, Methods, Conversions, AbsentAttributes):
    """An array that records what is done with it. Made by `tensor`, `zeros` and the like.

    Nothing is computed until a value is needed: by `numpy()`, `item()`, `tolist()`, `bool()`,
    printing, or a backward pass. Dtypes, promotion, broadcasting and indexing are NumPy's. Not for
    users to derive from; `PythonNumber` does.
    """

    __slots__ = ("__weakref__", "_node", "_view")

    _node: Node
    _view: (
        views.TensorView | None
    )  # what it shows elements of, if it or others are views of one array

    def __init__(self, node: Node) -> None:
        if node.__class__ is not Node:
            raise TypeError(
                explain("Tensor", "not made by its class", fix="ng.tensor(values, dtype=...)")
            )
        tensor_class.bind(self, node)

    # What is known without computing

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return self._node.type.shape

    @shape.setter
    def shape(self, shape: object) -> None:
        raise AttributeError(
            explain(
                "shape",
                "a tensor keeps its shape",
                got={"x": self._node.type, "shape": shape},
                fix="x = x.reshape(shape)",
            )
        )

    @property
    def dtype(self) -> np.dtype:
        """NumPy's dtype of the elements."""
        return self._node.type.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._node.type.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._node.type.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._node.type.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._node.type.nbytes

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from an element to the next one along each axis: in memory a tensor is in row
        order, also where it is a transposed one or a part of another."""
        return self._of_its_kind().strides

    @property
    def flags(self) -> Any:
        """NumPy's flags of an array in row order that may be written to."""
        return self._of_its_kind().flags

    def _of_its_kind(self) -> np.ndarray:
        return np.empty(self._node.type.shape, self._node.type.dtype)

    # Devices

    @property
    def device(self) -> str:
        """Where it is: "cpu", "cuda:0"."""
        return self._node.type.device

    def to(self, target: object) -> "Tensor":
        """On another device, or in another dtype; the tensor itself if it is so already."""
        if _is_dtype(target):
            return elementwise.astype(self, target, copy=False)
        return self.to_device(target)

    def to_device(self, device: object, /, *, stream: object = None) -> "Tensor":
        """On another device; the tensor itself if it is there. Gradients flow back."""
        node = on_device(self._node, device)
        return self if node is self._node else new_tensor(node)

    def cpu(self) -> "Tensor":
        """In host memory; the tensor itself if it is there."""
        return self.to_device("cpu")

    def cuda(self, device: object = None) -> "Tensor":
        """On a GPU, also by its number, by default the current one; the tensor itself if it is
        there."""
        if device is None:
            device = "cuda"
        elif device.__class__ is int:
            device = f"cuda:{device}"
        return self.to_device(device)

    # Indexing

    def __getitem__(self, index: Index) -> "Tensor":
        """The elements at `index`, which is any that NumPy takes.

        Slices, integers, None and `...` give a view, as in NumPy: what is assigned to it is
        assigned to this tensor, and the other way round. Index arrays and masks give a copy, and
        so do integers alone, which give a number. A mask whose result depends on how many elements
        are true is computed now; one that is traced gives a `MaskedSelection`.
        """
        x = self._node
        kind, type = index.__class__, x.type
        key = index if kind is int else basic_key(index if kind is tuple else (index,))
        if key is not None:  # as in most loops: a third of the time
            parts = _parts.get(type)
            part = None if parts is None else parts.get(key)
            if part is None:
                part = _part(type, key)
            before, op, params, inferred, steps = part
            for own in before:
                x = recorded(own[0], (x,), own[1], own[2])
            result = recorded_tensor(op, (x,), x.requires_grad, params, inferred)
            if steps:
                views.note_view(self, result, steps)
            return result
        return _elements(self, index)

    def __setitem__(self, index: Index, value: ArrayLike) -> None:
        """Assign; differentiable by both. Expressions recorded before keep the old values, views
        of this tensor show the new ones."""
        x = self._node
        if value.__class__ is Tensor and self._is_own_view(index, value):
            return  # the end of `x[index] += y`
        is_selection = isinstance(value, MaskedSelection)
        v = as_assigned(value.elements if is_selection else value, x)
        index = indexing.index_of_nodes(index, x.type.shape)
        if is_selection:
            node = value.assigned_to(x, index)
        else:
            node = assign_index(x, index, v, indexing.mask_value)
        views.assign(self, node, lambda: _movements(index, x))

    def _is_own_view(self, index: Index, value: "Tensor") -> bool:
        """Whether `value` is `self[index]`, a view: there is nothing to assign then."""
        view = value._view
        if view is None or view.parent is None or view.parent is not self._view:
            return False
        index = indexing.index_of_nodes(index, self.shape)
        expression = normalize_index(index, self.shape, indexing.mask_value)
        return expression.advanced is None and views.shows_same(
            value, self, expression.basic.movements
        )

    def fill(self, value: ArrayLike) -> None:
        """Assign `value` to all elements."""
        self[...] = value

    def sort(
        self,
        axis: int = -1,
        kind: str | None = None,
        *,
        stable: bool | None = None,
        descending: bool = False,
    ) -> None:
        """Put the elements in order along `axis`, in this tensor, as NumPy's method: None."""
        self[...] = sorting.sort(self, axis, kind, stable=stable, descending=descending)

    def partition(self, kth: int | Sequence[int], axis: int = -1) -> None:
        """Put the elements `kth` where they belong in order, smaller ones before, in place."""
        self[...] = sorting.partition(self, kth, axis)

    def put(self, indices: ArrayLike, values: ArrayLike, mode: str = "raise") -> None:
        """Assign to the elements with these numbers, in row-major order."""
        assignments.put(self, indices, values, mode)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(
                explain("len", "a 0-d tensor has no length", got={"x": self._node.type})
            )
        return self.shape[0]

    def __iter__(self) -> "Iterator[Tensor]":
        if not self.shape:
            raise TypeError(
                explain(
                    "iteration",
                    "over a 0-d tensor",
                    got={"x": self._node.type},
                    fix="x.item() for its number",
                )
            )
        # One at a time: each row is a view, of which a write to the next one has to know.
        return map(self.__getitem__, range(self.shape[0]))

    def __contains__(self, value: object) -> bool:
        found = elementwise.equal(self, value)
        return bool(reductions.any(found))

    # Gradients: torch's contract, in autograd/

    @property
    def requires_grad(self) -> bool:
        """Whether gradients for it are computed."""
        return self._asked_for("requires_grad", self._node.requires_grad)

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        state.requires_grad_(self, flag)

    def requires_grad_(self, requires_grad: bool = True) -> "Tensor":
        """Set `requires_grad` of a leaf, and return it."""
        return state.requires_grad_(self, requires_grad)

    @property
    def grad(self) -> "Tensor | None":
        """The gradient that backward passes have summed up in it."""
        return self._asked_for("grad", state.get_grad(self))

    @grad.setter
    def grad(self, value: "Tensor | None") -> None:
        if current.trace is not None:
            current.trace.attribute_assigned(self, "grad")
        state.set_grad(self, value)

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def is_leaf(self) -> bool:
        """Whether it was made by the user, or by operations that record no history."""
        return self._asked_for("is_leaf", state.is_leaf(self._node))

    @property
    def grad_fn(self) -> Any:
        """The operation it comes from, as a backward pass sees it; None for a leaf."""
        return graph.grad_fn(self)

    @property
    def output_nr(self) -> int:
        """Which of the results of `grad_fn` it is."""
        return graph.output_nr(self)

    def backward(
        self,
        gradient: "Tensor | None" = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: "Sequence[Tensor] | None" = None,
    ) -> None:
        """Add the gradients of this tensor to the `grad` of the leaves it depends on.

        Parameters
        ----------
        gradient : of what is differentiated by this tensor; not needed if it has one element
        retain_graph : keep what is needed to call this again; by default, `create_graph`
        create_graph : record the computation of the gradients, so that they have gradients
        inputs : the only tensors to give gradients to, leaves or not
        """
        backward_from(self, gradient, retain_graph, create_graph, inputs)

    def retain_grad(self) -> None:
        """Have backward passes set `grad` here, though this is not a leaf."""
        state.retain_grad(self)

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad` was called, and this is not a leaf."""
        return self._asked_for("retains_grad", state.retains_grad(self))

    def _asked_for(self, name: str, found: T) -> T:
        """What was found under this name: where a function is traced, its calls depend on it."""
        if current.trace is not None:
            current.trace.attribute_asked_for(self, name, found)
        return found

    def register_hook(self, hook: Callable[["Tensor"], "Tensor | None"]) -> Any:
        """Have `hook` see the gradient, and replace it if it returns one. Returns a handle."""
        return hooks.register_hook(self, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[["Tensor"], None]) -> Any:
        """Have `hook` called with this leaf after a backward pass added to its `grad`."""
        return hooks.register_post_accumulate_grad_hook(self, hook)

    def detach(self) -> "Tensor":
        """The same values without history: a view, as in torch. What is assigned to one shows in
        the other, whose derivatives stay what they were.
        """
        node = self._node
        value = node.value
        # A jitted function reads what it closes over at each call: there it is an operation.
        if value is not None and current.trace is None:
            # As by `leaf`, which would look for the type.
            node = new_node(LEAF, (), NO_PARAMS, node.type, value, False)
        else:
            node = OPS["detach"](node)
        result = new_tensor(node)
        views.note_view(self, result, views.DETACHING)
        return result

    def detach_(self) -> "Tensor":
        """Cut this tensor itself from its history, and return it.

        Raises
        ------
        GradientError
            If it is a view: the tensor that it shows elements of keeps its history.
        """
        view = self._view
        if view is not None and view.parent is not None and view.steps is not views.DETACHING:
            raise GradientError(
                explain(
                    "detach_",
                    "can't detach views in-place",
                    got={"x": self._node},
                    fix="x = x.detach(), or detach_() on what it is a view of",
                )
            )
        if self._node.requires_grad:
            before = self._node.autograd
            state.rebind(self, OPS["detach"](self._node))
            if before is not None and before.grad is not None:
                # What was recorded before adds nothing to it any more, as in torch.
                state.state_of(self._node).grad, before.grad = before.grad, None
        return self

    # Copies

    def __reduce__(self) -> tuple[Any, ...]:
        # As in torch, history does not travel: the copy is a leaf.
        value = np.array(value_of_constant(self._node, "pickle"))
        return _rebuilt, (value, self._node.requires_grad, self.device)

    def __copy__(self) -> "Tensor":
        if self._is_of_running_function():
            return self.copy()
        value = value_of(self._node, "copy")
        return _rebuilt(value, self._node.requires_grad, self.device)

    def _is_of_running_function(self) -> bool:
        """Whether a function that is traced meets it, or one that is differentiated has made it of
        its arguments: there a copy, as of the state of a simulation, is what it is of an array."""
        if current.trace is not None or is_traced(self._node):
            return True
        return transform_behind(self._node) is not None

    def __deepcopy__(self, memo: dict[int, Any]) -> "Tensor":
        if self._is_of_running_function():
            return self.copy()
        if not self.is_leaf:
            raise GradientError(
                explain(
                    "deepcopy",
                    "only tensors created explicitly by the user (graph leaves) support it",
                    got={"x": self._node},
                    fix="x.detach().copy(), or x.copy() to keep the history",
                )
            )
        result = self.__copy__()
        memo[id(self)] = result
        gradient = state.get_grad(self)
        if gradient is not None:
            state.set_grad(result, gradient.__deepcopy__(memo))
        return result


@by_types(operands=1)
def _elements(tensor: Tensor, index: Index) -> Any:
    """`tensor[index]`, of arrays and other objects."""
    x = tensor._node
    index = indexing.index_of_nodes(index, x.type.shape)
    selection = selected(x, index)
    if selection is not None:
        return selection
    expression = normalize_index(index, x.type.shape, indexing.mask_value)
    result = new_tensor(take(x, expression))
    if expression.advanced is None and (expression.shape or _has_ellipsis(index)):
        views.note_view(tensor, result, expression.basic.movements)
    return result


# What `x[index]` is, for an `x` of one type and an index without arrays: operations before the last
# one, that, its params, what is known of it, and the steps to the view; none to a number.
_Part = tuple[
    Sequence[tuple[Op, dict[str, Any], Inferred]],
    Op,
    dict[str, Any],
    Inferred,
    Sequence[views.Step],
]

_parts: dict[Type, dict[Any, _Part]] = {}
_MOST_TYPES, _MOST_PARTS = 1 << 10, 1 << 12


def _part(type: Type, key: Any) -> _Part:
    """As `_parts` has it from now on, by a number or the `basic_key` of an index."""
    entries = key if key.__class__ is tuple else (key,)
    expression = basic_expression(entries, type.shape)
    operations, result = [], type
    for op, _, params in expression.basic.movements:
        inferred = inferred_of(op, [result], params)
        operations.append((op, params, inferred))
        result = inferred[0]
    *before, (op, params, inferred) = operations
    is_view = bool(expression.shape) or Ellipsis in entries
    part = before, op, params, inferred, expression.basic.movements if is_view else ()
    if len(_parts) >= _MOST_TYPES:
        _parts.clear()
    parts = _parts.setdefault(type, {})
    if len(parts) >= _MOST_PARTS:
        parts.clear()
    parts[key] = part
    return part


def _has_ellipsis(index: Index) -> bool:
    return index is Ellipsis or (
        index.__class__ is tuple and any(entry is Ellipsis for entry in index)
    )


def _movements(index: Index, x: Node) -> Sequence[views.Step] | None:
    """The steps from `x` to its elements at `index`; None where that may be no view."""
    parts = index if index.__class__ is tuple else (index,)
    if any(part.__class__ not in _BASIC for part in parts):
        return None
    return normalize_index(index, x.type.shape, indexing.mask_value).basic.movements


_BASIC = (int, slice, type(None), type(...))


def _is_dtype(target: object) -> bool:
    """Whether `to` is asked for a dtype, not for a device."""
    if not isinstance(target, str):
        return isinstance(target, type | np.dtype)
    try:
        np.dtype(target)
    except TypeError:
        return False
    return True


def _rebuilt(value: np.ndarray, requires_grad: bool, device: str = CPU) -> Tensor:
    """A leaf that holds `value`, which nobody else writes to."""
    result = new_tensor(leaf(copied_to(np.asarray(value, order="C"), device_name(device))))
    return result.requires_grad_() if requires_grad else result


tensor_class.register(Tensor, flush)
