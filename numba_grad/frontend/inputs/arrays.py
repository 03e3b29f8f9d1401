"""What users pass, as nodes: tensors, arrays, nested sequences, scalars. And results, as tensors.

Arrays are copied on the way in, so a later write to them changes no result. Python scalars are
weakly typed: they take the dtype that NumPy's promotion (NEP 50) gives them next to the other
operands. So does what stands for one while a function is traced (`python_numbers.py`).
"""

import sys
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from numba_grad.autograd import tensor_class
from numba_grad.autograd.tensor_class import is_tensor_class, new_tensor
from numba_grad.compiler.backends import on_host
from numba_grad.compiler.evaluate import evaluate
from numba_grad.dtypes import FLOAT64, is_inexact, kind_of, promoted
from numba_grad.errors import DTypeError, ShapeError, TracingError, explain
from numba_grad.frontend.inputs.calling_lines import instead_of_conversion, instead_of_truth
from numba_grad.frontend.inputs.tracing import current, values_asked_for
from numba_grad.graph import placement
from numba_grad.graph.node import OPS, Node, leaf, numbers
from numba_grad.graph.traced_bodies import check_compiled, check_inside
from numba_grad.graph.types import CPU, DTYPES, KNOWN, SUPPORTED, as_dtype
from numba_grad.graph.walk import is_held, is_traced, stands_for_a_value, toposort, traced_arguments
from numba_grad.ops import (  # noqa: F401 - importing them is what fills OPS
    contraction,
    control,
    correlation,
    elementwise,
    functions,
    indexing,
    leaves,
    logic,
    movement,
    reductions,
    scans,
    sorting,
    transfer,
)
from numba_grad.ops.families import cast, loop_dtypes, placed, reshape
from numba_grad.ops.movement import concatenated, stacked
from numba_grad.runtime import dlpack

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

# What a public function takes for an array: Tensor, numpy.ndarray, NumPy or Python scalar, nested
# sequences of numbers, an object with __array__ or the buffer protocol.
ArrayLike = Any

Element = TypeVar("Element")

# The dtypes of Python scalars where there is nothing else to go by.
DEFAULT_DTYPES = {
    bool: np.dtype(bool),
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
    complex: np.dtype(np.complex128),
}
SEQUENCES = (list, tuple, deque)  # which NumPy makes arrays of
WEAK = frozenset((int, float, complex))  # bool is strongly typed, as in NumPy
# What a class derived from ndarray must have as that has it, to be computed with as an array.
_MEANINGS = ("__array_ufunc__", "__array_function__", "__add__", "__mul__", "__pow__")
_WEAK_OF_KIND = {"i": int, "u": int, "f": float, "c": complex}

_dtype_of_kind = {(dtype.kind, dtype.itemsize): dtype for dtype in DTYPES}
# Equal numbers that somebody still has are one leaf, also where a thousand others have come since:
# steps of a loop are alike only if they read the same one.
_scalars: weakref.WeakValueDictionary[tuple, Node] = weakref.WeakValueDictionary()
_SCALARS_KEPT = 1 << 12
_newest_scalars: deque[Node] = deque(maxlen=_SCALARS_KEPT)


class _Nobody:
    __slots__ = ("__weakref__",)


_no_tensor = weakref.ref(_Nobody())  # the handle of a shared leaf; dead from the start


def wrap(node: Node) -> "Tensor":
    """The result of a public function: always a new tensor with its own gradient and hooks.

    Where the function had nothing to do and `node` is somebody's tensor already, an identity.
    """
    if node.handle is not None:
        node = OPS["identity"](node)
    return new_tensor(node)


def node_of(value: object) -> Node | None:
    """The node of a tensor; None for anything else."""
    node = getattr(value, "_node", None)
    return node if isinstance(node, Node) else None


def is_scalar(value: object) -> bool:
    """Whether this is a Python number, whose dtype is weak (except bool's)."""
    return value.__class__ in DEFAULT_DTYPES


class _StandIns:
    of_numbers: type | None = None


def register_stand_in(number_class: type) -> None:
    """Called once, with the class of tensors that stand for Python numbers."""
    _StandIns.of_numbers = number_class


def stand_in(node: Node) -> Any:
    """What stands for a Python number that `node`, which is new, has the value of."""
    assert _StandIns.of_numbers is not None, "registered when it is imported"
    return _StandIns.of_numbers(node)


def weak_class(value: Any) -> type | None:
    """int, float or complex, if `value` is a Python number or stands for one; None for what has a
    dtype of its own."""
    kind = value.__class__
    if kind in WEAK:
        return kind
    if kind is _StandIns.of_numbers:
        return _WEAK_OF_KIND.get(value._node.type.dtype.kind)
    return None


def is_weak(value: object) -> bool:
    """Whether this is a Python number or stands for one, bool's among them."""
    return is_scalar(value) or value.__class__ is _StandIns.of_numbers


def is_stand_in(value: object) -> bool:
    """Whether this is a tensor that stands for a Python number."""
    return value.__class__ is _StandIns.of_numbers


def number_node(value: Any, dtype: np.dtype) -> Node:
    """A Python number, or what stands for one, as a node of this dtype.

    Raises
    ------
    OverflowError
        If a Python integer does not fit. That of a stand-in is not known yet: it is cast.
    """
    node = node_of(value)
    return scalar_leaf(value, dtype) if node is None else cast(node, dtype)


def nodes_of_result(operation: str, returned: Sequence[Any]) -> list[Node]:
    """What a user's function has returned, as nodes; an error says that it was that."""
    try:
        return [as_node(x) for x in returned]
    except (TypeError, ValueError) as error:
        error.add_note(f"what the function of {operation} returned")
        raise


def as_node(value: ArrayLike, like: Node | None = None) -> Node:
    """`value` as a node; a Node is itself.

    A Python number takes the dtype that the sum of it and `like` would have.

    Raises
    ------
    DTypeError
        For objects, strings, dates, long doubles: what has no supported dtype.
    ShapeError
        For nested sequences of different lengths.
    """
    kind = value.__class__
    if kind is tensor_class.registered:
        return value._node
    if kind is Node:
        return value
    if kind is np.ndarray:
        return _node_of_array(value)
    node = node_of(value)
    if node is not None:
        weak = None if like is None else weak_class(value)
        if like is None or weak is None:
            return node
        return cast(node, loop_dtypes(np.add, (like.dtype, weak))[-1])
    if kind in DEFAULT_DTYPES:
        if like is None or kind is bool:
            return scalar_leaf(value, _default_dtype(value))
        return scalar_leaf(value, loop_dtypes(np.add, (like.dtype, kind))[-1])
    if isinstance(value, np.generic):
        return scalar_leaf(value, canonical_dtype(value.dtype))
    if isinstance(value, SEQUENCES):
        stacked = stacked_tensors(value)
        return numbers(own_array(value)) if stacked is None else stacked
    if isinstance(value, range):
        return numbers(own_array(value))
    if isinstance(value, np.ndarray):
        return _node_of_array(value)
    return leaf(own_array(value))


def as_assigned(value: ArrayLike, x: Node) -> Node:
    """What is assigned to elements of `x` as a node, not yet in its dtype.

    Raises
    ------
    DTypeError
        For complex values, if `x` is real.
    ValueError, OverflowError
        For a single number, or one in a list, that integers of `x` cannot have: NaN, an infinity,
        one out of range. As in NumPy, which converts elements of arrays without a word, and its own
        numbers where `x` has no sign.
    """
    kind = x.type.dtype.kind
    refused = (np.floating, np.integer) if kind == "i" else ()
    if kind in "iu" and (value.__class__ is float or isinstance(value, refused)):
        value = int(value)  # which says "cannot convert float NaN to integer"
    elif kind in "iu" and isinstance(value, SEQUENCES) and not has_tensors(value):
        return numbers(own_array(value, x.type.dtype))
    node = as_node(value, like=x) if is_scalar(value) else as_node(value)
    if node.dtype.kind == "c" and kind != "c":
        raise DTypeError(
            explain(
                "assignment",
                "complex values into a real tensor would lose their imaginary parts",
                got={"x": x.type, "values": node.type},
                fix="values.real",
            )
        )
    return node


def _node_of_array(array: np.ndarray) -> Node:
    if array.__class__ is not np.ndarray:
        array = plain(array)
    trace = current.trace
    return leaf(own_array(array)) if trace is None else trace.node_of(array)


def plain(array: np.ndarray) -> np.ndarray:
    """`array`, of a class derived from ndarray, as one of ndarray itself.

    Raises
    ------
    DTypeError
        For masked arrays.
    TypeError
        If operators of that class compute something else: `*` of matrices, quantities with units.
    """
    _check_unmasked(array)
    cls = array.__class__
    if any(getattr(cls, name) is not getattr(np.ndarray, name) for name in _MEANINGS):
        raise TypeError(
            explain(
                "tensor",
                f"operators of {cls.__name__} are not those of arrays",
                got={"value": f"{cls.__module__}.{cls.__qualname__} of shape {array.shape}"},
                expected="a numpy.ndarray",
                fix="numpy.asarray(value)",
            )
        )
    return array.view(np.ndarray)


def shared_copy(array: np.ndarray) -> Node:
    """A leaf with a copy of `array` that is never a user's own tensor: see `wrap`."""
    node = leaf(own_array(array))
    node.handle = _no_tensor
    return node


def stacked_tensors(value: Any) -> Node | None:
    """Nested sequences with tensors in them as one array, through which gradients flow, on a GPU
    if one of them is. None if there are no tensors."""
    kinds = set(map(type, value))
    if len(kinds) == 1 and is_tensor_class(*kinds):
        nodes = [x._node for x in value]
        if len({x.type for x in nodes}) == 1:  # as most steps of loops make their states
            return stacked(nodes, 0)
    elif not has_tensors(value):
        return None
    device = CPU
    if placement.is_in_use():
        device = next(filter(CPU.__ne__, _devices_in(value)), CPU)
    return _stacked(value, device)


def has_tensors(value: Iterable[Any]) -> bool:
    """Whether there are tensors among these values, or in nested sequences of them."""
    # By sets of classes: of a long list of numbers, half of what it takes to make an array of it.
    for kind in set(map(type, value)):
        if kind in DEFAULT_DTYPES:
            continue
        if issubclass(kind, SEQUENCES):
            if any(has_tensors(x) for x in value if isinstance(x, SEQUENCES)):
                return True
        elif hasattr(kind, "_node"):
            return True
    return False


def _devices_in(value: Any) -> Iterator[str]:
    if isinstance(value, SEQUENCES):
        for x in value:
            yield from _devices_in(x)
    elif (node := node_of(value)) is not None:
        yield node.type.device


def _stacked(value: Any, device: str) -> Node:
    node = node_of(value)
    if node is None and not (isinstance(value, SEQUENCES) and has_tensors(value)):
        node = as_node(value)
    if node is not None:
        return placed(node, device) if node.shape == () else node
    nodes = common_dtype(tuple([_stacked(x, device) for x in value]))
    type = nodes[0].type
    if all(x.type is type for x in nodes):
        return stacked(nodes, 0)
    if len({x.shape for x in nodes}) > 1:
        raise _ragged(value)
    return concatenated([reshape(x, (1, *x.shape)) for x in nodes], 0)


def constant_beside(x: Node, array: np.ndarray) -> Node:
    """A leaf of these numbers, where `x` is."""
    return placed(leaf(np.asarray(array, order="C")), x.type.device)


def _default_dtype(value: Any) -> np.dtype:
    dtype = DEFAULT_DTYPES[value.__class__]
    if dtype.kind == "i" and not -(1 << 63) <= value < 1 << 63:
        return canonical_dtype(np.asarray(value).dtype)  # uint64, or an error for object
    return dtype


def operands(ufunc: np.ufunc, values: tuple[ArrayLike, ...]) -> tuple[Node, ...]:
    """`values` as nodes, cast to the dtypes of the loop that NumPy's `ufunc` chooses for them."""
    dtypes: list[Any] = []
    nodes: list[Node | None] = []
    is_weak = True
    for value in values:
        kind = value.__class__
        if kind in WEAK:
            dtypes.append(kind)
            nodes.append(None)
        else:
            node = as_node(value)
            weak = weak_class(value) if kind is _StandIns.of_numbers else None
            is_weak = is_weak and weak is not None
            dtypes.append(weak or node.type.dtype)
            nodes.append(node)
    if is_weak:
        dtypes = [
            _default_dtype(value) if node is None else node.type.dtype
            for value, node in zip(values, nodes, strict=True)
        ]
    loop = loop_dtypes(ufunc, tuple(dtypes))
    return tuple(
        [
            scalar_leaf(value, dtype, ufunc) if node is None else cast(node, dtype)
            for value, node, dtype in zip(values, nodes, loop, strict=False)
        ]
    )


def as_inexact(x: ArrayLike) -> Node:
    """`x` as a node, in float64 unless it is floating or complex."""
    node = as_node(x)
    return node if is_inexact(node.dtype) else cast(node, FLOAT64)


def common_dtype(values: tuple[ArrayLike, ...]) -> tuple[Node, ...]:
    """`values` as nodes of one dtype: NumPy's `result_type` of them all, Python scalars weak."""
    if values[0].__class__ is Node:  # the common case: nodes of one dtype
        dtype = values[0].type.dtype
        if all(x.__class__ is Node and x.type.dtype is dtype for x in values):
            return values
    strong: list[Node | None] = []
    dtypes, weak = [], []
    for value in values:
        kind = weak_class(value)
        node = as_node(value) if kind is None else None
        strong.append(node)
        if node is not None:
            dtypes.append(node.type.dtype)
        elif kind is not None:
            # Of a stand-in any number of its class; a number itself, as it may be a large integer.
            weak.append(value if kind is value.__class__ else kind())
    dtype = canonical_dtype(promoted(*dtypes, *weak))
    return tuple(
        number_node(value, dtype) if node is None else cast(node, dtype)
        for value, node in zip(values, strong, strict=True)
    )


def as_arrays(values: tuple[ArrayLike, ...]) -> tuple[Node, ...]:
    """`values` as nodes of one dtype, for functions that make arrays of all that they take: there a
    Python number is float64, int64, ... as in `np.asarray(2.0)`."""
    return common_dtype(tuple([as_node(x) for x in values]))


def scalar_leaf(value: Any, dtype: np.dtype, ufunc: np.ufunc | None = None) -> Node:
    """A 0-d leaf, shared by equal scalars (type, dtype and bits) that are operands of one function:
    a loop that uses 0.5 makes one.

    Of another function it is another: where the factor of a loop happens to be what its 110th step
    adds, that step is like all others.

    Raises
    ------
    OverflowError
        If a Python integer does not fit.
    """
    kind = value.__class__
    # 0.0 == -0.0, and both parts of a complex number have a sign: only the bytes tell them apart.
    if kind is int or kind is bool or (kind is float and value):
        key = (kind, value, dtype, ufunc)
        array = None
    else:
        array = np.array(value, dtype)
        key = (kind, array.tobytes(), dtype, ufunc)
    node = _scalars.get(key)
    if node is None:
        if array is None:
            array = _number_as_array(value, dtype)
        node = leaf(array)
        # Never a user's own tensor, whose gradient would then be everybody's: see `wrap`.
        node.handle = _no_tensor
        node = _scalars.setdefault(key, node)
        _newest_scalars.append(node)
    return node


def _number_as_array(value: complex, dtype: np.dtype) -> np.ndarray:
    if dtype is FLOAT64 and value.__class__ is float:
        return np.array(value)  # exact: a third of the time
    with np.errstate(all="ignore"):
        return np.array(value, dtype)


def canonical_dtype(dtype: np.dtype) -> np.dtype:
    """The supported dtype of this kind and size, in native byte order; C's long long is int64."""
    return _dtype_of_kind.get((dtype.kind, dtype.itemsize)) or as_dtype(dtype)


def as_optional_dtype(dtype: object) -> np.dtype | None:
    """The `dtype=` argument of a public function."""
    return None if dtype is None else as_dtype(dtype)


def own_array(value: ArrayLike, dtype: np.dtype | None = None, *, copy: bool = True) -> np.ndarray:
    """`value` as an array for a leaf: C-contiguous, native, of a supported dtype, ours alone.

    With `copy=False` it shares memory with `value`, or a ValueError says why it cannot.
    """
    is_plain = value.__class__ is np.ndarray and copy and dtype is None
    if is_plain and KNOWN.get(value.dtype) is value.dtype:
        return value.copy()  # 0.4 us instead of 3
    _check_unmasked(value)
    try:
        array = np.asarray(value)
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise _ragged(value) from None
    except TypeError:
        if not hasattr(value, "__dlpack__"):
            raise
        array = dlpack.array_from(value, None)  # torch makes no arrays of bfloat16
    if dtype is not None and array.dtype.kind in "US" and array is not value:
        return np.array(value, dtype, order="C")  # np.array(line.split(), float)
    own = _checked_dtype(array) if dtype is None else dtype
    if not copy:
        return _aliased(array, own, is_array=isinstance(value, np.ndarray))
    if dtype is not None:
        _checked_dtype(array)
    if array is not value and array.base is None and isinstance(value, SEQUENCES):
        if own.kind in "iu" and own != array.dtype:
            return np.array(value, own, order="C")  # which refuses what is out of its range
        return np.asarray(array, own, order="C")  # just made for us by np.asarray
    with np.errstate(all="ignore"):
        return np.array(array, own, order="C", copy=True, subok=False)


def is_masked(value: object) -> bool:
    """Whether this is an array of `numpy.ma`: where nobody has imported that, which takes 10 ms,
    there are none."""
    return isinstance(value, getattr(sys.modules.get("numpy.ma"), "MaskedArray", ()))


def _check_unmasked(value: ArrayLike) -> None:
    if is_masked(value):
        raise DTypeError(
            explain(
                "tensor",
                "masked arrays are not supported: the mask would be lost",
                fix="value.filled(0), or where(mask, 0, value)",
            )
        )


def _ragged(value: ArrayLike) -> ShapeError:
    return ShapeError(
        explain(
            "tensor",
            "nested sequences of different lengths are not an array",
            got={"value": _shortened(value)},
            expected="equal lengths at each level of nesting",
            fix="pad the rows to one length, or keep a list of tensors",
        )
    )


def _checked_dtype(array: np.ndarray) -> np.dtype:
    if kind_of(array.dtype) in "OSUTMmV":
        if array.dtype == object and not array.ndim and callable(array.item()):
            raise DTypeError(
                explain(
                    "tensor",
                    "a function, where a number or an array is needed",
                    got={"value": _shortened(array.item())},
                    fix="call it: x.sum(), not x.sum",
                )
            )
        raise DTypeError(
            explain(
                "tensor",
                "not an array of numbers",
                got={"dtype": array.dtype, "value": _shortened(array)},
                expected=SUPPORTED,
                fix=_instead_of(array),
            )
        )
    return canonical_dtype(array.dtype)


def _instead_of(array: np.ndarray) -> str:
    """What to type in place of an array that holds no numbers."""
    if array.dtype != object or array.ndim:
        return "numpy.asarray(value, dtype=float), if these are numbers"
    thing = array.item()
    if thing is None:
        return "a value in place of None, such as the result that a function forgot to return"
    if callable(getattr(thing, "toarray", None)):
        return "value @ x, for the product of a sparse matrix; value.toarray(), if it is small"
    return "the arrays that it holds, in a tuple, list, dict or dataclass"


def _aliased(array: np.ndarray, dtype: np.dtype, *, is_array: bool) -> np.ndarray:
    problem = ""
    if not is_array:
        problem = "not a NumPy array"
    elif array.dtype != dtype:
        problem = f"a copy is needed to convert from {array.dtype} to {dtype}"
    elif not array.flags.c_contiguous:
        problem = "a copy is needed to make it C-contiguous"
    if problem:
        raise ValueError(
            explain(
                "tensor",
                problem,
                got={"copy": False},
                expected=f"a C-contiguous array of {dtype}",
                fix="copy=True",
            )
        )
    return array.view(np.ndarray)


def _shortened(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


_OF_SORTED = "ng.sort(x), and comparisons of neighbours: the shape is then known"
_FIXED = "indices as an array, known before the function is traced"
_fixes_under_tracing = {
    **dict.fromkeys(("unique", "intersect1d", "union1d", "setdiff1d", "setxor1d"), _OF_SORTED),
    "bincount": "np.bincount(x, weights, minlength=n), where n is known: a larger element is then "
    "an error",
    "histogram": "a number of bins, or bins=edges",
    "digitize": "ng.searchsorted(bins, x, side='right'), for bins that increase",
    "at": _FIXED,
    "reduceat": _FIXED,
    "hash": "an array of the values, np.array(values, like=x)[k], in place of a dict; np.isin(x, "
    "values) in place of `x in values`, or that with jit(f, control_flow=True)",
    "roots": "ng.linalg.eigvals of the companion matrix, np.diag(np.ones(n - 1), -1) with "
    "-p[1:] / p[0] in its first row, where p[0] is not 0",
    "trim_zeros": "arrays of coefficients and np.polyval in place of np.poly1d, which leaves out "
    "leading zeros; np.convolve for products",
    "index by a mask": "ng.where(mask, x, 0) in place of x[mask]; v[mask] for an array v of the "
    "shape of x in x[mask] = v",
}
_CONVERSIONS = frozenset(
    (
        *("float", "int", "complex", "item", "tolist", "index", "round", "floor", "ceil", "trunc"),
        *("numpy", "asarray", "pickle", "save", "__dlpack__", "__cuda_array_interface__"),
    )
)
_FIXED_ARGUMENT = (
    "static_argnums=... for an argument of the jitted function that decides about shapes, loops or "
    "branches; or return x, and convert the result"
)


def _fix_under_tracing(operation: str) -> str:
    own = operation.rpartition(".")[2]
    if own in _CONVERSIONS:
        return instead_of_conversion(is_index=own == "index") or _FIXED_ARGUMENT
    if own == "bool" and (fix := instead_of_truth()):
        return fix
    return _fixes_under_tracing.get(
        own,
        "ng.where(condition, x, y) to choose element by element; jit(f, control_flow=True) for "
        "`if` and `while` on values, or ng.cond and ng.while_loop; static_argnums=... for an "
        "argument of the jitted function that only chooses",
    )


def value_of(node: Node, operation: str = "index") -> np.ndarray:
    """The value of `node` in host memory, computed now if it is not known. Nobody may write to it.

    Raises
    ------
    TracingError
        If it depends on an argument of a function that is being traced.
    """
    return on_host(computed_value(node, operation))


def computed_value(node: Node, operation: str) -> Any:
    """As `value_of`, on the device that `node` is on."""
    value = node.value
    if value is None:
        if is_traced(node):
            for argument in traced_arguments([node]):
                check_inside(argument, node)
                check_compiled(argument)
            message = explain(
                operation,
                "needs the value of a tensor while a function is being traced: there is none",
                got={"tensor": node.type},
                expected="operations on tensors only, inside jit, vmap, loops and branches",
                fix=_fix_under_tracing(operation),
            )
            if current.trace is not None:
                current.trace.refused.append(message)
            raise TracingError(message)
        values_asked_for(node)
        evaluate([node], is_look=current.trace is None)
        value = node.value
    else:
        values_asked_for(node)
    assert value is not None, "evaluate sets the value"
    return value


def known_value(node: Node) -> np.ndarray | None:
    """The value, if it is known on the host. Nothing is computed, and no GPU is waited for."""
    if node.type.device != CPU or node.value is None:
        return None
    values_asked_for(node)
    return node.value


# A shorter past than this is left: what a loop with gradients makes beside, the time or its data,
# would be cut from it in one call of many, which then is planned anew.
LONG_PAST = 8_192


def flush(node: Node) -> None:
    """Compute `node`, and what users hold of its past, if that is long and has no history to keep
    anyway.

    Else a simulation without gradients would record until memory is full. Only where nothing is
    being traced.
    """
    if node.requires_grad or node.value is not None:
        return
    pending = toposort([node], stop=lambda n: n.value is not None)
    if len(pending) < LONG_PAST or any(map(stands_for_a_value, pending)):
        return
    evaluate([n for n in pending if n.value is None and not n.requires_grad and is_held(n)])
