"""What the primitives of a family share: dtype rules, broadcasting and its undoing, batching.

An op module calls these constructors, one call per primitive. A VJP is a tuple with one rule per
input, each `(g, out, *inputs, **params) -> Node`, or None where there is no derivative. Rules are
written with ops, graph to graph, and only the needed ones are called; so second derivatives come
from the same rules.
"""

import functools
import string
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, MappingProxyType
from typing import Any

import numpy as np

from numba_grad.dtypes import FLOAT16, asked_of_numpy, character_of, is_inexact
from numba_grad.errors import AxisError, DTypeError, GradientError, explain
from numba_grad.fresh_thread import imported
from numba_grad.graph.node import OPS, Node, Op, SharedParams, record
from numba_grad.graph.types import CPU, KNOWN, Type, array_type, broadcast_shapes
from numba_grad.ops.samples import elementwise_examples, position_examples, reduction_examples

Rule = Callable[..., Node | None] | None

# NumPy type characters, as in `Op.dtypes`. Some name the same dtype: l and q, or l and i.
INTEGER = "bhilqBHILQ"
FLOATING = "efd"
COMPLEX = "FD"
INEXACT = FLOATING + COMPLEX
REAL = INTEGER + FLOATING
NUMERIC = INTEGER + INEXACT
ALL = "?" + NUMERIC


def by_argument(rules: Sequence[Rule]) -> Callable[..., Node | None]:
    """One `vjp(k, g, out, *inputs, **params)` out of a rule per input."""

    def vjp(k: int, g: Node, out: Node, *inputs: Node, **params: Any) -> Node | None:
        rule = rules[k]
        return None if rule is None else rule(g, out, *inputs, **params)

    return vjp


def literal(value: complex | bool, dtype: np.dtype) -> Node:
    """A 0-d constant that is part of the kernel: for formulas, not for users' numbers."""
    kind = value.__class__
    if kind is int or (kind is float and value):
        params = _number_params(value, dtype)
    else:  # equal ones may have other bits: -0.0
        params = _literal_params(np.asarray(value, dtype).tobytes(), np.dtype(dtype))
    return record(OPS["literal"], (), params)


@functools.lru_cache(maxsize=1 << 10)
def _number_params(value: float, dtype: np.dtype) -> SharedParams:
    return _literal_params(np.asarray(value, dtype).tobytes(), np.dtype(dtype))


@functools.lru_cache(maxsize=1 << 10)
def _literal_params(text: bytes, dtype: np.dtype) -> SharedParams:
    return SharedParams(bytes=text, dtype=dtype)


def full(value: complex | bool, shape: tuple[int, ...], dtype: np.dtype, device: str = CPU) -> Node:
    """`literal`, broadcast to a shape. Never occupies memory unless asked for."""
    return placed(broadcast_to(literal(value, dtype), shape), device)


def zeros_like(x: Node) -> Node:
    return full(0, x.shape, x.dtype, x.type.device)


def ones_like(x: Node) -> Node:
    return full(1, x.shape, x.dtype, x.type.device)


def placed(x: Node, device: str) -> Node:
    """`x` on a device."""
    if x.type.device == device:
        return x
    return OPS["to_device"](x, device=device)


def broadcast_to(x: Node, shape: tuple[int, ...]) -> Node:
    if x.shape == shape:
        return x
    return record(OPS["broadcast_to"], (x,), shape_params(shape))


def reshape(x: Node, shape: tuple[int, ...]) -> Node:
    if x.type.shape == shape:
        return x
    return record(OPS["reshape"], (x,), shape_params(shape))


def flattened(x: Node) -> Node:
    """All elements of `x` along one axis, in row-major order."""
    return reshape(x, (x.type.size,))


@functools.lru_cache(maxsize=1 << 14)
def shape_params(shape: tuple[int, ...]) -> SharedParams:
    return SharedParams(shape=shape)


def cast(x: Node, dtype: np.dtype) -> Node:
    if x.dtype == dtype:
        return x
    return record(OPS["cast"], (x,), _dtype_params(np.dtype(dtype)))


@functools.lru_cache(maxsize=1 << 8)
def _dtype_params(dtype: np.dtype) -> SharedParams:
    return SharedParams(dtype=dtype)


@functools.lru_cache(maxsize=1 << 10)
def axes_params(axes: tuple[int, ...]) -> SharedParams:
    """The params of a reduction."""
    return SharedParams(axes=axes)


def sum_to(g: Node, shape: tuple[int, ...]) -> Node:
    """The adjoint of broadcasting `shape` to `g.shape`: sums over the axes that were stretched."""
    if g.shape == shape:
        return g
    extra = len(g.shape) - len(shape)
    axes = tuple(
        axis
        for axis in range(len(g.shape))
        if axis < extra or (shape[axis - extra] == 1 and g.shape[axis] != 1)
    )
    if axes:
        g = record(OPS["sum"], (g,), axes_params(axes))
    return reshape(g, shape)


def cotangent_like(g: Node, x: Node) -> Node:
    """`g` as a cotangent of `x`: broadcasting undone, and the real part taken where `x` is real."""
    if g.dtype.kind == "c" and x.dtype.kind != "c":
        g = OPS["real"](g)
    return cast(sum_to(g, x.shape), x.dtype)


def linear(tangents: Sequence[Node | None], out: Node, *inputs: Node, **params: Any) -> Node:
    """The tangent of an operation that is linear in all its floating inputs together: itself."""
    operands = [
        t if t is not None else zeros_like(x) if is_inexact(x.dtype) else x
        for t, x in zip(tangents, inputs, strict=True)
    ]
    return record(out.op, tuple(operands), params)


def multilinear(
    tangents: Sequence[Node | None], out: Node, *inputs: Node, **params: Any
) -> Node | None:
    """The tangent of an operation that is linear in each input: itself, with one input after the
    other replaced."""
    terms = [
        record(out.op, (*inputs[:k], t, *inputs[k + 1 :]), params)
        for k, t in enumerate(tangents)
        if t is not None
    ]
    return total(terms)


def by_slopes(
    tangents: Sequence[Node | None], out: Node, *inputs: Node, **params: Any
) -> Node | None:
    """The tangent of an operation on real arrays of one shape, element by element: what multiplies
    a cotangent multiplies a tangent."""
    rule: Any = out.op.vjp
    return total(
        [None if t is None else rule(k, t, out, *inputs, **params) for k, t in enumerate(tangents)]
    )


def total(terms: Sequence[Node | None]) -> Node | None:
    """The sum of those that are not None, which stands for 0."""
    result = None
    for term in terms:
        if term is not None:
            result = term if result is None else result + term
    return result


def no_slope(g: Node, out: Node, *inputs: Node, **params: Any) -> Node:
    """Of step functions: torch gives zeros, not an error."""
    return zeros_like(g)


def elementwise(
    name: str,
    *,
    expression: str | Callable[..., str] = "",
    reference: Callable[..., np.ndarray] | None = None,
    vjp: Sequence[Rule] | None = None,
    no_vjp: str = "",
    no_derivative: Mapping[str, str] = MappingProxyType({}),
    is_step: bool = False,
    result: str = "same",
    dtypes: str = "fdFD",
    samples: Sequence[tuple[float, float]] = (),
    cost: int = 1,
    saves: tuple[str, ...] = ("inputs",),
    kinks: tuple[float, ...] = (),
    input_names: tuple[str, ...] = (),
    operand_dtypes: Callable[..., bool] | None = None,
    result_dtype: Callable[..., np.dtype] | None = None,
    params_samples: Sequence[dict[str, Any]] = ({},),
    write_back: Callable[..., Node] | None = None,
    jvp: Callable[..., Node | None] | None = None,
    has_real_slopes: bool = False,
) -> Op:
    """An op applied element by element; inputs broadcast as in NumPy.

    Inputs must already have the dtypes of NumPy's loop for this ufunc: who calls the op casts.

    Parameters
    ----------
    expression : kernel source of one element, the inputs in braces and in order: "{x} * {y}". A
        function of the static parameters where the source depends on them. Operands arrive in their
        dtype. The result is cast to the result's dtype where that is an integer or bool; floating
        expressions must have it already, so numbers in them need a cast to "{dtype}". By default a
        call of the function of that name in kernel source.
    reference : the same of NumPy's arrays; by default NumPy's function of that name, or SciPy's
    vjp : written as if nothing was broadcast; sums that undo broadcasting and casts are added here.
    no_vjp : without `vjp`, why there is no derivative; needless where the result is bool
    no_derivative : input name -> why there is none by this input alone: asking for it is an error
    is_step : whether it is piecewise constant on real numbers
    result : "same" (the dtype of the last input), "bool", or "real" (the real part's dtype)
    dtypes : NumPy type characters that the loop accepts, for tests and for errors
    samples : (low, high) of each input, where the tests draw values; (False, True) for one that is
        always bool
    input_names : by default the names in braces but "dtype", or x and y, as there are samples
    operand_dtypes : (*input dtypes) -> whether they fit together, where they need not be equal
    result_dtype : (*input dtypes, **params) -> dtype, where `result` does not say it
    params_samples : what the tests give as params
    write_back : of an op whose result NumPy gives as a view: (x, v) -> x after v was written to it
    jvp : (tangents, out, *inputs, **params) -> tangent. By default it is made of `vjp`: what
        multiplies a cotangent multiplies a tangent, conjugated.
    has_real_slopes : nothing is to conjugate, as all slopes are real numbers
    """
    if not expression:
        input_names = input_names or ("x", "y")[: len(samples)]
        expression = f"{name}({', '.join(f'{{{x}}}' for x in input_names)})"
    if vjp is None and result == "bool":
        no_vjp = "the result is bool"
    names = input_names or _names_in_braces(expression)
    extras: dict[str, Any] = {"no_vjp": no_vjp} if no_vjp else {}
    if no_derivative:
        extras["no_derivative"] = dict(no_derivative)
    if write_back is not None:
        extras["write_back"] = write_back
    if is_step:
        extras["is_step"] = True

    return Op(
        name,
        "elementwise",
        names,
        _type_rule(name, names, result, dtypes, operand_dtypes, result_dtype),
        None if vjp is None else _vjp_with_sums(name, names, vjp, no_derivative),
        batch_aligned(name),
        reference or getattr(np, name, None) or scipy_reference(name),
        expression,
        cost,
        saves if vjp is not None else (),
        tuple(samples),
        dtypes,
        elementwise_examples(samples, dtypes, params_samples),
        kinks,
        extras,
        jvp or (None if vjp is None else _jvp_by_slopes(name, names, vjp, extras, has_real_slopes)),
    )


def scipy_reference(name: str) -> Callable[..., np.ndarray]:
    """SciPy's function of this name, imported when first called."""

    def reference(*arrays: np.ndarray) -> np.ndarray:
        function = getattr(imported("scipy.special"), name)
        return np.asarray(function(*arrays)).astype(arrays[-1].dtype)

    return reference


def _names_in_braces(expression: object) -> tuple[str, ...]:
    """Each once, without the dtype of the result."""
    assert isinstance(expression, str), "a function of params does not say the names of inputs"
    fields = (field for _, field, _, _ in string.Formatter().parse(expression))
    return tuple(dict.fromkeys(field for field in fields if field not in (None, "dtype")))


def _type_rule(
    name: str,
    names: tuple[str, ...],
    result: str,
    dtypes: str,
    operand_dtypes: Callable[..., bool] | None,
    result_dtype: Callable[..., np.dtype] | None,
) -> Callable[..., Type]:
    def infer(*types: Type, **params: Any) -> Type:
        shape = broadcast_shapes(name, names, types)
        operands = [t.dtype for t in types]
        _check_operands(name, names, types, dtypes, operand_dtypes)
        if result_dtype is not None:
            dtype = result_dtype(*operands, **params)
        elif result == "bool":
            dtype = np.dtype(bool)
        elif result == "real":
            dtype = real_dtype(operands[-1])
        else:
            dtype = operands[-1]
        return array_type(shape, dtype)

    return infer


def _vjp_with_sums(
    name: str, names: tuple[str, ...], rules: Sequence[Rule], no_derivative: Mapping[str, str]
) -> Callable[..., Node | None]:
    """Rules that were written as if nothing was broadcast, with the sums that undo broadcasting."""

    def vjp_with_sums(k: int, g: Node, out: Node, *inputs: Node, **params: Any) -> Node | None:
        rule = rules[k]
        if names[k] in no_derivative:
            raise _no_derivative(name, names[k], inputs[k], no_derivative[names[k]])
        if rule is None:
            return None
        contribution = rule(g, out, *inputs, **params)
        x = inputs[k]
        if contribution is None or contribution.type is x.type:
            return contribution
        return cotangent_like(contribution, x)

    return vjp_with_sums


def _jvp_by_slopes(
    name: str,
    names: tuple[str, ...],
    rules: Sequence[Rule],
    extras: Mapping[str, Any],
    has_real_slopes: bool,
) -> Callable[..., Node | None]:
    """The tangent, of rules for cotangents."""
    no_derivative: Mapping[str, str] = extras.get("no_derivative", {})
    is_step = "is_step" in extras

    def jvp_by_slopes(
        tangents: Sequence[Node | None], out: Node, *inputs: Node, **params: Any
    ) -> Node | None:
        if is_step and out.dtype.kind != "c":
            return None
        terms = []
        for input_name, rule, t, x in zip(names, rules, tangents, inputs, strict=True):
            if t is None:
                continue
            if input_name in no_derivative:
                raise _no_derivative(name, input_name, x, no_derivative[input_name])
            if rule is None or rule is no_slope:
                continue
            if has_real_slopes or t.dtype.kind != "c":
                terms.append(rule(t, out, *inputs, **params))
                continue
            # Of a holomorphic function: the rule multiplies by the conjugate of the slope.
            turned = rule(OPS["conjugate"](t), out, *inputs, **params)
            terms.append(None if turned is None else OPS["conjugate"](turned))
        tangent = total(terms)
        return None if tangent is None else cast(broadcast_to(tangent, out.shape), out.dtype)

    return jvp_by_slopes


def is_flat(node: Node) -> bool:
    """Whether all derivatives of this operation are 0: a step function of real numbers."""
    return "is_step" in node.op.extras and node.dtype.kind == "f"


def _no_derivative(name: str, argument: str, x: Node, reason: str) -> GradientError:
    return GradientError(
        explain(
            name,
            f"there is no derivative by {argument}: {reason}",
            got={argument: x.type},
            fix=f"{argument}.detach(), which makes it a constant",
        )
    )


def real_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of the real part."""
    if dtype.kind != "c":
        return dtype
    return np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)


def _check_operands(
    name: str,
    names: Sequence[str],
    types: Sequence[Type],
    accepted: str,
    fit: Callable[..., bool] | None,
) -> None:
    operands = [t.dtype for t in types]
    fitting = fit(*operands) if fit is not None else all(d == operands[0] for d in operands)
    if not fitting or any(character_of(d) not in accepted for d in operands):
        raise DTypeError(
            explain(
                name,
                "not defined for these dtypes" if fitting else "dtypes that do not fit together",
                got=dict(zip(names, types, strict=True)),
                expected=dtype_names(accepted),
                fix="x.astype(...) to a dtype that it is defined for",
            )
        )


def check_one_dtype(operation: str, got: Mapping[str, Type], fix: str = "x.astype(...)") -> None:
    """Raise unless all of these operands have one dtype."""
    if len({t.dtype for t in got.values()}) > 1:
        raise DTypeError(
            explain(operation, "different dtypes", got=dict(got), expected="one dtype", fix=fix)
        )


def dtype_names(characters: str) -> str:
    """NumPy type characters as names, each once: for messages."""
    names = dict.fromkeys(np.dtype(c).name for c in characters)
    if FLOAT16.name in names:
        names["bfloat16"] = None
    return ", ".join(names)


def batch_aligned(name: str) -> Callable[..., Node]:
    """Of an operation whose inputs broadcast: what has no batch axis broadcasts along it."""

    def batch(is_batched: Sequence[bool], *inputs: Node, **params: Any) -> Node:
        return record(OPS[name], tuple(aligned(is_batched, *inputs)), params)

    return batch


def aligned(is_batched: Sequence[bool], *inputs: Node) -> list[Node]:
    """Batched inputs keep their batch axis first; shorter ones get axes of size 1 after it."""
    rank = max(len(x.shape) - batched for x, batched in zip(inputs, is_batched, strict=True))
    return [
        reshape(x, (x.shape[0], *(1,) * (rank - len(x.shape) + 1), *x.shape[1:])) if batched else x
        for x, batched in zip(inputs, is_batched, strict=True)
    ]


def batch_together(name: str) -> Callable[..., Node]:
    """All inputs get the batch axis as their first one, and axes count from the next one on."""

    def batch(is_batched: Sequence[bool], *inputs: Node, **params: Any) -> Node:
        if "axis" in params:
            params["axis"] += 1
        if "axes" in params:
            params["axes"] = tuple([axis + 1 for axis in params["axes"]])
        return record(OPS[name], tuple(together(is_batched, *inputs)), params)

    return batch


def together(is_batched: Sequence[bool], *inputs: Node) -> list[Node]:
    """Each with its batch axis first: stretched where it has none."""
    size = batch_size(is_batched, inputs)
    return [with_batch_axis(x, own, size) for x, own in zip(inputs, is_batched, strict=True)]


def with_batch_axis(x: Node, is_batched: bool, size: int) -> Node:
    return x if is_batched else broadcast_to(x, (size, *x.shape))


def batch_size(is_batched: Sequence[bool], inputs: Sequence[Node]) -> int:
    return next(x.shape[0] for x, batched in zip(inputs, is_batched, strict=True) if batched)


_loops: dict[tuple, tuple[np.dtype, ...]] = {}


def loop_dtypes(ufunc: np.ufunc, dtypes: tuple[Any, ...]) -> tuple[np.dtype, ...]:
    """The dtypes of the inputs, then outputs, of the loop NumPy would choose.

    An entry of `dtypes` may be `int`, `float` or `complex`: a Python scalar, weakly typed.

    Raises
    ------
    DTypeError
        If NumPy has no such loop.
    """
    key = (ufunc, dtypes)
    found = _loops.get(key)
    if found is None:
        try:
            # The exponents of ldexp are integers in every dtype.
            asked, means = asked_of_numpy(dtypes, takes_on_integers=ufunc is not np.ldexp)
            found = ufunc.resolve_dtypes((*asked, *(None,) * ufunc.nout))
        except TypeError:
            raise DTypeError(
                explain(
                    ufunc.__name__,
                    "not defined for these dtypes",
                    got={f"argument {k}": getattr(d, "name", d) for k, d in enumerate(dtypes)},
                    fix="x.astype(...) to a dtype that it is defined for",
                )
            ) from None
        # Types are compared by dtype number too, and NumPy has two numbers for int64.
        found = tuple([means if d == FLOAT16 else KNOWN.get(d, d) for d in found])
        _loops[key] = found
    return found


def reduction(
    name: str,
    *,
    identity: Callable[[np.dtype], object] | None,
    combine: str,
    reference: Callable[..., np.ndarray],
    vjp: Sequence[Rule] | None = None,
    no_vjp: str = "",
    dtypes: str = "fdFD",
    samples: Sequence[tuple[float, float]] = ((-3, 3),),
    saves: tuple[str, ...] = ("inputs",),
    jvp: Callable[..., Node | None] | None = None,
) -> Op:
    """An op that combines all elements along `axes` (sorted, not negative); the axes disappear.

    Parameters
    ----------
    identity : dtype -> the result over no elements; None where NumPy raises
    combine : kernel source of the accumulator with one more element in it, as
        "reduce_add({accumulator}, {value})"
    reference : (array, axes=...) -> array
    no_vjp : without `vjp`, why there is no derivative
    """

    def infer(x: Type, *, axes: tuple[int, ...]) -> Type:
        _check_reduced(name, x, axes, dtypes)
        if identity is None:
            _check_not_empty(name, x, axes)
        shape = tuple(n for axis, n in enumerate(x.shape) if axis not in axes)
        return array_type(shape, x.dtype)

    return Op(
        name,
        "reduction",
        ("x",),
        infer,
        by_argument(vjp) if vjp is not None else None,
        batch_together(name),
        reference,
        combine,
        1,
        saves if vjp is not None else (),
        tuple(samples),
        dtypes,
        reduction_examples(samples[0], dtypes, is_empty_allowed=identity is not None),
        extras={"identity": identity, "no_vjp": no_vjp},
        jvp=jvp,
    )


def position_reduction(name: str, reference: Callable[..., np.ndarray]) -> Op:
    """An op that finds a position along one `axis` (not negative), which disappears."""

    def infer(x: Type, *, axis: int) -> Type:
        _check_reduced(name, x, (axis,), ALL)
        _check_not_empty(name, x, (axis,))
        return array_type(x.shape[:axis] + x.shape[axis + 1 :], np.dtype(np.int64))

    return Op(
        name,
        "reduction",
        ("x",),
        infer,
        batch=batch_together(name),
        reference=reference,
        saves=(),
        samples=((-3, 3),),
        dtypes=ALL,
        example=position_examples,
        extras={"identity": None, "no_vjp": "a position is an integer"},
    )


def _check_reduced(name: str, x: Type, axes: tuple[int, ...], accepted: str) -> None:
    if character_of(x.dtype) not in accepted:
        raise DTypeError(
            explain(
                name,
                "not defined for this dtype",
                got={"x": x},
                expected=dtype_names(accepted),
                fix="x.astype(...) to a dtype that it is defined for",
            )
        )
    if list(axes) != sorted(set(axes)) or any(not 0 <= axis < x.rank for axis in axes):
        raise AxisError(
            explain(name, "axes out of range, repeated or not sorted", got={"x": x, "axes": axes})
        )


def _check_not_empty(name: str, x: Type, axes: tuple[int, ...]) -> None:
    if any(x.shape[axis] == 0 for axis in axes):
        raise ValueError(
            explain(
                name,
                "zero-size array has no identity for this reduction",
                got={"x": x, "axis": axes},
            )
        )


def expand_reduced(g: Node, shape: tuple[int, ...], axes: tuple[int, ...]) -> Node:
    """`g`, a value with `axes` reduced away, stretched back over `shape`."""
    kept = tuple(1 if axis in axes else n for axis, n in enumerate(shape))
    return broadcast_to(reshape(g, kept), shape)


def names_of_arguments(function: Callable[..., Any]) -> tuple[str, ...]:
    """Those by position; `inspect` takes a hundred times as long to say so."""
    assert isinstance(function, FunctionType)
    return function.__code__.co_varnames[: function.__code__.co_argcount]


def structural(
    name: str,
    *,
    family: str = "library",
    input_names: tuple[str, ...] = (),
    infer: Callable[..., Type],
    reference: Callable[..., np.ndarray],
    vjp: Sequence[Rule] | Callable[..., Node | None] | None,
    example: Callable[..., Any],
    batch: Callable[..., Node] | None = None,
    saves: tuple[str, ...] = (),
    dtypes: str = "fdFD",
    extras: dict[str, Any] | None = None,
    no_vjp: str = "",
    jvp: Callable[..., Node | None] | None = None,
) -> Op:
    """An op whose meaning is in its params and shapes: movement, indexing, contraction, scans.

    Parameters
    ----------
    family : "library" is what has a kernel of its own
    input_names : by default those of the arguments of `infer`
    vjp : a rule per input, or for variadic ops one `(k, g, out, *inputs, **params)`
    batch : by default `batch_together`
    example : rng -> list of (input arrays, params), what the registry-driven tests run
    no_vjp : without `vjp`, why there is no derivative; needless where results are integers or bools
    jvp : `linear`, `multilinear`, or (tangents, out, *inputs, **params) -> tangent; without it the
        tangent is made of `vjp`, and costs what that does
    """
    if vjp is not None and not callable(vjp):
        vjp = by_argument(vjp)
    return Op(
        name,
        family,
        input_names or names_of_arguments(infer),
        infer,
        vjp,
        batch or batch_together(name),
        reference,
        None,
        1,
        saves,
        (),
        dtypes,
        example,
        (),
        {**(extras or {}), **({"no_vjp": no_vjp} if no_vjp else {})},
        jvp,
    )
