"""Kernels for operations that are no loop nests, on GPUs.

The functions have the names, parameters and results of those in `compiler/library_kernels`, so that
`library_steps.call_of` serves both. Of a step, `tasks` are the blocks of the grid, and `grain` the
threads of a block. How work is spread depends on sizes and dtypes alone, and so do results.
"""

import functools
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NoReturn

from numba_grad.compiler.cuda.library_kernels.matrix_products import matmul_call
from numba_grad.compiler.cuda.library_kernels.scans import (
    cumprod_call,
    cumsum_call,
    cumulative_position_call,
    linear_recurrence_call,
)
from numba_grad.compiler.cuda.library_kernels.scatters import scatter_call
from numba_grad.compiler.cuda.library_kernels.sorts import argsort_call


@dataclass(frozen=True, slots=True)
class Options:
    """What kernels are chosen by, besides sizes and dtypes."""

    cublas: bool = False  # whether it is installed
    tf32: bool = False
    deterministic: bool = True


DEFAULT = Options()


class NoKernels(Exception):
    """An operation has none here."""


class _Kernels(SimpleNamespace):
    def __getattr__(self, name: str) -> NoReturn:
        raise NoKernels(name)


@functools.cache
def kernels_for(options: Options) -> SimpleNamespace:
    """The functions, as `library_steps.call_of` wants them; others raise NoKernels."""
    return _Kernels(
        matmul_call=functools.partial(matmul_call, cublas=options.cublas, tf32=options.tf32),
        argsort_call=argsort_call,
        cumprod_call=cumprod_call,
        cumsum_call=cumsum_call,
        cumulative_position_call=cumulative_position_call,
        linear_recurrence_call=linear_recurrence_call,
        scatter_call=scatter_call,
    )
