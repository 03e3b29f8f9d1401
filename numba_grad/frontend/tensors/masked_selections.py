"""`x[mask]` of a mask that is traced: elements of which nobody knows how many there are.

A `MaskedSelection` has them in their places in `x`, in an array of which only what is selected
means something. Functions of single elements are computed of all; to assign it through the same
mask is a `where`, and so is what a reduction makes of it:

    y[y > 0] = np.log(y[y > 0])     log(where(y > 0, y, 1)), and that where y > 0, else y
    np.mean(x[mask] ** 2)           the sum of where(mask, ..., 0), by the number of true elements
    x[mask][:, None] * y[mask]      further axes, and columns, are those of the elements
    a = x[mask]; a[a > 1]           x where both masks are true
    x[mask][-1]                     where as many are true as there are; of none nan
    i = np.where(mask)[0]; x[i]     the mask in place of its places

All that comes in goes through a `where`, tensors without axes too, and all that goes out through
another one. So what a function or its derivatives are elsewhere, inf or nan, gets nowhere: neither
to values, which is the second one's doing, nor to gradients, which is that of the first.

All else needs the number, which is a shape, and is a TracingError.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from numba_grad.autograd.tensor_class import is_tensor
from numba_grad.dtypes import is_inexact
from numba_grad.errors import TracingError, explain
from numba_grad.frontend.functions import (
    creation,
    elementwise,
    joining,
    numbers,
    order_statistics,
    reductions,
    scans,
)
from numba_grad.frontend.inputs.arrays import as_node, is_scalar, stand_in, wrap
from numba_grad.frontend.inputs.selections import Selection
from numba_grad.frontend.inputs.tracing import note_raised
from numba_grad.frontend.tensors import numpy_functions
from numba_grad.frontend.tensors.numpy_functions import counterpart, of_ufunc
from numba_grad.frontend.tensors.operators import write_result
from numba_grad.frontend.tensors.ufunc_calls import call_of, without_defaults
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import reduced_axes
from numba_grad.graph.walk import is_traced
from numba_grad.ops.families import cast, full
from numba_grad.ops.index_expressions import (
    MaskedRegion,
    masked_region,
    read_region,
    take_index,
    without_count,
    write_where,
)

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

Function = Callable[..., Any]

# All that these modules have is a function of single elements, but for what asks for their places.
_ELEMENT_BY_ELEMENT = frozenset((elementwise.__name__, numbers.__name__))
_NO_ARRAYS = (np.generic, np.dtype, type, str)  # what functions take beside arrays and numbers
_PRODUCTS = frozenset(("dot", "matmul"))
_OF_ROWS = {  # functions that make rows of elements, or a fit of them, by method
    "vander": "_powers",
    "column_stack": "_beside",
    "polyfit": "_fitted",
    "lstsq": "_fitted",
}
_ARGUMENTS_OF_FITS = {"polyfit": ("x", "y", "w"), "lstsq": ("a", "b", "")}
_LIKE = frozenset(("ones_like", "zeros_like"))
_QUANTILES = {
    "median": order_statistics.nanmedian,
    "quantile": order_statistics.nanquantile,
    "percentile": order_statistics.nanpercentile,
}
_QUANTILES |= {x.__name__: x for x in [*_QUANTILES.values()]}
# Of two expressions that may be the same mask, so many operations are compared.
_MOST_COMPARED = 64


def _refusing(name: str) -> Callable[..., NoReturn]:
    def method(self: "MaskedSelection", *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse(name)

    return method


class MaskedSelection(NDArrayOperatorsMixin, Selection):
    """`x[mask]`, or what functions made of it. Made by `selected`."""

    __slots__ = ("_axis", "_elements", "_region")

    _elements: "Tensor"
    _region: MaskedRegion
    _axis: int | None  # of the mask, along which these are the places of its true elements

    def __init__(self, elements: "Tensor", region: MaskedRegion, axis: int | None = None) -> None:
        self._elements = elements
        self._region = region
        self._axis = axis

    # What is known of it

    @property
    def dtype(self) -> np.dtype:
        """NumPy's dtype of the elements."""
        return self._elements.dtype

    @property
    def ndim(self) -> int:
        """The number of axes, where those of the mask are one."""
        return self._elements.ndim - len(self._region.mask.shape) + 1

    @property
    def size(self) -> Any:
        """The number of elements: a number whose value is not known, and no shape."""
        mask = self._region.condition(self._elements.device)
        chosen = reductions.mask_like("size", self.elements, mask)
        return stand_in(reductions.count_nonzero(chosen)._node)

    @property
    def elements(self) -> Node:
        """Those of the array, in their places; anything where the mask is false."""
        return self._elements._node

    @property
    def T(self) -> "MaskedSelection":
        """Of rows, columns."""
        x, after = self._elements, self._region.after
        if self.ndim > 2:
            self._refuse("T")
        before = self.ndim - after - 1
        first = x.ndim - after if after else before  # of the axes that come first now
        axes = list(range(x.ndim))
        turned = x.transpose(axes[first:] + axes[:first])
        return MaskedSelection(turned, self._region._replace(after=before))

    def copy(self, order: str = "K") -> "MaskedSelection":
        """The same elements; gradients flow through."""
        return MaskedSelection(self._elements, self._region)

    # What reaches it

    def called(self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function of ours, with this among its arguments."""
        name = function.__name__
        if name in _PRODUCTS and len(args) == 2 and not kwargs:
            return self._product(function, *args)
        if name in ("norm", *_QUANTILES) and args and args[0] is self:
            parameters = _parameters(function)
            named = dict(zip(parameters, args, strict=False)) | kwargs
            named = {
                k: v for k, v in named.items() if v is not parameters[k].default and v is not self
            }
            return self._of_all(function, named.pop("axis", None), named)
        if name in _OF_ROWS:
            return getattr(self, _OF_ROWS[name])(function, args, kwargs)
        if name in ("argmax", "argmin") and args == (self,) and not kwargs and self.ndim == 1:
            return self._place_of_extreme(function)
        parameters = _parameters(function)
        if ("where" in parameters or name == "count_nonzero") and args and args[0] is self:
            given = dict(zip(parameters, args, strict=False)) | kwargs
            del given[next(iter(parameters))]
            return self.reduced(function, given.pop("axis", None), **given)
        is_nonzero = name == "where" and len(args) == 1
        is_of_each = function.__module__ in _ELEMENT_BY_ELEMENT or (name in _LIKE and not kwargs)
        if not is_of_each or is_nonzero:
            self._refuse(name)
        return self._of_elements(function, args, kwargs)

    def reduced(self, function: Function, axis: Any, *args: Any, **kwargs: Any) -> Any:
        """A function that has a mask for it, over the axis of true elements and maybe others; or
        over others alone."""
        name = function.__name__
        if name == "count_nonzero":
            is_true = self.called(elementwise.astype, (self, bool), {})
            return is_true.reduced(reductions.sum, axis, **kwargs)
        kwargs |= zip(list(_parameters(function))[2:], args, strict=False)
        if kwargs.pop("where", True) is not True or kwargs.get("mean") is not None:
            self._refuse(name)
        rank, after, x = len(self._region.mask.shape), self._region.after, self._elements
        axes = reduced_axes(name, axis, self.ndim)
        place = self.ndim - after - 1  # of the axis of true elements
        in_places = tuple([k if k < place else k + rank - 1 for k in axes if k != place])
        keepdims = kwargs.get("keepdims", False)
        if place not in axes:
            left = after if keepdims else after - sum([k > place for k in axes])
            result = function(x, axis=in_places, **kwargs)
            return MaskedSelection(result, self._region._replace(after=left))
        in_places += tuple(range(place, place + rank))
        condition = self._region.condition(x.device)
        if name in ("max", "min") and kwargs.get("initial") is None:
            result = _extreme(function, x, in_places, condition, keepdims)
        else:
            result = function(x, in_places, **kwargs, where=wrap(condition))
        if not keepdims:
            return result
        return result.reshape(*result.shape[:place], 1, *result.shape[place + rank :])

    def _of_all(self, function: Function, axis: Any, kwargs: dict[str, Any]) -> Any:
        """A norm or a quantile, along the axis of true elements alone, or along others."""
        name, ndim = function.__name__, self.ndim
        place = ndim - self._region.after - 1
        axes = reduced_axes(name, axis, ndim)
        if place not in axes:
            return self.reduced(function, axis, **kwargs)
        if axes != (place,) and (axis is not None or kwargs.get("ord") is not None):
            self._refuse(name)
        if name == "norm":
            ord = kwargs.get("ord")
            if isinstance(ord, str) or (ord is not None and ord < 0):
                self._refuse(name)  # zeros would count
            return function(self._in_one_axis(0), axis=axis, **kwargs)
        if self.dtype.kind == "c" or kwargs.keys() - {"q", "keepdims"}:
            self._refuse(name)
        x = self if is_inexact(self.dtype) else self.astype(np.float64)
        result = _QUANTILES[name](x._in_one_axis(np.nan), axis=axis, **kwargs)
        if name == _QUANTILES[name].__name__:
            return result
        is_nan = elementwise.isnan(x).any(axis=axis, keepdims=kwargs.get("keepdims", False))
        return wrap(OPS["where"](is_nan._node, full(np.nan, (), result.dtype), result._node))

    def _place_of_extreme(self, function: Function) -> "Tensor":
        """Among the elements that are selected; 0 of none, where NumPy raises an error."""
        neutral = reductions.neutral_of(function.__name__.removeprefix("arg"), self.dtype)
        place = function(self._in_one_axis(neutral))
        mask = wrap(self._region.condition(self._elements.device)).reshape(-1)
        return elementwise.maximum(scans.cumsum(mask)[place] - 1, 0)

    def _in_one_axis(self, rest: complex) -> "Tensor":
        """The elements, with one axis for those of the mask, and `rest` where it is false."""
        x = self._elements
        condition = self._region.condition(x.device)
        chosen = OPS["where"](condition, x._node, full(rest, (), x.dtype))
        place = self.ndim - self._region.after - 1
        after = x.shape[place + len(self._region.mask.shape) :]
        return wrap(chosen).reshape(*x.shape[:place], -1, *after)

    # Its elements

    def __getitem__(self, index: Any) -> Any:
        """Columns and further axes, one element, or what a mask of these elements selects."""
        before, entry, after = self._entries(index)
        region = self._region
        if isinstance(entry, MaskedSelection):
            return self._narrowed(entry)[(*before, slice(None), *after)]
        if not isinstance(entry, slice):
            return self._element(entry)[(*before, *after)]
        places = [slice(None)] * len(region.mask.shape)
        return MaskedSelection(
            self._elements[(*before, *places, *after)],
            region._replace(after=sum([not _is_number(e) for e in after])),
        )

    def __setitem__(self, index: Any, value: Any) -> None:
        """Assign to what `self[index]` is, of these elements alone: x[mask] is a copy."""
        before, entry, after = self._entries(index)
        is_whole = all(e == slice(None) for e in before + after)
        if not isinstance(entry, slice) and (_is_number(entry) or not is_whole):
            self._refuse("assignment")
        part = self[index]
        node = as_node(part._entering(value, type(self).__setitem__), like=self.elements)
        elements = self._elements.copy()
        if isinstance(entry, slice):
            places = [slice(None)] * len(self._region.mask.shape)
            elements[(*before, *places, *after)] = wrap(node)
        else:
            condition = part._region.condition(self._elements.device)
            node = cast(node, self.dtype)
            elements[...] = wrap(OPS["where"](condition, node, self.elements))
        self._elements = elements

    def _entries(self, index: Any) -> tuple[list[Any], Any, list[Any]]:
        """An index: what it says of the axes before that of the true elements, of that one, and of
        the axes after it."""
        entries = list(index) if isinstance(index, tuple) else [index]
        known = [
            e is None or e is Ellipsis or isinstance(e, slice) or _is_number(e) for e in entries
        ]
        chosen = [e for e, is_known in zip(entries, known, strict=True) if not is_known]
        if any(not isinstance(e, MaskedSelection) or e.dtype.kind != "b" for e in chosen):
            self._refuse("index")
        missing = self.ndim - sum([e is not None and e is not Ellipsis for e in entries])
        if not any(e is Ellipsis for e in entries):
            entries.append(Ellipsis)
        at = next(k for k, e in enumerate(entries) if e is Ellipsis)
        entries[at : at + 1] = [slice(None)] * missing
        axes = [k for k, e in enumerate(entries) if e is not None]
        place = self.ndim - self._region.after - 1
        if missing < 0 or any(e is Ellipsis for e in entries):
            raise IndexError(explain("index", "too many indices", got={"x[mask]": self}))
        at = axes[place]
        before, entry, after = entries[:at], entries[at], entries[at + 1 :]
        is_part = isinstance(entry, slice) and entry != slice(None)
        if is_part or any(isinstance(e, MaskedSelection) for e in before + after):
            self._refuse("index")
        return before, entry, after

    def _narrowed(self, mask: "MaskedSelection") -> "MaskedSelection":
        """Those where a mask of as many elements is true, too."""
        region = self._region
        if not _is_same(mask._region.mask, region.mask) or mask.ndim > 1:
            self._refuse("index", {"another": mask})
        outer = mask._region.condition(self._elements.device)
        both = OPS["logical_and"](outer, mask.elements)
        region = region._replace(mask=both)
        return MaskedSelection(wrap(_gated(self.elements, region)), region)

    def _element(self, number: Any) -> "Tensor":
        """The one of this number. If there is none, for which NumPy raises an error, it is nan; of
        integers, for which there is no nan, Python runs the function again, and raises it."""
        x = self._in_one_axis(1)
        place = self.ndim - self._region.after - 1
        mask = wrap(self._region.condition(x.device)).reshape(-1)
        counts = scans.cumsum(mask)
        wanted = number + 1 + counts[-1] * (number < 0)
        is_it = (counts == wanted) & mask
        found = x.take(is_it.argmax(), axis=place)
        if not is_inexact(self.dtype):
            if not note_raised(OPS["logical_not"](is_it.any()._node)):
                self._refuse("index")
            return found
        return wrap(OPS["where"](is_it.any()._node, found._node, full(np.nan, (), x.dtype)))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        out = kwargs.pop("out", None)
        if method == "reduce":
            kwargs.setdefault("axis", 0)
        kwargs = without_defaults(name, method, kwargs)
        function = of_ufunc.get(ufunc) if not kwargs and method == "__call__" else None
        function = function or call_of(ufunc, method)
        if function is None or (ufunc.signature is not None and name not in _PRODUCTS):
            self._refuse(name)
        if (method == "reduce" or name in _PRODUCTS) and out is None:
            return self.called(function, inputs, kwargs)
        if method != "__call__":
            self._refuse(name)
        result = self._of_elements(function, inputs, kwargs)
        return result if out is None else self._into(out, result, name)

    def __array_function__(
        self,
        function: Function,
        types: Iterable[type],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        ours = counterpart(function)
        if ours is None or "out" in kwargs:
            self._refuse(function.__name__)
        if ours.__module__ == numpy_functions.__name__:  # it adapts arguments
            return ours(*args, **kwargs)
        return self.called(ours, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        """The methods of tensors that are functions of theirs."""
        if name == "_node":  # what takes an array asks for it
            self._refuse("x[mask]")
        own = None if name.startswith("_") else getattr(type(self._elements), name, None)
        if own is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name in ("real", "imag", "astype"):
            own = getattr(elementwise, name)
        if not inspect.isfunction(own):
            self._refuse(name)
        method = functools.partial(self.called, own)
        if name in ("real", "imag"):
            return method((self,), {})
        return lambda *args, **kwargs: method((self, *args), kwargs)

    # As an index

    def as_places(self, axis: int) -> "MaskedSelection":
        """The same elements, which are the places of those of the mask along an axis of it."""
        return MaskedSelection(self._elements, self._region, axis)

    def as_mask(self, index: Sequence[Any], sizes: tuple[int, ...]) -> tuple[Any, int]:
        """The mask, where these and what follows are its places, axis by axis, in axes of its
        sizes: in place of all of these. Else itself."""
        mask = self._region.mask
        rank = len(mask.shape)
        run = [x for x in index[:rank] if isinstance(x, MaskedSelection)]
        is_run = [x._axis for x in run] == list(range(rank)) and sizes[:rank] == mask.shape
        if is_run and all(_is_same(x._region.mask, mask) for x in run):
            return mask, rank
        return self, 1

    # What it becomes

    def _of_elements(self, function: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """`function`, element by element."""
        inside = [self._entering(x, function) for x in args]
        named = {key: self._entering(x, function) for key, x in kwargs.items()}
        result = function(*inside, **named)
        if isinstance(result, tuple):
            return tuple([self._selection(x) for x in result])
        return self._selection(result) if is_tensor(result) else result

    def _selection(self, elements: "Tensor") -> "MaskedSelection":
        return MaskedSelection(elements, self._region)

    def _entering(self, x: Any, function: Function) -> Any:
        """An argument, where it belongs: tensors at each place of the mask, gradients from there
        alone."""
        if isinstance(x, MaskedSelection):
            if x is not self and not _is_same_selection(x._region, self._region):
                self._refuse(function.__name__, {"another": x})
            return x._elements
        if x is None or is_scalar(x) or isinstance(x, _NO_ARRAYS):
            return x
        node = as_node(x, like=self.elements)
        mask, after = self._region.mask, self._region.after
        if node.shape:
            fits = without_count(node, len(mask.shape), after)
            if fits is None:
                self._refuse(function.__name__, {"another": node.type})
            node = fits
        return wrap(_gated(node, self._region))

    def _product(self, function: Function, x: Any, y: Any) -> Any:
        """Of two vectors, a sum; of rows, each times what is the same for all of them."""
        if not isinstance(y, MaskedSelection):
            rank = len(as_node(y).shape)
            if self.ndim == 2 and self._region.after == 1 and rank in (1, 2):
                region = self._region._replace(after=rank - 1)
                result = _gated(as_node(function(self._elements, y)), region)
                return MaskedSelection(wrap(result), region)
        elif isinstance(x, MaskedSelection) and is_inexact(x.dtype):
            if x.ndim == y.ndim == 1:
                return (x * y).sum()
            is_sum_of_chosen = x._region.after == 0 and y._region.after == y.ndim - 1 <= 1
            if is_sum_of_chosen and _is_same(x._region.mask, y._region.mask):
                return function(x._in_one_axis(0), y._in_one_axis(0))
        self._refuse(function.__name__)

    # Rows of elements, and fits

    def _powers(self, function: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """`vander(self, N)`"""
        given = dict(zip(_parameters(function), args, strict=False)) | kwargs
        number = given.get("N")
        if number is None or self.ndim != 1:
            self._refuse(function.__name__)  # as many as there are elements
        powers = np.arange(number)
        return self[:, None] ** (powers if given.get("increasing") else powers[::-1])

    def _beside(self, function: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """`column_stack` of elements, and of columns of them."""
        columns = []
        for x in args[0] if args else ():
            if not isinstance(x, MaskedSelection) or not _is_same(
                x._region.mask, self._region.mask
            ):
                self._refuse(function.__name__)
            columns.append(x[:, None] if x.ndim == 1 else x)
        if kwargs or any(x.ndim != 2 or x._region.after != 1 for x in columns):
            self._refuse(function.__name__)
        together = joining.concatenate([x._elements for x in columns], axis=-1)
        return MaskedSelection(together, self._region._replace(after=1))

    def _fitted(self, function: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """A fit by least squares. Rows that are not selected are zeros, which change nothing."""
        name = function.__name__
        given = dict(zip(_parameters(function), args, strict=False)) | kwargs
        left, right, weights = (given.pop(x, None) for x in _ARGUMENTS_OF_FITS[name])
        for x in (left, right, self if weights is None else weights):
            is_fit = isinstance(x, MaskedSelection) and x.ndim == x._region.after + 1
            if not is_fit or not _is_same(x._region.mask, self._region.mask) or given.get("cov"):
                self._refuse(name)
        if name == "lstsq":
            return function(left._in_one_axis(0), right._in_one_axis(0), **given)
        if weights is None:
            like = right if is_inexact(right.dtype) else right.astype(np.float64)
            weights = like._selection(creation.ones_like(like._elements))
            if right.ndim > 1:
                weights = weights[:, 0]
        weights = weights._in_one_axis(0)
        return function(left._in_one_axis(1), right._in_one_axis(0), w=weights, **given)

    def _into(self, out: Sequence[Any], result: Any, name: str) -> Any:
        """`result` in place of what this was, for `x[mask] += 1`."""
        if len(out) != 1 or out[0] is not self or not isinstance(result, MaskedSelection):
            self._refuse(name)
        self._elements = write_result(self._elements.copy(), result._elements._node, name)
        return self

    def assigned_to(self, x: Node, index: Any) -> Node:
        """`x` after `x[index] = self`."""
        region = masked_region(index, x.shape)
        if region is None or not _is_same_selection(region, self._region):
            self._refuse("assignment through another index")
        return write_where(x, region, cast(self.elements, x.dtype))

    # What it cannot be

    def _refuse(self, operation: str, got: dict[str, object] | None = None) -> NoReturn:
        raise TracingError(
            explain(
                operation,
                "needs to know how many elements of x[mask] there are while a function is being "
                "traced: that is the shape of a result, and the mask has no value yet",
                got={"x[mask]": self, **(got or {})},
                expected="functions element by element of x[mask], of numbers and of y[mask] with "
                "the same mask; x[mask] = ... of those; sum, prod, mean, var, std, min, max, any, "
                "all, argmax, median, norm and count_nonzero; its columns, one element",
                fix="v[mask] in place of an array v of the shape of x; ng.where(mask, x, 0) in "
                "place of x[mask]; np.count_nonzero(mask) in place of len(x[mask]); "
                "np.argmax(mask), the first place where it is true",
            )
        )

    __bool__, __float__, __int__ = map(_refusing, ("bool", "float", "int"))
    __complex__, __index__, __array__ = map(_refusing, ("complex", "index", "numpy.asarray"))
    __len__, __iter__, __contains__ = map(_refusing, ("len", "iteration", "in"))
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __repr__(self) -> str:
        x, mask = self.elements.type, self._region.mask
        return f"<x[mask] of x {x}, mask bool[{', '.join(map(str, mask.shape))}]>"


def selected(x: Node, index: Any) -> MaskedSelection | None:
    """`x[index]`, for an index with one mask whose value is not there, or with integers that such
    a mask selects; None for any other."""
    entries = index if isinstance(index, tuple) else (index,)
    chosen = [entry for entry in entries if isinstance(entry, MaskedSelection)]
    if chosen:
        return _at_selected_places(x, entries, chosen)
    if not any(isinstance(e, Node) and e.dtype.kind == "b" and is_traced(e) for e in entries):
        return None
    region = masked_region(index, x.shape)
    if region is None:
        return None
    return MaskedSelection(wrap(_gated(read_region(x, region), region)), region)


def _at_selected_places(
    x: Node, index: Sequence[Any], chosen: Sequence[MaskedSelection]
) -> MaskedSelection:
    """`x[places]`: read at all places, those that are not selected being 0."""
    first = chosen[0]
    same = all(_is_same_selection(e._region, first._region) for e in chosen)
    at = next(k for k, e in enumerate(index) if e is first)
    beside = list(index[at : at + len(chosen)])
    others = [*index[:at], *index[at + len(chosen) :]]
    is_simple = all(isinstance(e, slice) for e in others)
    if not same or not is_simple or beside != list(chosen) or first.ndim > 1:
        first._refuse("index", {"index": index})
    if any(e.dtype.kind not in "iu" for e in chosen):
        first._refuse("index", {"index": index})
    condition = first._region.condition(x.type.device)
    places = [OPS["where"](condition, e.elements, full(0, (), e.dtype)) for e in chosen]
    result = take_index(x, (*index[:at], *places, *index[at + len(chosen) :]))
    region = first._region._replace(after=len(x.shape) - at - len(chosen))
    return MaskedSelection(wrap(_gated(result, region)), region)


def _gated(node: Node, region: MaskedRegion) -> Node:
    """`node` where the mask is true. The 1 elsewhere is where most functions are smooth; were one
    not, its derivative there goes no further than this."""
    return OPS["where"](region.condition(node.type.device), node, full(1, (), node.dtype))


def _extreme(
    function: Function, x: "Tensor", axes: tuple[int, ...], mask: Node, keepdims: bool
) -> "Tensor":
    """The extreme of the selected ones; of none, where NumPy raises an error, nan, or of integers
    what changes no other one."""
    node, name = x._node, function.__name__
    neutral = full(reductions.neutral_of(name, node.dtype), (), node.dtype)
    result = function(wrap(OPS["where"](mask, node, neutral)), axes, keepdims=keepdims)
    if not is_inexact(node.dtype):
        return result
    is_chosen = wrap(reductions.mask_like(name, node, mask))
    is_any = reductions.any(is_chosen, axes, keepdims=keepdims)
    return wrap(OPS["where"](is_any._node, result._node, full(np.nan, (), node.dtype)))


def _is_number(entry: Any) -> bool:
    if is_tensor(entry):
        return not entry.ndim and entry.dtype.kind in "iu"
    return isinstance(entry, int | np.integer) and not isinstance(entry, bool)


@functools.cache
def _parameters(function: Function) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)


def _is_same_selection(one: MaskedRegion, other: MaskedRegion) -> bool:
    return one.after == other.after and _is_same(one.mask, other.mask)


def _is_same(one: Any, other: Any) -> bool:
    """Whether two nodes are the same operations of the same arrays: `x > 0`, said twice."""
    pairs, compared = [(one, other)], 0
    while pairs:
        a, b = pairs.pop()
        if a is b:
            continue
        compared += 1
        if not (isinstance(a, Node) and isinstance(b, Node)) or compared > _MOST_COMPARED:
            return False
        if a.type is not b.type or not a.kind or a.kind != b.kind or not a.inputs:
            return False
        pairs += zip(a.inputs, b.inputs, strict=True)
    return True
