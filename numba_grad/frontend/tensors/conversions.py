"""What tensors become outside of the graph: arrays, numbers, text, memory of other libraries.

Where that would lose a gradient silently, it is refused: arrays, for tensors that require grad;
numbers, while a transform differentiates by what they depend on. With leaves that the user made for
`backward()` PyTorch's rule holds: `x.item()` is a constant, and so is `float(x)`, with a warning,
but an array that is assigned to would be a surprise. Text, truth values and comparisons are free,
and so is everything inside of `no_grad`.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numba_grad.dtypes import is_bfloat16
from numba_grad.errors import GradientError, TracingError, explain
from numba_grad.fresh_thread import imported
from numba_grad.frontend.functions import elementwise, indexing
from numba_grad.frontend.inputs.arrays import value_of
from numba_grad.frontend.inputs.calling_lines import (
    Line,
    calling_line,
    instead_of_array,
    instead_of_conversion,
)
from numba_grad.frontend.inputs.constants import AS_CONSTANT, value_of_constant
from numba_grad.frontend.tensors import array_api, interchange, protocols
from numba_grad.frontend.tensors.callers import (
    is_checking,
    operand_of_sparse_product,
    own_function_in_place_of_caller,
)
from numba_grad.frontend.tensors.numpy_functions import MADE_LIKE
from numba_grad.graph.node import Node, grad_mode
from numba_grad.graph.types import CPU
from numba_grad.graph.walk import is_traced
from numba_grad.ops.families import is_flat
from numba_grad.ops.index_expressions import take_index

_DEFAULT_PRINTED = frozenset(map(np.dtype, (bool, np.int64, np.float64, np.complex128)))

# Where a warning was given: once for a place, also where somebody resets Python's own record of
# that in between, as `warnings.catch_warnings` does.
_warned: set[tuple[str, int]] = set()


class Conversions:
    """Abstract: the part of Tensor that computes values and hands them out."""

    __slots__ = ()

    _node: Node

    def numpy(self) -> np.ndarray:
        """The values as a NumPy array, computed now if they are not yet.

        The array is read-only, since it shares memory with the tensor, whose value never changes;
        `numpy().copy()` or `numpy.array(x)` may be written to.

        Raises
        ------
        GradientError
            If the tensor requires grad, outside of `no_grad`: what NumPy does with it would have
            no gradient.
        TypeError
            If it is on a GPU.
        TracingError
            While a function is being traced.
        """
        return _read_only(_value_without_gradient(self._node, "numpy"))

    def item(self, *index: int) -> Any:
        """The only element, or the one at `index`, as a Python number. Computes it now.

        Raises
        ------
        GradientError
            If a transform that is running (`grad`, `jacobian`, ...) differentiates by what it
            depends on: `x.detach().item()` is a constant.
        """
        node = self._node
        if index:
            one = index[0] if len(index) == 1 and len(node.shape) == 1 else index
            one = indexing.index_of_nodes(one)
            node = take_index(node, one, indexing.mask_value)
        if node.type.size != 1:
            raise ValueError(
                explain(
                    "item",
                    "not one element",
                    got={"x": node.type},
                    expected="a tensor of one element",
                    fix="x.tolist() for all of them",
                )
            )
        return _for_python(value_of_constant(node, "item")).item()

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers; of a 0-d tensor, the number.

        Raises GradientError as `item` does.
        """
        return _for_python(value_of_constant(self._node, "tolist")).tolist()

    def __bool__(self) -> bool:
        if self._node.type.size != 1:
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
        return float(_only_element(self._node, "float"))

    def __int__(self) -> int:
        return int(_only_element(self._node, "int", is_whole=True))

    def __round__(self, digits: int | None = None) -> Any:
        """As of NumPy's numbers: an int, or with `digits` another number. Arrays refuse."""
        if digits is None or self._node.shape:
            return round(_only_element(self._node, "round", is_whole=True))
        return elementwise.round(self, digits)

    def __trunc__(self) -> int:
        return int(_only_element(self._node, "trunc", is_whole=True))

    def __floor__(self) -> int:
        return math.floor(_only_element(self._node, "floor", is_whole=True))

    def __ceil__(self) -> int:
        return math.ceil(_only_element(self._node, "ceil", is_whole=True))

    def tobytes(self, order: str = "C") -> bytes:
        """The bytes of the values, as a key or for a file. GradientError as of `numpy()`."""
        return self.numpy().tobytes(order)  # type: ignore[arg-type]

    def __complex__(self) -> complex:
        return complex(_only_element(self._node, "complex"))

    def __index__(self) -> int:
        if self._node.dtype.kind not in "iu" or self._node.shape:
            raise TypeError(
                explain(
                    "index",
                    "only a 0-d integer tensor can be an index",
                    got={"x": self._node.type},
                    fix="x.astype(int)"
                    if not self._node.shape
                    else "an array indexed by x: np.stack(values)[x] in place of values[x]",
                )
            )
        return int(value_of(self._node, "index").item())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        operand = operand_of_sparse_product()
        if operand is not None and self._node.shape:
            return operand
        value = _value_without_gradient(self._node, "numpy.asarray")
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
        result = protocols.call_function(function, args, kwargs)
        device = self._node.type.device
        return result.to(device) if device != CPU and function in MADE_LIKE else result

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
        do not write to what it makes of this, or copy it. One who asks as before DLPack 1.0, which
        cannot say that memory is read-only, gets a copy, and with `copy=False` the memory.
        """
        return interchange.to_dlpack(self._node, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return interchange.dlpack_device(self._node)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Its memory for CuPy, Numba and others, if it is on a GPU: read-only, in the order of the
        current stream. PyTorch takes no read-only memory by this protocol: `torch.from_dlpack(x)`.
        """
        return interchange.cuda_array_interface(self._node)

    @property
    def _numba_type_(self) -> Any:
        """Numba asks for it when a function of the user's is called with a tensor."""
        line = calling_line()
        if line is None or line.package != "numba" or self._node.type.device != CPU:
            raise AttributeError("_numba_type_")  # others only look; Numba's GPU part asks again
        raise TypeError(
            explain(
                "numba.njit",
                "functions that Numba compiles take arrays, not tensors",
                got={"x": self._node.type},
                fix="ng.differentiable(function), an operation with derivatives; ng.jit of NumPy "
                "code, which needs no loops; or x.detach().numpy() for the values",
            )
        )

    @property
    def __torch_function__(self) -> Callable[..., Any]:
        """PyTorch asks for it when a function of its own is called with a tensor."""
        line = calling_line()
        if line is not None and line.calls_a_class():
            raise AttributeError("__torch_function__")  # torch.Tensor(x) copies elements
        return imported("numba_grad.frontend.tensors.torch_functions").by_torch

    def __repr__(self) -> str:
        node = self._node
        if is_traced(node):
            facts = ["<traced>", f"shape={node.shape}", f"dtype={node.dtype}"]
            return f"tensor({', '.join(facts + _facts(node))})"
        return _printed(value_of(node, "repr"), _facts(node))

    def __format__(self, specification: str) -> str:
        if is_traced(self._node):
            return str(self)  # there is no number that the specification could be of
        if not self._node.shape:
            return format(_for_python(value_of(self._node, "format")).item(), specification)
        if not specification:
            return str(self)
        raise TypeError(
            explain(
                "format",
                f"{specification!r} is of one number",
                got={"x": self._node.type},
                fix="np.array2string(x, precision=3), or a loop over x.tolist()",
            )
        )


def _facts(node: Node) -> list[str]:
    """What neither numbers, shape nor dtype tell."""
    device = node.type.device
    where = [] if device == CPU else [f"device='{device}'"]
    return where + (["requires_grad=True"] if node.requires_grad else [])


def _printed(value: np.ndarray, more_facts: list[str]) -> str:
    """As NumPy prints an array: by its options, and with what the numbers do not tell."""
    prefix, options = "tensor(", np.get_printoptions()
    numbers = np.array2string(_for_python(value), separator=", ", prefix=prefix, suffix=")")
    facts = []
    if (not value.size and value.ndim > 1) or value.size > options["threshold"]:
        facts.append(f"shape={value.shape}")
    if value.dtype not in _DEFAULT_PRINTED or not value.size:
        facts.append(f"dtype={value.dtype}")
    facts += more_facts
    if not facts:
        return f"{prefix}{numbers})"
    listed = ", ".join(facts)
    last_line = f"{prefix}{numbers}".rpartition("\n")[2]
    is_too_long = len(f"{last_line}, {listed})") > options["linewidth"]
    space = "\n" + " " * len(prefix) if is_too_long else " "
    return f"{prefix}{numbers},{space}{listed})"


def _value_without_gradient(node: Node, operation: str) -> np.ndarray:
    if node.requires_grad and grad_mode.enabled:
        line = calling_line()
        if line is not None and line.is_store:
            raise _assigned_to_array(node, line)
        if is_traced(node):
            return _value_or_advice(node, operation)  # detached, it would be an error as well
        if is_checking():
            return value_of(node, operation)
        raise GradientError(
            explain(
                operation,
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() "
                "instead.",
                got={"x": node.type},
                expected="a tensor that requires no grad: what follows would have no gradient",
                fix=_differentiable(instead_of_conversion(AS_CONSTANT[operation])),
            )
        )
    if node.type.device != CPU:
        raise TypeError(
            explain(
                operation,
                f"cannot convert a tensor on {node.type.device} to a NumPy array",
                got={"x": node.type},
                expected="a tensor in host memory",
                fix="x.cpu().numpy(), a copy",
            )
        )
    return _value_or_advice(node, operation)


def _value_or_advice(node: Node, operation: str) -> np.ndarray:
    """The value; where there is none, a TracingError that names our function, if NumPy or SciPy
    asks within one that we have."""
    try:
        return value_of(node, operation)
    except TracingError:
        ours = own_function_in_place_of_caller()
        if not ours:
            raise
        raise TracingError(
            explain(
                operation,
                "needs the value of a tensor while a function is being traced: there is none",
                got={"x": node.type},
                expected="operations on tensors only, inside jit and vmap",
                fix=f"{ours}, which is one",
            )
        ) from None


def _assigned_to_array(node: Node, line: Line) -> GradientError:
    """`array[0] = x` asks `x` for a number or an array, as `float(x)` and `numpy.asarray(x)` do."""
    return GradientError(
        explain(
            "assignment",
            "an array cannot hold a tensor that requires grad: the gradient would be lost",
            got={"x": node.type},
            expected="a tensor to assign into",
            fix=instead_of_array(line),
        )
    )


def _differentiable(fix: str) -> str:
    """The advice, with our function in front if one of NumPy or SciPy makes the conversion."""
    ours = own_function_in_place_of_caller()
    return f"{ours}, which has a gradient; {fix}" if ours else fix


def _for_python(value: np.ndarray) -> np.ndarray:
    """The same numbers in a dtype whose elements Python knows."""
    return value.astype(np.float32) if is_bfloat16(value.dtype) else value


def _read_only(value: np.ndarray) -> np.ndarray:
    view = value.view()
    view.flags.writeable = False
    return view


def _only_element(node: Node, operation: str, is_whole: bool = False) -> Any:
    """The only element. `is_whole`: for a whole number, whose derivative is zero as those of
    `floor` and `astype(int)` are."""
    if node.type.size != 1:
        raise TypeError(
            explain(
                operation,
                "only a tensor of one element can be converted to a Python number",
                got={"x": node.type},
                fix="x.tolist()",
            )
        )
    if node.requires_grad and grad_mode.enabled and not is_flat(node):
        line = calling_line()
        if line is not None and line.is_store:
            raise _assigned_to_array(node, line)
        if not is_whole and (line is None or not (line.is_formatting or line.is_question)):
            value = value_of_constant(node, operation)
            _warn_of_constant(node, operation, line)
            return _for_python(value).item()
    return _for_python(value_of(node, operation)).item()


def _warn_of_constant(node: Node, operation: str, line: Line | None) -> None:
    place = ("", 0) if line is None else line.place
    if place in _warned or (line is not None and line.is_in_text):
        return
    if line is not None and line.is_fill:
        raise _assigned_to_array(node, line)
    # As torch does. The stack: _only_element, __float__, the user's line.
    warnings.warn(
        f"{operation}: converting a tensor with requires_grad=True to a scalar may lead to "
        "unexpected behavior: what follows has no gradient; x.item() or x.detach() if that "
        "is meant",
        UserWarning,
        stacklevel=4,
    )
    _warned.add(place)
