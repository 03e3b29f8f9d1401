"""What tensors become outside of the graph: arrays, numbers, text, memory of other libraries.

Where that would lose a gradient silently, it is refused.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numba_grad.dtypes import is_bfloat16
from numba_grad.errors import GradientError, explain
from numba_grad.frontend import array_api, index_functions, interchange, protocols
from numba_grad.frontend.arrays import is_traced, value_of
from numba_grad.frontend.numpy_functions import MADE_LIKE
from numba_grad.graph.node import Node
from numba_grad.graph.types import CPU
from numba_grad.ops.index_expressions import take_index

_DEFAULT_PRINTED = frozenset(map(np.dtype, (bool, np.int64, np.float64, np.complex128)))
_DETACHED = "x.detach().numpy()"
_STACKED = "; np.stack([x, y]) in place of np.array([x, y]) keeps the gradient"


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
            If the tensor requires grad: what NumPy does with it would have no gradient.
        TypeError
            If it is on a GPU.
        TracingError
            While a function is being traced.
        """
        return _read_only(_value_without_gradient(self._node, "numpy", _DETACHED))

    def item(self, *index: int) -> Any:
        """The only element, or the one at `index`, as a Python number. Computes it now."""
        node = self._node
        if index:
            one = index[0] if len(index) == 1 and len(node.shape) == 1 else index
            one = index_functions.index_of_nodes(one)
            node = take_index(node, one, index_functions.mask_value)
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
        return _for_python(value_of(node, "item")).item()

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers; of a 0-d tensor, the number."""
        return _for_python(value_of(self._node, "tolist")).tolist()

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
        return int(_only_element(self._node, "int"))

    def __complex__(self) -> complex:
        return complex(_only_element(self._node, "complex"))

    def __index__(self) -> int:
        if self._node.dtype.kind not in "iu" or self._node.shape:
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
        value = _value_without_gradient(self._node, "numpy.asarray", f"{_DETACHED}{_STACKED}")
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
        do not write to what it makes of this, or copy it.
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

    def __repr__(self) -> str:
        node = self._node
        if is_traced(node):
            facts = ["<traced>", f"shape={node.shape}", f"dtype={node.dtype}"]
            return f"tensor({', '.join(facts + _facts(node))})"
        return _printed(value_of(node, "repr"), _facts(node))

    def __format__(self, specification: str) -> str:
        if not specification or self._node.shape:
            return format(str(self), specification)
        return format(self.item(), specification)


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


def _value_without_gradient(node: Node, operation: str, fix: str) -> np.ndarray:
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
    return value_of(node, operation)


def _for_python(value: np.ndarray) -> np.ndarray:
    """The same numbers in a dtype whose elements Python knows."""
    return value.astype(np.float32) if is_bfloat16(value.dtype) else value


def _read_only(value: np.ndarray) -> np.ndarray:
    view = value.view()
    view.flags.writeable = False
    return view


def _only_element(node: Node, operation: str) -> Any:
    if node.type.size != 1:
        raise TypeError(
            explain(
                operation,
                "only a tensor of one element can be converted to a Python number",
                got={"x": node.type},
                fix="x.tolist()",
            )
        )
    value = _for_python(value_of(node, operation)).item()
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
