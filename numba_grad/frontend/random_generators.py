"""NumPy's generators of random numbers, whose arrays of floats are tensors.

    Generator, RandomState   NumPy's, with the same numbers
    default_rng              as NumPy's
    drawing(method)          a method of one of NumPy's, or a function of `numpy.random`

A program draws the state that it goes on to change: particles, walkers, factors, weights. So what
it draws can be assigned to, as what `np.zeros` makes. Integers and booleans stay NumPy's arrays:
they are sizes, labels and places. A parameter of a distribution that only moves and stretches it
may be a tensor, and gets a gradient.
"""

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.autograd.tensor_class import is_tensor
from numba_grad.errors import ShapeError, explain
from numba_grad.frontend.functions.creation import asarray, tensor
from numba_grad.frontend.functions.elementwise import exp
from numba_grad.frontend.functions.indexing import take
from numba_grad.frontend.functions.shapes import broadcast_shapes
from numba_grad.frontend.inputs.arrays import has_tensors

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

Method = Callable[..., Any]

# Parameters by name and default: `location + scale * (a draw of the distribution with 0 and 1)`.
# NumPy computes them so, too.
_LOCATION_AND_SCALE: dict[str, tuple[tuple[str, float], ...]] = {
    "exponential": (("scale", 1.0),),
    "gumbel": (("loc", 0.0), ("scale", 1.0)),
    "laplace": (("loc", 0.0), ("scale", 1.0)),
    "logistic": (("loc", 0.0), ("scale", 1.0)),
    "lognormal": (("mean", 0.0), ("sigma", 1.0)),
    "normal": (("loc", 0.0), ("scale", 1.0)),
    "rayleigh": (("scale", 1.0),),
    "uniform": (("low", 0.0), ("high", 1.0)),
}


def drawing(numpys: Method) -> Method:
    """A method of a generator of NumPy's, or a function of `numpy.random`, of which arrays of
    floats are tensors."""
    name = numpys.__name__
    parameters = _LOCATION_AND_SCALE.get(name)

    # `functools.wraps` keeps NumPy's method, and so the generator, in reach of what looks for
    # things that a traced function changes.
    @functools.wraps(numpys)
    def draw(*args: Any, **kwargs: Any) -> Any:
        if has_tensors(args) or has_tensors(kwargs.values()):
            first = args[0] if args else None
            if is_tensor(first) and first.ndim and name in _OF_ELEMENTS:
                return _OF_ELEMENTS[name](numpys, *args, **kwargs)
            if parameters is not None:
                return _moved_and_stretched(numpys, parameters, args, kwargs)
        return _as_tensor(numpys(*args, **kwargs))

    return draw


def _as_tensor(drawn: Any) -> Any:
    is_of_floats = isinstance(drawn, np.ndarray) and drawn.dtype.kind in "fc"
    return tensor(drawn, copy=False) if is_of_floats else drawn


# Distributions whose parameters are tensors


def _moved_and_stretched(
    numpys: Method,
    parameters: tuple[tuple[str, float], ...],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> "Tensor":
    """A draw with a location and a scale that are tensors."""
    names = [*(name for name, _ in parameters), "size"]
    if len(args) > len(names):
        return numpys(*args, **kwargs)  # which says what is wrong
    given = {**dict(parameters), **dict(zip(names, args, strict=False)), **kwargs}
    if given.keys() - set(names):
        return numpys(*args, **kwargs)
    values = [asarray(given[name]) for name, _ in parameters]
    size = given.get("size")
    shape = broadcast_shapes(*[x.shape for x in values]) if size is None else size
    _check_parameters(numpys.__name__, given, values, shape)
    standard = asarray(numpys(size=shape))
    if numpys.__name__ == "uniform":
        low, high = values
        return low + (high - low) * standard
    if numpys.__name__ == "lognormal":
        mean, sigma = values
        return exp(mean + sigma * asarray(np.log(standard.numpy())))
    stretched = values[-1] * standard
    return values[0] + stretched if len(values) > 1 else stretched


def _check_parameters(
    name: str, given: Mapping[str, Any], values: Sequence["Tensor"], size: int | tuple[int, ...]
) -> None:
    """As NumPy does, before anything is drawn. Of a scale that is not computed yet nobody knows
    whether it is negative."""
    try:
        shape = (operator.index(size),)  # type: ignore[arg-type]
    except TypeError:
        shape = tuple(map(operator.index, size))  # type: ignore[arg-type]
    shapes = [x.shape for x in values]
    if broadcast_shapes(shape, *shapes) != shape:
        raise ShapeError(
            explain(
                f"random.{name}",
                "parameters have more elements than are drawn",
                got={"parameters": shapes, "size": size},
                expected="parameters that broadcast to `size`",
                fix="size=None, for one draw of each",
            )
        )
    scale = values[-1]._node.value
    is_scale, is_known = {"scale", "sigma"} & given.keys(), isinstance(scale, np.ndarray)
    if is_scale and is_known and np.any(np.signbit(scale)):
        raise ValueError(
            explain(
                f"random.{name}",
                "a scale is negative",
                got={"least": float(np.min(scale))},
                expected="scale >= 0",
            )
        )


# Elements of a tensor


def _shuffle(numpys: Method, x: "Tensor", axis: int = 0) -> None:
    order = np.arange(x.shape[axis])
    numpys(order)
    x[...] = take(x, order, axis)


def _permutation(numpys: Method, x: "Tensor", axis: int = 0) -> "Tensor":
    return take(x, numpys(x.shape[axis]), axis)


def _choice(
    numpys: Method,
    a: "Tensor",
    size: int | tuple[int, ...] | None = None,
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    **arguments: Any,
) -> "Tensor":
    return take(a, numpys(a.shape[axis], size, replace, p, **arguments), axis)


_OF_ELEMENTS: dict[str, Callable[..., Any]] = {
    "choice": _choice,
    "permutation": _permutation,
    "shuffle": _shuffle,
}


# Generators


class _GeneratorClass(type):
    """So that `isinstance` and `issubclass` are as true of NumPy's generators as of these."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.__mro__[1])

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.__mro__[1])


def _draws_tensors(kind: Any) -> Any:
    """A class that inherits from one of NumPy's, and has another generator draw: methods of NumPy's
    call each other, and go on with arrays."""
    for name in dir(kind.__mro__[1]):
        method = getattr(kind.__mro__[1], name)
        if not name.startswith("_") and callable(method) and name not in vars(kind):
            setattr(kind, name, _by_numpys_generator(name, method))
    return kind


def _by_numpys_generator(name: str, method: Method) -> Method:
    @functools.wraps(method)
    def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
        return drawing(getattr(self._numpys, name))(*args, **kwargs)

    return draw


@_draws_tensors
class Generator(np.random.Generator, metaclass=_GeneratorClass):
    """NumPy's generator with the same numbers, of which arrays of floats are tensors."""

    def __init__(self, bit_generator: np.random.BitGenerator) -> None:
        super().__init__(bit_generator)
        self._numpys = np.random.Generator(bit_generator)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.bit_generator,)

    def spawn(self, n_children: int) -> list["Generator"]:  # type: ignore[override]
        """Generators of other numbers than this one and each other."""
        return [type(self)(child.bit_generator) for child in self._numpys.spawn(n_children)]


@_draws_tensors
class RandomState(np.random.RandomState, metaclass=_GeneratorClass):
    """NumPy's older generator with the same numbers, of which arrays of floats are tensors."""

    def __init__(self, seed: Any = None) -> None:
        super().__init__(0)  # not drawn from
        self._numpys = np.random.RandomState(seed)

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_numpys, (self._numpys,)

    def __getstate__(self) -> Any:
        return self._numpys.__getstate__()

    def __setstate__(self, state: Any) -> None:
        self._numpys.__setstate__(state)


def _of_numpys(generator: np.random.RandomState) -> RandomState:
    made = RandomState(0)
    made._numpys = generator
    return made


def default_rng(seed: Any = None) -> Generator:
    """A generator of the numbers that NumPy's of this seed has; of a generator, itself."""
    if type(seed) is Generator:
        return seed
    return Generator(np.random.default_rng(seed).bit_generator)
