"""Kernels for operations that are no loop nests, on GPUs.

They have the parameters and results of those in `compiler/library_kernels`, and say which of these
they stand for (`registry.py`). How work is spread depends on sizes and dtypes alone, and so do
results.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from numba_grad.compiler.cuda.library_kernels import (
    cupy_steps,
    matrix_products,
    scans,
    scatters,
    sorts,
    warp_determinants,
    warp_eigenvalues,
    warp_reflections,
    warp_systems,
    without_elements,
)
from numba_grad.compiler.cuda.library_kernels.registry import (
    BY_CUPY,
    DEFAULT,
    STAND_INS,
    Options,
)
from numba_grad.compiler.cuda.library_kernels.translation import (
    calls_library,
    translated,
    translated_stack,
)
from numba_grad.compiler.library_kernels import LibraryCall
from numba_grad.compiler.library_kernels.registry import LibraryKernel, Lowering
from numba_grad.errors import KernelError, explain
from numba_grad.runtime.cuda import cupy_calls

__all__ = ["DEFAULT", "NoKernels", "Options", "kernels_for"]
# Imported for what they register.
_MODULES = (
    *(cupy_steps, matrix_products, scans, scatters, sorts, without_elements),
    *(warp_determinants, warp_eigenvalues, warp_reflections, warp_systems),
)


class NoKernels(Exception):
    """An operation has none here."""


def kernels_for(options: Options) -> Callable[[Lowering], LibraryKernel]:
    """The kernel of an operation, as `library_steps.call_of` wants it: the first that there is of
    one for GPUs, the CPU's, translated, and CuPy's.

    Raises
    ------
    NoKernels
        If there is none.
    """

    def kernel_of(lowering: Lowering) -> LibraryKernel:
        of_cpu = lowering.kernel
        if of_cpu not in STAND_INS and of_cpu not in BY_CUPY and lowering.on_gpus is None:
            raise NoKernels(of_cpu.__name__)

        def kernel(*sizes: Any, **params: Any) -> LibraryCall:
            for own in STAND_INS.get(of_cpu, ()):
                if own.takes(*sizes):
                    return own.kernel(*sizes, **params, **own.given(options))
            if lowering.on_gpus is not None:
                found = of_cpu(*sizes, **params, **lowering.on_gpus.with_params)
                if not calls_library(found):
                    return (translated_stack if lowering.on_gpus.is_of_stacks else translated)(
                        found
                    )
            return _by_cupy(of_cpu, options, *sizes, **params)

        return kernel

    return kernel_of


def _by_cupy(of_cpu: LibraryKernel, options: Options, *sizes: Any, **params: Any) -> LibraryCall:
    if of_cpu not in BY_CUPY:
        raise NoKernels(of_cpu.__name__)
    found = BY_CUPY[of_cpu](*sizes, **params)
    if found.steps and not (options.libraries and cupy_calls.cupy()):
        name = of_cpu.__name__.removesuffix("_call")
        raise KernelError(
            explain(
                name,
                "not available on CUDA devices without CuPy",
                got={"dtype": next(x for x in sizes if isinstance(x, np.dtype))},
                fix=cupy_calls.INSTALL,
            )
        )
    return found
