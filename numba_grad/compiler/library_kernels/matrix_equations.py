"""Sylvester's equation and square roots of matrices, by Schur factors, which LAPACK computes.

Also of real matrices the factors are complex: then they are triangular, and what is left are loops.
"""

from textwrap import indent

import numpy as np

from numba_grad.compiler.library_kernels.calls import LibraryCall, Memory
from numba_grad.compiler.library_kernels.lapack import (
    BLOCK,
    FAILED,
    copied_by_columns,
    lapack,
    letter,
    product,
    real_name,
    stack_call,
)
from numba_grad.compiler.library_kernels.matrix_operations import (
    lowers_square_matrices,
    number_of_matrices,
    of_matrix,
)
from numba_grad.compiler.library_kernels.registry import LibraryKernel, lowers
from numba_grad.graph.node import Node
from numba_grad.runtime.plan import ErrorSite

__all__ = ["solve_sylvester_call", "sqrtm_call"]


def solve_sylvester_call(dtype: np.dtype, n: int, m: int, count: int) -> LibraryCall:
    """The x of a x + x b = q. Inputs: a (n, n), b (m, m), q (n, m). One output, (n, m).

    Bartels and Stewart, Solution of the matrix equation AX + XB = C, CACM 15 (1972). NaN where a or
    b is not finite; eigenvalues of a and -b that are equal are an error at the site.
    """
    name = dtype.name
    wide = _complex_name(dtype)
    part = "" if dtype.kind == "c" else ".real"
    turned = "conjugate(u[i * n + k]) * q[start + k * m + j]"
    result = product(
        f"out[start + i * m + j] = total{part}",
        wide,
        "g[i * m + k] * conjugate(v[k * m + j])",
        columns="m",
        inner="m",
    )
    return stack_call(
        count=count if n and m else 0,
        products=100 * (n + m) ** 3,
        operands={
            "a": (Memory("input", 0), name),
            "b": (Memory("input", 1), name),
            "q": (Memory("input", 2), name),
            "out": (Memory("output"), name),
        },
        words={**_words(dtype, max(n, m)), "n": n, "m": m},
        rooms={
            "s": (n * n, wide),
            "u": (n * n, wide),
            "t": (m * m, wide),
            "v": (m * m, wide),
            "f": (n * m, wide),
            "g": (n * m, wide),
            **_rooms(dtype, max(n, m)),
        },
        sites={
            "diverged": ErrorSite("eigenvalues", "solve_sylvester"),
            "singular": ErrorSite("singular", "solve_sylvester"),
        },
        body=f"""\
poison = {real_name(dtype)}(0)
{copied_by_columns(dtype, "a", "s", "n", f"{wide}(x)")}
{copied_by_columns(dtype, "b", "t", "m", f"{wide}(x)")}
start = matrix * n * m
if not (poison == 0):
    for i in range(n * m):
        out[start + i] = poison
    continue
{_schur("s", "u", "n")}
{_schur("t", "v", "m")}
{product("g[i * m + j] = total", wide, turned, columns="m")}
{product("f[i * m + j] = total", wide, "g[i * m + k] * v[j * m + k]", columns="m", inner="m")}
is_singular = 0
for k in range(m):
    for i in range(n - 1, -1, -1):
        total = f[i * m + k]
        for j in range(i + 1, n):
            total -= s[j * n + i] * f[j * m + k]
        for j in range(k):
            total -= f[i * m + j] * t[k * m + j]
        both = s[i * n + i] + t[k * m + k]
        if both.real == 0 and both.imag == 0:
            is_singular = 1
            both = {wide}(1)  # complex numbers are not to be divided by 0 in kernels
        f[i * m + k] = total / both
if is_singular != 0:
    fail(singular)
{product("g[i * m + j] = total", wide, "u[k * n + i] * f[k * m + j]", columns="m")}
{result}
""",
    )


def sqrtm_call(dtype: np.dtype, n: int, count: int) -> LibraryCall:
    """The principal square root. Input: a. One output.

    Bjorck and Hammarling, A Schur method for the square root of a matrix (1983). NaN where a is not
    finite, and where a real a has a negative eigenvalue: then there is no real root.
    """
    name = dtype.name
    wide = _complex_name(dtype)
    is_real = dtype.kind != "c"
    part = ".real" if is_real else ""
    eps = float(np.finfo(dtype).eps)
    # Of a real matrix real eigenvalues come with imaginary parts of rounding.
    real_root = f"""\
for i in range(n):
    x = s[i * (n + 1)]
    if x.real < 0 and absolute(x.imag) <= n * {eps!r} * absolute(x):
        poison = poison / poison
"""
    return stack_call(
        count=count if n else 0,
        products=100 * n**3,
        operands={"a": (Memory("input"), name), "out": (Memory("output"), name)},
        words={**_words(dtype, n), "n": n},
        rooms={
            "s": (n * n, wide),
            "u": (n * n, wide),
            "g": (n * n, wide),
            **_rooms(dtype, n),
        },
        sites={"diverged": ErrorSite("eigenvalues", "sqrtm")},
        body=f"""\
poison = {real_name(dtype)}(0)
{copied_by_columns(dtype, "a", "s", "n", f"{wide}(x)")}
start = matrix * n * n
if poison == 0:
{indent(_schur("s", "u", "n"), 4 * " ")}
{indent(real_root if is_real else "", 4 * " ")}
if not (poison == 0):
    for i in range(n * n):
        out[start + i] = poison
    continue
for i in range(n):
    s[i * (n + 1)] = sqrt(s[i * (n + 1)])
for j in range(n):
    for i in range(j - 1, -1, -1):
        total = s[j * n + i]
        for k in range(i + 1, j):
            total -= s[k * n + i] * s[j * n + k]
        both = s[i * (n + 1)] + s[j * (n + 1)]
        if both.real == 0 and both.imag == 0:
            if total.real != 0 or total.imag != 0:
                total = total * (poison / poison)
        else:
            total = total / both
        s[j * n + i] = total
{product("g[i * n + j] = total", wide, "u[k * n + i] * s[j * n + k]", inner="j + 1")}
{product(f"out[start + i * n + j] = total{part}", wide, "g[i * n + k] * conjugate(u[k * n + j])")}
""",
    )


def _complex_name(dtype: np.dtype) -> str:
    return "complex64" if real_name(dtype) == "float32" else "complex128"


def _words(dtype: np.dtype, n: int) -> dict:
    wide = np.dtype(_complex_name(dtype))
    return {
        "gees": lapack(wide, "gees"),
        "with_vectors": letter("V"),
        "unsorted": letter("N"),
        "work_size": max(1, (2 + BLOCK) * n),
    }


def _rooms(dtype: np.dtype, n: int) -> dict[str, tuple[int, str]]:
    wide = _complex_name(dtype)
    return {
        "values": (n, wide),
        "work": (max(1, (2 + BLOCK) * n), wide),
        "real_work": (n, real_name(dtype)),
        "unused": (1, "int64"),
    }


def _schur(matrix: str, vectors: str, n: str) -> str:
    """The triangular factor in place of the matrix, and the unitary one."""
    return f"""\
call(gees, with_vectors_at, unsorted_at, 0, {n}_at, {matrix}_at, {n}_at, unused_at, values_at,
     {vectors}_at, {n}_at, work_at, work_size_at, real_work_at, unused_at, info_at, 1, 1)
if {FAILED}:
    fail(diverged)"""


lowers_square_matrices("sqrtm", by=sqrtm_call, operations=lambda m, n, k: 100 * n**3)


@lowers(
    "solve_sylvester",
    by=solve_sylvester_call,
    operations=of_matrix(lambda m, n, k: 100 * n**3),
)
def _solve_sylvester(kernel: LibraryKernel, node: Node) -> LibraryCall:
    a, b, _ = node.inputs
    return kernel(node.dtype, a.shape[-1], b.shape[-1], number_of_matrices(a))
