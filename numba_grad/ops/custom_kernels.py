"""Users' own kernels: `custom_kernel` is one call of a kernel that `ng.custom_op` made.

    CustomKernel   what the user said: names, types of the results, a kernel for each device
    arguments      what a kernel is called with, on any device

A kernel takes arrays and returns nothing. Its arguments, in this order:

    first, last   int64, only on the CPU and only with a rule for `tasks`: which tasks to do
    inputs        arrays, C-contiguous, which it must not write to
    results       arrays, C-contiguous and uninitialized, which it writes to
    numbers       the keyword arguments of the call, int64 or float64, bools as int64

It has no derivative here: that is a Function around it (`frontend/own_functions/custom_op.py`).
"""

import functools
import operator
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from numba_grad.dtypes import FLOAT64, INT64, is_bfloat16, promoted
from numba_grad.errors import DTypeError, KernelError, ShapeError, explain
from numba_grad.graph.node import Node, SharedParams, record
from numba_grad.graph.types import Type, array_type, as_dtype
from numba_grad.immutable import immutable
from numba_grad.ops.families import broadcast_to, elementwise, reshape, structural
from numba_grad.ops.samples import Examples

# Called with the types of the inputs, and the numbers by name.
Rule = Callable[..., Any]

# A keyword argument of a call: "int64", "float64" or "bool", and its bits. Values themselves would
# compare equal where they differ: 1 == 1.0 == True, 0.0 == -0.0.
Number = tuple[str, int]


# By the CUDA programming guide, "Technical Specifications per Compute Capability".
MOST_EXTENTS = {"grid": (2**31 - 1, 65535, 65535), "block": (1024, 1024, 64)}
_MOST_THREADS = 1024


@dataclass(frozen=True, slots=True, eq=False)
class CpuKernel:
    """A kernel for the CPU."""

    function: Any  # a Python function or a dispatcher of `numba.njit`
    tasks: Rule | None = None  # how many tasks there are, that threads may share
    grain: int | None = None  # how many of them are worth a thread
    in_python: bool = False  # whether Python runs it: a callback. Then it returns the results


@dataclass(frozen=True, slots=True, eq=False)
class CudaKernel:
    """A kernel for CUDA: run by a grid of threads, each of which finds its part by its number."""

    function: Any  # a Python function or a dispatcher of `numba.cuda.jit`
    launch: Rule | None = None  # (grid, block) or (grid, block, bytes of dynamic shared memory)
    # For results, in order: the input that one is a copy of when the kernel begins, -1 for zeros,
    # None where nothing is known of it.
    beginnings: tuple[int | None, ...] = ()


@immutable
class CudaLaunch:
    """A grid of blocks of threads, and the dynamic shared memory of each block."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0


@immutable
class ArrayArgument:
    """A C-contiguous array of a kernel."""

    dtype: np.dtype
    rank: int
    is_result: bool


@immutable
class NumberArgument:
    """A scalar of a kernel: int64 or float64."""

    dtype: np.dtype


Argument = ArrayArgument | NumberArgument


@dataclass(frozen=True, slots=True, eq=False)
class CustomKernel:
    """What a user registered. Compared by identity, as part of the params of its calls."""

    name: str
    input_names: tuple[str, ...]
    number_names: tuple[str, ...]
    shape: Rule  # the shape of the result, or a list of those of several results
    dtype: Any  # None, a dtype, a list of these, or a rule for that
    cpu: CpuKernel | None
    cuda: CudaKernel | None
    # Whether functions take and return single elements, of one-dimensional arrays of one length.
    by_element: bool = False

    def result_types(self, inputs: Sequence[Type], numbers: Sequence[Number]) -> tuple[Type, ...]:
        """Types of the results, by the user's rules."""
        return _results(self, tuple(inputs), tuple(numbers))[0]

    def results(
        self, inputs: Sequence[Type], numbers: Sequence[Number]
    ) -> tuple[tuple[Type, ...], bool]:
        """These, and whether the operation returns a tuple: the rule for `shape` gives a list."""
        return _results(self, tuple(inputs), tuple(numbers))

    def values(self, numbers: Sequence[Number]) -> dict[str, Any]:
        """The keyword arguments, by name."""
        return dict(zip(self.number_names, map(decoded, numbers), strict=True))

    def arguments(self, inputs: Sequence[Type], numbers: Sequence[Number]) -> tuple[Argument, ...]:
        """What the function is called with, but for `first` and `last`."""
        results = self.result_types(inputs, numbers)
        return (
            *[ArrayArgument(type.dtype, type.rank, False) for type in inputs],
            *[ArrayArgument(type.dtype, type.rank, True) for type in results],
            *[NumberArgument(FLOAT64 if kind == "float64" else INT64) for kind, _ in numbers],
        )

    def tasks(self, inputs: Sequence[Type], numbers: Sequence[Number]) -> int | None:
        """How many tasks the CPU's kernel has; None if it knows nothing of tasks."""
        if self.by_element:
            return inputs[0].size
        if self.cpu is None or self.cpu.tasks is None:
            return None
        return self._size("tasks", self._asked(self.cpu.tasks, "tasks", inputs, numbers))

    def launch(self, inputs: Sequence[Type], numbers: Sequence[Number]) -> CudaLaunch:
        """The grid of the CUDA kernel: by default a thread for each element of the first result."""
        rule = None if self.cuda is None else self.cuda.launch
        if rule is None:
            size = self.result_types(inputs, numbers)[0].size
            return CudaLaunch((max(1, -(-size // 256)), 1, 1), (256, 1, 1))
        said = self._asked(rule, "launch", inputs, numbers)
        if not isinstance(said, tuple) or len(said) not in (2, 3):
            raise KernelError(
                explain(
                    self.name,
                    "its rule for `launch` must give a grid and a block",
                    got={"launch": said},
                    expected="(grid, block) or (grid, block, shared_bytes); grid and block are "
                    "an int or a tuple of up to three",
                )
            )
        grid, block, *shared = said
        return CudaLaunch(
            self._extents("grid", grid),
            self._extents("block", block),
            self._size("shared_bytes", shared[0]) if shared else 0,
        )

    def _extents(self, what: str, given: Any) -> tuple[int, int, int]:
        extents = given if isinstance(given, tuple) else (given,)
        sizes = [self._size(what, extent) for extent in extents]
        x, y, z = (*sizes, 1, 1, 1)[:3]
        most = MOST_EXTENTS[what]
        is_allowed = all(1 <= n <= limit for n, limit in zip((x, y, z), most, strict=True))
        is_full = what == "block" and x * y * z > _MOST_THREADS
        if not 1 <= len(sizes) <= 3 or not is_allowed or is_full:
            raise KernelError(
                explain(
                    self.name,
                    f"not a {what} that CUDA can launch",
                    got={what: given},
                    expected=f"one to three positive ints, at most {', '.join(map(str, most))}"
                    + (f", and {_MOST_THREADS} threads" if what == "block" else ""),
                )
            )
        return x, y, z

    def _size(self, what: str, value: Any) -> int:
        try:
            size = operator.index(value)
        except TypeError:
            size = -1
        if size < 0:
            raise KernelError(
                explain(
                    self.name,
                    f"`{what}` must be an int that is not negative",
                    got={what: repr(value)},
                )
            )
        return size

    def _asked(
        self, rule: Rule, what: str, inputs: Sequence[Type], numbers: Sequence[Number]
    ) -> Any:
        try:
            return rule(*inputs, **self.values(numbers))
        except Exception as error:
            error.add_note(f"in the rule for `{what}` of {self.name}, for inputs {list(inputs)}")
            raise

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"


def encoded(value: Any) -> Number | None:
    """A keyword argument as params hold it; None for what is not a number."""
    if isinstance(value, bool | np.bool_):
        return "bool", int(value)
    if isinstance(value, int | np.integer):
        return "int64", int(value)
    if isinstance(value, float | np.floating):
        return "float64", bits_of(value)
    return None


def bits_of(value: Any) -> int:
    """The bits of a float64, as an int64."""
    return struct.unpack("q", struct.pack("d", value))[0]


def decoded(number: Number) -> Any:
    """The Python number again."""
    kind, bits = number
    if kind == "float64":
        return struct.unpack("d", struct.pack("q", bits))[0]
    return bool(bits) if kind == "bool" else bits


@functools.lru_cache(maxsize=1 << 12)
def _results(
    kernel: CustomKernel, inputs: tuple[Type, ...], numbers: tuple[Number, ...]
) -> tuple[tuple[Type, ...], bool]:
    given = kernel._asked(kernel.shape, "shape", inputs, numbers)
    shapes = given if isinstance(given, list) else [given]
    dtypes = kernel.dtype
    if callable(dtypes) and not isinstance(dtypes, type):
        dtypes = kernel._asked(dtypes, "dtype", inputs, numbers)
    if not isinstance(dtypes, list):
        dtypes = [dtypes] * len(shapes)
    if len(dtypes) != len(shapes) or not shapes:
        raise ShapeError(
            explain(
                kernel.name,
                "its rules must give a shape and a dtype for each result",
                got={"shape": shapes, "dtype": dtypes},
            )
        )
    common = promoted(*[type.dtype for type in inputs])
    types = [
        array_type(_checked_shape(kernel, shape), as_dtype(common if d is None else d))
        for shape, d in zip(shapes, dtypes, strict=True)
    ]
    in_python = kernel.cpu is not None and kernel.cpu.in_python
    if not in_python and any(is_bfloat16(type.dtype) for type in (*inputs, *types)):
        got: dict[str, object] = {
            "inputs": ", ".join(map(repr, inputs)),
            "results": ", ".join(map(repr, types)),
        }
        fix = "x.astype(np.float32), and .astype(ng.bfloat16) of the result"
        raise DTypeError(explain(kernel.name, "Numba has no bfloat16", got=got, fix=fix))
    return tuple(types), isinstance(given, list)


def _checked_shape(kernel: CustomKernel, shape: Any) -> tuple[int, ...]:
    try:
        result = tuple([operator.index(n) for n in shape])
    except TypeError:
        result = (-1,)
    if any(n < 0 for n in result):
        raise ShapeError(
            explain(
                kernel.name,
                "its rule for `shape` must give the shape of the result",
                got={"shape": repr(shape)},
                expected="a tuple of ints, or a list of such tuples for several results",
            )
        )
    return result


# Several results lie in one array, each at a multiple of 64 bytes: an operation has one result, and
# slices of it are free.


@immutable
class ResultsLayout:
    """Where several results lie in one array of one dimension."""

    dtype: np.dtype  # of the array
    starts: tuple[int, ...]  # the first element of each
    size: int


@functools.lru_cache(maxsize=1 << 12)
def layout_of(name: str, results: tuple[Type, ...]) -> ResultsLayout:
    """The array that holds the results of a kernel that has several.

    Results of different dtypes are in an array of integers of the smallest size among them.
    """
    dtypes = list(dict.fromkeys(type.dtype for type in results))
    dtype = dtypes[0]
    if len(dtypes) > 1:
        if any(d.itemsize not in (4, 8) or d.kind not in "fiu" for d in dtypes):
            raise DTypeError(
                explain(
                    name,
                    "several results of dtypes that do not go together",
                    got={f"result {k}": type for k, type in enumerate(results)},
                    expected="one dtype for all, or integers and floats of 32 and 64 bits",
                )
            )
        dtype = np.dtype(f"int{8 * min(d.itemsize for d in dtypes)}")
    unit = max(1, 64 // dtype.itemsize)
    starts, size = [], 0
    for type in results:
        starts.append(size)
        elements = type.size * type.dtype.itemsize // dtype.itemsize
        size += -(-elements // unit) * unit
    return ResultsLayout(dtype, tuple(starts), size)


def stored_type(kernel: CustomKernel, results: tuple[Type, ...]) -> Type:
    """The type of the array that holds all results."""
    if len(results) == 1:
        return results[0]
    layout = layout_of(kernel.name, results)
    return array_type((layout.size,), layout.dtype)


# The operation. With `batched`, an entry for each input, it is a call for each member of a batch:
# the inputs for which it is True have the batch axis first, and so has the result.


def member_types(types: Sequence[Type], batched: Sequence[bool]) -> tuple[Type, ...]:
    """The types of the inputs of one call."""
    if not batched:
        return tuple(types)
    return tuple(
        [
            array_type(type.shape[1:], type.dtype) if has_axis else type
            for type, has_axis in zip(types, batched, strict=True)
        ]
    )


def batch_size(types: Sequence[Type], batched: Sequence[bool]) -> int:
    """How many calls there are."""
    return next((t.shape[0] for t, has_axis in zip(types, batched, strict=False) if has_axis), 1)


def _infer(
    *types: Type, kernel: CustomKernel, numbers: tuple[Number, ...], batched: tuple[bool, ...]
) -> Type:
    stored = stored_type(kernel, kernel.result_types(member_types(types, batched), numbers))
    if not batched:
        return stored
    return array_type((batch_size(types, batched), *stored.shape), stored.dtype)


def _batch(
    is_batched: Sequence[bool],
    *inputs: Node,
    kernel: CustomKernel,
    numbers: tuple[Number, ...],
    batched: tuple[bool, ...],
) -> Node:
    if not batched:
        return call_kernel(inputs, kernel, numbers, tuple(is_batched))
    # A batch of batches is one batch of all members.
    outer = next(x.shape[0] for x, is_new in zip(inputs, is_batched, strict=True) if is_new)
    inner = next(
        x.shape[int(is_new)]
        for x, is_new, has_axis in zip(inputs, is_batched, batched, strict=True)
        if has_axis
    )
    flat = [
        _flattened(x, is_new, has_axis, outer, inner) if is_new or has_axis else x
        for x, is_new, has_axis in zip(inputs, is_batched, batched, strict=True)
    ]
    either = tuple([a or b for a, b in zip(is_batched, batched, strict=True)])
    result = call_kernel(flat, kernel, numbers, either)
    return reshape(result, (outer, inner, *result.shape[1:]))


def call_kernel(
    inputs: Sequence[Node],
    kernel: CustomKernel,
    numbers: tuple[Number, ...],
    batched: tuple[bool, ...] = (),
) -> Node:
    """The node of a call."""
    return record(custom_kernel, tuple(inputs), _params(kernel, numbers, batched))


@functools.lru_cache(maxsize=1 << 12)
def _params(
    kernel: CustomKernel, numbers: tuple[Number, ...], batched: tuple[bool, ...]
) -> SharedParams:
    return SharedParams(kernel=kernel, numbers=numbers, batched=batched)


def _flattened(x: Node, is_new: bool, has_axis: bool, outer: int, inner: int) -> Node:
    """With one batch axis in place of two, of which `x` has at least one."""
    member = x.shape[is_new + has_axis :]
    x = reshape(x, (outer if is_new else 1, inner if has_axis else 1, *member))
    return reshape(broadcast_to(x, (outer, inner, *member)), (outer * inner, *member))


def _reference(
    *arrays: np.ndarray,
    kernel: CustomKernel,
    numbers: tuple[Number, ...],
    batched: tuple[bool, ...],
) -> np.ndarray:
    """The user's function in Python, on arrays that are refused to be written to."""
    types = [array_type(x.shape, x.dtype) for x in arrays]
    result_type = _infer(*types, kernel=kernel, numbers=numbers, batched=batched)
    members = member_types(types, batched)
    out = np.zeros(result_type.shape, result_type.dtype)
    for k in range(batch_size(types, batched)):
        inputs = [x.view() for x in arrays]
        if batched:
            inputs = [x[k] if has_axis else x for x, has_axis in zip(inputs, batched, strict=True)]
        inputs = [np.asarray(x) for x in inputs]
        for x in inputs:
            x.flags.writeable = False
        stored = out[k : k + 1].reshape(result_type.shape[1:]) if batched else out
        _run(kernel, members, inputs, stored, numbers)
    return out


def _run(
    kernel: CustomKernel,
    types: tuple[Type, ...],
    inputs: list[np.ndarray],
    stored: np.ndarray,
    numbers: tuple[Number, ...],
) -> None:
    """One call, in Python."""
    assert kernel.cpu is not None
    function = python_function(kernel.cpu.function)
    if kernel.by_element:
        for position in range(stored.size):
            stored[position] = function(*[x[position] for x in inputs])
        return
    results = kernel.result_types(types, numbers)
    views = [stored]
    if len(results) > 1:
        starts = layout_of(kernel.name, results).starts
        views = [
            stored[start : start + type.nbytes // stored.itemsize]
            .view(type.dtype)
            .reshape(type.shape)
            for start, type in zip(starts, results, strict=True)
        ]
    if kernel.cpu.in_python:
        for view, result in zip(views, function(inputs), strict=True):
            view[...] = result
        return
    tasks = kernel.tasks(types, numbers)
    span = () if tasks is None else (0, tasks)
    function(*span, *inputs, *views, *kernel.values(numbers).values())


def python_function(function: Any) -> Callable[..., Any]:
    """The function that a dispatcher of Numba, or a ufunc of `numba.vectorize`, was made from."""
    dispatcher = getattr(function, "_dispatcher", function)
    return getattr(dispatcher, "py_func", function)


def _scaled_row_sums(x: Any, y: Any, sums: Any, scale: Any) -> None:
    """A kernel for tests."""
    for i in range(x.shape[0]):
        sums[i] = 0.0
        for j in range(x.shape[1]):
            sums[i] += scale * x[i, j] * y[j]


_SAMPLE = CustomKernel(
    "scaled_row_sums",
    ("x", "y"),
    ("scale",),
    lambda x, y, scale: x.shape[:1],
    None,
    CpuKernel(_scaled_row_sums),
    None,
)


def _examples(rng: "np.random.Generator") -> Examples:
    params = {"kernel": _SAMPLE, "numbers": (("float64", bits_of(0.5)),), "batched": ()}
    shapes = ((3, 4), (9, 2), (1, 0), (0, 3))
    return [((rng.uniform(-3, 3, shape), rng.uniform(-3, 3, shape[1])), params) for shape in shapes]


custom_kernel = structural(
    "custom_kernel",
    family="custom kernel",
    input_names=("x",),
    infer=_infer,
    reference=_reference,
    vjp=None,
    no_vjp="a Function around it has the user's rule",
    batch=_batch,
    dtypes="?bhilqBHILQfdFD",
    example=_examples,
)

# The results of one size but different dtypes lie in an array of integers: a float's bits.
float_of_bits = elementwise(
    "float_of_bits",
    expression="bitcast({x}, {dtype})",
    reference=lambda x: x.view(np.dtype(f"float{8 * x.itemsize}")),
    no_vjp="they are bits",
    dtypes="il",
    samples=((-3, 3),),
    input_names=("x",),
    result_dtype=lambda x: np.dtype(f"float{8 * x.itemsize}"),
)
