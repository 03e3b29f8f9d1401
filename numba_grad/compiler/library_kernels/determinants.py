"""Determinants and their derivatives, by LAPACK; of small matrices written out."""

from textwrap import indent

import numpy as np

from numba_grad.compiler.library_kernels.calls import LibraryCall, LibraryWord, Memory
from numba_grad.compiler.library_kernels.lapack import (
    BLOCK,
    CLEAR_PIVOTS,
    FAILED,
    FIND_PIVOTS,
    conjugate,
    copied_by_columns,
    lapack,
    letter,
    product,
    real_name,
    stack_call,
    wide_name,
)
from numba_grad.compiler.library_kernels.matrix_operations import lowers_square_matrices
from numba_grad.compiler.library_kernels.registry import BY_MATRIX
from numba_grad.compiler.library_kernels.small_matrices import (
    are_at_most,
    cofactors,
    eliminated,
    is_small,
    loaded,
    stored,
)
from numba_grad.runtime.plan import ErrorSite

__all__ = ["cofactor_call", "cofactor_in_direction_call", "det_call", "slogdet_call"]

# Products are kept within these powers of two, 2**64 and 2**-64, so that none overflows on the way
# to a determinant that does not.
_LARGE = "18446744073709551616.0"
_SMALL = "5.421010862427522e-20"


def det_call(dtype: np.dtype, n: int, count: int) -> LibraryCall:
    """The determinant. Input: a. One output."""
    value = _small_product(dtype, n) if is_small(n) else product_of_factors(dtype, "value")
    return _eliminated_call(dtype, n, count, f"{value}\nout[matrix] = value\n")


def slogdet_call(dtype: np.dtype, n: int, count: int) -> LibraryCall:
    """The determinant divided by its magnitude, and the logarithm of that. One output, (2,)."""
    wide = wide_name(dtype)
    if is_small(n):
        factors = "\n".join(_factor_of_sign(wide, f"m_{k}_{k}") for k in range(n))
        parts = f"""\
sign = {wide}(parity)
logarithm = float64(0)
{factors}"""
    else:
        parts = f"""\
sign = {wide}(1)
logarithm = float64(0)
for i in range(n):
{indent(_factor_of_sign(wide, "factors[i * n + i]"), 4 * " ")}
    if small_pivots[pivot_step * i] != i + 1:
        sign = -sign"""
    stored = "out[2 * matrix] = sign\nout[2 * matrix + 1] = logarithm\n"
    return _eliminated_call(dtype, n, count, f"{parts}\n{stored}")


def _eliminated_call(dtype: np.dtype, n: int, count: int, body: str) -> LibraryCall:
    """`body` after the elimination of each matrix: of a small one to the names `m_0_0`, ... and
    `parity`, of others to `factors` and the pivots."""
    operands = {"a": (Memory("input"), dtype.name), "out": (Memory("output"), dtype.name)}
    if is_small(n):
        return stack_call(
            count=count,
            products=n**3,
            operands=operands,
            body=f"{_small_elimination(dtype, n)}\n{body}",
        )
    return stack_call(
        count=count,
        products=n**3,
        operands=operands,
        words=_words(dtype, n),
        rooms={"factors": (n * n, dtype.name), "pivots": (n, "int64")},
        body=f"""\
start = matrix * n * n
for i in range(n * n):
    factors[i] = a[start + i]
{_FACTORIZE}
{body}""",
    )


def _factor_of_sign(wide: str, factor: str) -> str:
    return f"""\
factor = {wide}({factor})
size = absolute(factor)
logarithm += log(size)
if size == 0:
    sign = {wide}(0)
elif size - size == 0:
    sign = sign * (factor / {wide}(size))"""


def _small_elimination(dtype: np.dtype, n: int) -> str:
    return f"""\
start = matrix * {n * n}
{loaded("m", n, n, "a", "start")}
{eliminated("m", n, dtype)}"""


def _small_product(dtype: np.dtype, n: int) -> str:
    """The product of the pivots, in vector code where it takes no loops."""
    wide = wide_name(dtype)
    factors = [f"{wide}(m_{k}_{k})" for k in range(n)]
    # A product of two, or of four float32, does not overflow on the way.
    if n <= 2 or dtype.name in ("float32", "complex64"):
        return f"value = {' * '.join([f'{wide}(parity)', *factors])}"
    if n == 3:
        first, second, third = factors
        return f"""\
value = {first} * {second}
size = absolute(value)
is_normal = (size >= {float(np.finfo(np.float64).tiny)!r}) & (size - size == 0)
others = {second} * {third}
value = {wide}(parity) * select(is_normal | ({first} == 0), value * {third}, {first} * others)"""
    lines = [f"value = {wide}(parity)", "scale = 0"]
    for factor in factors:
        lines += [f"value = value * {factor}", _brought_into_range(wide, "value")]
    return "\n".join([*lines, _scaled_back(wide, "value")])


def _words(dtype: np.dtype, n: int) -> dict[str, LibraryWord]:
    return {
        "getrf": lapack(dtype, "getrf"),
        "n": n,
        "leading": max(1, n),
        "pivot_count": n,
    }


# A zero pivot is no failure here.
_FACTORIZE = f"""\
{CLEAR_PIVOTS}
call(getrf, n_at, n_at, factors_at, leading_at, pivots_at, info_at)
{FIND_PIVOTS}"""


def product_of_factors(dtype: np.dtype, result: str) -> str:
    """The determinant of a matrix that is factorized in place, in `factors`."""
    wide = wide_name(dtype)
    return f"""\
{result} = {wide}(1)
scale = 0
for i in range(n):
    {result} = {result} * {wide}(factors[i * n + i])
    if small_pivots[pivot_step * i] != i + 1:
        {result} = -{result}
{indent(_brought_into_range(wide, result), 4 * " ")}
{_scaled_back(wide, result)}"""


def _brought_into_range(wide: str, number: str) -> str:
    """Powers of two taken out of a number; `scale` counts them."""
    return f"""\
size = absolute({number})
while size > {_LARGE} and size - size == 0:
    {number} = {number} * {wide}({_SMALL})
    size = size * {_SMALL}
    scale += 1
while size < {_SMALL} and size > 0:
    {number} = {number} * {wide}({_LARGE})
    size = size * {_LARGE}
    scale -= 1"""


def _scaled_back(wide: str, number: str) -> str:
    return f"""\
while scale > 0:
    {number} = {number} * {wide}({_LARGE})
    scale -= 1
while scale < 0:
    {number} = {number} * {wide}({_SMALL})
    scale += 1"""


def cofactor_call(dtype: np.dtype, n: int, count: int) -> LibraryCall:
    """The derivative of the determinant by each element, exact also for singular matrices.

    Of small matrices, unless products could overflow on the way, as the polynomials that they are,
    which of two rows are elements, so that nothing else need be compiled. By the inverse, where no
    pivot is lost in rounding; else by singular values: with a = U S V^H it is det(U) det(V^H)
    conj(U) S' V^T, where S' holds the products of all other singular values. Input: a. One output.
    """
    name, real = dtype.name, real_name(dtype)
    operands = {"a": (Memory("input"), name), "out": (Memory("output"), name)}
    if 0 < n <= 2:
        return stack_call(
            count=count, products=n, operands=operands, body=_cofactors_written_out(dtype, n)
        )
    is_complex = dtype.kind == "c"
    work_size = 5 * n * n + (8 + 2 * BLOCK) * n
    rooms = {
        "factors": (n * n, name),
        "pivots": (n, "int64"),
        "left": (n * n, name),
        "right": (n * n, name),
        "values": (n, real),
        "others": (n, "float64"),
        "scales": (n, "int64"),
        "work": (work_size, name),
        "real_work": (7 * n * n + 7 * n if is_complex else 0, real),
        "integers": (8 * n, "int64"),
    }
    extra = ", real_work_at" if is_complex else ""
    wide = wide_name(dtype)
    left, right = conjugate(dtype, "left[k * n + i]"), conjugate(dtype, "right[j * n + k]")
    terms = f"{wide}({left} * {right}) * {wide}(others[k])"
    body = f"""\
start = matrix * n * n
poison = {real}(0)
{copied_by_columns(dtype, "a", "factors")}
{_FACTORIZE}
largest = {real}(0)
for i in range(n):
    largest = max(largest, absolute(factors[i * n + i]))
smallest = largest
for i in range(n):
    smallest = min(smallest, absolute(factors[i * n + i]))
if poison != 0 or smallest > {8 * np.finfo(dtype).eps} * n * largest:
{indent(product_of_factors(dtype, "value"), 4 * " ")}
    call(getri, n_at, factors_at, leading_at, pivots_at, work_at, work_size_at, info_at)
    for i in range(n * n):
        out[start + i] = value * {wide}(factors[i])
else:
    for i in range(n):
        for j in range(n):
            factors[j * n + i] = a[start + i * n + j]
    info[0] = 0
    call(gesdd, job_at, n_at, n_at, factors_at, n_at, values_at, left_at, n_at, right_at, n_at,
         work_at, work_size_at{extra}, integers_at, info_at, 1)
    if {FAILED}:
        fail(diverged)
    scale = 0
    product = float64(1)
    for k in range(n):
        others[k] = product
        scales[k] = scale
        product = product * float64(values[k])
{indent(_brought_into_range("float64", "product"), 8 * " ")}
    after = 0
    product = float64(1)
    for k in range(n - 1, -1, -1):
        number = others[k] * product
        scale = scales[k] + after
{indent(_scaled_back("float64", "number"), 8 * " ")}
        others[k] = number
        scale = after
        product = product * float64(values[k])
{indent(_brought_into_range("float64", "product"), 8 * " ")}
        after = scale
{indent(_determinant(dtype, "left", "left_value"), 4 * " ")}
{indent(_determinant(dtype, "right", "right_value"), 4 * " ")}
    phase = left_value * right_value
{indent(product("out[start + i * n + j] = phase * total", wide, terms), 4 * " ")}
"""
    return stack_call(
        count=count if n else 0,
        products=3 * n**3,
        operands=operands,
        words={
            **_words(dtype, n),
            "getri": lapack(dtype, "getri"),
            "gesdd": lapack(dtype, "gesdd"),
            "job": letter("A"),
            "work_size": work_size,
        },
        rooms=rooms,
        sites={"diverged": ErrorSite("singular values", "derivative of det")},
        body=_small_cofactors(dtype, n, body) if is_small(n) else body,
    )


def _cofactors_written_out(dtype: np.dtype, n: int) -> str:
    return f"""\
start = matrix * {n * n}
{loaded("m", n, n, "a", "start", dtype=wide_name(dtype))}
{cofactors("m", n, "c")}
{stored("c", n, n, "out", "start")}"""


def _small_cofactors(dtype: np.dtype, n: int, otherwise: str) -> str:
    limit = 2.0**300 if dtype.name in ("float64", "complex128") else float(np.finfo(dtype).max)
    return f"""\
start = matrix * {n * n}
{loaded("m", n, n, "a", "start", dtype=wide_name(dtype))}
if {are_at_most("m", n, dtype, limit)}:
{indent(cofactors("m", n, "c"), 4 * " ")}
{indent(stored("c", n, n, "out", "start"), 4 * " ")}
else:
{indent(otherwise, 4 * " ")}
"""


def cofactor_in_direction_call(dtype: np.dtype, n: int, count: int) -> LibraryCall:
    """The derivative of the cofactors in the direction e, exact also for singular matrices.

    With a = U S V^H and t = U^H e V it is det(U) det(V^H) conj(U) T V^T. T is the change of the
    cofactors of S: off the diagonal -t^T, on it the sum of the other diagonal elements of t, each
    one times the product of all singular values but those of its row and column. Inputs: a, e. One
    output.
    """
    name, real, wide = dtype.name, real_name(dtype), wide_name(dtype)
    is_complex = dtype.kind == "c"
    work_size = 5 * n * n + (8 + 2 * BLOCK) * n
    extra = ", real_work_at" if is_complex else ""

    def left(i: str, j: str) -> str:
        return f"{wide}({conjugate(dtype, f'left[{i} * n + {j}]')})"

    def right(i: str, j: str) -> str:
        return f"{wide}({conjugate(dtype, f'right[{i} * n + {j}]')})"

    return stack_call(
        count=count if n else 0,
        products=30 * n**3,
        operands={
            "a": (Memory("input"), name),
            "e": (Memory("input", 1), name),
            "out": (Memory("output"), name),
        },
        words={
            **_words(dtype, n),
            "gesdd": lapack(dtype, "gesdd"),
            "job": letter("A"),
            "work_size": work_size,
        },
        rooms={
            "factors": (n * n, name),
            "pivots": (n, "int64"),
            "left": (n * n, name),
            "right": (n * n, name),
            "values": (n, real),
            "half": (n * n, wide),
            "turned": (n * n, wide),
            "change": (n * n, wide),
            "work": (work_size, name),
            "real_work": (7 * n * n + 7 * n if is_complex else 0, real),
            "integers": (8 * n, "int64"),
        },
        sites={"diverged": ErrorSite("singular values", "second derivative of det")},
        body=f"""\
start = matrix * n * n
poison = {real}(0)
{copied_by_columns(dtype, "a", "factors")}
if poison != 0:
    for i in range(n * n):
        out[start + i] = {name}(poison)
    continue
call(gesdd, job_at, n_at, n_at, factors_at, n_at, values_at, left_at, n_at, right_at, n_at,
     work_at, work_size_at{extra}, integers_at, info_at, 1)
if {FAILED}:
    fail(diverged)
{product("half[i * n + j] = total", wide, f"{left('i', 'k')} * {wide}(e[start + k * n + j])")}
{product("turned[i * n + j] = total", wide, f"half[i * n + k] * {right('k', 'j')}")}
for i in range(n * n):
    change[i] = {wide}(0)
for p in range(n):
    for q in range(p):
        scale = 0
        number = float64(1)
        for k in range(n):
            if k != p and k != q:
                number = number * float64(values[k])
{indent(_brought_into_range("float64", "number"), 16 * " ")}
{indent(_scaled_back("float64", "number"), 8 * " ")}
        others = {wide}(number)
        change[p * n + p] = change[p * n + p] + others * turned[q * n + q]
        change[q * n + q] = change[q * n + q] + others * turned[p * n + p]
        change[p * n + q] = -others * turned[q * n + p]
        change[q * n + p] = -others * turned[p * n + q]
{_determinant(dtype, "left", "left_value")}
{_determinant(dtype, "right", "right_value")}
phase = left_value * right_value
{product("half[i * n + j] = total", wide, f"{left('k', 'i')} * change[k * n + j]")}
{product("out[start + i * n + j] = phase * total", wide, f"half[i * n + k] * {right('j', 'k')}")}
""",
    )


def _determinant(dtype: np.dtype, matrix: str, result: str) -> str:
    """Of a matrix of singular vectors, which it must leave alone."""
    return f"""\
for i in range(n * n):
    factors[i] = {matrix}[i]
info[0] = 0
{_FACTORIZE}
{product_of_factors(dtype, result)}"""


lowers_square_matrices(
    "det", by=det_call, operations=lambda m, n, k: 2 * n**3 // 3, on_gpus=BY_MATRIX
)
lowers_square_matrices(
    "slogdet", by=slogdet_call, operations=lambda m, n, k: 2 * n**3 // 3, on_gpus=BY_MATRIX
)
lowers_square_matrices(
    "cofactor", by=cofactor_call, operations=lambda m, n, k: 2 * n**3, on_gpus=BY_MATRIX
)
lowers_square_matrices(
    "cofactor_in_direction",
    by=cofactor_in_direction_call,
    operations=lambda m, n, k: 30 * n**3,
    on_gpus=BY_MATRIX,
)
