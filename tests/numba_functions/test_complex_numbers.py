"""Complex numbers and arrays: as Python's, and with PyTorch's gradients."""

import cmath
import random

import numpy as np
import pytest
from numba import njit

import numba_grad as ng
from numba_grad.config import configure
from numba_grad.errors import KernelError
from tests.numba_functions.derivatives import (
    AtAKinkError,
    Case,
    check_gradient,
    check_second_derivatives,
    check_tangent,
    check_values,
)

pytestmark = pytest.mark.usefixtures("reference_engine")

Z = np.array([0.3 + 0.4j, -0.5 + 0.7j, 0.7 - 0.2j, -0.9 - 1.1j, 1.1 + 0.1j])
W = np.array([0.2 - 0.1j, 0.6 + 0.4j, -0.3 + 0.3j, 0.5 + 0.9j, -0.8 + 0.6j])
X = np.array([0.3, 0.5, 0.7, 0.9, 1.1])
M = np.array([[2.0 + 0.5j, 0.3 - 0.2j, 0.1j], [0.4, -1.5 + 1j, 0.2 + 0.1j], [0.1, 0.6j, 1.0 - 2j]])


def arithmetic(z, w, x):
    out = np.empty_like(z)
    for i in range(z.shape[0]):
        u = z[i] * w[i] + x[i] * z[i] - 2 * w[i] / z[i]
        v = u / x[i] + x[i] / w[i] - 1j * u
        out[i] = (v - x[i]) * (3 - v) + (2.5 - 0.5j) * -u
    return out


def functions(z, w, x):
    total = 0j
    for i in range(z.shape[0]):
        total += np.exp(z[i]) + np.sqrt(w[i]) * np.log(z[i])
        total -= np.sin(z[i]) * np.cos(w[i]) + np.sinh(w[i]) * np.cosh(z[i])
        total += cmath.exp(1j * x[i]) * cmath.sqrt(-x[i]) + cmath.log(w[i])
    return total


def parts(z, w, x):
    total = 0.0
    for i in range(z.shape[0]):
        y = z[i].conjugate() * w[i]
        total += y.real * x[i] - 2.0 * y.imag + abs(z[i]) * np.angle(w[i])
        total += np.real(z[i]) * np.imag(w[i]) + cmath.phase(np.conj(z[i])) + x[i].real
        total += abs(complex(x[i], total)) + complex(x[i]).real
    return total


def powers(z, w, x):
    out = np.zeros(7, dtype=np.complex128)
    for i in range(z.shape[0]):
        out[0] += z[i] ** 2
        out[1] += w[i] ** 5
        out[2] += z[i] ** -3
        out[3] += z[i] ** i
        out[4] += w[i] ** x[i]
        out[5] += np.power(z[i], 0.5)
        out[6] += z[i] ** w[i]
    return out


def in_place(z, w, n):
    for k in range(n):
        for i in range(1, z.shape[0] - 1):
            z[i] = 0.25 * (z[i - 1] + z[i + 1]) + 1j * z[i] * w[k]
            w[i] *= z[i]
    return z[1] * 1j


def swapped(z, n):
    u, v = z.copy(), np.zeros_like(z)
    for _ in range(n):
        for i in range(1, z.shape[0] - 1):
            v[i] = u[i] + 0.1j * (u[i - 1] - 2 * u[i] + u[i + 1])
        u, v = v, u
    return u


def escape(c, limit):
    """As a Mandelbrot set is drawn: how far z gets, and in how many passes."""
    out = np.zeros(c.shape[0])
    for i in range(c.shape[0]):
        z = 0j
        k = 0
        while abs(z) <= 2.0 and k < limit:
            z = z * z + c[i]
            k += 1
        out[i] = k + 1.0 - np.log(abs(z) + 1.0)
    return out


def arrays(z, w, x):
    u = z * w + 2.0 * x
    u[1:] -= 1j * z[:-1]
    v = np.exp(1j * x) * np.conj(u)
    v += np.abs(u) + u.real * z.imag
    m = np.outer(v, w)
    y = (m.T @ v) / np.sum(x)
    return y.real.copy(), y, np.where(x > 0.6, y, np.mean(z)).sum() - z.conj().sum()


def branches(z, flag):
    w = z[0]
    state = (w, 1)
    for i in range(1, z.shape[0]):
        w = w * z[i] if z[i].imag > 0 else w / z[i]
        state = (state[0] + w, state[1] + i)
    if flag and w != 0:
        return state[0] * 2.0
    return state[0] + w


def contour_integral(h, points, y):
    """NPBench's (Ziogas et al., 2021), after OMEN's: moments of a resolvent on a circle."""
    n = h.shape[1]
    p0 = np.zeros((n, y.shape[1]), dtype=np.complex128)
    p1 = np.zeros((n, y.shape[1]), dtype=np.complex128)
    for z in points:
        t = np.zeros((n, n), dtype=np.complex128)
        for k in range(h.shape[0]):
            zz = np.power(z, (h.shape[0] - 1) / 2 - k)
            t += zz * h[k]
        x = np.linalg.solve(t, y)
        if abs(z) < 1.0:
            x = -x
        p0 += x
        p1 += z * x
    return p0, p1


def matrices(m, z):
    return np.linalg.det(m) * np.linalg.inv(m) @ z[:3], np.trace(m), np.cumsum(z), np.diag(m)


def constant_array(z):
    total = 0j
    for i in range(W.shape[0]):
        total += W[i] * z[i]
    return total


def in_tuples(pair, n):
    (u, v), k = pair
    for _ in range(n):
        u = u + k * v
        v = v - k * u
    return u, v


H = np.stack([M, M.T + 1, 0.3j * M])
ON_A_CIRCLE = np.array([0.5 + 0.6j, -1.1 + 0.3j, 0.9 - 0.8j])
CASES = (
    (arithmetic, (Z, W, X), ()),
    (functions, (Z, W, X), ()),
    (parts, (Z, W, X), ()),
    (powers, (Z, W, X), ()),
    (in_place, (Z, W, 3), (0, 1)),
    (swapped, (Z, 3), ()),
    (escape, (Z, 6), ()),
    (arrays, (Z, W, X), ()),
    (branches, (Z, 1), ()),
    (branches, (Z, 0), ()),
    (contour_integral, (H, ON_A_CIRCLE, M[:, :2]), ()),
    (matrices, (M, Z), ()),
    (constant_array, (Z,), ()),
)


# Numba compiles functions of NumPy while it finds the types of the others.
@pytest.mark.thorough(but="^(?!contour_integral|arrays|matrices)", every=2)
@pytest.mark.parametrize(("function", "arguments", "writes"), CASES)
def test_values_gradients_and_tangents(function, arguments, writes):
    case = Case(ng.differentiable(function), function, arguments, writes)
    check_values(case)
    check_gradient(case)
    check_tangent(case)


@pytest.mark.thorough(but="parts")
@pytest.mark.parametrize("function", [parts, powers])
def test_second_derivatives(function):
    check_second_derivatives(Case(ng.differentiable(function), function, (Z, W, X), ()))


@pytest.mark.thorough(but="arithmetic")
@pytest.mark.parametrize("function", [arithmetic, functions, powers])
def test_compiled(function):
    with configure(engine="native"):
        case = Case(ng.differentiable(njit(function)), function, (Z, W, X), ())
        check_values(case)
        check_gradient(case)


def scaled(z, c):
    for i in range(z.shape[0]):
        z[i] = c * z[i] * z[i]
    return abs(z[0]), z[1] * 2j


def test_gradients_are_those_of_operations():
    operation = ng.differentiable(scaled)
    assert repr(operation) == "<differentiable scaled(z, c)>"

    def by_operations(z, c):
        u = c * z * z
        return np.abs(u[0]), u[1] * 2j, u

    def loss(f):
        def of(z, c):
            size, number, array = f(z, c)
            return size + np.sum(np.abs(array) ** 2) + (number * (1 - 2j)).real

        return of

    for value in (0.3 + 0.4j, np.complex128(-0.2j)):
        ours = ng.grad(loss(operation), argnums=(0, 1))(Z, value)
        theirs = ng.grad(loss(by_operations), argnums=(0, 1))(Z, value)
        for a, b in zip(ours, theirs, strict=True):
            assert a.dtype == b.dtype == np.complex128
            np.testing.assert_allclose(a, b, rtol=1e-13)
    assert repr(operation) == "<differentiable scaled(z, c) -> returned 0, returned 1, z>"


def test_single_precision_and_transformations():
    operation = ng.differentiable(scaled)
    z, c = Z.astype(np.complex64), np.complex64(0.5 + 0.5j)
    size, number, array = operation(z, c)
    assert (size.dtype, number.dtype, array.dtype) == (np.float32, np.complex128, np.complex64)
    gradient = ng.grad(lambda z: operation(z, c)[0])(z)
    assert gradient.dtype == np.complex64
    np.testing.assert_allclose(
        gradient, ng.grad(lambda z: operation(z, 0.5 + 0.5j)[0])(Z), rtol=1e-5
    )
    batch = np.stack([Z, W])
    found = ng.vmap(lambda z: operation(z, 2j)[2])(batch)
    np.testing.assert_allclose(found, 2j * batch * batch, rtol=1e-14)
    with configure(engine="native"):
        jitted = ng.jit(ng.grad(lambda z: operation(z, 2j)[0]))(Z)
    np.testing.assert_allclose(jitted, ng.grad(lambda z: operation(z, 2j)[0])(Z), rtol=1e-14)


def test_tuples_of_complex_arrays():
    operation = ng.differentiable(in_tuples)
    gradient = ng.grad(lambda u, v: np.sum(np.abs(operation(((u, v), 0.1j), 2)[0]) ** 2), (0, 1))
    step = np.array([[1, 0.1j], [-0.1j, 1 + 0.01]])
    matrix = step @ step
    u = matrix[0, 0] * Z + matrix[0, 1] * W
    for found, factor in zip(gradient(Z, W), matrix[0], strict=True):
        np.testing.assert_allclose(found, 2 * np.conj(factor) * u, rtol=1e-13)
    with pytest.raises(KernelError, match="shares memory"):
        ng.differentiable(in_place)(Z, Z, 2)


def at_zero(z):
    total = abs(z[0]) + 3.0
    for k in range(4):
        total += (z[0] ** k).real
    return total + (z[0] ** 1.0).imag


def test_slopes_at_zero():
    found = ng.grad(ng.differentiable(at_zero))(np.zeros(1, dtype=np.complex128))
    np.testing.assert_array_equal(found, [1.0 + 1j])
    assert ng.differentiable(at_zero)(np.zeros(1, dtype=np.complex128)).item() == 4.0


def near_the_axes(z):
    total = 0j
    for i in range(z.shape[0]):
        total += np.sqrt(z[i]) * (i + 1) + np.log(z[i]) * (2j - i)
    return total


@pytest.mark.parametrize("z", [1.0, -1.0, 1j, -1j, -4.0, complex(-4, -0.0), 0.5j])
def test_roots_and_logarithms_on_the_axes(z):
    points = np.array([z], dtype=np.complex128)
    value = ng.differentiable(near_the_axes)(points).item()
    np.testing.assert_allclose(value, (np.sqrt(points) + np.log(points) * 2j)[0], rtol=1e-15)
    real = ng.grad(lambda z: ng.differentiable(near_the_axes)(z).real)(points)
    np.testing.assert_allclose(real, np.conj(0.5 / np.sqrt(points) + 2j / points), rtol=1e-14)


def test_logarithm_near_the_unit_circle():
    z = np.array([1.0 + 1e-9j, 0.6 + 0.8j + 1e-12, 1e200 * (1 + 1j), 1e-200j])
    found = [ng.differentiable(lambda z: np.log(z))(x).item() for x in z]
    np.testing.assert_allclose(found, np.log(z), rtol=1e-13, atol=1e-18)


def test_quotients_do_not_overflow():
    divided = ng.differentiable(lambda a, b: a / b)
    for a, b in ((1e200 + 1e199j, 1e200 - 2e200j), (1e-200j, 1e-200 + 3e-200j)):
        np.testing.assert_allclose(divided(a, b).item(), np.complex128(a) / b, rtol=1e-14)


# What is refused.


def tangent_of_complex(z):
    return np.tan(z[0]).real


def sorted_numbers(z):
    return np.sort(z)


def norm_of_numbers(z):
    return np.linalg.norm(z)


def conjugated_product(z):
    return np.vdot(z, z)


def variance(z):
    return np.var(z)


def view_of_parts_written_later(z):
    r = z.real
    z[0] = 2j
    return r[0] * z[1]


def slice_of_parts_written_later(z):
    r = z.imag[1:]
    z[1] = 2j
    return r[0] * z[1]


def parts_assigned(z):
    z.real[0] = 1.0
    return z[0]


REFUSED = (
    (tangent_of_complex, "`tan` of complex numbers", "np.tan(z[0])"),
    (sorted_numbers, "`sort` of complex numbers", "np.sort(z)"),
    (norm_of_numbers, "`norm` of complex numbers", "np.linalg.norm(z)"),
    (conjugated_product, "`vdot` of complex numbers", "np.vdot(z, z)"),
    (variance, "`var` of complex numbers", "np.var(z)"),
    (view_of_parts_written_later, "second name", "r = z.real"),
    (slice_of_parts_written_later, "second name", "r = z.imag[1:]"),
    (parts_assigned, "an assignment to an element of this", "z.real[0] = 1.0"),
)


@pytest.mark.thorough(but="^(?!sorted_numbers|variance)")
@pytest.mark.parametrize(("function", "named", "line"), REFUSED)
def test_what_is_refused_is_named_with_its_line(function, named, line):
    with pytest.raises(KernelError) as raised:
        ng.differentiable(function)(Z)
    message = str(raised.value)
    assert named in message and line in message and "ng.custom_op" in message


# Programs at random: values, gradients and tangents of all of them.


class Generator:
    """Kernels of two complex vectors, which they write, a real one, and a complex number."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def number(self, depth: int) -> str:
        """An expression of a complex number, with values that stay tame."""
        leaves = ("a[i]", "b[i]", "b[i - 1]", "a[(3 * i) % 5]", "s", "w", "(0.3 - 0.2j)")
        if depth == 0:
            return self.random.choice(leaves)
        x, y = self.number(depth - 1), self.number(depth - 1)
        forms = (
            f"({x} + {y})",
            f"({x} - {self.real(depth - 1)})",
            f"0.5 * ({x} * {y})",
            f"({self.real(depth - 1)} * {x})",
            f"({x} / (3.0 + abs({y})))",
            f"({x} / ({y} + (4.0 - 3j)))",
            f"({self.real(depth - 1)} / ({y} - 4j))",
            f"({x}).conjugate()",
            f"np.sin(0.3 * {x})",
            f"np.exp(-0.2 * abs({x}) + 0.1j)",
            f"np.sqrt({x} + 5.0)",
            f"({x} if abs({y}) > 0.77 else {y})",
            f"(0.4 * {x}) ** {self.random.choice((2, 3, -1, 'k', 1.5))}",
            f"complex({self.real(depth - 1)}, {self.real(depth - 1)})",
        )
        return self.random.choice(forms)

    def real(self, depth: int) -> str:
        if depth <= 0:
            return self.random.choice(("r[i]", "0.7", "a[i].real", "w.imag"))
        x = self.number(depth - 1)
        return self.random.choice((f"abs({x})", f"({x}).imag", f"np.angle({x} + 9.0)", "r[i]"))

    def statement(self, indent: str) -> str:
        x = self.number(2)
        forms = (
            f"a[i] = {x}",
            f"b[i] += 0.2 * {x}",
            f"w = 0.5 * w + {x}",
            f"r[i] = 0.3 * r[i] + {self.real(2)}",
            f"if abs(w) > 0.63:\n{indent}    b[i] -= {x}\n{indent}else:\n{indent}    w *= {x}",
            f"a[1:-1] = 0.5 * a[2:] + ({x}) * b[:-2]",
            f"m = 0\n{indent}while m < 3 and abs(w) < 1.9:\n{indent}    w = w * w + {x}\n"
            f"{indent}    m += 1",
            "u = a.copy()\n" + indent + "b[i] = u[i] - 0.1j * u.sum()",
        )
        return self.random.choice(forms)

    def source(self) -> str:
        inner = " " * 12
        lines = "".join(
            f"{inner}{self.statement(inner)}\n" for _ in range(self.random.randint(1, 4))
        )
        result = self.random.choice(("w", "w, abs(w)", "a * w", "b.real * r, w"))
        return (
            "def program(a, b, r, s):\n    w = 0.3 * s\n    a[0] += s\n    b[1] *= 0.9\n"
            "    r[2] *= 1.1\n"
            "    for k in range(2):\n        for i in range(5):\n"
            f"{lines}            w = w / (1.0 + abs(w))\n            a[i] /= 1.0 + abs(a[i])\n"
            f"            b[i] /= 1.0 + abs(b[i])\n    return {result}\n"
        )


def check_random_program(seed: int, second: bool = False) -> bool:
    """Whether it could be compared: False at a kink of the program."""
    source = Generator(seed).source()
    names: dict[str, object] = {"np": np}
    exec(compile(source, f"<complex program {seed}>", "exec"), names)
    program = names["program"]
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(-1, 1, 5) + 1j * rng.uniform(-1, 1, 5) for _ in range(2))
    arguments = (a, b, rng.uniform(0.1, 1, 5), complex(*rng.uniform(-1, 1, 2)))
    case = Case(ng.differentiable(program), program, arguments, (0, 1, 2), seed)
    try:
        check_values(case)
        check_gradient(case)
        check_tangent(case)
        if second:
            check_second_derivatives(case)
    except AtAKinkError:
        return False
    except AssertionError as error:
        error.add_note(f"seed {seed}:\n{source}")
        raise
    return True


FEW, MANY = 6, 60


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(k, marks=[pytest.mark.thorough] if k >= FEW else [])
        for k in range(0, MANY, FEW)
    ],
)
def test_random_programs(first):
    compared = [check_random_program(seed, seed % 5 == 0) for seed in range(first, first + FEW)]
    assert sum(compared) >= FEW / 2
