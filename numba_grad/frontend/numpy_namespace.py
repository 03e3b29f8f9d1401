"""What a name of NumPy's namespace stands for in `numba_grad.numpy`.

Functions that make arrays make tensors, and of text, dates, records and objects NumPy's arrays.
Other functions and ufuncs that have a counterpart are ours
where a tensor is among the arguments, or in a list that is one, and NumPy's of all else. Everything
that has no counterpart is NumPy's own object.
"""

import functools
import math
import operator
import re
from collections.abc import Callable, Hashable
from types import GenericAlias, ModuleType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from numba_grad.autograd.tensor_class import is_tensor, is_tensor_class
from numba_grad.errors import DTypeError, ShapeError, explain
from numba_grad.frontend.functions import creation, elementwise, ranges
from numba_grad.frontend.functions.creation import Shape, asarray, empty
from numba_grad.frontend.functions.shapes import broadcast_to, reshape
from numba_grad.frontend.inputs.arrays import SEQUENCES, ArrayLike, has_tensors
from numba_grad.frontend.tensors import array_api
from numba_grad.frontend.tensors.flat_elements import broadcast, ndenumerate
from numba_grad.frontend.tensors.numpy_functions import MADE_LIKE, counterpart, of_ufunc
from numba_grad.frontend.tensors.protocols import (
    arguments_in_common,
    call_function,
    call_ufunc,
    takes_numpys_arguments,
)

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

Function = Callable[..., Any]


def object_of_name(module: ModuleType, name: str) -> Any:
    """What `numba_grad.numpy`, or a module in it, has under the name of an object of NumPy's."""
    theirs = getattr(module, name)
    if isinstance(theirs, ModuleType):
        return theirs
    if isinstance(theirs, np.ufunc):
        return Ufunc(theirs) if theirs in of_ufunc else theirs
    if isinstance(theirs, Hashable) and theirs in _others:
        return _others[theirs]
    ours = counterpart(theirs) if callable(theirs) else None  # type: ignore[arg-type]
    if isinstance(theirs, type):
        ours = None
    if ours is not None:
        return _by_numpys_arguments(cast(Function, theirs), ours)
    public = array_api.namespace()
    is_public = module is np and name in public.__all__
    return getattr(public, name) if is_public else theirs


class Ufunc:
    """A ufunc of NumPy that also takes lists of tensors, with `at`, `outer`, `reduce`,
    `accumulate`, `reduceat` and NumPy's attributes."""

    def __init__(self, numpys: np.ufunc) -> None:
        self._numpys = numpys
        self._ours = of_ufunc[numpys]
        self.__doc__ = self._ours.__doc__
        self.__name__ = numpys.__name__

    def __call__(self, *inputs: ArrayLike, **arguments: Any) -> Any:
        if not _is_ours(inputs, {}):
            return self._numpys(*inputs, **arguments)
        if len(inputs) > self._numpys.nin:  # arrays to write into, by place
            inputs, out = inputs[: self._numpys.nin], inputs[self._numpys.nin :]
            return call_ufunc(self._numpys, "__call__", inputs, {"out": out, **arguments})
        if not arguments:
            return self._ours(*inputs)
        return call_ufunc(self._numpys, "__call__", inputs, arguments)

    def at(self, x: Any, indices: Any, *values: ArrayLike) -> None:
        """Apply it to elements of `x`, a tensor or an array, which is changed."""
        self._numpys.at(x, indices, *values)

    def outer(self, a: ArrayLike, b: ArrayLike, /, **arguments: Any) -> Any:
        """The function of each element of `a` with each of `b`."""
        return self._numpys.outer(_joined(a), _joined(b), **arguments)

    def reduce(self, x: ArrayLike, *arguments: Any, **more: Any) -> Any:
        """Elements along an axis joined by it."""
        return self._numpys.reduce(_joined(x), *arguments, **more)

    def accumulate(self, x: ArrayLike, *arguments: Any, **more: Any) -> Any:
        """All elements up to each one joined by it."""
        return self._numpys.accumulate(_joined(x), *arguments, **more)

    def reduceat(self, x: ArrayLike, *arguments: Any, **more: Any) -> Any:
        """Elements of slices joined by it."""
        return self._numpys.reduceat(_joined(x), *arguments, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._numpys, name)

    def __repr__(self) -> str:
        return f"<ufunc {self.__name__!r} of numba_grad.numpy>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Ufunc, (self._numpys,)


def _is_ours(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether there is a tensor among the arguments, or in a list that is one."""
    if args:  # the common cases
        first = args[0]
        if is_tensor(first) or (first.__class__ is list and first and is_tensor(first[0])):
            return True
    return has_tensors(args) or has_tensors(kwargs.values())


def _joined(x: ArrayLike) -> ArrayLike:
    """`x`, or the tensor that a list with tensors stands for."""
    return asarray(x) if isinstance(x, SEQUENCES) and has_tensors(x) else x


def _by_numpys_arguments(theirs: Function, ours: Function) -> Function:
    """`ours`, called as NumPy documents `theirs`: by its names of arguments.

    What makes arrays makes tensors. Another function of numbers and arrays alone is NumPy's: the
    sizes and constants that programs compute with are not recorded.
    """
    is_made_like = theirs in MADE_LIKE
    makes_arrays = is_made_like or ours.__module__ in (creation.__name__, ranges.__name__)
    if makes_arrays and not is_made_like and takes_numpys_arguments(theirs, ours):
        return _of_any_dtype(theirs, ours)

    # Of a call by place alone, as many arguments as NumPy's and ours have in common; found when
    # it is first called, as most functions never are.
    most = -1

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal most
        if not makes_arrays and not _is_ours(args, kwargs):
            return theirs(*args, **kwargs)
        if not kwargs and len(args) <= most:
            return ours(*args)
        in_place, by_name = arguments_in_common(theirs, ours)
        most = in_place
        if len(args) <= in_place and kwargs.keys() <= by_name and "out" not in kwargs:
            return ours(*args, **kwargs)
        if is_tensor(kwargs.get("like")):
            return theirs(*args, **kwargs)  # on the device of that tensor
        if is_made_like:
            kwargs.pop("like", None)
        return call_function(theirs, args, kwargs)

    if makes_arrays:
        return _of_any_dtype(theirs, functools.wraps(ours)(call))
    return functools.wraps(ours)(call)


def _of_any_dtype(theirs: Function, ours: Function) -> Function:
    """`ours`, which makes tensors; of text, dates, records and objects it is NumPy's: programs keep
    names and measurements that are missing in such arrays, beside those that they compute with."""

    @functools.wraps(ours)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return ours(*args, **kwargs)
        except (DTypeError, ShapeError) as error:
            if theirs in _OF_VALUES and _is_ours(args, kwargs):
                dtype, *_ = [*args[1:], kwargs.get("dtype")]
                if dtype is not None and np.dtype(dtype) == object:
                    return _of_objects(args[0])
            if isinstance(error, ShapeError) or (
                _is_ours(args, kwargs) and theirs not in _OF_SIZES
            ):
                raise
            return theirs(*[_size(x) for x in args], **kwargs)

    return call


_OF_SIZES = (np.empty, np.zeros, np.ones)
_OF_VALUES = (np.array, np.asarray, np.asanyarray)


def _size(x: Any) -> Any:
    """Of an array that is made: sizes that are tensors, as numbers."""
    if not _is_ours((x,), {}):
        return x
    return tuple(map(operator.index, x)) if np.ndim(x) else operator.index(x)


def _of_objects(values: Any) -> np.ndarray:
    """NumPy's array of objects: of numbers, where all are of one shape, or tensors as they are."""
    if is_tensor(values) or len({np.shape(x) for x in values}) == 1:
        return np.array(asarray(values)).astype(object)
    objects = np.empty(len(values), object)
    for number, x in enumerate(values):
        objects[number] = x
    return objects


def asarray_chkfinite(a: ArrayLike, dtype: object = None, order: str | None = None) -> "Tensor":
    """`a` as a tensor. ValueError if an element is inf or nan; `order` changes no value."""
    result = asarray(a, dtype)
    if not elementwise.isfinite(result).all():
        raise ValueError(explain("asarray_chkfinite", "an element is inf or nan"))
    return result


class vectorize(np.vectorize):  # pyright: ignore[reportIncompatibleVariableOverride]
    """NumPy's, which also takes tensors: Python's function of each element, one after the other.

    So a branch on values is decided for each element, or for each part that `signature` names.
    `ng.vmap` is faster, where there is none.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not _is_ours(args, kwargs):
            return super().__call__(*args, **kwargs)
        given = {**dict(enumerate(args)), **kwargs}
        names = [name for name in given if name not in self.excluded]
        operands = [_operand(given[name]) for name in names]
        # Of "(n,m),(m)->(n)", by names; without a signature functions take single elements.
        of_inputs = re.findall(r"\(([^)]*)\)", (self.signature or "").partition("->")[0])
        ranks = [len(re.findall(r"\w+", own)) for own in of_inputs]
        ranks = ranks or [0] * len(operands)
        ends = [len(x.shape) - rank for x, rank in zip(operands, ranks, strict=True)]
        shape = np.broadcast_shapes(*[x.shape[:k] for x, k in zip(operands, ends, strict=True)])
        columns = [_in_rows(x, shape, k) for x, k in zip(operands, ends, strict=True)]
        rows = zip(*columns, strict=True)
        results = [self._of_elements(given, dict(zip(names, row, strict=True))) for row in rows]
        if not results:
            raise ValueError(explain("vectorize", "no elements, so no results to know a dtype by"))
        is_one = not isinstance(results[0], tuple)
        outputs = [results] if is_one else list(zip(*results, strict=True))
        dtypes: list[str | None] = list(self.otypes or "") or [None] * len(outputs)
        stacks = [asarray(list(x), dtype) for x, dtype in zip(outputs, dtypes, strict=True)]
        joined = [reshape(x, (*shape, *x.shape[1:])) for x in stacks]
        return joined[0] if is_one else tuple(joined)

    def _of_elements(self, given: dict[Any, Any], elements: dict[Any, Any]) -> Any:
        every = {**given, **elements}
        in_place = [every.pop(place) for place in sorted(k for k in every if isinstance(k, int))]
        return self.pyfunc(*in_place, **every)


def _operand(x: Any) -> Any:
    """A tensor, or NumPy's array of what holds no numbers: functions, objects, texts."""
    if has_tensors([x]):
        return asarray(x)
    array = np.asarray(x)
    return array if array.dtype.kind in "OSUMmV" else asarray(array)


def _in_rows(x: Any, shape: tuple[int, ...], end: int) -> Any:
    """Parts of an operand, whose axes are those from `end` on, for all elements of `shape`."""
    whole, size = (*shape, *x.shape[end:]), math.prod(shape)
    if isinstance(x, np.ndarray):
        return np.broadcast_to(x, whole).reshape(size, *x.shape[end:])
    return reshape(broadcast_to(x, whole), (size, *x.shape[end:]))


class _ArrayClass(type):
    """So that `isinstance(np.zeros(3), np.ndarray)` is as true as in the program before."""

    def __instancecheck__(cls, value: object) -> bool:
        return is_tensor(value) or isinstance(value, np.ndarray)

    def __subclasscheck__(cls, other: type) -> bool:
        return is_tensor_class(other) or issubclass(other, np.ndarray)


class ndarray(metaclass=_ArrayClass):
    """The class of arrays, for `isinstance` and annotations: tensors, and NumPy's own."""

    __class_getitem__ = classmethod(GenericAlias)

    def __new__(cls, shape: Shape, dtype: object = float, **buffer: Any) -> Any:
        if buffer:
            raise TypeError(
                explain(
                    "ndarray",
                    f"{', '.join(buffer)}: tensors are not made on memory of others",
                    fix="ng.frombuffer(buffer, dtype).reshape(shape), a copy",
                )
            )
        return empty(shape, dtype)

    def __init_subclass__(cls, **arguments: Any) -> None:
        raise TypeError(
            explain(
                "ndarray",
                "this one has no subclasses, and tensors are of no other class",
                fix="import numpy; class Name(numpy.ndarray), whose arrays are constants here",
            )
        )


# Where the rule is another one. What reads bytes and text makes arrays of any dtype, also of those
# that tensors are not of, and memory maps and archives: it is NumPy's.
_others: dict[Any, Any] = {
    np.asarray_chkfinite: asarray_chkfinite,
    np.broadcast: broadcast,
    np.ndarray: ndarray,
    np.ndenumerate: ndenumerate,
    np.vectorize: vectorize,
    **{
        reader: reader
        for reader in (np.load, np.loadtxt, np.fromfile, np.fromstring, np.frombuffer)
    },
}
