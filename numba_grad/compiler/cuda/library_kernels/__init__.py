"""Kernels for operations that are no loop nests, on GPUs.

The functions have the names, parameters and results of those in `compiler/library_kernels`, so that
`library_steps.call_of` serves both. How work is spread depends on sizes and dtypes alone, and so do
results.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NoReturn

from numba_grad.compiler import library_kernels as of_cpu
from numba_grad.compiler.cuda.library_kernels import (
    cupy_steps,
    warp_determinants,
    warp_eigenvalues,
    warp_reflections,
    warp_systems,
    without_elements,
)
from numba_grad.compiler.cuda.library_kernels.matrix_products import matmul_call
from numba_grad.compiler.cuda.library_kernels.scans import (
    cumprod_call,
    cumsum_call,
    cumulative_position_call,
    linear_recurrence_call,
)
from numba_grad.compiler.cuda.library_kernels.scatters import scatter_call
from numba_grad.compiler.cuda.library_kernels.sorts import argsort_call
from numba_grad.compiler.cuda.library_kernels.translation import (
    calls_library,
    translated,
    translated_stack,
)
from numba_grad.compiler.cuda.library_kernels.warp_stacks import LARGEST
from numba_grad.compiler.library_kernels import LibraryCall
from numba_grad.compiler.library_kernels.small_matrices import is_small
from numba_grad.errors import KernelError, explain
from numba_grad.runtime.cuda import cupy_calls, libraries


@dataclass(frozen=True, slots=True)
class Options:
    """What kernels are chosen by, besides sizes and dtypes."""

    # Whether those of the host may be used, if they are installed; which is found when one is
    # wanted, as it takes some 0.3 s.
    libraries: bool = False
    tf32: bool = False
    deterministic: bool = True


DEFAULT = Options()


class NoKernels(Exception):
    """An operation has none here."""


class _Kernels(SimpleNamespace):
    def __getattr__(self, name: str) -> NoReturn:
        raise NoKernels(name)


# Of the CPU, a thread for each of their elements.
_BY_ELEMENT = {
    "searchsorted_call": of_cpu.searchsorted_call,
    "correlate_call": functools.partial(of_cpu.correlate_call, one_by_one=True),
    "gamma_draw_call": functools.partial(of_cpu.gamma_draw_call, block=1),
    "poisson_draw_call": of_cpu.poisson_draw_call,
    "gamma_moment_call": of_cpu.gamma_moment_call,
    "beta_moment_call": of_cpu.beta_moment_call,
    "zeta_derivative_call": of_cpu.zeta_derivative_call,
    "hyp1f1_derivative_call": of_cpu.hyp1f1_derivative_call,
}
# A thread for each matrix of those that the CPU does without a library.
_OF_MATRICES = (
    *("inv_call", "solve_call", "solve_triangular_call", "cholesky_call", "det_call"),
    *("slogdet_call", "cofactor_call", "cofactor_in_direction_call", "permutation_call"),
    "solve_banded_call",
)
# A warp for each of those that are larger than what is written out.
_OF_WARPS: dict[str, Callable[..., LibraryCall]] = {
    "inv_call": warp_systems.inv_call,
    "solve_call": warp_systems.solve_call,
    "solve_triangular_call": warp_systems.solve_triangular_call,
    "cholesky_call": warp_systems.cholesky_call,
    "lu_call": warp_systems.lu_call,
    "det_call": warp_determinants.det_call,
    "slogdet_call": warp_determinants.slogdet_call,
    "cofactor_call": warp_determinants.cofactor_call,
    "qr_call": warp_reflections.qr_call,
    "eigh_call": warp_eigenvalues.eigh_call,
}


_WITHOUT_ELEMENTS: dict[str, Callable[..., LibraryCall]] = {
    "svd_call": without_elements.svd_call,
    "lstsq_call": without_elements.lstsq_call,
}


def _fits_a_warp(name: str, sizes: Sequence[Any]) -> bool:
    _, rows, columns, *_ = sizes
    if name in ("lu_call", "qr_call"):
        return max(rows, columns) <= LARGEST
    if name in ("cofactor_call", "eigh_call"):  # for which the CPU needs a library at all sizes
        return rows <= LARGEST
    is_system = name in ("solve_call", "solve_triangular_call")
    return rows <= LARGEST and not is_small(rows, columns if is_system else 1)


def _by_element(call: Callable[..., LibraryCall]) -> Callable[..., LibraryCall]:
    return lambda *sizes, **params: translated(call(*sizes, **params))


def _of_matrices(name: str, options: Options) -> Callable[..., LibraryCall]:
    """By a warp, or a thread for each as on the CPU without a library, or else by CuPy."""

    def call(*sizes: Any, **params: Any) -> LibraryCall:
        if name in _WITHOUT_ELEMENTS and 0 in sizes[1:3]:
            return _WITHOUT_ELEMENTS[name](*sizes, **params)
        if name in _OF_WARPS and _fits_a_warp(name, sizes):
            return _OF_WARPS[name](*sizes, **params)
        if name in _OF_MATRICES:
            found = getattr(of_cpu, name)(*sizes, **params)
            if not calls_library(found):
                return translated_stack(found)
        found = cupy_steps.CALLS[name](*sizes, **params)
        if found.steps and not (options.libraries and cupy_calls.cupy()):
            raise KernelError(
                explain(
                    name.removesuffix("_call"),
                    "not available on CUDA devices without CuPy",
                    got={"dtype": sizes[0] if name != "fourier_call" else sizes[1]},
                    fix=cupy_calls.INSTALL,
                )
            )
        return found

    return call


@functools.cache
def kernels_for(options: Options) -> SimpleNamespace:
    """The functions, as `library_steps.call_of` wants them; others raise NoKernels."""
    return _Kernels(
        matmul_call=functools.partial(
            matmul_call,
            has_cublas=lambda: options.libraries and libraries.cublas() is not None,
            tf32=options.tf32,
        ),
        argsort_call=argsort_call,
        cumprod_call=cumprod_call,
        cumsum_call=cumsum_call,
        cumulative_position_call=cumulative_position_call,
        linear_recurrence_call=linear_recurrence_call,
        scatter_call=functools.partial(scatter_call, deterministic=options.deterministic),
        **{name: _by_element(call) for name, call in _BY_ELEMENT.items()},
        **{
            name: _of_matrices(name, options)
            for name in dict.fromkeys((*_OF_MATRICES, *cupy_steps.CALLS))
        },
    )
