"""`callback`: Python in a plan, on NumPy arrays. A call of it is a `custom_kernel` whose function
Python runs (`runtime/python_calls.py`); its derivative is a `custom_vjp`."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numba_grad.dtypes import is_inexact
from numba_grad.errors import (
    DeviceError,
    DTypeError,
    GradientError,
    ShapeError,
    TracingError,
    explain,
)
from numba_grad.frontend.derivatives.custom_rules import custom_vjp
from numba_grad.frontend.functions.creation import as_shape
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node, is_scalar, wrap
from numba_grad.frontend.loops_and_branches.bodies import name_of
from numba_grad.frontend.own_functions.custom_op import part_of
from numba_grad.graph.node import OPS, Node, grad_mode
from numba_grad.graph.types import CPU, Type, array_type, as_dtype
from numba_grad.ops.custom_kernels import CpuKernel, CustomKernel, call_kernel, layout_of
from numba_grad.ops.families import cast


class ShapeDtypeStruct:
    """A shape and a dtype, as JAX's: what `callback` returns, without a value."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: int | Sequence[int], dtype: Any) -> None:
        self.shape = as_shape("ShapeDtypeStruct", shape)
        self.dtype = as_dtype(dtype)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ShapeDtypeStruct):
            return NotImplemented
        return (self.shape, self.dtype) == (other.shape, other.dtype)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        return f"ShapeDtypeStruct({self.shape}, {self.dtype.name})"


def callback(
    f: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    vjp: Callable[..., Any] | None = None,
) -> Any:
    """`f(*args)`, run by Python on NumPy arrays when values are computed: in `jit` at each call.

    Parameters
    ----------
    f : function of NumPy arrays, which are copies and read-only, in the containers of `args`. It
        must depend on nothing else and return what `result_shape_dtypes` says.
    result_shape_dtypes : what `f` returns, with anything that has a shape and a dtype in place of
        the arrays: `ng.ShapeDtypeStruct(shape, dtype)`, or an array like the result
    args : arrays and numbers, possibly in nested containers
    vjp : `vjp(g, out, *args)` -> the cotangent of the argument, or a tuple of one for each
        argument, None for 0; `g` is the cotangent of the result `out`. Made of operations; what it
        has Python compute is a callback of its own.

    Raises
    ------
    TypeError, ShapeError, DTypeError
        When values are computed, if `f` returns something else than was said.
    GradientError
        If a derivative is asked for, and there is no `vjp`.

    Notes
    -----
    As JAX's `pure_callback`. Callbacks run one at a time, with the GIL. An exception in `f` is
    raised where the value is asked for, and no other callback of that program runs after it. `f`
    may be called less often than recorded, if its result is not needed or known already, and more
    often, if a derivative computes it again. Under `vmap` it is called for each member of the
    batch, one after the other.

    A program is compiled for `f` itself: define it once, not in each call.

    Examples
    --------
    >>> import scipy.linalg
    >>> def solve(matrix, b):
    ...     like_b = ng.ShapeDtypeStruct(b.shape, b.dtype)
    ...     return ng.callback(scipy.linalg.solve, like_b, matrix, b, vjp=solve_vjp)
    >>> def solve_vjp(g, x, matrix, b):
    ...     of_b = solve(matrix.T, g)
    ...     return -np.outer(of_b, x), of_b
    >>> matrix = np.array([[2.0, 1.0], [0.0, 4.0]])
    >>> ng.jit(ng.grad(lambda b: np.sum(solve(matrix, b))))(np.array([1.0, 2.0]))
    array([0.5  , 0.125])
    """
    _check_functions(f, vjp)
    expected, out_structure = trees.flatten(result_shape_dtypes)
    types = tuple(
        [
            _result_type(f, name, x)
            for name, x in zip(trees.leaf_names(out_structure, "result"), expected, strict=True)
        ]
    )
    if not types:
        raise ValueError(
            explain(
                f"callback {name_of(f)}",
                "without results it would never run",
                got={"result_shape_dtypes": result_shape_dtypes},
                expected="what f returns, with shapes and dtypes in place of arrays",
            )
        )

    def value(*args: Any) -> Any:
        leaves, structure = trees.flatten(args)
        nodes = [as_node(x) for x in leaves]
        _check_devices(f, nodes)
        call = _PythonFunction(f, structure, out_structure, types)
        return trees.unflatten(out_structure, map(wrap, call.recorded(nodes)))

    if not grad_mode.enabled or not any(as_node(x).requires_grad for x in trees.flatten(args)[0]):
        return value(*args)
    value.__name__ = name_of(f)
    differentiable = custom_vjp(value)
    differentiable.defvjp(
        lambda *args: (out := value(*args), (out, args)),
        _rule_of(f, vjp),
    )
    return differentiable(*args)


def _rule_of(f: Callable[..., Any], vjp: Callable[..., Any] | None) -> Callable[..., Any]:
    """The `vjp` of a callback, as `custom_vjp` takes it."""

    def rule(kept: tuple[Any, tuple], g: Any) -> tuple[Any, ...]:
        out, args = kept
        if vjp is None:
            raise GradientError(
                explain(
                    f"callback {name_of(f)}",
                    "has no derivative",
                    fix="callback(..., vjp=lambda g, out, *args: ...), or ng.stop_gradient of its "
                    "arguments",
                )
            )
        try:
            found = vjp(g, out, *args)
        except TracingError as error:
            error.add_note("what the vjp of a callback computes in Python is a callback of its own")
            raise
        return found if isinstance(found, tuple) else (found,)

    rule.__name__ = "vjp" if vjp is None else name_of(vjp)
    return rule


def _check_functions(f: Any, vjp: Any) -> None:
    if not callable(f):
        raise TypeError(explain("callback", "needs a function", got={"f": repr(f)}))
    if vjp is not None and not callable(vjp):
        raise TypeError(
            explain(f"callback {name_of(f)}", "`vjp` must be a function", got={"vjp": repr(vjp)})
        )


def _result_type(f: Callable[..., Any], name: str, x: Any) -> Type:
    if not (hasattr(x, "shape") and hasattr(x, "dtype")):
        raise TypeError(
            explain(
                f"callback {name_of(f)}",
                "what it returns must be said",
                got={name: repr(x)},
                expected="ng.ShapeDtypeStruct(shape, dtype), or an array like the result",
            )
        )
    return array_type(tuple(x.shape), as_dtype(x.dtype))


def _check_devices(f: Callable[..., Any], nodes: Sequence[Node]) -> None:
    for node in nodes:
        if node.type.device != CPU:
            raise DeviceError(
                explain(
                    f"callback {name_of(f)}",
                    "Python computes on the CPU",
                    got={"argument": node.type},
                    fix='x.to("cpu")',
                )
            )


_ARRAYS = np.ndarray, np.generic


class _PythonFunction:
    """A function of the user's, of and to lists of arrays, checked. Equal ones are one kernel."""

    def __init__(
        self,
        f: Callable[..., Any],
        structure: trees.Structure,
        out_structure: trees.Structure,
        types: tuple[Type, ...],
    ) -> None:
        self._f = f
        self._structure = structure
        self._out_structure = out_structure
        self._types = types
        self._stored = _stored_types(types)
        self._expected = [
            (type.shape, type.dtype, stored.rank > type.rank)
            for type, stored in zip(types, self._stored, strict=True)
        ]
        self._arguments = trees.rebuilder(structure)
        self._is_one = out_structure == trees.flatten(0)[1]

    def _key(self) -> tuple[Any, ...]:
        return self._f, self._structure, self._out_structure, self._types

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _PythonFunction) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def recorded(self, nodes: Sequence[Node]) -> list[Node]:
        """The results for these arguments."""
        try:
            kernel = _kernel(self, len(nodes))
        except TypeError:  # not hashable, as a method of such an object
            kernel = _kernel.__wrapped__(self, len(nodes))
        stored = call_kernel(nodes, kernel, ())
        if len(self._types) == 1:
            return [stored]
        starts = layout_of(kernel.name, self._stored).starts
        return [
            _as_declared(part_of(stored, start, kept), type)
            for start, kept, type in zip(starts, self._stored, self._types, strict=True)
        ]

    def __call__(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """The results as they are stored."""
        returned = self._f(*self._arguments(arrays))
        if self._is_one and isinstance(returned, _ARRAYS):
            return [self._checked(0, returned)]
        leaves, structure = trees.flatten(returned)
        if structure != self._out_structure:
            raise TypeError(
                trees.structure_mismatch(
                    f"callback {name_of(self._f)}", "result", structure, self._out_structure
                )
            )
        return [self._checked(k, x) for k, x in enumerate(leaves)]

    def _checked(self, k: int, x: Any) -> Any:
        shape, dtype, is_split = self._expected[k]
        if not isinstance(x, _ARRAYS):
            # Of no dtype of its own is a Python number only.
            x = np.asarray(x, dtype if _may_become(x, dtype) else None)
        if x.shape != shape or x.dtype != dtype:
            self._refuse(k, x, self._types[k])
        return np.stack([x.real, x.imag], axis=-1) if is_split else x

    def _refuse(self, k: int, array: Any, type: Type) -> None:
        is_dtype = array.shape == type.shape
        name = trees.leaf_names(self._out_structure, "result")[k]
        raise (DTypeError if is_dtype else ShapeError)(
            explain(
                f"callback {name_of(self._f)}",
                f"returned another {'dtype' if is_dtype else 'shape'} than was said",
                got={name: f"{array.dtype.name}{list(array.shape)}"},
                expected=str(type),
            )
        )


def _may_become(x: Any, dtype: np.dtype) -> bool:
    """Whether this is a Python number that an array of the dtype may hold."""
    return is_scalar(x) and np.can_cast(type(x), dtype, "same_kind")


@functools.lru_cache(maxsize=1 << 10)
def _kernel(function: _PythonFunction, count: int) -> CustomKernel:
    return CustomKernel(
        name_of(function._f),
        tuple([f"argument {k}" for k in range(count)]),
        (),
        lambda *inputs: [x.shape for x in function._stored],
        lambda *inputs: [x.dtype for x in function._stored],
        CpuKernel(function, in_python=True),
        None,
    )


# Several results lie in one array, where numbers of 4 and 8 bytes go together: others are stored
# as such.


def _stored_types(types: tuple[Type, ...]) -> tuple[Type, ...]:
    if len({type.dtype for type in types}) == 1:
        return types
    return tuple([_stored(type) for type in types])


def _stored(type: Type) -> Type:
    dtype = type.dtype
    if dtype.kind == "c":
        return array_type((*type.shape, 2), np.dtype(f"float{4 * dtype.itemsize}"))
    if dtype.itemsize >= 4:
        return type
    return array_type(type.shape, np.dtype(np.float32 if is_inexact(dtype) else np.int32))


def _as_declared(x: Node, type: Type) -> Node:
    if x.type.rank > type.rank:
        real, imag = [
            OPS["reshape"](
                OPS["slice"](
                    x,
                    starts=(*[0] * type.rank, k),
                    sizes=(*type.shape, 1),
                    steps=(1,) * (type.rank + 1),
                ),
                shape=type.shape,
            )
            for k in range(2)
        ]
        return OPS["make_complex"](real, imag)
    return cast(x, type.dtype)
