"""The exponential of matrices: Pade approximants with scaling and squaring, by BLAS and LAPACK."""

import numpy as np

from numba_grad.compiler.library_kernels.calls import LibraryCall, Memory
from numba_grad.compiler.library_kernels.lapack import (
    blas,
    lapack,
    less_itself,
    letter,
    real_name,
    stack_call,
)
from numba_grad.compiler.library_kernels.matrix_operations import lowers_square_matrices

__all__ = ["expm_call"]


def expm_call(dtype: np.dtype, n: int, count: int) -> LibraryCall:
    """The exponential of each matrix; NaN where one is not finite. Input: a. One output.

    Higham, The scaling and squaring method for the matrix exponential revisited, SIAM J. Matrix
    Anal. Appl. 26 (2005): degree 3, 5, 7, 9 or 13 by the 1-norm, and by powers of two if even 13
    does not do. LAPACK sees a^T, whose exponential is the transpose of ours.

    Of a triangular matrix the zeros stay zeros, and the diagonal is that of exponentials: rounding
    errors there would grow with the other elements, which may be far larger, at each squaring.
    """
    name, real = dtype.name, real_name(dtype)
    matrix = (n * n, name)
    exponential = "exp(x)"
    if dtype.kind == "c":
        exponential = "make_complex(exp(x.real) * cos(x.imag), exp(x.real) * sin(x.imag))"
    product = "as_it_is_at, as_it_is_at, n_at, n_at, n_at, one_at"
    return stack_call(
        count=count if n else 0,
        products=10 * n**3,
        operands={"a": (Memory("input"), name), "out": (Memory("output"), name)},
        words={
            "gemm": blas(dtype, "gemm"),
            "getrf": lapack(dtype, "getrf"),
            "getrs": lapack(dtype, "getrs"),
            "n": n,
            "as_it_is": letter("N"),
        },
        rooms={
            "scaled": matrix,
            "squared": matrix,
            "powers": matrix,
            "next_powers": matrix,
            "odd": matrix,
            "even": matrix,
            "pivots": (n, "int64"),
            "one": (1, name),
            "zero": (1, name),
        },
        body=f"""\
start = matrix * n * n
poison = {real}(0)
norm = float64(0)
above = float64(0)
below = float64(0)
for i in range(n):
    total = float64(0)
    for j in range(n):
        x = a[start + i * n + j]
        poison += {less_itself(dtype)}
        total += absolute(x)
        if i < j:
            above += absolute(x)
        if i > j:
            below += absolute(x)
    norm = max(norm, total)
is_triangular = min(above, below) == 0
if not (poison == 0):
    for i in range(n * n):
        out[start + i] = poison
    continue
degree = 13
if norm <= 1.495585217958292e-2:
    degree = 3
elif norm <= 2.539398330063230e-1:
    degree = 5
elif norm <= 9.504178996162932e-1:
    degree = 7
elif norm <= 2.097847961257068:
    degree = 9
squarings = 0
scale = float64(1)
while norm * scale > 5.371920351148152:
    scale = scale * 0.5
    squarings += 1
one[0] = 1
zero[0] = 0
for i in range(n * n):
    scaled[i] = a[start + i] * {name}(scale)
    powers[i] = {real}(i % (n + 1) == 0)
    odd[i] = 0
    even[i] = 0
call(gemm, {product}, scaled_at, n_at, scaled_at, n_at, zero_at, squared_at, n_at, 1, 1)
coefficient = float64(1)
for j in range(0, degree + 1, 2):
    after = coefficient * (degree - j) / ((2 * degree - j) * (j + 1))
    for i in range(n * n):
        even[i] = even[i] + powers[i] * {name}(coefficient)
        odd[i] = odd[i] + powers[i] * {name}(after)
    coefficient = after * (degree - j - 1) / ((2 * degree - j - 1) * (j + 2))
    if j + 2 <= degree:
        call(gemm, {product}, powers_at, n_at, squared_at, n_at, zero_at, next_powers_at, n_at,
             1, 1)
        for i in range(n * n):
            powers[i] = next_powers[i]
call(gemm, {product}, scaled_at, n_at, odd_at, n_at, zero_at, powers_at, n_at, 1, 1)
for i in range(n * n):
    out[start + i] = even[i] + powers[i]
    squared[i] = even[i] - powers[i]
result_at = out_at + start * {dtype.itemsize}
call(getrf, n_at, n_at, squared_at, n_at, pivots_at, info_at)
call(getrs, as_it_is_at, n_at, n_at, squared_at, n_at, pivots_at, result_at, n_at, info_at, 1)
if is_triangular:
    for i in range(n):
        for j in range(n):
            if (i < j and above == 0) or (i > j and below == 0):
                out[start + i * n + j] = 0
        x = a[start + i * (n + 1)] * {name}(scale)
        out[start + i * (n + 1)] = {exponential}
for number in range(squarings):
    for i in range(n * n):
        powers[i] = out[start + i]
    call(gemm, {product}, powers_at, n_at, powers_at, n_at, zero_at, result_at, n_at, 1, 1)
    if is_triangular:
        scale = scale * 2
        for i in range(n):
            x = a[start + i * (n + 1)] * {name}(scale)
            out[start + i * (n + 1)] = {exponential}
""",
    )


lowers_square_matrices("expm", by=expm_call, operations=lambda m, n, k: 18 * n**3)
