"""For tests of users' own functions and rules: derivatives against finite differences."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from numba_grad.autograd.finite_differences import FOURTH_ORDER, slopes_by_element, units
from numba_grad.dtypes import is_inexact
from numba_grad.errors import explain
from numba_grad.frontend.derivatives.gradients import grad
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node, constant_beside, wrap
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.graph.types import CPU
from numba_grad.ops.families import placed

# Neither truncation nor rounding exceeds some 1e-11 of a well-scaled function, at fourth order.
_STEP = 4e-4


@dataclass(frozen=True, slots=True)
class _Point:
    """An argument to vary, and where it is."""

    array: np.ndarray
    device: str

    def tensor(self) -> Tensor:
        return wrap(placed(as_node(self.array), self.device))


def check_gradients(
    f: Callable[..., Any],
    *args: Any,
    order: int = 2,
    rtol: float = 1e-6,
    atol: float = 1e-6,
    elements: int = 64,
) -> None:
    """Compare the derivatives of `f` at `args` with finite differences.

    Parameters
    ----------
    f : function of `args`; its floating and complex results are checked, others ignored
    args : arrays, numbers, or nested tuples, lists, dicts and dataclasses of them. Those of dtype
        float64 and complex128 are differentiated.
    order : 1 checks the gradient, 2 also the gradient of the gradient, ...
    rtol, atol : allowed difference
    elements : at most so many, chosen at random, of the elements of each array are checked

    Raises
    ------
    AssertionError
        Naming the argument, the element, and both derivatives.
    DTypeError
        If an argument has a dtype in which differences say nothing: float32, complex64, float16.

    Notes
    -----
    The function checked is a sum of the results with random weights, so an error in any of them
    shows. Differences are of fourth order. `args` should be away from kinks by 0.001 or more.

    Examples
    --------
    >>> check_gradients(lambda x, y: np.sin(x) * y, np.array([0.1, 0.2]), 3.0)
    """
    leaves, structure = trees.flatten(args)
    values = [_as_array(x) for x in leaves]
    rng = np.random.default_rng(0)
    chosen = [k for k, x in enumerate(values) if x is not None and is_inexact(x.dtype)]
    for k in chosen:
        _require_double(values[k], trees.leaf_names(structure, "args")[k])

    def of_chosen(*arrays: Any) -> Any:
        for k, array in zip(chosen, arrays, strict=True):
            leaves[k] = array
        return f(*trees.unflatten(structure, leaves))

    points = [_Point(values[k].copy(), getattr(leaves[k], "device", CPU)) for k in chosen]
    names = [trees.leaf_names(structure, "args")[k] for k in chosen]
    function = _weighted(of_chosen, rng)
    for current in range(1, order + 1):
        gradient = grad(function, argnums=tuple(range(len(points))))
        _compare(function, gradient, points, names, current, rng, elements, rtol, atol)
        function = _weighted(gradient, rng)


def _as_array(x: Any) -> Any:
    """A leaf as an array to vary, None if it is no array or number."""
    if isinstance(x, Tensor):
        return np.array(x.detach().cpu().numpy())
    if isinstance(x, np.ndarray | np.generic | float | complex):
        return np.array(x)
    return None


def _require_double(x: np.ndarray, name: str) -> None:
    if x.dtype not in (np.float64, np.complex128):
        raise TypeError(
            explain(
                "check_gradients",
                "finite differences need double precision",
                got={name: x.dtype},
                fix="pass the array .astype(numpy.float64)",
            )
        )


def _weighted(f: Callable[..., Any], rng: "np.random.Generator") -> Callable[..., Any]:
    """The sum of all elements of all results, with fixed random weights: one real number."""
    weights: list[np.ndarray] = []

    def scalar(*arrays: Any) -> Any:
        results = [x for x in trees.flatten(f(*arrays))[0] if is_inexact(x.dtype)]
        total: Any = 0.0
        for k, x in enumerate(results):
            if len(weights) == k:
                weights.append(rng.uniform(0.5, 1.5, size=x.shape))
                if np.dtype(x.dtype).kind == "c":
                    weights[k] = weights[k] + 1j * rng.uniform(0.5, 1.5, size=x.shape)
            node = as_node(x)
            products = wrap(node) * wrap(constant_beside(node, weights[k]))
            total = total + (products.real if weights[k].dtype.kind == "c" else products).sum()
        return total

    return scalar


def _compare(
    function: Callable[..., Any],
    gradient: Callable[..., Any],
    points: list[_Point],
    names: list[str],
    order: int,
    rng: "np.random.Generator",
    elements: int,
    rtol: float,
    atol: float,
) -> None:
    found = [g.detach().cpu().numpy() for g in gradient(*[point.tensor() for point in points])]
    for k, point in enumerate(point.array for point in points):
        numbers = sorted(rng.permutation(point.size)[:elements])
        moved = functools.partial(_value_at, function, points, k)
        for number, unit in zip(numbers, units(point.shape, numbers), strict=True):
            index = np.unravel_index(number, point.shape)
            step = _STEP * max(1.0, float(abs(point[index])))
            (expected,) = slopes_by_element(moved, point, unit, step, FOURTH_ORDER)
            if not np.isclose(found[k][index], expected, rtol=rtol, atol=atol, equal_nan=True):
                raise AssertionError(
                    explain(
                        "check_gradients",
                        f"derivative of order {order} differs from finite differences",
                        got={
                            "argument": names[k],
                            "element": tuple(int(i) for i in index),
                            "derivative": found[k][index],
                        },
                        expected=str(expected),
                    )
                )


def _value_at(
    function: Callable[..., Any], points: list[_Point], k: int, array: np.ndarray
) -> list[np.ndarray]:
    """The value of `function` with another array in one place."""
    moved = list(points)
    moved[k] = _Point(array, points[k].device)
    # As tensors, which is what functions get when they are differentiated.
    return [np.asarray(float(function(*[point.tensor() for point in moved])))]
