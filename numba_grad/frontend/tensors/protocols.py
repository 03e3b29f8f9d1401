"""NumPy's functions on tensors: `np.sin(x)`, `np.sum(x, axis=1)`, `array * x` reach our operations.

What is not listed in `numpy_functions.py` is refused by name. Nothing is converted to NumPy
silently, since gradients would be lost. But SciPy's optimizers, which hand arrays to the user's
functions and compiled code what these give back, get arrays where they ask NumPy for some, and so
does matplotlib.
"""

import contextlib
import difflib
import functools
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any

import numpy as np

from numba_grad.autograd.tensor_class import is_tensor
from numba_grad.dtypes import promoted
from numba_grad.errors import explain
from numba_grad.fresh_thread import imported
from numba_grad.frontend.functions import creation
from numba_grad.frontend.functions.elementwise import where
from numba_grad.frontend.inputs.arrays import as_node, node_of, wrap
from numba_grad.frontend.inputs.calling_lines import calling_line, instead_of_array
from numba_grad.frontend.tensors.callers import is_asking_for_arrays
from numba_grad.frontend.tensors.numpy_functions import counterpart, of_ufunc, supported_names
from numba_grad.frontend.tensors.operators import write_result
from numba_grad.frontend.tensors.ufunc_calls import call_of, without_defaults
from numba_grad.frontend.tensors.ufunc_methods import ASSOCIATIVE
from numba_grad.graph.node import Node
from numba_grad.ops.families import broadcast_to, cast

Function = Callable[..., Any]

_ANY_NUMBER = sys.maxsize

# How functions of `scipy.optimize` make arrays of what the user's functions give back, and some of
# matplotlib of what they go on to look at in memory.
_ASKING: frozenset[Function] = frozenset([np.atleast_1d, np.atleast_2d, np.broadcast_arrays])


def call_ufunc(
    ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What NumPy calls when a ufunc meets a tensor."""
    if not kwargs and method == "__call__":
        # The common case, without 1 us of what follows.
        function = of_ufunc.get(ufunc)
        if function is not None:
            return function(*inputs)
    name = _name_of_ufunc(ufunc)
    out = kwargs.pop("out", None)
    if out is not None:
        results = out if isinstance(out, tuple) else (out,)
        if not all(x is None or is_tensor(x) for x in results):
            if is_asking_for_arrays():
                arrays = [np.asarray(x) if is_tensor(x) else x for x in inputs]
                return getattr(ufunc, method)(*arrays, out=out, **kwargs)
            raise _no_array_for_result(name)
        return _ufunc_into(results, ufunc, method, inputs, kwargs)
    if method != "__call__":
        name += f".{method}"
    if method in ("reduce", "accumulate"):
        kwargs.setdefault("axis", 0)
    kwargs = without_defaults(name, method, kwargs)
    function = call_of(ufunc, method)
    if function is None:
        if method in ("reduce", "accumulate", "reduceat") and ufunc in of_ufunc:
            raise _not_associative(name)
        if "." not in name:
            raise _compiled_elsewhere(name)
        raise _unsupported(name, {f"x{k}": x for k, x in enumerate(inputs)})
    unknown = [key for key in kwargs if key not in _kinds(function)]
    if unknown:
        raise _unsupported_arguments(name, unknown)
    return function(*inputs, **kwargs)


def call_function(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What NumPy calls when another of its functions meets a tensor."""
    if function in _ASKING and is_asking_for_arrays():
        return function(*[np.asarray(x) for x in args], **kwargs)
    ours = counterpart(function)
    if ours is None:
        given = _signature(function).bind(*args, **kwargs).arguments
        raise _unsupported(_name_of_function(function), given)
    # The common case, without the 10 us of translating: np.sum(x, axis=1), np.dot(x, y).
    in_place, by_name = arguments_in_common(function, ours)
    if len(args) <= in_place != _ANY_NUMBER and kwargs.keys() <= by_name:
        return ours(*args, **kwargs)
    name = _name_of_function(function)
    out = None
    if in_place == _ANY_NUMBER:
        if is_tensor(kwargs.get("out")):
            out = kwargs.pop("out")
    else:
        args, kwargs, out = _translated(name, function, ours, args, kwargs)
    if out is not None:
        if function in _SUM_UP and kwargs.get("dtype") is None:
            kwargs["dtype"] = _dtype_into(out, args[0])
            return write_result(out, _into(out, ours(*args, **kwargs)), name)
        return write_result(out, as_node(ours(*args, **kwargs)), name)
    return ours(*args, **kwargs)


def _dtype_into(out: Any, x: Any) -> np.dtype:
    """In which NumPy reduces `x` for an `out`, where no dtype is given."""
    return promoted(as_node(x).dtype, out.dtype)


def _into(out: Any, result: Any) -> Node:
    """As it is written there: integers of floats are cut off, no real numbers made of complex."""
    node = as_node(result)
    return node if node.dtype.kind == "c" else cast(node, out.dtype)


# They compute in the dtype of `out`, where that is given and no other one, if it takes theirs.
_SUM_UP: frozenset[Function] = frozenset(
    [np.sum, np.prod, np.cumsum, np.cumprod, np.nansum, np.nanprod, np.nancumsum, np.nancumprod]
)


def _ufunc_into(
    results: tuple[Any, ...],
    ufunc: np.ufunc,
    method: str,
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """A call of a ufunc with `out=`, tensors or None: what it gives is assigned to them, where the
    mask of a call is true."""
    name = _name_of_ufunc(ufunc)
    mask = kwargs.pop("where", True) if method == "__call__" else True
    sums_into = method != "__call__" and kwargs.get("dtype") is None and results[0] is not None
    if sums_into:
        kwargs["dtype"] = _dtype_into(results[0], inputs[0])
    if mask is not True:
        inputs = tuple([_where_computed(mask, x, ufunc) for x in inputs])
    found = call_ufunc(ufunc, method, inputs, kwargs)
    values = found if isinstance(found, tuple) else (found,)
    written = []
    for out, value in zip(results, values, strict=True):
        if out is None:
            written.append(value)
            continue
        node = as_node(value)
        if method == "__call__" and node.shape != out.shape:  # elements may be repeated
            node = _stretched(node, out)
        if mask is not True:
            node = as_node(where(mask, wrap(node), out.astype(node.dtype)))
        if kwargs.get("casting") == "unsafe":
            node = cast(node, out.dtype)
        if sums_into:
            node = _into(out, node)
        written.append(write_result(out, node, name))
    return tuple(written) if isinstance(found, tuple) else written[0]


def _where_computed(mask: Any, x: Any, ufunc: np.ufunc) -> Any:
    """An argument, and where the mask is false a number at which every derivative is finite: 0
    times an infinite one, as of x / 0, would be nan."""
    x = wrap(as_node(x))
    if x.dtype.kind not in "fc":
        return where(mask, x, np.ones((), x.dtype))
    return where(mask, x, 2.0 if ufunc is np.arccosh else 0.5)


def _stretched(node: Node, out: Any) -> Node:
    try:
        fits = np.broadcast_shapes(node.shape, out.shape) == out.shape
    except ValueError:
        fits = False
    return broadcast_to(node, out.shape) if fits else node  # which write_result refuses


def _no_array_for_result(name: str) -> TypeError:
    """`numpy.add(x, y, out=array)`, and `array += x`, which NumPy makes this call of."""
    line = calling_line()
    if line is not None and line.is_in_place:
        problem = "an array cannot be changed in place by a tensor: what comes out is a tensor"
        return TypeError(explain(f"{name}, in place", problem, fix=instead_of_array(line)))
    return TypeError(
        explain(
            name,
            "out= is not supported on tensors for an array: the result is a tensor",
            fix=f"y = {name}(...), which allocates nothing more; or a tensor for out=",
        )
    )


def _name_of_function(function: Function) -> str:
    return f"{function.__module__}.{function.__name__}"


@functools.cache
def _name_of_ufunc(ufunc: np.ufunc) -> str:
    """With its module, which a ufunc does not know: numpy.sin, scipy.special.gammaln."""
    for module in ("numpy", "scipy.special"):
        if getattr(sys.modules.get(module), ufunc.__name__, None) is ufunc:
            return f"{module}.{ufunc.__name__}"
    return ufunc.__name__


def _unsupported(name: str, arguments: dict[str, Any]) -> TypeError:
    """A message that names a supported function like it, and shows the call on detached tensors."""
    shown = [
        f"{'x' if len(arguments) == 1 else key}.detach().numpy()" if node_of(value) else key
        for key, value in arguments.items()
    ]
    if shown == list(arguments):
        shown = ["..., x.detach().numpy(), ..."]  # they are within sequences or keywords
    module, _, own = name.rpartition(".")
    known = ""
    if module == "scipy.special":
        known = imported("numba_grad.frontend.inputs.instead_of_scipy").of_ufunc(own)
    return TypeError(
        explain(
            name,
            "not supported on tensors",
            expected=f"a function that numba_grad has under the same name{_nearest(name)}",
            fix=f"{known}{'; ' if known else ''}{name}({', '.join(shown)}), whose result has no "
            "gradient",
        )
    )


def _compiled_elsewhere(name: str) -> TypeError:
    """A ufunc of neither NumPy nor SciPy: of numba.vectorize, or of another library."""
    return TypeError(
        explain(
            name,
            "not supported on tensors: a ufunc that has no derivative here",
            fix="ng.custom_op of its function, with a derivative; ng.differentiable of it, if "
            f"numba.vectorize has made it; or "
            f"{name}(x.detach().numpy()), whose result has no gradient",
        )
    )


def _not_associative(name: str) -> TypeError:
    return TypeError(
        explain(
            name,
            "not supported on tensors: the ufunc is not associative",
            expected=", ".join(sorted([ufunc.__name__ for ufunc in ASSOCIATIVE])),
            fix=f"a loop, or {name}(x.detach().numpy()), whose result has no gradient",
        )
    )


def _nearest(name: str) -> str:
    """The supported function whose name is most like this one, preferably of the same module; of
    the same package in any case."""
    module, _, own = name.rpartition(".")
    package = module.partition(".")[0]
    in_module, elsewhere = {}, {}
    for path in supported_names():
        place, _, last = path.rpartition(".")
        if place.partition(".")[0] != package:
            continue
        (in_module if place == module else elsewhere)[last] = path
    supported = elsewhere | in_module
    close = difflib.get_close_matches(own, supported, n=1, cutoff=0.65)
    return f"; the nearest is {supported[close[0]]}" if close else ""


def _unsupported_arguments(name: str, arguments: list[str]) -> TypeError:
    listed = ", ".join([f"{argument}=" for argument in arguments])
    fix = f"y = {name}(...), which allocates nothing more" if "out" in arguments else ""
    return TypeError(explain(name, f"{listed} is not supported on tensors", fix=fix))


def _described(function: Function) -> Any:
    """Whose signature it has."""
    return inspect.unwrap(function, stop=lambda f: hasattr(f, "__signature__"))


@functools.cache
def _signature(function: Function) -> inspect.Signature:
    described = _described(function)
    text = getattr(described, "__text_signature__", None)
    if isinstance(described, types.BuiltinFunctionType) and text:
        # 0.1 ms; `inspect` goes through it by tokens, 1.6 ms for the first one.
        scope: dict[str, Any] = {}
        with contextlib.suppress(SyntaxError, NameError):
            exec(f"def described{text}: ...", scope)
            described = scope["described"]
    return inspect.signature(described)


def _parameters(function: Function) -> Mapping[str, Parameter]:
    return _signature(function).parameters


@functools.cache
def _kinds(function: Function) -> dict[str, Any]:
    """Of its parameters, in their order, as those of `_parameters`: of a function in Python without
    these, which take 30 us to make."""
    described = _described(function)
    if not isinstance(described, types.FunctionType) or hasattr(described, "__signature__"):
        return {key: parameter.kind for key, parameter in _parameters(function).items()}
    code = described.__code__
    names, count = list(code.co_varnames), code.co_argcount
    kinds = dict.fromkeys(names[: code.co_posonlyargcount], Parameter.POSITIONAL_ONLY)
    kinds |= dict.fromkeys(names[code.co_posonlyargcount : count], Parameter.POSITIONAL_OR_KEYWORD)
    by_name, rest = (
        names[count : count + code.co_kwonlyargcount],
        names[count + code.co_kwonlyargcount :],
    )
    if code.co_flags & inspect.CO_VARARGS:
        kinds[rest.pop(0)] = Parameter.VAR_POSITIONAL
    kinds |= dict.fromkeys(by_name, Parameter.KEYWORD_ONLY)
    if code.co_flags & inspect.CO_VARKEYWORDS:
        kinds[rest[0]] = Parameter.VAR_KEYWORD
    return kinds


@functools.cache
def arguments_in_common(function: Function, ours: Function) -> tuple[int, frozenset[str]]:
    """What of NumPy's arguments ours takes as it is: so many by place, and these by name. With any
    number by place, there is nothing to translate."""
    own = _kinds(ours)
    try:
        theirs = _kinds(function)
    except ValueError:
        theirs = own  # NumPy does not tell those of `fromstring`
    by_name = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    names = frozenset([key for key, kind in own.items() if kind in by_name])
    if Parameter.VAR_POSITIONAL in own.values():
        return _ANY_NUMBER, names
    by_place = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    own_names = [key for key, kind in own.items() if kind in by_place]
    in_place = 0
    for key, kind in theirs.items():
        is_by_place = kind in by_place
        if not (is_by_place and _is_in_its_place(in_place, key, own_names, theirs)):
            break
        in_place += 1
    return in_place, names


def takes_numpys_arguments(function: Function, ours: Function) -> bool:
    """Whether ours can be called in place of NumPy's, whatever the arguments."""
    in_place, by_name = arguments_in_common(function, ours)
    if in_place == _ANY_NUMBER:
        return True
    for place, (key, kind) in enumerate(_kinds(function).items()):
        may_be_by_place = kind is not Parameter.KEYWORD_ONLY
        may_be_by_name = kind in (
            Parameter.POSITIONAL_OR_KEYWORD,
            Parameter.KEYWORD_ONLY,
        )
        if may_be_by_place and place >= in_place:
            return False
        if may_be_by_name and key not in by_name:
            return False
    return True


def _translated(
    name: str, function: Function, ours: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    """Arguments by NumPy's signature as arguments of ours: by name, or in their place if renamed;
    and the tensor that the result is to be written into, if there is one.

    Those that have NumPy's default are left out.
    """
    theirs = _parameters(function)
    own = _parameters(ours)
    own_names = [key for key in own if own[key].kind is not Parameter.KEYWORD_ONLY]
    given = _signature(function).bind(*args, **kwargs).arguments
    out = given.pop("out") if "out" not in own and is_tensor(given.get("out")) else None
    # There are no subclasses of tensors, and the order in memory of a new array changes no value.
    is_new = ours.__module__ == creation.__name__
    by_place: list[Any] = []
    by_name: dict[str, Any] = {}
    unknown = []
    for place, (key, parameter) in enumerate(theirs.items()):
        if key not in given:
            continue
        value = given[key]
        if parameter.kind is Parameter.VAR_KEYWORD:
            by_name.update(value)
        elif place == len(by_place) and _is_in_its_place(place, key, own_names, theirs):
            by_place.append(value)
        elif key in own and own[key].kind is not Parameter.POSITIONAL_ONLY:
            by_name[key] = value
        elif key == "subok" or (key == "order" and is_new):
            continue
        elif value is not parameter.default and not _equals_default(value, parameter.default):
            unknown.append(key)
    unknown += [key for key in by_name if key not in own]
    if unknown:
        raise _unsupported_arguments(name, unknown)
    return tuple(by_place), by_name, out


def _is_in_its_place(place: int, key: str, own_names: list[str], theirs: Mapping[str, Any]) -> bool:
    """Whether our argument in this place is NumPy's, maybe under another name."""
    return place < len(own_names) and (own_names[place] == key or own_names[place] not in theirs)


def _equals_default(value: object, default: object) -> bool:
    return isinstance(value, (bool, int, str)) and value == default
