"""`differentiable`: a user's Numba function as an operation, with derivatives from its code."""

import functools
import inspect
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from numba_grad.autograd.forward_ad import has_tangent
from numba_grad.autograd.function import Function
from numba_grad.autograd.tensor_class import is_tensor
from numba_grad.compiler.numba_functions.generated import (
    ArgumentParts,
    DerivedKernel,
    Fixed,
    Form,
    Generated,
    Parameter,
    TypedFunction,
    shared_memory,
    typed_function,
)
from numba_grad.compiler.numba_functions.tape_bound import most_bytes
from numba_grad.compiler.numba_functions.typed_kernels import TypedKernel, typed_kernel
from numba_grad.config import config
from numba_grad.errors import DeviceError, DTypeError, KernelError, explain
from numba_grad.frontend.inputs.arrays import as_node, is_scalar, wrap
from numba_grad.frontend.loops_and_branches.memory_budgets import Memory, tape_bytes
from numba_grad.frontend.own_functions.custom_op import part_of
from numba_grad.frontend.own_functions.generalized_ufuncs import DifferentiableGufunc
from numba_grad.graph.node import OPS, Node, grad_mode
from numba_grad.graph.types import CPU
from numba_grad.immutable import immutable
from numba_grad.ops.custom_kernels import (
    CustomKernel,
    Number,
    call_kernel,
    decoded,
    encoded,
    layout_of,
    python_function,
)
from numba_grad.ops.families import placed

# Elements of the arguments, from which on it is worth more compiling that threads share loops.
_LARGE = 1 << 16

_DTYPES = (
    *("float64", "float32", "complex128", "complex64", "bool"),
    *[f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)],
)


def differentiable(function: Any, *, memory: Memory = None, launch: Any = None) -> "Differentiable":
    """A Numba function of your own as an operation, with derivatives of any order.

    The derivatives are found in the code: loops, branches, values that are overwritten in place,
    and calls of other Numba functions. The code itself stays as it is.

    Parameters
    ----------
    function : a plain function in the subset of Python that Numba compiles, or one decorated with
        `numba.njit`, `numba.vectorize`, `numba.guvectorize` or `numba.cuda.jit`. Its arguments are
        arrays of bool, integers, float32, float64, complex64 or complex128 (the latter two not of
        kernels for CUDA), numbers, tuples and named tuples of these, records of numbers (or
        dictionaries, which may hold tensors, in their place), None, strings, and other Numba
        functions. It must depend on nothing else.
    memory : bytes that the tape of a loop and its states may take in a derivative, as a number or
        as "500 MB"; by default half of the machine's memory. Beyond it, parts of the loop are
        computed again, with the same bits. Of a kernel for CUDA, the bytes that the tape may take;
        by default those that there are.
    launch : of a kernel for CUDA, its grid and block: `(grid, block)`, each an int or a tuple of up
        to three; or a function of the same arguments that gives them, in which arrays have `shape`,
        `dtype` and `size`. By default, blocks of 256 threads, and a thread for each element of
        the first array that is written. `f[grid, block](...)` launches otherwise.

    Returns
    -------
    a function of the same arguments. Its results are what the function returns, then the arrays
    that it writes, in the order of its parameters; one result alone is no tuple. Arguments are
    never changed. Arrays of rank 0 are numbers for the function. Python ints are part of the graph;
    floats are float64 values in it. None, bools, strings and functions are a part of the code.

    Raises
    ------
    TypeError
        If it is not a function written in Python.
    KernelError
        When it is called: if it has a construct that is not differentiated, with its line and what
        to type instead; if an array that it writes shares memory with another argument.

    Notes
    -----
    The derivative is that of the steps that were executed: branches and numbers of passes are what
    they are at these arguments. Where a function has no derivative, as `abs` at 0 or `max` of equal
    numbers, it is that of the branch that was taken, and of `abs` 0. NaN and infinities follow
    IEEE arithmetic: a division by zero raises nothing. Complex numbers are pairs of real ones, and
    gradients by them PyTorch's, the conjugate Wirtinger derivative; of `abs` at 0 it is 0.

    The adjoint keeps what it needs on a tape: `tape_bytes(*args)` says how much. Of an outermost
    loop that would keep more than half of `memory`, the state is kept every so many passes, and
    these are done again before they are reversed; MemoryError if the states take the other half.
    That needs a loop whose arrays are swapped, if they are, in no branch and no inner loop of it.
    `adjoint_source` is its text, to read, copy and change.

    Examples
    --------
    >>> def sweep(u, f, h, steps):
    ...     for _ in range(steps):
    ...         for i in range(1, u.shape[0] - 1):
    ...             u[i] = 0.5 * (u[i - 1] + u[i + 1] - h * h * f[i])
    >>> relax = ng.differentiable(sweep)
    >>> f = np.array([0.0, 1.0, 2.0, 3.0])
    >>> relax(np.zeros(4), f, 1.0, 10)
    tensor([ 0.        , -1.33333015, -1.66666508,  0.        ])
    >>> ng.grad(lambda f: relax(np.zeros(4), f, 1.0, 10)[1])(f)
    tensor([ 0.        , -0.66666603, -0.33333206,  0.        ])
    """
    plain = python_function(getattr(function, "gufunc_builder", function))
    if not inspect.isfunction(plain):
        raise TypeError(
            explain(
                "differentiable",
                "needs a function that Numba can compile",
                got={"function": repr(function)},
                expected="a function written in Python, as it is or decorated by numba.njit",
            )
        )
    kinds = {p.kind for p in inspect.signature(plain).parameters.values()}
    if inspect.Parameter.VAR_KEYWORD in kinds:
        raise TypeError(explain("differentiable", "a function with ** among its parameters"))
    is_kernel = "cuda" in type(function).__module__
    if launch is not None and plain is not function and not is_kernel:
        raise TypeError(
            explain(
                "differentiable",
                "`launch` is for kernels of numba.cuda",
                got={"function": repr(function)},
                fix=f"numba.cuda.jit(...) of a kernel, or no launch for {plain.__name__}",
            )
        )
    nbytes = tape_bytes("differentiable", memory)
    if hasattr(function, "gufunc_builder"):
        core = Differentiable(plain, nbytes, is_default=memory is None)
        return DifferentiableGufunc(function, core)  # pyright: ignore[reportReturnType]
    if launch is not None or is_kernel:
        return DifferentiableKernel(function, None if memory is None else nbytes, launch)
    return Differentiable(function, nbytes, is_default=memory is None)


class Differentiable:
    """A function made by `differentiable`. Call it on arrays and numbers."""

    def __init__(self, function: Any, memory: int, is_default: bool) -> None:
        self.function = function
        self._memory = memory
        self._is_default = is_default
        plain = python_function(function)
        self.__name__ = plain.__name__
        self.__doc__ = plain.__doc__
        self.__module__ = plain.__module__
        self._signature = inspect.signature(plain)
        self._last: tuple[TypedFunction, DerivedKernel] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results, recorded: nothing is computed yet."""
        found, inputs, numbers = self._recorded(args, kwargs)
        sources = tuple(
            [
                k
                for k, x in _array_inputs(found, inputs)
                if x.dtype.kind == "f" and (x.requires_grad or has_tangent(x))
            ]
        )
        request = self._request(found, inputs, numbers, sources)
        if sources and grad_mode.enabled:
            request = replace(request, memory=self._budget(found, inputs, numbers, request))
        self._last = found, request
        variant = _Variant(found, request)
        parts = _applied(variant, inputs, numbers)
        made = found.generated(request)
        results = _joined_parts(parts, made.complex_results, made.bool_results)
        self._check_overlap(found, args, kwargs)
        rest = iter(results)
        returned = _made_as(made.result, rest)
        written = tuple(rest)
        if not written and len(results) != 1:
            return returned
        parts = returned if isinstance(returned, tuple) else (returned,)
        results = (*(() if returned is None else parts), *written)
        return results[0] if len(results) == 1 else results

    def _program(self, parameters: tuple[Parameter, ...], forms: tuple[Form, ...]) -> TypedFunction:
        return typed_function(self.function, parameters, forms)

    def _request(
        self,
        found: TypedFunction,
        inputs: Sequence[Node],
        numbers: Sequence[Number],
        sources: tuple[int, ...] = (),
    ) -> DerivedKernel:
        """For the function itself."""
        return DerivedKernel("primal", 0, sources, are_large=_are_large(inputs))

    def _budget(
        self,
        found: TypedFunction,
        inputs: Sequence[Node],
        numbers: Sequence[Number],
        request: DerivedKernel,
    ) -> int:
        """The budget of loops in the adjoint; 0 where the tape will not come near it, and code that
        can do parts again, and takes twice as long to compile, is not needed."""
        adjoint = found.generated(replace(request, kind="adjoint"))
        assert adjoint.outline is not None
        names = [name for name, is_number in adjoint.inputs if not is_number]
        shapes = {name: x.shape for name, x in zip(names, inputs, strict=False)}
        names = [name for name, is_number in adjoint.inputs if is_number]
        values = {name: int(x[1]) for name, x in zip(names, numbers, strict=True)}
        nbytes, is_known = most_bytes(adjoint.outline, shapes, values)
        fits = nbytes <= self._memory // 2
        return 0 if fits and (is_known or self._is_default) else self._memory

    def _recorded(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[TypedFunction, list[Node], tuple[Number, ...]]:
        """The program for these arguments, its arrays, and its numbers."""
        bound = self._bound(args, kwargs)
        parameters: list[Parameter] = []
        inputs: list[Node] = []
        numbers: list[Number] = []
        parts, forms = self._parts(bound)
        for name, path, value in parts:
            if isinstance(value, int | np.integer):
                number = encoded(value)
                assert number is not None
                if number[0] == "int64" and not -(1 << 63) <= number[1] < 1 << 63:
                    problem = f"`{name}` does not fit an int64"
                    raise OverflowError(explain(self.__name__, problem, got={name: number[1]}))
                numbers.append(number)
                parameters.append(Parameter(name, number[0], 0, True, path))
                continue
            node = self._node(name, value)
            halves = [("", node)]
            if node.dtype.kind == "c":
                halves = [(part, OPS[part](node)) for part in ("real", "imag")]
            for part, x in halves:
                inputs.append(x)
                parameters.append(Parameter(name, x.dtype.name, len(x.shape), False, path, part))
        if not inputs:
            problem = "needs an array or a float among its arguments"
            raise TypeError(explain(self.__name__, problem))
        inputs = self._on_device(parameters, inputs)
        found = self._program(tuple(parameters), forms)
        self._last = found, self._request(found, inputs, numbers)
        return found, inputs, tuple(numbers)

    def _parts(
        self, bound: inspect.BoundArguments
    ) -> tuple[list[tuple[str, tuple[int | str, ...], Any]], tuple[Form, ...]]:
        """The arrays and numbers that the arguments are or are made of, with where they are in
        them; and how the arguments are made of them."""
        found: list[tuple[str, tuple[int | str, ...], Any]] = []

        def form_of(name: str, path: tuple[int | str, ...], value: Any) -> Form:
            if value is None or isinstance(value, str | bool | np.bool_):
                return Fixed(bool(value) if isinstance(value, np.bool_) else value)
            if isinstance(value, Differentiable):
                value = value.function
            if callable(getattr(value, "py_func", None)):
                return Fixed(value)
            names = _names_of_parts(value)
            if names is None:
                found.append((name, path, value))
                return None
            forms = [form_of(name, (*path, key), value[key]) for key in names]
            kind = type(value) if isinstance(value, tuple) else dict
            return ArgumentParts(kind, tuple(map(str, names)), tuple(forms))

        bound.apply_defaults()
        forms = [form_of(name, (), value) for name, value in bound.arguments.items()]
        return found, tuple(forms)

    def _node(self, name: str, value: Any) -> Node:
        if isinstance(value, list | dict) or inspect.isroutine(value):
            problem = f"`{name}` must be an array, a number, or a tuple or record of these"
            fix = "a tuple, or an argument for each of its parts"
            if inspect.isroutine(value):
                fix = f"numba.njit of {getattr(value, '__name__', name)}"
            raise TypeError(explain(self.__name__, problem, got={name: repr(value)}, fix=fix))
        if isinstance(value, float) and not is_tensor(value):
            value = np.float64(value)
        elif isinstance(value, complex) and not is_tensor(value):
            value = np.complex128(value)
        node = as_node(value)
        if node.dtype.name not in _DTYPES:
            raise DTypeError(
                explain(
                    self.__name__,
                    f"has no derivative of `{name}` of this dtype",
                    got={name: node.type},
                    expected="bool, integers, float32, float64, complex64 or complex128",
                )
            )
        return node

    def _on_device(self, parameters: Sequence[Parameter], inputs: list[Node]) -> list[Node]:
        """The arrays, where the code runs.

        Raises
        ------
        DeviceError
            If one is elsewhere.
        """
        names = [p.text for p in parameters if not p.is_number]
        for name, node in zip(names, inputs, strict=True):
            if node.type.device != CPU:
                raise DeviceError(
                    explain(
                        self.__name__,
                        "runs on the CPU",
                        got={name: node.type},
                        fix="x.cpu(), or a kernel of numba.cuda",
                    )
                )
        return inputs

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        try:
            return self._signature.bind(*args, **kwargs)
        except TypeError as error:
            fix = f"{self.__name__}{self._signature}"
            raise TypeError(explain(self.__name__, str(error), fix=fix)) from None

    def _check_overlap(
        self, found: TypedFunction, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        written = found.generated(DerivedKernel("primal", 0, ())).written
        if not written:
            return
        parts, _ = self._parts(self._bound(args, kwargs))
        given = [p for p in found.parameters if p.part != "imag"]
        names, values = [p.text for p in given], [value for _, _, value in parts]
        arrays = [x._node if is_tensor(x) else x for x in values]
        arrays = [None if is_scalar(x) or not getattr(x, "shape", ()) else x for x in arrays]
        for k in [
            given.index(found.parameters[k]) for k in written if found.parameters[k] in given
        ]:
            for other, array in enumerate(arrays):
                if other != k and shared_memory([arrays[k], array]) is not None:
                    raise KernelError(
                        explain(
                            self.__name__,
                            f"writes `{names[k]}`, which shares memory with `{names[other]}`",
                            fix=f"{names[k]}.copy()",
                        )
                    )

    # What can be looked at.

    def tape_bytes(self, *args: Any, **kwargs: Any) -> int:
        """How many bytes the adjoint keeps for these arguments.

        The forward sweep is run to count them, and keeps nothing.
        """
        found, inputs, numbers = self._recorded(args, kwargs)
        sources = _float_sources(found)
        adjoint = found.generated(DerivedKernel("adjoint", 0, sources))
        primal = _Variant(found, DerivedKernel("primal", 0, sources))
        results = [x for x in _applied(primal, inputs, numbers) if x.dtype.kind == "f"]
        variant = _Variant(found, DerivedKernel("tape", 0, sources))
        assert len(adjoint.inputs) == len(found.parameters) + len(results)
        return int(_recorded_results(variant, [*inputs, *[x._node for x in results]], numbers)[0])

    @property
    def adjoint_source(self) -> str:
        """Numba source of the adjoint, by all arguments of floating dtype, for the types of the
        last call.

        Raises
        ------
        KernelError
            If there was no call yet: the code depends on types.
        """
        return self._generated("adjoint").source

    @property
    def primal_source(self) -> str:
        """Numba source of the function itself, as it is run, for the types of the last call."""
        return self._generated("primal").source

    def _generated(self, kind: str) -> Generated:
        if self._last is None:
            raise KernelError(
                explain(
                    self.__name__,
                    "has no source before it is called: types of arguments decide about it",
                    fix=f"{self.__name__}{self._signature}",
                )
            )
        found, request = self._last
        return found.generated(replace(request, kind=kind, sources=_float_sources(found)))

    @property
    def __signature__(self) -> inspect.Signature:
        """With the results, once there was a call: types of arguments decide about them."""
        if self._last is None:
            return self._signature.replace(return_annotation=inspect.Signature.empty)
        return self._signature.replace(return_annotation=", ".join(self._names_of_results()))

    def _names_of_results(self) -> list[str]:
        assert self._last is not None
        found, _ = self._last
        primal = found.generated(DerivedKernel("primal", 0, ()))
        written = [found.parameters[k] for k in primal.written]
        count = primal.returned_count
        count -= sum(k < count for k in primal.complex_results)  # two parts are one result
        returned = ["returned"] if count == 1 else [f"returned {k}" for k in range(count)]
        return returned + [p.text for p in written if p.part != "imag"]

    def __repr__(self) -> str:
        if self._last is None:
            return f"<differentiable {self.__name__}{self._signature}>"
        results = ", ".join(self._names_of_results())
        return f"<differentiable {self.__name__}{self._signature} -> {results}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Differentiable, (self.function, self._memory, self._is_default)


class DifferentiableKernel(Differentiable):
    """A kernel of `numba.cuda` as `differentiable` makes it an operation. `f[grid, block](...)`
    launches it, and its derivatives, in this way."""

    def __init__(self, function: Any, memory: int | None, launch: Any) -> None:
        super().__init__(function, 0, is_default=True)
        self._most_bytes = memory
        self._launch = launch
        is_pair = isinstance(launch, tuple) and len(launch) == 2
        if launch is not None and not callable(launch) and not is_pair:
            raise TypeError(
                explain(
                    self.__name__,
                    "a launch is a grid and a block",
                    got={"launch": repr(launch)},
                    expected="(grid, block), each an int or a tuple of up to three, or a function",
                    fix="with ng.cuda.stream(s): around the call, for another stream",
                )
            )

    def __getitem__(self, launch: Any) -> "DifferentiableKernel":
        return DifferentiableKernel(self.function, self._most_bytes, launch)

    def _program(self, parameters: tuple[Parameter, ...], forms: tuple[Form, ...]) -> TypedKernel:
        return typed_kernel(self.function, parameters, forms, self._launch, self._most_bytes)

    def _request(
        self,
        found: TypedFunction,
        inputs: Sequence[Node],
        numbers: Sequence[Number],
        sources: tuple[int, ...] = (),
    ) -> DerivedKernel:
        assert isinstance(found, TypedKernel)
        counted = found.counted([x.type for x in inputs], numbers)
        has_atomics = not config.deterministic
        return DerivedKernel("primal", 0, sources, has_atomics=has_atomics, counted=counted)

    def _budget(
        self,
        found: TypedFunction,
        inputs: Sequence[Node],
        numbers: Sequence[Number],
        request: DerivedKernel,
    ) -> int:
        return 0

    def _node(self, name: str, value: Any) -> Node:
        node = super()._node(name, value)
        if node.dtype.kind == "c":
            raise DTypeError(
                explain(
                    self.__name__,
                    "is a kernel for CUDA, and has no derivative of complex arguments",
                    got={name: node.type},
                    expected="bool, integers, float32 or float64",
                    fix="real and imaginary part as two arrays, or ng.custom_op",
                )
            )
        return node

    def _on_device(self, parameters: Sequence[Parameter], inputs: list[Node]) -> list[Node]:
        device = next((x.type.device for x in inputs if x.type.device != CPU), None)
        names = [p.text for p in parameters if not p.is_number]
        for name, node in zip(names, inputs, strict=True):
            if node.type.device == CPU and (node.shape or device is None):
                raise DeviceError(
                    explain(
                        self.__name__,
                        "is a kernel for CUDA, and its arrays must be on a GPU",
                        got={name: node.type},
                        fix='ng.tensor(x, device="cuda"), or x.cuda() of a tensor',
                    )
                )
        return inputs if device is None else [placed(x, device) for x in inputs]

    def tape_bytes(self, *args: Any, **kwargs: Any) -> int:
        """How many bytes the adjoint keeps for these arguments, in all threads."""
        found, inputs, numbers = self._recorded(args, kwargs)
        assert isinstance(found, TypedKernel)
        request = self._request(found, inputs, numbers, _float_sources(found))
        made = found.generated(replace(request, kind="adjoint"))
        names = [name for name, is_number in made.inputs if is_number]
        values = dict(zip(names, map(decoded, numbers), strict=True))
        return found.tape_bytes(made, [x.type for x in inputs], values)

    def __reduce__(self) -> tuple[Any, ...]:
        return DifferentiableKernel, (self.function, self._most_bytes, self._launch)


def _made_as(form: Any, results: Iterator[Any]) -> Any:
    """What a function returns, with its tuples."""
    if form is True:
        return next(results)
    if form is None:
        return None
    name, fields, forms = form
    parts = [_made_as(part, results) for part in forms]
    return _named_tuple(name, tuple(fields))(*parts) if fields else tuple(parts)


@functools.cache
def _named_tuple(name: str, fields: tuple[str, ...]) -> Any:
    return namedtuple(name, fields)


def _names_of_parts(value: Any) -> Sequence[int | str] | None:
    """Of a tuple, or of a record, which may be a dictionary; None of an argument without parts."""
    if isinstance(value, tuple):
        return range(len(value))
    if isinstance(value, np.void) and value.dtype.names:
        return value.dtype.names
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return list(value)
    return None


def _float_sources(found: TypedFunction) -> tuple[int, ...]:
    return tuple(
        [
            k
            for k, p in enumerate(found.parameters)
            if not p.is_number and p.dtype.startswith("float")
        ]
    )


def _array_inputs(found: TypedFunction, inputs: Sequence[Node]) -> list[tuple[int, Node]]:
    """The arguments that are arrays, with the numbers of their parameters."""
    places = [k for k, p in enumerate(found.parameters) if not p.is_number]
    return list(zip(places, inputs, strict=False))


def _are_large(inputs: Sequence[Node]) -> bool:
    return sum(x.type.size for x in inputs) >= _LARGE


@immutable
class _Variant:
    """A kernel of a program: see `compiler/numba_functions/generated.py`."""

    program: TypedFunction
    request: DerivedKernel

    def of(self, kind: str, order: int) -> "_Variant":
        return _Variant(self.program, replace(self.request, kind=kind, order=order))


@functools.lru_cache(maxsize=1 << 12)
def _kernel(variant: _Variant) -> CustomKernel:
    return variant.program.custom_kernel(variant.request)


def _recorded_results(
    variant: _Variant, inputs: Sequence[Node], numbers: tuple[Number, ...]
) -> list[Any]:
    kernel = _kernel(variant)
    made = variant.program.generated(variant.request)
    types, _ = kernel.results([x.type for x in inputs], numbers)
    stored = call_kernel(list(inputs), kernel, numbers)
    results = [wrap(stored)]
    if len(types) > 1:
        starts = layout_of(kernel.name, types).starts
        count = max([made.result_count, *[other + 1 for _, other in made.added]])
        parts = zip(starts[:count], types, strict=False)
        results = [wrap(part_of(stored, start, type)) for start, type in parts]
    for k in made.of_threads:
        results[k] = results[k].sum()
    for k, other in made.added:
        results[k] = results[k] + results[other]
    return results[: made.result_count]


def _joined_parts(
    parts: Sequence[Any], complex_results: Sequence[int], bool_results: Sequence[int]
) -> tuple[Any, ...]:
    """The results, of which complex ones come in two parts, bools as integers."""
    results: list[Any] = []
    for k, part in enumerate(parts):
        if k - 1 in complex_results:
            continue
        if k in complex_results:
            part = wrap(OPS["make_complex"](part._node, parts[k + 1]._node))
        elif k in bool_results:
            part = part != 0
        results.append(part)
    return tuple(results)


def _applied(
    variant: _Variant, inputs: Sequence[Any], numbers: tuple[Number, ...]
) -> tuple[Any, ...]:
    """The results, with history where there is one; `inputs` are nodes or tensors."""
    nodes = [x if isinstance(x, Node) else x._node for x in inputs]
    is_recorded = grad_mode.enabled and any(node.requires_grad for node in nodes)
    if not variant.request.sources or not (is_recorded or any(map(has_tangent, nodes))):
        return tuple(_recorded_results(variant, nodes, numbers))
    tensors = [wrap(x) if isinstance(x, Node) else x for x in inputs]
    results = _function(variant).apply(*tensors, numbers)
    return results if isinstance(results, tuple) else (results,)


@functools.lru_cache(maxsize=1 << 12)
def _function(variant: _Variant) -> type[Function]:
    """A kernel with its derivatives.

    With F the function, A its adjoint (x, g) -> J(x)^T g, and F^k and A^k their derivatives in the
    directions w_1 ... w_k by x alone, both symmetric in these:

        F^k (x; w)     pulls g back to    A^k(x, g; w) at x,  A^(k-1)(x, g; w without w_i) at w_i
        A^k (x, g; w)  pulls v back to    A^(k+1)(x, g; w, v) at x,  F^(k+1)(x; w, v) at g,
                                          A^k(x, g; w with v for w_i) at w_i

    as <v, A^k> is the k-th derivative of <g, F^1(x; v)>.
    """
    layout = _Layout(variant)

    def forward(ctx: Any, *args: Any) -> Any:
        *tensors, numbers = args
        results = _recorded_results(variant, [x._node for x in tensors], numbers)
        ctx.save_for_backward(*tensors)
        ctx.numbers = numbers
        ctx.mark_non_differentiable(*[x for x in results if x.dtype.kind != "f"])
        return tuple(results) if len(results) > 1 else results[0]

    def backward(ctx: Any, *cotangents: Any) -> Any:
        found = layout.pulled_back(ctx.saved_tensors, cotangents, ctx.numbers)
        needs = ctx.needs_input_grad
        return *[g() if g and n else None for g, n in zip(found, needs, strict=False)], None

    def jvp(ctx: Any, *tangents: Any) -> Any:
        results: Sequence[Any] = layout.pushed_forward(
            ctx.saved_tensors, tangents[:-1], ctx.numbers
        )
        return results if len(results) > 1 else results[0]  # pyright: ignore

    methods = {
        "forward": staticmethod(forward),
        "backward": staticmethod(backward),
        "jvp": staticmethod(jvp),
    }
    name = variant.program.generated(variant.request).name
    return type(name, (Function,), methods)


class _Layout:
    """Which of a kernel's arrays are parameters, cotangents and directions."""

    def __init__(self, variant: _Variant) -> None:
        self.variant = variant
        request = variant.request
        places = [k for k, p in enumerate(variant.program.parameters) if not p.is_number]
        self.parameters = len(places)
        self.sources = [places.index(k) for k in request.sources]
        primal = variant.of("primal", 0)
        made = primal.program.generated(primal.request)
        dtypes = made.output_dtypes[: made.result_count]
        self.floating = [k for k, dtype in enumerate(dtypes) if dtype.startswith("float")]
        self.cotangents = len(self.floating) if request.kind == "adjoint" else 0

    def split(self, inputs: Sequence[Any]) -> tuple[list, list, list[list]]:
        """Parameters, cotangents, and a list of tangents for each direction."""
        first = self.parameters + self.cotangents
        count = len(self.sources)
        rest = list(inputs[first:])
        directions = [rest[k : k + count] for k in range(0, len(rest), count)]
        return list(inputs[: self.parameters]), list(inputs[self.parameters : first]), directions

    def pulled_back(
        self, inputs: Sequence[Any], cotangents: Sequence[Any], numbers: tuple
    ) -> list[Callable[[], Any] | None]:
        """For each input, what computes its cotangent."""
        kind, order = self.variant.request.kind, self.variant.request.order
        x, g, w = self.split(inputs)
        result: list[Callable[[], Any] | None] = [None] * len(inputs)
        first = self.parameters + self.cotangents

        def lazily(kind: str, order: int, arrays: Sequence[Any]) -> Callable[[], tuple]:
            variant = self.variant.of(kind, order)
            return functools.cache(lambda: _applied(variant, arrays, numbers))

        def put(places: Sequence[int], results: Callable[[], tuple]) -> None:
            for number, place in enumerate(places):
                result[place] = lambda number=number: results()[number]

        others = [[*w[:i], *w[i + 1 :]] for i in range(order)]
        if kind == "primal":
            given = cotangents if order else [cotangents[k] for k in self.floating]
            put(self.sources, lazily("adjoint", order, [*x, *given, *_joined(w)]))
            for i in range(order):
                arrays = [*x, *given, *_joined(others[i])]
                put(self._direction(first, i), lazily("adjoint", order - 1, arrays))
            return result
        put(self.sources, lazily("adjoint", order + 1, [*x, *g, *_joined(w), *cotangents]))
        places = range(self.parameters, first)
        put(places, lazily("primal", order + 1, [*x, *_joined(w), *cotangents]))
        for i in range(order):
            arrays = [*x, *g, *_joined(others[i]), *cotangents]
            put(self._direction(first, i), lazily("adjoint", order, arrays))
        return result

    def _direction(self, first: int, i: int) -> range:
        count = len(self.sources)
        return range(first + i * count, first + (i + 1) * count)

    def pushed_forward(
        self, inputs: Sequence[Any], tangents: Sequence[Any], numbers: tuple
    ) -> tuple[Any, ...]:
        """The tangents of the results: of each factor in turn, as all but the parameters are
        linear."""
        kind, order = self.variant.request.kind, self.variant.request.order
        x, g, w = self.split(inputs)
        _, g_dot, w_dot = self.split(tangents)
        x_dot = [tangents[k] for k in self.sources]
        variant = self.variant.of(kind, order + 1)
        total = list(_applied(variant, [*x, *g, *_joined(w), *x_dot], numbers))
        parts = []
        if g:
            parts.append([*x, *g_dot, *_joined(w)])
        for i in range(order):
            directions = [*w[:i], w_dot[i], *w[i + 1 :]]
            parts.append([*x, *g, *_joined(directions)])
        for arrays in parts:
            more = _applied(self.variant, arrays, numbers)
            total = [a + b for a, b in zip(total, more, strict=True)]
        if kind == "primal" and order == 0:
            made = self.variant.program.generated(self.variant.request)
            result: list[Any] = [None] * made.result_count
            for k, tangent in zip(self.floating, total, strict=True):
                result[k] = tangent
            return tuple(result)
        return tuple(total)


def _joined(lists: Sequence[Sequence[Any]]) -> list[Any]:
    return [x for part in lists for x in part]
