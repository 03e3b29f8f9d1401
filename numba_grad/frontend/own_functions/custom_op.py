"""`custom_op`: a user's own kernels, with a derivative, as an operation of the graph."""

import functools
import inspect
import math
import sys
from collections.abc import Callable
from typing import Any

from numba_grad.autograd.forward_ad import has_tangent
from numba_grad.autograd.function import Context, Function, signature_of
from numba_grad.autograd.tensor_class import is_tensor
from numba_grad.dtypes import INT64, is_floating, promoted
from numba_grad.errors import DeviceError, GradientError, explain
from numba_grad.frontend.derived_functions import reduced
from numba_grad.frontend.inputs.arrays import as_node, is_scalar, weak_class, wrap
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.graph.node import OPS, Node, grad_mode
from numba_grad.graph.types import CPU, Type, broadcast_shapes
from numba_grad.ops.custom_kernels import (
    CpuKernel,
    CudaKernel,
    CustomKernel,
    Number,
    call_kernel,
    encoded,
    float_of_bits,
    layout_of,
    python_function,
)
from numba_grad.ops.families import broadcast_to, cast, literal, placed, reshape

Rule = Callable[..., Any]


def custom_op(
    name: str,
    cpu: Any = None,
    *,
    shape: Rule | None = None,
    dtype: Any = None,
    vjp: Rule | None = None,
    jvp: Rule | None = None,
    tasks: Rule | None = None,
    grain: int | None = None,
    cuda: Any = None,
    launch: Rule | None = None,
    elementwise: bool = False,
) -> "CustomOp":
    """An operation with kernels of your own, which takes part in graphs, `jit` and gradients.

    A kernel is a function in the subset of Python that Numba compiles. It is called from native
    code, in a plan, with the arrays themselves; no Python runs in between.

    Parameters
    ----------
    name : as in messages, graphs and profiles
    cpu : the kernel for the CPU, a plain function or one decorated with `numba.njit`. It takes the
        inputs, the results, and keyword arguments as numbers, in this order; it writes all elements
        of the results, and returns nothing. Arrays are C-contiguous, 0-d ones are `x[()]`; inputs
        are read-only, results uninitialized. It must depend on nothing but its inputs.
    shape : `shape(*inputs, **numbers)` -> the shape of the result; a list of shapes if there are
        several results. An input has `shape`, `dtype` and `size`. Its parameters are those of the
        operation: positional ones are arrays, keyword-only ones are numbers.
    dtype : of the result; by default, what NumPy promotes the inputs to. A list if there are
        several results; or a function, called as `shape` is.
    vjp : `vjp(g, out, *inputs, **numbers)` -> the cotangent of the input, or a tuple of one for
        each input, None for those that have none. `g` is the cotangent of the result `out`; of
        several results, both are tuples. Written with operations, of numba_grad or your own: their
        derivatives are those of higher order. So another custom_op can be a `vjp`.
    jvp : `jvp(tangents, out, *inputs, **numbers)` -> the tangent of the result, of several results
        a tuple; `tangents` has one for each input, zeros for those that do not change. Without it,
        forward mode differentiates `vjp`, whose operations must have derivatives for that.
    tasks : `tasks(*inputs, **numbers)` -> how many independent parts the work has. The kernel then
        takes two integers before its inputs, and does the parts from the first up to the second:
        `for i in range(first, last)`. Threads share the parts.
    grain : how many of these parts are worth a thread of their own; by default, as many as take
        some 20 us if each of their elements takes a nanosecond
    cuda : the kernel for CUDA, a plain function or one decorated with `numba.cuda.jit`: the same
        arguments, run by each thread of the grid
    launch : `launch(*inputs, **numbers)` -> (grid, block), or (grid, block, shared_bytes); grid and
        block are ints or tuples of up to three. By default, blocks of 256 threads, and a thread for
        each element of the first result.
    elementwise : the functions take one element of each input and return the element of the
        result. Inputs broadcast; `shape`, `tasks` and `launch` follow, and are not given.

    Returns
    -------
    a function of arrays, with the keyword arguments of `shape`; it returns a Tensor, or a tuple of
    them if `shape` gives a list

    Raises
    ------
    TypeError
        If the rules do not fit together.

    Notes
    -----
    Kernels are compiled when they are first run, for each combination of dtypes and numbers of
    dimensions; the disk cache keeps those that make no arrays. An exception in a kernel is raised
    where the value is asked for. Under `vmap` the kernel is called for each member of the batch,
    members shared by the threads. The reference engine runs it in Python.

    Examples
    --------
    >>> def blur(x, out):
    ...     for i in range(x.size):
    ...         out[i] = 0.5 * (x[i] + x[i - 1])
    >>> def blur_adjoint(g, out):
    ...     for i in range(g.size):
    ...         out[i - 1] = 0.5 * (g[i - 1] + g[i])
    >>> adjoint = ng.custom_op("blur_adjoint", blur_adjoint, shape=lambda g: g.shape)
    >>> smooth = ng.custom_op(
    ...     "blur", blur, shape=lambda x: x.shape, vjp=lambda g, out, x: adjoint(g)
    ... )
    >>> smooth(np.array([1.0, 2.0, 5.0]))
    tensor([3. , 1.5, 3.5])
    >>> ng.grad(lambda x: smooth(x)[0])(np.array([1.0, 2.0, 5.0]))
    tensor([0.5, 0. , 0.5])
    """
    if not isinstance(name, str) or not name:
        raise TypeError(explain("custom_op", "needs a name", got={"name": repr(name)}))
    _check_rules(name, vjp=vjp, jvp=jvp, tasks=tasks, launch=launch, shape=shape)
    _check_kernels(name, cpu, cuda)
    if elementwise:
        _check_elementwise(name, cpu or cuda, shape=shape, tasks=tasks, grain=grain, launch=launch)
        shape = _shape_of_first
    elif shape is None:
        raise TypeError(
            explain(
                name,
                "needs a rule for the shape of its result",
                fix="shape=lambda x: x.shape, or elementwise=True",
            )
        )
    rule = python_function(cpu or cuda) if elementwise else shape
    arrays, numbers, defaults = _interface(name, rule)
    kernel = CustomKernel(
        name,
        arrays,
        numbers,
        shape,
        dtype,
        None if cpu is None else CpuKernel(cpu, tasks, grain),
        None if cuda is None else CudaKernel(cuda, launch),
        elementwise,
    )
    made_by = functools.partial(
        custom_op,
        name,
        cpu,
        shape=None if elementwise else shape,
        dtype=dtype,
        vjp=vjp,
        jvp=jvp,
        tasks=tasks,
        grain=grain,
        cuda=cuda,
        launch=launch,
        elementwise=elementwise,
    )
    return CustomOp(kernel, vjp, jvp, defaults, made_by)


def _check_rules(name: str, **rules: Any) -> None:
    for rule_name, rule in rules.items():
        if rule is not None and not callable(rule):
            raise TypeError(
                explain(name, f"`{rule_name}` must be a function", got={rule_name: repr(rule)})
            )


def _check_kernels(name: str, cpu: Any, cuda: Any) -> None:
    if cpu is None and cuda is None:
        raise TypeError(explain(name, "needs a kernel", expected="cpu=, cuda=, or both"))
    for kind, function, decorator in (
        ("cpu", cpu, "numba.njit"),
        ("cuda", cuda, "numba.cuda.jit"),
    ):
        if function is not None and not inspect.isfunction(python_function(function)):
            raise TypeError(
                explain(
                    name,
                    f"`{kind}` must be a function that Numba can compile",
                    got={kind: repr(function)},
                    expected=f"a function written in Python, as it is or decorated by {decorator}",
                )
            )


def _check_elementwise(name: str, function: Any, **follows: Any) -> None:
    given = [argument for argument, value in follows.items() if value is not None]
    if given:
        raise TypeError(explain(name, "an elementwise operation has no " + " and no ".join(given)))
    numbers = _interface(name, python_function(function))[1]
    if numbers:
        raise TypeError(
            explain(
                name,
                "an elementwise operation has no keyword arguments",
                got={"keyword-only": ", ".join(numbers)},
                fix="an argument like the others: numbers broadcast",
            )
        )


def _shape_of_first(first: Type, *others: Type) -> tuple[int, ...]:
    return first.shape


def _interface(name: str, rule: Rule) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, Any]]:
    """The arrays and the numbers that an operation takes, and defaults of the numbers."""
    parameters = signature_of(rule).parameters.values()
    kinds = {p.kind for p in parameters}
    arrays = tuple([p.name for p in parameters if p.kind is not p.KEYWORD_ONLY])
    if kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} or not arrays:
        raise TypeError(
            explain(
                name,
                "its parameters are those of `shape`, or of an elementwise function: at least one "
                "array, and no * or **",
                got={"parameters": signature_of(rule)},
            )
        )
    numbers = tuple([p.name for p in parameters if p.kind is p.KEYWORD_ONLY])
    defaults = {p.name: p.default for p in parameters if p.name in numbers}
    return arrays, numbers, {k: v for k, v in defaults.items() if v is not inspect.Parameter.empty}


class CustomOp:
    """An operation made by `custom_op`. Call it on arrays."""

    def __init__(
        self,
        kernel: CustomKernel,
        vjp: Rule | None,
        jvp: Rule | None,
        defaults: dict[str, Any],
        made_by: Callable[[], "CustomOp"],
    ) -> None:
        self.kernel = kernel
        self._vjp = vjp
        self._jvp = jvp
        self._defaults = defaults
        self._function = _differentiable(self)
        self.__name__ = kernel.name
        given = kernel.cpu or kernel.cuda
        function = python_function(given.function) if given else custom_op
        self.__doc__ = function.__doc__ if given else None
        self.__module__ = function.__module__
        self._made_by = made_by

    def __reduce__(self) -> str | tuple[Any, ...]:
        return reduced(self, self._made_by, ())

    def __copy__(self) -> "CustomOp":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "CustomOp":
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results, recorded: nothing is computed yet."""
        numbers: tuple[Number, ...] = ()
        if kwargs or self.kernel.number_names or len(args) != len(self.kernel.input_names):
            args, numbers = self._bound(args, kwargs)
        nodes = self._nodes(args)
        is_recorded = grad_mode.enabled and any(node.requires_grad for node in nodes)
        if is_recorded or any(has_tangent(node) for node in nodes):
            tensors = [
                x if is_tensor(x) else wrap(node) for x, node in zip(args, nodes, strict=True)
            ]
            return self._function.apply(*tensors, numbers)
        return self._results(nodes, numbers)

    def _bound(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], tuple[Number, ...]]:
        """The arrays, in order, and the numbers."""
        names, number_names = self.kernel.input_names, self.kernel.number_names
        if len(args) < len(names):
            rest = [name for name in names[len(args) :] if name in kwargs]
            args = (*args, *[kwargs[name] for name in rest])
            kwargs = {k: v for k, v in kwargs.items() if k not in rest}
        given = self._defaults | kwargs
        if len(args) != len(names) or given.keys() != set(number_names):
            raise TypeError(
                explain(
                    self.__name__,
                    "called with other arguments than it has",
                    got={"arrays": len(args), "keyword arguments": ", ".join(kwargs) or "none"},
                    expected=self._signature(),
                )
            )
        numbers = []
        for name in number_names:
            number = encoded(given[name])
            if number is None:
                raise TypeError(
                    explain(
                        self.__name__,
                        f"`{name}` must be an int, a float or a bool: it is part of the graph, not "
                        "a value in it",
                        got={name: repr(given[name])},
                        fix=f"{name} before the * of `shape`, which makes it an array",
                    )
                )
            if number[0] == "int64" and not -(1 << 63) <= number[1] < 1 << 63:
                raise OverflowError(
                    explain(self.__name__, f"`{name}` does not fit an int64", got={name: number[1]})
                )
            numbers.append(number)
        return args, tuple(numbers)

    def _signature(self) -> str:
        parts = list(self.kernel.input_names)
        if self.kernel.number_names:
            parts.append("*")
        for name in self.kernel.number_names:
            has_default = name in self._defaults
            parts.append(f"{name}={self._defaults[name]!r}" if has_default else name)
        return f"{self.__name__}({', '.join(parts)})"

    def _nodes(self, args: tuple[Any, ...]) -> list[Node]:
        """Python numbers take the dtype that they have next to the arrays."""
        nodes = [None if is_scalar(x) or weak_class(x) else as_node(x) for x in args]
        strong = [node for node in nodes if node is not None]
        self._check_device(strong)
        if len(strong) == len(nodes):
            return strong
        like = None
        if strong:
            dtype = promoted(*[node.dtype for node in strong])
            like = cast(strong[0], dtype)
        return [
            as_node(x, like) if node is None else node for x, node in zip(args, nodes, strict=True)
        ]

    def _check_device(self, nodes: list[Node]) -> None:
        """Raise if there is no kernel for the device that these are on."""
        device = _device_of(nodes)
        kind = device.partition(":")[0]
        if getattr(self.kernel, kind) is None:
            raise DeviceError(
                explain(
                    self.__name__,
                    f"has no kernel for {device}, where its inputs are",
                    fix=f"custom_op({self.__name__!r}, {kind}=...)",
                )
            )

    def _results(self, nodes: list[Node], numbers: tuple[Number, ...]) -> Any:
        kernel = self.kernel
        shape = ()
        if kernel.by_element:
            shape = broadcast_shapes(kernel.name, kernel.input_names, [x.type for x in nodes])
            # Numbers go along with arrays on another device; what they are broadcast to does not.
            device = _device_of(nodes)
            nodes = [broadcast_to(placed(x, device), shape) for x in nodes]
            nodes = [reshape(x, (math.prod(shape),)) for x in nodes]
        types, is_tuple = kernel.results([x.type for x in nodes], numbers)
        stored = call_kernel(nodes, kernel, numbers)
        if kernel.by_element:
            return wrap(reshape(stored, shape))
        if len(types) == 1:
            return (wrap(stored),) if is_tuple else wrap(stored)
        starts = layout_of(kernel.name, types).starts
        return tuple(
            [wrap(part_of(stored, start, type)) for start, type in zip(starts, types, strict=True)]
        )

    def _pulled_back(self, cotangents: Any, out: Any, tensors: Any, numbers: tuple) -> Any:
        kernel = self.kernel
        if self._vjp is None:
            raise GradientError(
                explain(
                    kernel.name,
                    "has no derivative",
                    fix=f"custom_op({kernel.name!r}, ..., vjp=lambda g, out, "
                    f"{', '.join(kernel.input_names)}: ...)",
                )
            )
        try:
            found = self._vjp(cotangents, out, *tensors, **kernel.values(numbers))
        except Exception as error:
            error.add_note(f"in the vjp of {kernel.name}")
            raise
        found = found if isinstance(found, tuple) else (found,)
        if len(found) != len(tensors):
            raise GradientError(
                explain(
                    kernel.name,
                    "its vjp must return a cotangent for each input",
                    got={"returned": len(found), "inputs": ", ".join(kernel.input_names)},
                    expected="a tuple of that many, None for those that have none",
                )
            )
        return found

    def _pushed_forward(self, tangents: Any, out: Any, tensors: Any, numbers: tuple) -> Any:
        assert self._jvp is not None
        try:
            return self._jvp(tangents, out, *tensors, **self.kernel.values(numbers))
        except Exception as error:
            error.add_note(f"in the jvp of {self.kernel.name}")
            raise

    def __repr__(self) -> str:
        return f"<custom_op {self._signature()}>"


def _device_of(nodes: list[Node]) -> str:
    return next((x.type.device for x in nodes if x.type.device != CPU), CPU)


def part_of(stored: Node, start: int, type: Type) -> Node:
    """One of several results that lie in one array, of integers if their dtypes differ."""
    halves = type.dtype.itemsize // stored.dtype.itemsize
    part = OPS["slice"](stored, starts=(start,), sizes=(type.size * halves,), steps=(1,))
    if halves == 2:
        part = _joined(part)
    if is_floating(type.dtype) and part.dtype.kind == "i":
        part = float_of_bits(part)
    return reshape(cast(part, type.dtype), type.shape)


def _joined(halves: Node) -> Node:
    """int64 numbers from their halves, which follow each other in the order of the machine."""
    pairs = cast(reshape(halves, (halves.shape[0] // 2, 2)), INT64)
    lower, upper = [
        OPS["slice"](pairs, starts=(0, k), sizes=(pairs.shape[0], 1), steps=(1, 1))
        for k in ((0, 1) if sys.byteorder == "little" else (1, 0))
    ]
    lower = OPS["bitwise_and"](lower, literal((1 << 32) - 1, INT64))
    upper = OPS["left_shift"](upper, literal(32, INT64))
    return reshape(OPS["bitwise_or"](lower, upper), (pairs.shape[0],))


def _differentiable(op: CustomOp) -> type[Function]:
    """The operation as a Function: what it saves, frees and checks is the same."""

    def forward(ctx: Context, *args: Any) -> Any:
        *tensors, numbers = args
        results = op._results([tensor._node for tensor in tensors], numbers)
        several = results if isinstance(results, tuple) else (results,)
        ctx.save_for_backward(*tensors, *several)
        ctx.count, ctx.numbers = len(tensors), numbers  # type: ignore[attr-defined]
        ctx.is_tuple = isinstance(results, tuple)  # type: ignore[attr-defined]
        return results

    def backward(ctx: Any, *cotangents: Tensor) -> Any:
        saved = ctx.saved_tensors
        inputs, results = saved[: ctx.count], saved[ctx.count :]
        g, out = (cotangents, results) if ctx.is_tuple else (cotangents[0], results[0])
        return *op._pulled_back(g, out, inputs, ctx.numbers), None

    def jvp(ctx: Any, *tangents: Tensor) -> Any:
        saved = ctx.saved_tensors
        inputs, results = saved[: ctx.count], saved[ctx.count :]
        out = results if ctx.is_tuple else results[0]
        return op._pushed_forward(tangents[: ctx.count], out, inputs, ctx.numbers)

    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    if op._jvp is not None:
        methods["jvp"] = staticmethod(jvp)
    return type(op.kernel.name, (Function,), methods)
