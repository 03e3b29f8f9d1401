"""The kernels of a CUDA kernel for arguments of one signature: they are launched as it is."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_grad.compiler.numba_functions.generated import (
    DerivedKernel,
    Form,
    Generated,
    Parameter,
    TypedFunction,
    arguments_of,
)
from numba_grad.compiler.numba_functions.tape_bound import capacity, places_of
from numba_grad.compiler.numba_functions.tapes import dtype_of_result, entry_bytes
from numba_grad.errors import KernelError, explain
from numba_grad.graph.types import Type
from numba_grad.ops.custom_kernels import CudaKernel, CustomKernel, Number

_THREADS_OF_BLOCK = 256


class TypedKernel(TypedFunction):
    """`launch`: a rule for grid and block, these themselves, or None: a thread for each element of
    the first array that is written, in blocks of 256."""

    def __init__(
        self,
        function: Any,
        parameters: tuple[Parameter, ...],
        forms: tuple[Form, ...],
        launch: Any,
        memory: int | None,
    ) -> None:
        super().__init__(function, parameters, forms)
        self.launch = launch
        self.memory = memory

    def counted(self, inputs: Sequence[Type], numbers: Sequence[Number]) -> tuple[str, ...]:
        """What tells the threads of a launch apart."""
        if self.launch is None:
            return ("block_x", "thread_x")
        names = tuple([p.text for p in self.parameters if p.is_number])
        name = getattr(self.function, "__name__", "kernel")
        rule = functools.partial(self._grid_and_block, names)
        asked = CustomKernel(name, (), names, _no_shape, None, None, CudaKernel(None, rule))
        launch = asked.launch(inputs, numbers)
        extents = zip("xyz", launch.grid, launch.block, strict=True)
        pairs = [(("block", grid), ("thread", block), axis) for axis, grid, block in extents]
        return tuple([f"{kind}_{x}" for *both, x in pairs for kind, count in both if count > 1])

    def custom_kernel(self, request: DerivedKernel) -> CustomKernel:
        made = self.generated(request)
        numbers = tuple([name for name, is_number in made.inputs if is_number])
        rule = functools.partial(self._grid_and_block, numbers)

        def shapes(*types: Type, **values: Any) -> list[tuple[int, ...]]:
            found = list(made.shapes()(*types, **values))
            threads = self._threads(numbers, types, values)
            for k in made.of_threads:
                found[k] = (threads,)
            lengths = self._tape_lengths(made, numbers, types, values)
            self._check_memory(made, lengths, threads)
            return found + [(n * threads,) for n in lengths]

        return CustomKernel(
            made.name,
            tuple([name for name, is_number in made.inputs if not is_number]),
            numbers,
            shapes,
            list(map(np.dtype, made.output_dtypes)),
            None,
            CudaKernel(made.function(), rule, tuple(made.beginnings)),
        )

    def tape_bytes(self, made: Generated, inputs: Sequence[Type], values: dict[str, Any]) -> int:
        """What the tapes of all threads take."""
        numbers = tuple([name for name, is_number in made.inputs if is_number])
        lengths = self._tape_lengths(made, numbers, inputs, values)
        return _nbytes(made, lengths) * self._threads(numbers, inputs, values)

    def _threads(self, names: Sequence[str], inputs: Sequence[Type], values: dict[str, Any]) -> int:
        grid, block, *_ = self._grid_and_block(names, *inputs, **values)
        return math.prod(_three(grid)) * math.prod(_three(block))

    def _check_memory(self, made: Generated, lengths: Sequence[int], threads: int) -> None:
        nbytes = _nbytes(made, lengths)
        if self.memory is not None and nbytes * threads > self.memory:
            raise MemoryError(
                explain(
                    made.name,
                    "the tape takes more than `memory`",
                    got={"tape": f"{nbytes * threads:,} bytes, {nbytes:,} for each thread"},
                    expected=f"at most {self.memory:,} bytes",
                    fix="fewer threads at a time, or fewer steps of the loops that it keeps",
                )
            )

    def _tape_lengths(
        self,
        made: Generated,
        numbers: Sequence[str],
        inputs: Sequence[Type],
        values: dict[str, Any],
    ) -> list[int]:
        """The most that a thread keeps on each tape."""
        names = [name for name, is_number in made.inputs if not is_number]
        shapes = {name: x.shape for name, x in zip(names, inputs, strict=False)}
        given = {name: int(value) for name, value in values.items()}
        grid, block, *_ = self._grid_and_block(numbers, *inputs, **values)
        places = places_of(_three(grid), _three(block))
        try:
            return [
                capacity(outline, shapes, given, places) // entry_bytes(tape)
                for tape, outline in made.tapes
            ]
        except LookupError:
            raise KernelError(
                explain(
                    made.name,
                    "keeps values of a loop of which it is not known how long it can be: each "
                    "thread needs memory for them before it starts",
                    expected="`for` over a range of lengths and of int arguments; a `break` may "
                    "end it",
                    fix="ng.custom_op, with a derivative of your own",
                )
            ) from None

    def _grid_and_block(self, names: Sequence[str], *types: Type, **values: Any) -> tuple[Any, ...]:
        """By the user's rule, for the arguments of any of the kernels: the first are the user's."""
        if isinstance(self.launch, tuple):
            return self.launch
        arrays, numbers = iter(types), iter([values[name] for name in names])
        found = [next(numbers if p.is_number else arrays) for p in self.parameters]
        if self.launch is None:
            written = self.generated(DerivedKernel("primal", 0, ())).written
            size = found[written[0]].size
            return max(1, -(-size // _THREADS_OF_BLOCK)), _THREADS_OF_BLOCK
        return self.launch(*arguments_of(self.forms, found))

    def _tree_of(self) -> Any:
        from numba_grad.compiler.numba_functions import grid_derivation

        return grid_derivation.tree(self.function, self.parameters, self.forms)

    def _fields_of(self, request: DerivedKernel) -> dict[str, Any]:
        from numba_grad.compiler.numba_functions import grid_derivation

        return grid_derivation.fields(self._tree, self.parameters, request)


def _nbytes(made: Generated, lengths: Sequence[int]) -> int:
    """What a thread keeps."""
    return sum(
        n * np.dtype(dtype_of_result(tape)).itemsize
        for n, (tape, _) in zip(lengths, made.tapes, strict=True)
    )


def _three(extents: Any) -> tuple[int, ...]:
    given = extents if isinstance(extents, tuple) else (extents,)
    return (*given, 1, 1)[:3]


def _no_shape(*types: Type, **numbers: Any) -> tuple[int, ...]:
    return ()


@functools.lru_cache(maxsize=1 << 12)
def typed_kernel(
    function: Any,
    parameters: tuple[Parameter, ...],
    forms: tuple[Form, ...],
    launch: Any,
    memory: int | None,
) -> TypedKernel:
    """The program of a kernel for arguments of these types."""
    return TypedKernel(function, parameters, forms, launch, memory)
