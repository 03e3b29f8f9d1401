"""A driver that runs users' kernels in Python, thread after thread, and finds their races.

An element that a thread writes, or adds to with atomics, is nobody else's in that launch, but for
other additions with atomics.
"""

import itertools
import operator
import types
from types import SimpleNamespace
from typing import Any

import numpy as np

from numba_grad.compiler.cuda import user_functions
from numba_grad.ops.custom_kernels import Argument, ArrayArgument, python_function
from numba_grad.runtime.cuda.interface import Extents
from tests.cuda.emulator import EmulatedDriver, EmulationError


class WatchedArray:
    """An array of a kernel that knows which thread has done what to its elements."""

    def __init__(self, array: np.ndarray, launch: "Launch") -> None:
        self.array, self.launch = array, launch
        self.shape, self.size, self.ndim, self.dtype = (
            *(array.shape, array.size),
            *(array.ndim, array.dtype),
        )
        self._uses: dict[tuple[int, ...], dict[int, set[str]]] = {}

    def _use(self, index: Any, how: str) -> None:
        places = index if isinstance(index, tuple) else (index,)
        try:
            numbers = [operator.index(k) for k in places]
        except TypeError:
            return  # A slice, in kernels of other tests.
        place = tuple([k % n for k, n in zip(numbers, self.shape, strict=False)])
        uses = self._uses.setdefault(place, {})
        uses.setdefault(self.launch.thread, set()).add(how)
        for thread, other in uses.items():
            if thread != self.launch.thread and other | {how} not in ({"read"}, {"add"}):
                raise EmulationError(
                    f"element {place}: thread {thread} {other}, {self.launch.thread} {how}"
                )

    def __getitem__(self, index: Any) -> Any:
        self._use(index, "read")
        return self.array[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._use(index, "write")
        self.array[index] = value

    def __array__(self, *rest: Any, **options: Any) -> np.ndarray:
        return self.array

    def add(self, index: Any, value: Any) -> Any:
        self._use(index, "add")
        self.launch.atomics += 1
        self.array[index] += value


class Launch:
    """`numba.cuda` as the threads of a launch find it."""

    def __init__(self, grid: Extents, block: Extents) -> None:
        self.thread = -1
        self.atomics = 0
        self._extents = grid, block

    def threads(self) -> Any:
        """The names, for each thread in turn."""
        grid, block = self._extents
        for b in itertools.product(*map(range, grid)):
            for t in itertools.product(*map(range, block)):
                self.thread += 1
                yield self._names(b, t)

    def _names(self, b: tuple[int, ...], t: tuple[int, ...]) -> SimpleNamespace:
        grid, block = self._extents
        position = [i * n + k for i, n, k in zip(b, block, t, strict=True)]
        extents = [m * n for m, n in zip(grid, block, strict=True)]
        return SimpleNamespace(
            grid=lambda count: position[0] if count == 1 else tuple(position[:count]),
            gridsize=lambda count: extents[0] if count == 1 else tuple(extents[:count]),
            threadIdx=SimpleNamespace(x=t[0], y=t[1], z=t[2]),
            blockIdx=SimpleNamespace(x=b[0], y=b[1], z=b[2]),
            blockDim=SimpleNamespace(x=block[0], y=block[1], z=block[2]),
            gridDim=SimpleNamespace(x=grid[0], y=grid[1], z=grid[2]),
            atomic=SimpleNamespace(add=lambda array, index, value: array.add(index, value)),
            local=SimpleNamespace(
                array=lambda shape, dtype: np.full(shape, np.nan, _dtype_of(dtype))
            ),
            cbrt=np.cbrt,
            fma=lambda a, b, c: a * b + c,
            selp=lambda condition, a, b: a if condition else b,
        )


def in_python(function: Any, cuda: Any) -> Any:
    """A kernel, or a function of the device, as one thread finds it."""

    def found(name: str, value: Any) -> Any:
        if name == "cuda":
            return cuda
        return in_python(value.py_func, cuda) if hasattr(value, "py_func") else value

    code, scope = function.__code__, function.__globals__
    used = {name: found(name, scope[name]) for name in code.co_names if name in scope}
    return types.FunctionType(
        code, scope | used, function.__name__, function.__defaults__, function.__closure__
    )


def _dtype_of(numba_type: Any) -> np.dtype:
    """Of Numba's types, or NumPy's."""
    return np.dtype(numba_type if isinstance(numba_type, type) else str(numba_type))


class PythonDriver(EmulatedDriver):
    """Runs users' kernels, too."""

    def __init__(self, late: bool = False) -> None:
        super().__init__(late=late)
        self.atomics: list[int] = []  # of each launch of them

    def run_kernel(
        self, source: str, name: str, grid: Extents, block: Extents, parameters: bytes
    ) -> None:
        if "user's kernel" not in source:
            super().run_kernel(source, name, grid, block, parameters)
            return
        kernel, arguments = next(
            key for key, text in user_functions._sources.items() if text == source
        )
        assert kernel.cuda is not None
        launch = Launch(grid, block)
        values = self.unpacked(arguments, np.frombuffer(parameters, np.int64).tolist(), launch)
        function: Any = python_function(kernel.cuda.function)
        for cuda in launch.threads():
            if kernel.by_element:
                *inputs, result = values
                if cuda.grid(1) < result.size:
                    result[cuda.grid(1)] = function(*[x[cuda.grid(1)] for x in inputs])
                continue
            with np.errstate(all="ignore"):
                in_python(function, cuda)(*values)
        self.atomics.append(launch.atomics)

    def unpacked(
        self, arguments: tuple[Argument, ...], words: list[int], launch: Launch
    ) -> list[Any]:
        """What Numba makes of the parameters."""
        values: list[Any] = []
        for a in arguments:
            if not isinstance(a, ArrayArgument):
                values.append(np.array(words[:1]).view(a.dtype)[0])
                words = words[1:]
                continue
            none, _, size, itemsize, address = words[:5]
            shape, strides = words[5 : 5 + a.rank], words[5 + a.rank : 5 + 2 * a.rank]
            assert (none, itemsize) == (0, a.dtype.itemsize)
            assert size == np.prod(shape, dtype=int)
            assert tuple(strides) == np.empty(shape, a.dtype).strides
            array = self.memory(address)[: size * itemsize].view(a.dtype).reshape(shape)
            array.flags.writeable = a.is_result
            values.append(WatchedArray(array, launch))
            words = words[5 + 2 * a.rank :]
        assert not words
        return values
