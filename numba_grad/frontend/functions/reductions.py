"""Functions of NumPy that combine elements along axes.

Here all, any, max, min and sum are NumPy's, not Python's.
"""

import builtins
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.dtypes import BOOL, FLOAT64, INT64, UINT64, computed_in, ends, is_inexact
from numba_grad.errors import ShapeError, explain
from numba_grad.frontend.inputs.arrays import (
    ArrayLike,
    as_assigned,
    as_inexact,
    as_node,
    as_optional_dtype,
    is_scalar,
    scalar_leaf,
    wrap,
)
from numba_grad.frontend.inputs.known_calls import by_types, warn
from numba_grad.frontend.inputs.selections import Selection
from numba_grad.graph.node import OPS, Node, record
from numba_grad.graph.types import is_axis_of_number, normalize_axes, normalize_axis, reduced_axes
from numba_grad.ops.families import axes_params, broadcast_to, cast, full, placed, reshape

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "log_softmax",
    "logsumexp",
    "max",
    "mean",
    "min",
    "prod",
    "ptp",
    "softmax",
    "std",
    "sum",
    "var",
]

Axis = int | tuple[int, ...] | None


def reduced(op_name: str, x: Node, axis: Axis, keepdims: bool = False, operation: str = "") -> Node:
    """`x` with `axis` reduced by a primitive."""
    axes = reduced_axes(operation or op_name, axis, len(x.shape))
    # Over no axes every element is a result of its own.
    result = record(OPS[op_name], (x,), axes_params(axes)) if axes else x
    return kept(result, x, axes) if keepdims else result


def kept(result: Node, x: Node, axes: tuple[int, ...]) -> Node:
    """`result` with the reduced `axes` of `x` back, of size 1."""
    return reshape(result, tuple([1 if k in axes else n for k, n in enumerate(x.shape)]))


def count(x: Node, axis: Axis, operation: str) -> int:
    """How many elements are combined into one."""
    result = 1
    for number in normalize_axes(operation, axis, len(x.shape)):
        result *= x.shape[number]
    return result


def _chosen(operation: str, x: Node, where: ArrayLike, neutral: complex) -> Node:
    """`x`, with `neutral` where the mask `where` is false."""
    if where is True:
        return x
    return OPS["where"](mask_like(operation, x, where), x, full(neutral, (), x.dtype))


def mask_like(operation: str, x: Node, where: ArrayLike) -> Node:
    """The mask `where` in the shape of `x`."""
    mask = cast(as_node(where), BOOL)
    extra = len(x.shape) - len(mask.shape)
    if extra < 0 or builtins.any(
        n not in (1, m) for n, m in zip(mask.shape, x.shape[extra:], strict=True)
    ):
        raise ShapeError(
            explain(
                operation,
                "the mask does not broadcast to the shape of x",
                got={"x": x.type, "where": mask.type},
                expected="on every axis, counted from the last, equal sizes or a size of 1",
            )
        )
    return broadcast_to(placed(mask, x.type.device), x.shape)


def _started(op_name: str, result: Node, initial: ArrayLike | None) -> Node:
    """`result` combined with the value to start from."""
    return result if initial is None else OPS[op_name](result, _start(initial, result))


def _start(initial: ArrayLike, x: Node) -> Node:
    """The number to start from, which a result like `x` can have. Of Python's numbers NumPy refuses
    others; those that have a dtype it converts."""
    node = as_assigned(initial, x) if is_scalar(initial) else as_node(initial)
    node = cast(node, x.dtype)
    if node.shape:
        raise ShapeError(explain("initial", "not one number", got={"initial": node.type}))
    return node


def sum(
    x: ArrayLike,
    axis: Axis = None,
    dtype: object = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike = True,
) -> "Tensor":
    """The sum over `axis` (an axis, several, or all by default), of the elements where the mask
    `where` is true, and of `initial`.

    Integers are summed in 64 bits, as in NumPy. Bitwise the same for any number of threads.
    """
    if isinstance(x, Selection):
        return x.reduced(sum, axis, dtype, keepdims=keepdims, initial=initial, where=where)
    node = _accumulated(as_node(x), as_optional_dtype(dtype))
    is_bool = node.dtype == BOOL  # by its dtype argument: then + is "or", as in NumPy
    node = _chosen("sum", node, where, 0)
    result = reduced("any" if is_bool else "sum", node, axis, keepdims, "sum")
    return wrap(_started("logical_or" if is_bool else "add", result, initial))


def prod(
    x: ArrayLike,
    axis: Axis = None,
    dtype: object = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike = True,
) -> "Tensor":
    """The product over `axis` (an axis, several, or all by default), of the elements where the mask
    `where` is true, and of `initial`.

    Gradients are exact also where factors are 0.
    """
    if isinstance(x, Selection):
        return x.reduced(prod, axis, dtype, keepdims=keepdims, initial=initial, where=where)
    node = _accumulated(as_node(x), as_optional_dtype(dtype))
    is_bool = node.dtype == BOOL
    node = _chosen("prod", node, where, 1)
    result = reduced("all" if is_bool else "prod", node, axis, keepdims, "prod")
    return wrap(_started("logical_and" if is_bool else "multiply", result, initial))


def _accumulated(x: Node, dtype: np.dtype | None) -> Node:
    """`x` in the dtype that NumPy sums it in."""
    if dtype is None:
        dtype = x.dtype
        if dtype.kind in "bi":
            dtype = INT64
        elif dtype.kind == "u":
            dtype = UINT64
    return cast(x, dtype)


def max(
    x: ArrayLike,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike = True,
) -> "Tensor":
    """The largest element along `axis`; nan if there is one. Equal largest ones share the gradient.

    Also of `initial`, if given. With a mask `where`, of the elements for which it is true.

    Raises
    ------
    ValueError
        If there are no elements, or may be none because of a mask, and no `initial`.
    """
    if isinstance(x, Selection):
        return x.reduced(max, axis, keepdims=keepdims, initial=initial, where=where)
    return wrap(_extreme("max", as_node(x), axis, keepdims, initial, where))


def min(
    x: ArrayLike,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike = True,
) -> "Tensor":
    """The smallest element along `axis`; nan if there is one. Equal ones share the gradient.

    Also of `initial`, if given. With a mask `where`, of the elements for which it is true.

    Raises
    ------
    ValueError
        If there are no elements, or may be none because of a mask, and no `initial`.
    """
    if isinstance(x, Selection):
        return x.reduced(min, axis, keepdims=keepdims, initial=initial, where=where)
    return wrap(_extreme("min", as_node(x), axis, keepdims, initial, where))


def _extreme(
    op_name: str,
    x: Node,
    axis: Axis,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike,
) -> Node:
    if initial is None:
        if where is not True:
            raise ValueError(
                explain(
                    op_name,
                    "without initial=, there may be no element that the mask chooses",
                    fix=f"initial={neutral_of(op_name, x.dtype)}",
                )
            )
        return reduced(op_name, x, axis, keepdims)
    start = _start(initial, x)
    axes = reduced_axes(op_name, axis, len(x.shape))
    if not count(x, axes, op_name):
        shape = [n for k, n in enumerate(x.shape) if k not in axes]
        result = broadcast_to(start, tuple(shape))
        return kept(result, x, axes) if keepdims else result
    chosen = _chosen(op_name, x, where, neutral_of(op_name, x.dtype))
    result = reduced(op_name, chosen, axes, keepdims)
    if x.dtype == BOOL:
        return OPS["logical_or" if op_name == "max" else "logical_and"](result, start)
    return OPS[f"{op_name}imum"](result, start)


def neutral_of(op_name: str, dtype: np.dtype) -> complex:
    """What changes no maximum or minimum."""
    least, greatest = ends(dtype)
    return least if op_name == "max" else greatest


def any(
    x: ArrayLike, axis: Axis = None, *, keepdims: bool = False, where: ArrayLike = True
) -> "Tensor":
    """Whether an element along `axis` is true, that is, not 0; of those that `where` chooses."""
    if isinstance(x, Selection):
        return x.reduced(any, axis, keepdims=keepdims, where=where)
    node = _chosen("any", cast(as_node(x), BOOL), where, False)
    return wrap(reduced("any", node, axis, keepdims))


def all(
    x: ArrayLike, axis: Axis = None, *, keepdims: bool = False, where: ArrayLike = True
) -> "Tensor":
    """Whether all elements along `axis` are true, that is, not 0; of those that `where` chooses."""
    if isinstance(x, Selection):
        return x.reduced(all, axis, keepdims=keepdims, where=where)
    node = _chosen("all", cast(as_node(x), BOOL), where, True)
    return wrap(reduced("all", node, axis, keepdims))


def count_nonzero(x: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> "Tensor":
    """How many elements along `axis` are not 0."""
    if isinstance(x, Selection):
        return x.reduced(count_nonzero, axis, keepdims=keepdims)
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
    if axis is None or is_axis_of_number(axis, len(node.shape)):
        result = OPS[op_name](reshape(node, (node.type.size,)), axis=0)
        axes = tuple(range(len(node.shape)))
    else:
        number = normalize_axis(op_name, axis, len(node.shape))
        result = OPS[op_name](node, axis=number)
        axes = (number,)
    return wrap(kept(result, node, axes) if keepdims else result)


@by_types(operands=1)
def mean(
    x: ArrayLike,
    axis: Axis = None,
    dtype: object = None,
    *,
    keepdims: bool = False,
    where: ArrayLike = True,
) -> "Tensor":
    """The mean over `axis` (an axis, several, or all by default) of the elements where the mask
    `where` is true; nan of no elements, with NumPy's RuntimeWarning if that follows from the shape.
    """
    if isinstance(x, Selection):
        return x.reduced(mean, axis, dtype, keepdims=keepdims, where=where)
    node = as_node(x)
    wanted = as_optional_dtype(dtype)
    computing, result = mean_dtypes(node.dtype, wanted)
    number = _number("mean", node, axis, keepdims, where, computing)
    if number.__class__ is float and not number:
        warn("Mean of empty slice", stacklevel=2)
    return wrap(cast(_mean(cast(node, computing), axis, keepdims, where, number), result))


def _mean(x: Node, axis: Axis, keepdims: bool, where: ArrayLike, number: float | Node) -> Node:
    total = reduced("sum", _chosen("mean", x, where, 0), axis, keepdims, "mean")
    return _divided(total, number)


def _number(
    operation: str, x: Node, axis: Axis, keepdims: bool, where: ArrayLike, dtype: np.dtype
) -> float | Node:
    """How many elements along `axis` there are, or how many a mask chooses."""
    if where is True:
        return float(count(x, axis, operation))
    numbers = cast(mask_like(operation, x, where), INT64)
    return cast(reduced("sum", numbers, axis, keepdims, operation), dtype)


def mean_dtypes(dtype: np.dtype, wanted: np.dtype | None) -> tuple[np.dtype, np.dtype]:
    """What NumPy computes a mean in, and gives."""
    if wanted is not None and is_inexact(wanted):
        return wanted, wanted
    if wanted is not None:
        return FLOAT64, wanted
    if dtype.kind in "bui":
        return FLOAT64, FLOAT64
    return computed_in(dtype), dtype


def _divided(total: Node, n: float | Node) -> Node:
    if isinstance(n, Node):
        return OPS["divide"](total, cast(n, total.dtype))
    if n and math.frexp(n)[0] == 0.5:
        # The same to the bit for a power of two, at a quarter of the cost where it is computed at
        # each place that a stencil is read at.
        return OPS["multiply"](total, scalar_leaf(1 / n, total.dtype))
    return OPS["divide"](total, scalar_leaf(n, total.dtype))


@by_types(operands=1)
def var(
    x: ArrayLike,
    axis: Axis = None,
    dtype: object = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> "Tensor":
    """The mean squared distance from the mean over `axis`; divides by n - ddof.

    Parameters
    ----------
    ddof, correction : two names for the same number
    where : mask of the elements that count
    mean : the mean, if it is known, with the reduced axes kept

    Notes
    -----
    nan of no elements, with NumPy's RuntimeWarning if n - ddof is not positive by the shape.
    """
    return _spread(var, x, axis, dtype, ddof, keepdims, where, mean, correction)


@by_types(operands=1)
def std(
    x: ArrayLike,
    axis: Axis = None,
    dtype: object = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> "Tensor":
    """The square root of the variance over `axis`. Gradient 0 where it is 0. As `var`."""
    return _spread(std, x, axis, dtype, ddof, keepdims, where, mean, correction)


def _spread(
    function: Callable[..., "Tensor"],
    x: ArrayLike,
    axis: Axis,
    dtype: object,
    ddof: float,
    keepdims: bool,
    where: ArrayLike,
    mean: ArrayLike | None,
    correction: float | None,
) -> "Tensor":
    """What `function`, which is `var` or `std`, gives."""
    name = function.__name__
    lost = degrees_lost(name, ddof, correction)
    if isinstance(x, Selection):
        return x.reduced(
            function, axis, dtype, ddof=lost, keepdims=keepdims, where=where, mean=mean
        )
    wanted = as_optional_dtype(dtype)
    variance, result = _variance(name, as_node(x), axis, wanted, lost, keepdims, where, mean)
    found = variance if function is var else root_with_gradient_0_at_0(variance)
    return wrap(cast(found, result))


def degrees_lost(operation: str, ddof: float, correction: float | None) -> float:
    if correction is None:
        return ddof
    if ddof:
        got: dict[str, object] = {"ddof": ddof, "correction": correction}
        raise ValueError(explain(operation, "two names for one number", got=got))
    return correction


def _variance(
    operation: str,
    x: Node,
    axis: Axis,
    wanted: np.dtype | None,
    ddof: float,
    keepdims: bool,
    where: ArrayLike,
    center: ArrayLike | None,
) -> tuple[Node, np.dtype]:
    """The variance in the dtype that it is computed in, and the dtype to give it in."""
    computing, result = mean_dtypes(x.dtype, wanted)
    x = cast(x, computing)
    if center is None:
        number = _number(operation, x, axis, True, where, computing)
        middle = _mean(x, axis, True, where, number)
    else:
        middle = cast(as_node(center), computing)
    distances = _chosen(operation, OPS["subtract"](x, middle), where, 0)
    squares = squared_magnitude(distances)
    if result.kind == "c" and wanted is None:
        result = squares.dtype
    total = reduced("sum", squares, axis, keepdims, operation)
    divisor = _number(operation, x, axis, keepdims, where, total.dtype)
    if isinstance(divisor, Node):
        left = OPS["subtract"](divisor, scalar_leaf(float(ddof), total.dtype))
        return _divided(total, OPS["maximum"](left, full(0, (), total.dtype))), result
    if divisor <= ddof:
        warn("Degrees of freedom <= 0 for slice", stacklevel=4)
    return _divided(total, builtins.max(divisor - ddof, 0.0)), result


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


@by_types(operands=1)
def logsumexp(x: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> "Tensor":
    """The logarithm of the sum of exponentials over `axis`, without overflow.

    Notes
    -----
    All -inf gives -inf, with gradient 0. The gradient is softmax(x). Of complex numbers it is the
    logarithm with an imaginary part from -pi to pi.

    Examples
    --------
    >>> ng.logsumexp(ng.tensor([1000.0, 1000.0]))
    tensor(1000.69314718)
    """
    node = as_inexact(x)
    shift = finite_maximum(node, axis, "logsumexp")
    total = reduced("sum", OPS["exp"](node - shift), axis, True)
    zero = full(0, (), node.dtype)
    is_zero = OPS["equal"](total, zero)
    logarithm = OPS["log"](OPS["where"](is_zero, full(1, (), node.dtype), total))
    result = OPS["where"](is_zero, full(-np.inf, (), node.dtype), logarithm) + shift
    if keepdims:
        return wrap(result)
    axes = normalize_axes("logsumexp", axis, len(node.shape))
    return wrap(reshape(result, tuple([n for k, n in enumerate(node.shape) if k not in axes])))


@by_types(operands=1)
def softmax(x: ArrayLike, axis: Axis = -1) -> "Tensor":
    """exp(x) / sum(exp(x)) over `axis`, the last one by default, without overflow."""
    node = as_inexact(x)
    size = OPS["real"](node) if node.dtype.kind == "c" else node
    powers = OPS["exp"](node - cast(_largest(size, axis, "softmax"), node.dtype))
    return wrap(OPS["divide"](powers, reduced("sum", powers, axis, True)))


@by_types(operands=1)
def log_softmax(x: ArrayLike, axis: Axis = -1) -> "Tensor":
    """log(softmax(x)) over `axis`, the last one by default, accurate where softmax is tiny.

    Of complex numbers, as SciPy's: its imaginary part may be beyond pi.
    """
    node = as_inexact(x)
    shifted = node - _finite(_largest(node, axis, "log_softmax"))
    total = reduced("sum", OPS["exp"](shifted), axis, True)
    return wrap(shifted - OPS["log"](total))


def finite_maximum(x: Node, axis: Axis, operation: str) -> Node:
    """The maximum over `axis`, kept, as a constant for gradients; 0 where it is infinite or nan, or
    there is none. Of complex numbers that of the real parts, on which the size of exp depends."""
    if x.dtype.kind == "c":
        return cast(_finite(_largest(OPS["real"](x), axis, operation)), x.dtype)
    return _finite(_largest(x, axis, operation))


def _largest(x: Node, axis: Axis, operation: str) -> Node:
    if not count(x, axis, operation):
        axes = normalize_axes(operation, axis, len(x.shape))
        return full(0, tuple([1 if k in axes else n for k, n in enumerate(x.shape)]), x.dtype)
    return OPS["detach"](reduced("max", x, axis, True))


def _finite(x: Node) -> Node:
    return OPS["where"](OPS["isfinite"](x), x, full(0, (), x.dtype))


amax = max
amin = min
