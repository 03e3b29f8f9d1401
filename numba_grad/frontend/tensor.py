"""Tensor: a user's handle on a node. Operators, indexing, conversion, printing, gradients.

A node's value never changes. Assigning into a tensor makes the handle point to a new node, so what
was recorded before keeps the old value. Methods are the functions of the same names.
"""

import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from numba_grad.autograd import graph, handles, hooks, state
from numba_grad.autograd.backward import backward as backward_from
from numba_grad.errors import DTypeError, GradientError, ShapeError, explain
from numba_grad.frontend import (
    array_api,
    assignment_functions,
    choice_functions,
    contraction_functions,
    elementwise_functions,
    index_functions,
    interchange,
    protocols,
    reduction_functions,
    scan_functions,
    shape_functions,
    sorting_functions,
)
from numba_grad.frontend.arrays import (
    FLUSH_EVERY,
    ArrayLike,
    as_node,
    dtypes_uncast_by_scalar,
    flush,
    is_scalar,
    is_traced,
    operands,
    scalar_leaf,
    uncast_dtypes,
    value_of,
)
from numba_grad.frontend.creation import Shape, check_device
from numba_grad.frontend.reduction_functions import Axis
from numba_grad.graph.node import OPS, Node, leaf, record
from numba_grad.ops.families import cast
from numba_grad.ops.index_expressions import assign_index, take_index

Operator = Callable[["Tensor", Any], "Tensor"]
Index = Any  # int | slice | None | Ellipsis | integer or boolean array or tensor | tuple of these

_SUPPORTED_OPERANDS = (np.ndarray, np.generic, list, tuple)
_DEFAULT_PRINTED = frozenset(map(np.dtype, (bool, np.int64, np.float64, np.complex128)))


def _binary(ufunc: np.ufunc) -> Operator:
    """The method for an operator: `x + other`."""
    op = OPS[ufunc.__name__]
    prepare = _operands_of(ufunc)
    uncast, uncast_by_scalar = uncast_dtypes(ufunc), dtypes_uncast_by_scalar(ufunc)

    # The two paths before the last line are for speed alone: 1.1 and 1.5 us instead of 3.5.
    def operate(self: "Tensor", other: Any) -> "Tensor":
        kind = other.__class__
        if kind is Tensor:
            x, y = self._node, other._node
            dtype = x.type.dtype
            if dtype is y.type.dtype and dtype in uncast:
                return Tensor(record(op, (x, y)))
        elif kind is float or kind is int:
            x = self._node
            dtype = x.type.dtype
            if (dtype, kind) in uncast_by_scalar:
                try:
                    return Tensor(record(op, (x, scalar_leaf(other, dtype))))
                except OverflowError:
                    pass
        elif not _is_operand(other):
            return NotImplemented
        return Tensor(record(op, prepare(ufunc, (self, other))))

    return operate


def _reflected(ufunc: np.ufunc) -> Operator:
    """The method for an operator with the tensor on the right: `other + x`."""
    op = OPS[ufunc.__name__]
    uncast_by_scalar = dtypes_uncast_by_scalar(ufunc)

    def operate(self: "Tensor", other: Any) -> "Tensor":
        kind = other.__class__
        if kind is float or kind is int:
            x = self._node
            dtype = x.type.dtype
            if (dtype, kind) in uncast_by_scalar:
                return Tensor(record(op, (scalar_leaf(other, dtype), x)))
        elif not _is_operand(other):
            return NotImplemented
        return Tensor(record(op, operands(ufunc, (other, self))))

    return operate


def _in_place(ufunc: np.ufunc) -> Operator:
    """The method for an assignment: `x += other`. The handle moves on to a new node."""
    op = OPS[ufunc.__name__]

    def operate(self: "Tensor", other: Any) -> "Tensor":
        if other.__class__ is not Tensor and not _is_operand(other):
            return NotImplemented
        _replace(self, record(op, operands(ufunc, (self, other))), ufunc.__name__)
        return self

    return operate


def _unary(ufunc: np.ufunc) -> Callable[["Tensor"], "Tensor"]:
    op = OPS[ufunc.__name__]
    uncast = uncast_dtypes(ufunc)

    def operate(self: "Tensor") -> "Tensor":
        x = self._node
        if x.type.dtype in uncast:
            return Tensor(record(op, (x,)))
        return Tensor(record(op, operands(ufunc, (self,))))

    return operate


def _operands_of(ufunc: np.ufunc) -> Callable[..., tuple[Node, ...]]:
    if ufunc in (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal):
        return elementwise_functions.comparison_operands
    return operands


def _is_operand(value: object) -> bool:
    return value.__class__ is Tensor or is_scalar(value) or isinstance(value, _SUPPORTED_OPERANDS)


def _replace(tensor: "Tensor", new: Node, operation: str) -> None:
    """Give `tensor` the value `new`, which keeps its shape and dtype, as in NumPy."""
    old = tensor._node
    if new.shape != old.shape:
        raise ShapeError(
            explain(
                operation,
                "the result does not fit into the tensor assigned to",
                got={"tensor": old.type, "result": new.type},
                expected=f"operands that broadcast to {old.shape}",
                fix="x = x + y, a new tensor",
            )
        )
    if not np.can_cast(new.dtype, old.dtype, "same_kind"):
        raise DTypeError(
            explain(
                operation,
                f"cannot assign {new.dtype} to a tensor of {old.dtype}",
                got={"tensor": old.type, "result": new.type},
                fix=f"x = x.astype({new.dtype.name!r}) first",
            )
        )
    state.replace(tensor, cast(new, old.dtype))


class Tensor:
    """An array that records what is done with it. Made by `tensor`, `zeros` and the like.

    Nothing is computed until a value is needed: by `numpy()`, `item()`, `tolist()`, `bool()`,
    printing, or a backward pass. Dtypes, promotion, broadcasting and indexing are NumPy's.
    """

    __slots__ = ("__weakref__", "_node")

    # NumPy's scalars and arrays leave operators to us through __array_ufunc__.
    _node: Node

    def __init__(self, node: Node) -> None:
        if node.__class__ is not Node:
            raise TypeError(
                explain("Tensor", "not made by its class", fix="ng.tensor(values, dtype=...)")
            )
        self._node = node
        node.handle = weakref.ref(self)
        if not node.serial % FLUSH_EVERY:
            flush(node)

    # What is known without computing

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return self._node.type.shape

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
    def device(self) -> str:
        """Where it is computed: "cpu"."""
        return "cpu"

    # Operators

    __add__ = _binary(np.add)
    __sub__ = _binary(np.subtract)
    __mul__ = _binary(np.multiply)
    __truediv__ = _binary(np.divide)
    __floordiv__ = _binary(np.floor_divide)
    __mod__ = _binary(np.remainder)
    __and__ = _binary(np.bitwise_and)
    __or__ = _binary(np.bitwise_or)
    __xor__ = _binary(np.bitwise_xor)
    __lshift__ = _binary(np.left_shift)
    __rshift__ = _binary(np.right_shift)
    __lt__ = _binary(np.less)
    __le__ = _binary(np.less_equal)
    __gt__ = _binary(np.greater)
    __ge__ = _binary(np.greater_equal)
    __eq__ = _binary(np.equal)  # type: ignore[assignment]
    __ne__ = _binary(np.not_equal)  # type: ignore[assignment]

    __radd__ = _reflected(np.add)
    __rsub__ = _reflected(np.subtract)
    __rmul__ = _reflected(np.multiply)
    __rtruediv__ = _reflected(np.divide)
    __rfloordiv__ = _reflected(np.floor_divide)
    __rmod__ = _reflected(np.remainder)
    __rand__ = _reflected(np.bitwise_and)
    __ror__ = _reflected(np.bitwise_or)
    __rxor__ = _reflected(np.bitwise_xor)
    __rlshift__ = _reflected(np.left_shift)
    __rrshift__ = _reflected(np.right_shift)

    __iadd__ = _in_place(np.add)
    __isub__ = _in_place(np.subtract)
    __imul__ = _in_place(np.multiply)
    __itruediv__ = _in_place(np.divide)
    __ifloordiv__ = _in_place(np.floor_divide)
    __imod__ = _in_place(np.remainder)
    __iand__ = _in_place(np.bitwise_and)
    __ior__ = _in_place(np.bitwise_or)
    __ixor__ = _in_place(np.bitwise_xor)
    __ilshift__ = _in_place(np.left_shift)
    __irshift__ = _in_place(np.right_shift)

    __neg__ = _unary(np.negative)
    __pos__ = _unary(np.positive)
    __abs__ = _unary(np.absolute)
    __invert__ = _unary(np.invert)

    # Equality is element by element, so tensors are told apart by identity, as in torch.
    __hash__ = object.__hash__

    def __pow__(self, exponent: Any) -> "Tensor":
        if not _is_operand(exponent):
            return NotImplemented
        return Tensor(elementwise_functions.power_node(self, exponent))

    def __rpow__(self, base: Any) -> "Tensor":
        if not _is_operand(base):
            return NotImplemented
        return Tensor(elementwise_functions.power_node(base, self))

    def __ipow__(self, exponent: Any) -> "Tensor":
        if not _is_operand(exponent):
            return NotImplemented
        _replace(self, elementwise_functions.power_node(self, exponent), "power")
        return self

    def __matmul__(self, other: Any) -> "Tensor":
        return contraction_functions.matmul(self, other) if _is_operand(other) else NotImplemented

    def __rmatmul__(self, other: Any) -> "Tensor":
        return contraction_functions.matmul(other, self) if _is_operand(other) else NotImplemented

    def __imatmul__(self, other: Any) -> "Tensor":
        if not _is_operand(other):
            return NotImplemented
        _replace(self, contraction_functions.matmul(self, other)._node, "matmul")
        return self

    def __divmod__(self, other: Any) -> "tuple[Tensor, Tensor]":
        return elementwise_functions.divmod(self, other) if _is_operand(other) else NotImplemented

    def __rdivmod__(self, other: Any) -> "tuple[Tensor, Tensor]":
        return elementwise_functions.divmod(other, self) if _is_operand(other) else NotImplemented

    # Indexing

    def __getitem__(self, index: Index) -> "Tensor":
        """The elements at `index`, which is any that NumPy takes.

        A mask whose result depends on how many elements are true is computed now.
        """
        index = index_functions.index_of_nodes(index)
        return Tensor(take_index(self._node, index, index_functions.mask_value))

    def __setitem__(self, index: Index, value: ArrayLike) -> None:
        """Assign; differentiable by both. Expressions recorded before keep the old values."""
        x = self._node
        v = as_node(value, like=x) if is_scalar(value) else as_node(value)
        if v.dtype.kind == "c" and x.dtype.kind != "c":
            raise DTypeError(
                explain(
                    "assignment",
                    "complex values into a real tensor would lose their imaginary parts",
                    got={"x": x.type, "v": v.type},
                    fix="x[index] = v.real",
                )
            )
        index = index_functions.index_of_nodes(index)
        state.replace(self, assign_index(x, index, v, index_functions.mask_value))

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
        return iter([self[k] for k in range(self.shape[0])])

    def __contains__(self, value: object) -> bool:
        found = elementwise_functions.equal(self, value)
        return bool(reduction_functions.any(found))

    # Values: what computes

    def numpy(self) -> np.ndarray:
        """The values as a NumPy array, computed now if they are not yet.

        The array is read-only, since it shares memory with the tensor, whose value never changes;
        `numpy().copy()` or `numpy.array(x)` may be written to.

        Raises
        ------
        GradientError
            If the tensor requires grad: what NumPy does with it would have no gradient.
        TracingError
            While a function is being traced.
        """
        return _read_only(_value_without_gradient(self, "numpy", _DETACHED))

    def item(self, *index: int) -> Any:
        """The only element, or the one at `index`, as a Python number. Computes it now."""
        if index:
            return self[index[0] if len(index) == 1 and self.ndim == 1 else index].item()
        if self.size != 1:
            raise ValueError(
                explain(
                    "item",
                    "not one element",
                    got={"x": self._node.type},
                    expected="a tensor of one element",
                    fix="x.tolist() for all of them",
                )
            )
        return value_of(self._node, "item").item()

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers; of a 0-d tensor, the number."""
        return value_of(self._node, "tolist").tolist()

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(
                explain(
                    "bool",
                    "the truth value of a tensor that has not exactly one element is ambiguous",
                    got={"x": self._node.type},
                    fix="x.any() or x.all(), or x.size > 0",
                )
            )
        return bool(value_of(self._node, "bool").item())

    def __float__(self) -> float:
        return float(_only_element(self, "float"))

    def __int__(self) -> int:
        return int(_only_element(self, "int"))

    def __complex__(self) -> complex:
        return complex(_only_element(self, "complex"))

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.shape:
            raise TypeError(
                explain(
                    "index",
                    "only a 0-d integer tensor can be an index",
                    got={"x": self._node.type},
                    fix="int(x)",
                )
            )
        return int(value_of(self._node, "index").item())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        value = _value_without_gradient(self, "numpy.asarray", f"{_DETACHED}{_STACKED}")
        if dtype is not None and np.dtype(dtype) != value.dtype:
            if copy is False:
                raise ValueError(
                    explain("numpy.asarray", f"a copy is needed to convert to {dtype}")
                )
            return value.astype(dtype)
        return value.copy() if copy else _read_only(value)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return protocols.call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        return protocols.call_function(function, args, kwargs)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return array_api.namespace(api_version)

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Its memory for another library: `torch.from_dlpack(x)`, `numpy.from_dlpack(x)`.

        It is read-only, since the value of a tensor never changes. PyTorch has no such tensors:
        do not write to what it makes of this, or copy it.
        """
        return interchange.to_dlpack(self, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return interchange.CPU

    def __repr__(self) -> str:
        node = self._node
        if is_traced(node):
            facts = ["<traced>", f"shape={node.shape}", f"dtype={node.dtype}"]
            return f"tensor({', '.join(facts + _gradient_fact(node))})"
        return _printed(value_of(node, "repr"), _gradient_fact(node))

    def __format__(self, specification: str) -> str:
        if not specification or self.shape:
            return format(str(self), specification)
        return format(self.item(), specification)

    # Copies

    def __reduce__(self) -> tuple[Any, ...]:
        # As in torch, history does not travel: the copy is a leaf.
        value = np.array(value_of(self._node, "pickle"))
        return _rebuilt, (value, self._node.requires_grad)

    def __copy__(self) -> "Tensor":
        return _rebuilt(value_of(self._node, "copy"), self._node.requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Tensor":
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

    # Gradients: torch's contract, in autograd/

    @property
    def requires_grad(self) -> bool:
        """Whether gradients for it are computed."""
        return self._node.requires_grad

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        state.requires_grad_(self, flag)

    def requires_grad_(self, requires_grad: bool = True) -> "Tensor":
        """Set `requires_grad` of a leaf, and return it."""
        return state.requires_grad_(self, requires_grad)

    @property
    def grad(self) -> "Tensor | None":
        """The gradient that backward passes have summed up in it."""
        return state.get_grad(self)

    @grad.setter
    def grad(self, value: "Tensor | None") -> None:
        state.set_grad(self, value)

    @grad.deleter
    def grad(self) -> None:
        state.set_grad(self, None)

    @property
    def is_leaf(self) -> bool:
        """Whether it was made by the user, or by operations that record no history."""
        return state.is_leaf(self._node)

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
        return state.retains_grad(self)

    def register_hook(self, hook: Callable[["Tensor"], "Tensor | None"]) -> Any:
        """Have `hook` see the gradient, and replace it if it returns one. Returns a handle."""
        return hooks.register_hook(self, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[["Tensor"], None]) -> Any:
        """Have `hook` called with this leaf after a backward pass added to its `grad`."""
        return hooks.register_post_accumulate_grad_hook(self, hook)

    def detach(self) -> "Tensor":
        """The same values without history."""
        return Tensor(OPS["detach"](self._node))

    def detach_(self) -> "Tensor":
        """Cut this tensor itself from its history, and return it."""
        if self._node.requires_grad:
            state.rebind(self, OPS["detach"](self._node))
        return self

    # Functions of NumPy, as methods

    @property
    def T(self) -> "Tensor":
        """Axes in reversed order."""
        return shape_functions.transpose(self)

    @property
    def mT(self) -> "Tensor":
        """The last two axes exchanged."""
        return shape_functions.matrix_transpose(self)

    @property
    def real(self) -> "Tensor":
        """The real part."""
        return elementwise_functions.real(self)

    @property
    def imag(self) -> "Tensor":
        """The imaginary part: zeros for a real tensor."""
        return elementwise_functions.imag(self)

    def conj(self) -> "Tensor":
        """The complex conjugate."""
        return elementwise_functions.conjugate(self)

    conjugate = conj

    def astype(self, dtype: object, *, copy: bool = True) -> "Tensor":
        """Converted to `dtype`, as NumPy converts."""
        return elementwise_functions.astype(self, dtype, copy=copy)

    def to(self, target: object) -> "Tensor":
        """On another device, or in another dtype; the tensor itself if it is so already."""
        if isinstance(target, str) and target.partition(":")[0] in ("cpu", "cuda", "gpu"):
            check_device(target)
            return self
        return elementwise_functions.astype(self, target, copy=False)

    def to_device(self, device: object, /, *, stream: object = None) -> "Tensor":
        """On another device; the tensor itself if it is there."""
        check_device(device)
        return self

    def cpu(self) -> "Tensor":
        """The tensor itself."""
        return self

    def copy(self) -> "Tensor":
        """The same values as a new tensor; gradients flow through."""
        return Tensor(OPS["identity"](self._node))

    clone = copy

    def fill(self, value: ArrayLike) -> None:
        """Assign `value` to all elements."""
        self[...] = value

    def reshape(self, *shape: Shape, order: str = "C", copy: bool | None = None) -> "Tensor":
        """The same elements in another shape: x.reshape(2, 3) or x.reshape((2, 3))."""
        return shape_functions.reshape(self, _one_or_many(shape), order, copy=copy)

    def transpose(self, *axes: Any) -> "Tensor":
        """Axes in another order: x.transpose(1, 0), x.transpose((1, 0)); reversed by default."""
        if not axes or axes == (None,):
            return shape_functions.transpose(self)
        return shape_functions.transpose(self, _one_or_many(axes))

    def swapaxes(self, axis1: int, axis2: int) -> "Tensor":
        """Two axes exchanged."""
        return shape_functions.swapaxes(self, axis1, axis2)

    def squeeze(self, axis: Axis = None) -> "Tensor":
        """Without axes of size 1."""
        return shape_functions.squeeze(self, axis)

    def ravel(self, order: str = "C") -> "Tensor":
        """All elements along one axis."""
        return shape_functions.ravel(self, order)

    flatten = ravel

    def repeat(self, repeats: int | Sequence[int], axis: int | None = None) -> "Tensor":
        """Each element repeated, as `numpy.repeat`."""
        return shape_functions.repeat(self, repeats, axis)

    def take(self, indices: ArrayLike, axis: int | None = None, *, mode: str = "raise") -> "Tensor":
        """The elements at `indices` along `axis`."""
        return index_functions.take(self, indices, axis, mode=mode)

    def put(self, indices: ArrayLike, values: ArrayLike, mode: str = "raise") -> None:
        """Assign to the elements with these numbers, in row-major order."""
        assignment_functions.put(self, indices, values, mode)

    def choose(self, choices: ArrayLike | Sequence[ArrayLike], *, mode: str = "raise") -> "Tensor":
        """Element by element, the one of the choice whose number is here."""
        return choice_functions.choose(self, choices, mode)

    def compress(self, condition: ArrayLike, axis: int | None = None) -> "Tensor":
        """The parts along `axis` for which the condition, 1-d, is true."""
        return choice_functions.compress(condition, self, axis)

    def nonzero(self) -> "tuple[Tensor, ...]":
        """The indices of the elements that are not 0, one tensor for each axis."""
        return index_functions.nonzero(self)

    def argsort(self, axis: int | None = -1, *, descending: bool = False) -> "Tensor":
        """The indices that put the elements in order along `axis`."""
        return sorting_functions.argsort(self, axis, descending=descending)

    def argpartition(self, kth: int | Sequence[int], axis: int | None = -1) -> "Tensor":
        """The indices that partition the elements along `axis`."""
        return sorting_functions.argpartition(self, kth, axis)

    def searchsorted(
        self, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None
    ) -> "Tensor":
        """Where each `v` would go to keep the elements in order."""
        return sorting_functions.searchsorted(self, v, side, sorter)

    def cumsum(self, axis: int | None = None, dtype: object = None) -> "Tensor":
        """Sums of all elements up to each one."""
        return scan_functions.cumsum(self, axis, dtype)

    def cumprod(self, axis: int | None = None, dtype: object = None) -> "Tensor":
        """Products of all elements up to each one."""
        return scan_functions.cumprod(self, axis, dtype)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> "Tensor":
        """The elements of diagonal number `offset` of two axes."""
        return contraction_functions.diagonal(self, offset, axis1, axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> "Tensor":
        """The sum along a diagonal."""
        return contraction_functions.trace(self, offset, axis1, axis2)

    def dot(self, other: ArrayLike) -> "Tensor":
        """The product, as `numpy.dot`."""
        return contraction_functions.dot(self, other)

    def clip(self, min: ArrayLike | None = None, max: ArrayLike | None = None) -> "Tensor":
        """Brought between two bounds."""
        return elementwise_functions.clip(self, min, max)

    def round(self, decimals: int = 0) -> "Tensor":
        """The nearest number of so many decimals."""
        return elementwise_functions.round(self, decimals)

    def sum(
        self,
        axis: Axis = None,
        dtype: object = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike = True,
    ) -> "Tensor":
        """The sum over `axis`, or of all elements."""
        return reduction_functions.sum(
            self, axis, dtype, keepdims=keepdims, initial=initial, where=where
        )

    def prod(
        self,
        axis: Axis = None,
        dtype: object = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike = True,
    ) -> "Tensor":
        """The product over `axis`, or of all elements."""
        return reduction_functions.prod(
            self, axis, dtype, keepdims=keepdims, initial=initial, where=where
        )

    def mean(
        self,
        axis: Axis = None,
        dtype: object = None,
        *,
        keepdims: bool = False,
        where: ArrayLike = True,
    ) -> "Tensor":
        """The mean over `axis`, or of all elements."""
        return reduction_functions.mean(self, axis, dtype, keepdims=keepdims, where=where)

    def var(
        self,
        axis: Axis = None,
        dtype: object = None,
        *,
        ddof: float = 0,
        keepdims: bool = False,
        where: ArrayLike = True,
        mean: ArrayLike | None = None,
        correction: float | None = None,
    ) -> "Tensor":
        """The variance over `axis`, or of all elements."""
        return reduction_functions.var(
            self,
            axis,
            dtype,
            ddof=ddof,
            keepdims=keepdims,
            where=where,
            mean=mean,
            correction=correction,
        )

    def std(
        self,
        axis: Axis = None,
        dtype: object = None,
        *,
        ddof: float = 0,
        keepdims: bool = False,
        where: ArrayLike = True,
        mean: ArrayLike | None = None,
        correction: float | None = None,
    ) -> "Tensor":
        """The standard deviation over `axis`, or of all elements."""
        return reduction_functions.std(
            self,
            axis,
            dtype,
            ddof=ddof,
            keepdims=keepdims,
            where=where,
            mean=mean,
            correction=correction,
        )

    def max(
        self,
        axis: Axis = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike = True,
    ) -> "Tensor":
        """The largest element along `axis`, or of all."""
        return reduction_functions.max(self, axis, keepdims=keepdims, initial=initial, where=where)

    def min(
        self,
        axis: Axis = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike = True,
    ) -> "Tensor":
        """The smallest element along `axis`, or of all."""
        return reduction_functions.min(self, axis, keepdims=keepdims, initial=initial, where=where)

    def any(
        self, axis: Axis = None, *, keepdims: bool = False, where: ArrayLike = True
    ) -> "Tensor":
        """Whether an element along `axis`, or any, is true."""
        return reduction_functions.any(self, axis, keepdims=keepdims, where=where)

    def all(
        self, axis: Axis = None, *, keepdims: bool = False, where: ArrayLike = True
    ) -> "Tensor":
        """Whether all elements along `axis`, or all, are true."""
        return reduction_functions.all(self, axis, keepdims=keepdims, where=where)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> "Tensor":
        """The index of the first largest element along `axis`, or of all."""
        return reduction_functions.argmax(self, axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> "Tensor":
        """The index of the first smallest element along `axis`, or of all."""
        return reduction_functions.argmin(self, axis, keepdims=keepdims)


def _one_or_many(arguments: tuple[Any, ...]) -> Any:
    """The argument of a method that takes one sequence, or its items."""
    if len(arguments) == 1 and isinstance(arguments[0], Sequence):
        return arguments[0]
    return arguments


def _gradient_fact(node: Node) -> list[str]:
    return ["requires_grad=True"] if node.requires_grad else []


def _printed(value: np.ndarray, gradient_fact: list[str]) -> str:
    """As NumPy prints an array: by its options, and with what the numbers do not tell."""
    prefix, options = "tensor(", np.get_printoptions()
    numbers = np.array2string(value, separator=", ", prefix=prefix, suffix=")")
    facts = []
    if (not value.size and value.ndim > 1) or value.size > options["threshold"]:
        facts.append(f"shape={value.shape}")
    if value.dtype not in _DEFAULT_PRINTED or not value.size:
        facts.append(f"dtype={value.dtype}")
    facts += gradient_fact
    if not facts:
        return f"{prefix}{numbers})"
    listed = ", ".join(facts)
    last_line = f"{prefix}{numbers}".rpartition("\n")[2]
    is_too_long = len(f"{last_line}, {listed})") > options["linewidth"]
    space = "\n" + " " * len(prefix) if is_too_long else " "
    return f"{prefix}{numbers},{space}{listed})"


_DETACHED = "x.detach().numpy()"
_STACKED = "; np.stack([x, y]) in place of np.array([x, y]) keeps the gradient"


def _value_without_gradient(tensor: Tensor, operation: str, fix: str) -> np.ndarray:
    node = tensor._node
    if node.requires_grad:
        raise GradientError(
            explain(
                operation,
                "cannot convert a Tensor that requires grad: what follows would have no gradient",
                got={"x": node.type},
                expected="a tensor that requires no grad",
                fix=fix,
            )
        )
    return value_of(node, operation)


def _read_only(value: np.ndarray) -> np.ndarray:
    view = value.view()
    view.flags.writeable = False
    return view


def _only_element(tensor: Tensor, operation: str) -> Any:
    if tensor.size != 1:
        raise TypeError(
            explain(
                operation,
                "only a tensor of one element can be converted to a Python number",
                got={"x": tensor._node.type},
                fix="x.tolist()",
            )
        )
    node = tensor._node
    value = value_of(node, operation).item()
    if node.requires_grad:
        # As torch does; NumPy converts this way in array[0] = x, and math.sin(x) does.
        warnings.warn(
            f"{operation}: converting a tensor with requires_grad=True to a scalar may lead to "
            "unexpected behavior: what follows has no gradient; x.item() or x.detach() if that "
            "is meant",
            UserWarning,
            stacklevel=3,
        )
    return value


def _rebuilt(value: np.ndarray, requires_grad: bool) -> Tensor:
    """A leaf that holds `value`, which nobody else writes to."""
    result = Tensor(leaf(np.asarray(value, order="C")))
    return result.requires_grad_() if requires_grad else result


handles.register(Tensor)
