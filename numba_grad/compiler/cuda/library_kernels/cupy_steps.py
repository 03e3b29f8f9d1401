"""Steps that CuPy does: what there are no kernels of our own for.

Parameters, inputs and outputs are those of the CPU's functions, whose error sites these have.
"""

import struct
from collections.abc import Callable, Sequence

import numpy as np

from numba_grad.compiler import library_kernels as of_cpu
from numba_grad.compiler.cuda.library_kernels.registry import by_cupy
from numba_grad.compiler.library_kernels import Errors, LibraryCall, Memory
from numba_grad.compiler.library_kernels.calls import LibraryStep, LibraryWord, Shape
from numba_grad.compiler.library_kernels.lapack import real_name
from numba_grad.compiler.library_kernels.registry import LibraryKernel
from numba_grad.runtime.cuda.cupy_calls import words_of
from numba_grad.runtime.plan import ErrorSite, Grid

Array = tuple[Memory, Shape, np.dtype]


def _call(
    name: str,
    inputs: Sequence[Array],
    out: Array,
    *options: str,
    sites: Sequence[ErrorSite] = (),
    integers: Sequence[int] = (),
) -> LibraryCall:
    if 0 in out[1]:
        return LibraryCall(())
    arrays = [*inputs, out]
    words: list[LibraryWord] = [Errors() if sites else 0, len(sites), *sites]
    words += [len(integers), *integers]
    for memory, shape, _ in arrays:
        words += [memory, *words_of(shape)]
    text = " ".join(["host: cupy", name, *(dtype.name for *_, dtype in arrays), *options])
    return LibraryCall((LibraryStep(text, tuple(words), Grid(1, 1)),))


def _input(number: int, shape: Shape, dtype: np.dtype) -> Array:
    return Memory("input", number), tuple(shape), dtype


def _output(shape: Shape, dtype: np.dtype) -> Array:
    return Memory("output"), tuple(shape), dtype


def _sites(call: LibraryCall) -> list[ErrorSite]:
    """Those of the CPU's call, in its order."""
    return [word for step in call.steps for word in step.words if isinstance(word, ErrorSite)]


def _square(of_cpu_call: LibraryKernel, result: Callable[[int], Shape], *, inputs: int = 1) -> None:
    """Of stacks of square matrices, whose results have the dtype of these."""
    name = of_cpu_call.__name__.removesuffix("_call")

    @by_cupy(of_cpu_call)
    def call(dtype: np.dtype, n: int, count: int) -> LibraryCall:
        arrays = [_input(k, (count, n, n), dtype) for k in range(inputs)]
        sites = _sites(of_cpu_call(dtype, n, count))
        return _call(name, arrays, _output((count, *result(n)), dtype), sites=sites)


for _of_matrix in (of_cpu.inv_call, of_cpu.cholesky_call, of_cpu.expm_call, of_cpu.cofactor_call):
    _square(_of_matrix, lambda n: (n, n))
_square(of_cpu.cofactor_in_direction_call, lambda n: (n, n), inputs=2)
_square(of_cpu.det_call, lambda n: ())
_square(of_cpu.slogdet_call, lambda n: (2,))


@by_cupy(of_cpu.solve_call)
def solve_call(
    dtype: np.dtype, n: int, columns: int, a_stack: Shape, b_stack: Shape
) -> LibraryCall:
    sites = _sites(of_cpu.solve_call(dtype, n, columns, a_stack, b_stack))
    return _system("solve", dtype, n, columns, a_stack, b_stack, sites, [0])


@by_cupy(of_cpu.solve_by_factors_call)
def solve_by_factors_call(
    dtype: np.dtype, n: int, columns: int, a_stack: Shape, b_stack: Shape, *, adjoint: bool
) -> LibraryCall:
    """By the matrix itself: on GPUs nobody records factors."""
    call = of_cpu.solve_by_factors_call(dtype, n, columns, a_stack, b_stack, adjoint=adjoint)
    a, b = _input(0, (*a_stack, n, n), dtype), _input(2, (*b_stack, n, columns), dtype)
    out = _output((*np.broadcast_shapes(a_stack, b_stack), n, columns), dtype)
    return _call("solve", [a, b], out, sites=_sites(call), integers=[int(adjoint)])


def _system(
    name: str,
    dtype: np.dtype,
    n: int,
    columns: int,
    a_stack: Shape,
    b_stack: Shape,
    sites: Sequence[ErrorSite],
    integers: Sequence[int] = (),
) -> LibraryCall:
    stack = np.broadcast_shapes(a_stack, b_stack)
    a, b = _input(0, (*a_stack, n, n), dtype), _input(1, (*b_stack, n, columns), dtype)
    out = _output((*stack, n, columns), dtype)
    return _call(name, [a, b], out, sites=sites, integers=integers)


@by_cupy(of_cpu.solve_triangular_call)
def solve_triangular_call(
    dtype: np.dtype,
    n: int,
    columns: int,
    a_stack: Shape,
    b_stack: Shape,
    *,
    lower: bool,
    unit_diagonal: bool,
) -> LibraryCall:
    params = {"lower": lower, "unit_diagonal": unit_diagonal}
    sites = _sites(of_cpu.solve_triangular_call(dtype, n, columns, a_stack, b_stack, **params))
    integers = [int(lower), int(unit_diagonal)]
    return _system("solve_triangular", dtype, n, columns, a_stack, b_stack, sites, integers)


@by_cupy(of_cpu.lu_call)
def lu_call(dtype: np.dtype, m: int, n: int, count: int) -> LibraryCall:
    out = _output((count, m, n + 1), dtype)
    return _call("lu", [_input(0, (count, m, n), dtype)], out)


@by_cupy(of_cpu.qr_call)
def qr_call(dtype: np.dtype, m: int, n: int, count: int, *, mode: str) -> LibraryCall:
    least = min(m, n)
    shape = (least, n) if mode == "r" else (m + n, m if mode == "complete" else least)
    a, out = _input(0, (count, m, n), dtype), _output((count, *shape), dtype)
    return _call("qr", [a], out, mode)


@by_cupy(of_cpu.eigh_call)
def eigh_call(dtype: np.dtype, n: int, count: int, *, lower: bool, vectors: bool) -> LibraryCall:
    sites = _sites(of_cpu.eigh_call(dtype, n, count, lower=lower, vectors=vectors))
    a = _input(0, (count, n, n), dtype)
    if vectors:
        out = _output((count, n + 1, n), dtype)
        return _call("eigh", [a], out, sites=sites, integers=[int(lower)])
    out = _output((count, n), np.dtype(real_name(dtype)))
    return _call("eigvalsh", [a], out, sites=sites, integers=[int(lower)])


@by_cupy(of_cpu.eig_call)
def eig_call(dtype: np.dtype, n: int, count: int, *, vectors: bool) -> LibraryCall:
    sites = _sites(of_cpu.eig_call(dtype, n, count, vectors=vectors))
    shape = (count, n + 1, n) if vectors else (count, n)
    out = _output(shape, np.result_type(dtype, np.complex64))
    name = "eig" if vectors else "eigvals"
    return _call(name, [_input(0, (count, n, n), dtype)], out, sites=sites)


@by_cupy(of_cpu.svd_call)
def svd_call(dtype: np.dtype, m: int, n: int, count: int, *, part: str) -> LibraryCall:
    sites = _sites(of_cpu.svd_call(dtype, m, n, count, part=part))
    a = _input(0, (count, m, n), dtype)
    if part == "values":
        out = _output((count, min(m, n)), np.dtype(real_name(dtype)))
        return _call("svdvals", [a], out, sites=sites)
    width = max(m, n) if part == "full" else min(m, n)
    return _call("svd", [a], _output((count, m + n + 1, width), dtype), part, sites=sites)


@by_cupy(of_cpu.lstsq_call)
def lstsq_call(
    dtype: np.dtype, m: int, n: int, columns: int, a_stack: Shape, b_stack: Shape
) -> LibraryCall:
    sites = _sites(of_cpu.lstsq_call(dtype, m, n, columns, a_stack, b_stack))
    stack = np.broadcast_shapes(a_stack, b_stack)
    arrays = [_input(0, (*a_stack, m, n), dtype), _input(1, (*b_stack, m, columns), dtype)]
    arrays.append(_input(2, a_stack, np.dtype(real_name(dtype))))
    return _call("lstsq", arrays, _output((*stack, n, columns), dtype), sites=sites)


@by_cupy(of_cpu.fourier_call)
def fourier_call(
    function: str,
    dtype: np.dtype,
    out_dtype: np.dtype,
    shape: Shape,
    axis: int,
    n_out: int,
    scale: float,
) -> LibraryCall:
    out_shape = (*shape[:axis], n_out, *shape[axis + 1 :])
    (bits,) = struct.unpack("q", struct.pack("d", scale))
    x, out = _input(0, shape, dtype), _output(out_shape, out_dtype)
    return _call("fourier", [x], out, function, integers=[axis, n_out, bits])
