"""Functions of NumPy that combine elements along axes.

Here all, any, max, min and sum are NumPy's, not Python's.
"""

from typing import TYPE_CHECKING

import numpy as np

from numba_grad.errors import DTypeError, explain
from numba_grad.frontend.arrays import ArrayLike, as_node, as_optional_dtype, scalar_leaf, wrap
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import normalize_axes, normalize_axis
from numba_grad.ops.families import cast, full, reshape

if TYPE_CHECKING:
    from numba_grad.frontend.tensor import Tensor

Axis = int | tuple[int, ...] | None

BOOL = np.dtype(bool)
INT64 = np.dtype(np.int64)
UINT64 = np.dtype(np.uint64)
FLOAT32 = np.dtype(np.float32)
FLOAT64 = np.dtype(np.float64)


def reduced(op_name: str, x: Node, axis: Axis, keepdims: bool = False, operation: str = "") -> Node:
    """`x` with `axis` reduced by a primitive."""
    axes = normalize_axes(operation or op_name, axis, len(x.shape))
    # Over no axes every element is a result of its own.
    result = OPS[op_name](x, axes=axes) if axes else x
    return kept(result, x, axes) if keepdims else result


def kept(result: Node, x: Node, axes: tuple[int, ...]) -> Node:
    """`result` with the reduced `axes` of `x` back, of size 1."""
    return reshape(result, tuple([1 if k in axes else n for k, n in enumerate(x.shape)]))


def count(x: Node, axis: Axis) -> int:
    """How many elements are combined into one."""
    result = 1
    for number in normalize_axes("mean", axis, len(x.shape)):
        result *= x.shape[number]
    return result


def sum(
    x: ArrayLike, axis: Axis = None, dtype: object = None, *, keepdims: bool = False
) -> "Tensor":
    """The sum over `axis` (an axis, several, or all by default).

    Integers are summed in 64 bits, as in NumPy. Bitwise the same for any number of threads.
    """
    node = _accumulated(as_node(x), as_optional_dtype(dtype))
    return wrap(reduced("sum", node, axis, keepdims))


def prod(
    x: ArrayLike, axis: Axis = None, dtype: object = None, *, keepdims: bool = False
) -> "Tensor":
    """The product over `axis` (an axis, several, or all by default).

    Gradients are exact also where factors are 0.
    """
    node = _accumulated(as_node(x), as_optional_dtype(dtype))
    return wrap(reduced("prod", node, axis, keepdims))


def _accumulated(x: Node, dtype: np.dtype | None) -> Node:
    """`x` in the dtype that NumPy sums it in."""
    if dtype is None:
        dtype = x.dtype
        if dtype.kind in "bi":
            dtype = INT64
        elif dtype.kind == "u":
            dtype = UINT64
    return cast(x, dtype)


def max(x: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> "Tensor":
    """The largest element along `axis`; nan if there is one. Equal largest ones share the gradient.

    Raises
    ------
    ValueError
        If there are no elements.
    """
    return wrap(reduced("max", as_node(x), axis, keepdims))


def min(x: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> "Tensor":
    """The smallest element along `axis`; nan if there is one. Equal ones share the gradient.

    Raises
    ------
    ValueError
        If there are no elements.
    """
    return wrap(reduced("min", as_node(x), axis, keepdims))


def any(x: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> "Tensor":
    """Whether an element along `axis` is true, that is, not 0."""
    return wrap(reduced("any", cast(as_node(x), BOOL), axis, keepdims))


def all(x: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> "Tensor":
    """Whether all elements along `axis` are true, that is, not 0."""
    return wrap(reduced("all", cast(as_node(x), BOOL), axis, keepdims))


def count_nonzero(x: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> "Tensor":
    """How many elements along `axis` are not 0."""
    node = cast(cast(as_node(x), BOOL), INT64)
    return wrap(reduced("sum", node, axis, keepdims, "count_nonzero"))


def argmax(x: ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> "Tensor":
    """The index of the first largest element along `axis`, or among all by default."""
    return _arg("argmax", x, axis, keepdims)


def argmin(x: ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> "Tensor":
    """The index of the first smallest element along `axis`, or among all by default."""
    return _arg("argmin", x, axis, keepdims)


def _arg(op_name: str, x: ArrayLike, axis: int | None, keepdims: bool) -> "Tensor":
    node = as_node(x)
    if axis is None:
        result = OPS[op_name](reshape(node, (node.type.size,)), axis=0)
        axes = tuple(range(len(node.shape)))
    else:
        number = normalize_axis(op_name, axis, len(node.shape))
        result = OPS[op_name](node, axis=number)
        axes = (number,)
    return wrap(kept(result, node, axes) if keepdims else result)


def mean(
    x: ArrayLike, axis: Axis = None, dtype: object = None, *, keepdims: bool = False
) -> "Tensor":
    """The mean over `axis` (an axis, several, or all by default); nan of no elements."""
    node = as_node(x)
    wanted = as_optional_dtype(dtype)
    computing, result = mean_dtypes(node.dtype, wanted)
    total = reduced("sum", cast(node, computing), axis, keepdims, "mean")
    return wrap(cast(_divided(total, count(node, axis)), result))


def mean_dtypes(dtype: np.dtype, wanted: np.dtype | None) -> tuple[np.dtype, np.dtype]:
    """What NumPy computes a mean in, and gives."""
    if wanted is not None and wanted.kind in "fc":
        return wanted, wanted
    if wanted is not None:
        return FLOAT64, wanted
    if dtype.kind in "bui":
        return FLOAT64, FLOAT64
    if dtype.itemsize == 2:
        return FLOAT32, dtype
    return dtype, dtype


def _divided(total: Node, n: float) -> Node:
    return OPS["divide"](total, scalar_leaf(float(n), total.dtype))


def var(
    x: ArrayLike,
    axis: Axis = None,
    dtype: object = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
) -> "Tensor":
    """The mean squared distance from the mean over `axis`; divides by n - ddof."""
    node = as_node(x)
    variance, result = _variance(node, axis, as_optional_dtype(dtype), ddof, keepdims)
    return wrap(cast(variance, result))


def std(
    x: ArrayLike,
    axis: Axis = None,
    dtype: object = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
) -> "Tensor":
    """The square root of the variance over `axis`. Gradient 0 where it is 0."""
    node = as_node(x)
    variance, result = _variance(node, axis, as_optional_dtype(dtype), ddof, keepdims)
    return wrap(cast(root_with_gradient_0_at_0(variance), result))


def _variance(
    x: Node, axis: Axis, wanted: np.dtype | None, ddof: float, keepdims: bool
) -> tuple[Node, np.dtype]:
    """The variance in the dtype that it is computed in, and the dtype to give it in."""
    computing, result = mean_dtypes(x.dtype, wanted)
    x = cast(x, computing)
    center = _divided(reduced("sum", x, axis, True, "var"), count(x, axis))
    squares = squared_magnitude(x - center)
    if result.kind == "c":
        result = squares.dtype
    total = reduced("sum", squares, axis, keepdims, "var")
    divisor = count(x, axis) - ddof
    return _divided(total, divisor if divisor > 0 else 0.0), result


def squared_magnitude(x: Node) -> Node:
    """|x|**2, real also for complex x."""
    if x.dtype.kind == "c":
        return OPS["square"](OPS["real"](x)) + OPS["square"](OPS["imag"](x))
    return OPS["square"](x)


def root_with_gradient_0_at_0(x: Node) -> Node:
    """sqrt(x) whose derivative at 0 is 0, not infinite: for distances, which have a kink there."""
    zero = full(0, (), x.dtype)
    is_zero = OPS["equal"](x, zero)
    # Both selections are needed: the inner one keeps infinity out of the derivative, the outer one
    # keeps the value.
    root = OPS["sqrt"](OPS["where"](is_zero, full(1, (), x.dtype), x))
    return OPS["where"](is_zero, zero, root)


def ptp(x: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> "Tensor":
    """The largest minus the smallest element along `axis`."""
    node = as_node(x)
    largest = reduced("max", node, axis, keepdims, "ptp")
    return wrap(largest - reduced("min", node, axis, keepdims, "ptp"))


def logsumexp(x: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> "Tensor":
    """The logarithm of the sum of exponentials over `axis`, without overflow.

    Notes
    -----
    All -inf gives -inf, with gradient 0. The gradient is softmax(x).

    Examples
    --------
    >>> ng.logsumexp(ng.tensor([1000.0, 1000.0]))
    tensor(1000.69314718)
    """
    node = _floating(x, "logsumexp")
    shift = _finite_maximum(node, axis)
    total = reduced("sum", OPS["exp"](node - shift), axis, True)
    zero = full(0, (), node.dtype)
    is_zero = OPS["equal"](total, zero)
    logarithm = OPS["log"](OPS["where"](is_zero, full(1, (), node.dtype), total))
    result = OPS["where"](is_zero, full(-np.inf, (), node.dtype), logarithm) + shift
    if keepdims:
        return wrap(result)
    axes = normalize_axes("logsumexp", axis, len(node.shape))
    return wrap(reshape(result, tuple([n for k, n in enumerate(node.shape) if k not in axes])))


def softmax(x: ArrayLike, axis: Axis = -1) -> "Tensor":
    """exp(x) / sum(exp(x)) over `axis`, the last one by default, without overflow."""
    node = _floating(x, "softmax")
    powers = OPS["exp"](node - _finite_maximum(node, axis))
    return wrap(OPS["divide"](powers, reduced("sum", powers, axis, True)))


def log_softmax(x: ArrayLike, axis: Axis = -1) -> "Tensor":
    """log(softmax(x)) over `axis`, the last one by default, accurate where softmax is tiny."""
    node = _floating(x, "log_softmax")
    shifted = node - _finite_maximum(node, axis)
    total = reduced("sum", OPS["exp"](shifted), axis, True)
    return wrap(shifted - OPS["log"](total))


def _finite_maximum(x: Node, axis: Axis) -> Node:
    """The maximum over `axis`, kept, as a constant for gradients; 0 where it is infinite or nan."""
    largest = OPS["detach"](reduced("max", x, axis, True))
    return OPS["where"](OPS["isfinite"](largest), largest, full(0, (), x.dtype))


def _floating(x: ArrayLike, operation: str) -> Node:
    node = as_node(x)
    if node.dtype.kind == "c":
        raise DTypeError(
            explain(
                operation,
                "not defined for complex numbers",
                got={"x": node.type},
                expected="a real dtype",
            )
        )
    return node if node.dtype.kind == "f" else cast(node, FLOAT64)


amax = max
amin = min
