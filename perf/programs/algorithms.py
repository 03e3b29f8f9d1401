"""Algorithms of textbooks that a library has, written once more: factorizations by elements,
transforms by recursion, splines, iterative solvers."""

from typing import Any

import numpy

from perf.programs import program
from perf.programs.algebra import positive

# Cholesky's factor by elements, in an array and in lists.


@program(lambda random, n: [positive(random, n), random.normal(size=n)])
def cholesky_in_a_buffer(np: Any, a: Any, b: Any) -> Any:
    n = a.shape[0]
    lower = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            total = a[i, j]
            for k in range(j):
                total = total - lower[i, k] * lower[j, k]
            lower[i, j] = np.sqrt(total) if i == j else total / lower[j, j]
    y = np.zeros(n)
    for i in range(n):
        y[i] = (b[i] - np.sum(lower[i, :i] * y[:i])) / lower[i, i]
    return 0.5 * np.sum(y**2) + np.sum(np.log(np.diag(lower)))


@cholesky_in_a_buffer.written_for("jax")
def _(np: Any, a: Any, b: Any) -> Any:
    n = a.shape[0]
    lower = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            total = a[i, j]
            for k in range(j):
                total = total - lower[i, k] * lower[j, k]
            element = np.sqrt(total) if i == j else total / lower[j, j]
            lower = lower.at[i, j].set(element)
    y = np.zeros(n)
    for i in range(n):
        y = y.at[i].set((b[i] - np.sum(lower[i, :i] * y[:i])) / lower[i, i])
    return 0.5 * np.sum(y**2) + np.sum(np.log(np.diag(lower)))


cholesky_in_a_buffer.left_out("autograd", "has no assignments")
cholesky_in_a_buffer.left_out("torch", "assignments change what a gradient reads")


@program(lambda random, n: [positive(random, n), random.normal(size=n)])
def cholesky_in_lists(np: Any, a: Any, b: Any) -> Any:
    n = a.shape[0]
    lower: list[list[Any]] = []
    for i in range(n):
        row: list[Any] = []
        for j in range(i):
            row.append((a[i, j] - sum(row[k] * lower[j][k] for k in range(j))) / lower[j][j])
        row.append(np.sqrt(a[i, i] - sum(x**2 for x in row)))
        lower.append(row)
    y: list[Any] = []
    for i in range(n):
        y.append((b[i] - sum(lower[i][k] * y[k] for k in range(i))) / lower[i][i])
    return 0.5 * sum(x**2 for x in y) + sum(np.log(lower[i][i]) for i in range(n))


@program(lambda random, n: [random.normal(size=(n + 2, n)), random.normal(size=n + 2)])
def least_squares_by_householder(np: Any, a: Any, b: Any) -> Any:
    """Reflections of all that is left, then substitution backwards."""
    rows, columns = a.shape
    for k in range(columns):
        is_below = np.array(1.0 * (numpy.arange(rows) >= k))
        x = a[:, k] * is_below
        first = np.array(1.0 * (numpy.arange(rows) == k))
        v = x + np.sign(a[k, k]) * np.sqrt(np.sum(x**2)) * first
        scale = 2.0 / np.sum(v**2)
        a = a - scale * np.outer(v, v @ a)
        b = b - scale * v * np.sum(v * b)
    x: list[Any] = []
    for i in reversed(range(columns)):
        known = sum(a[i, columns - 1 - m] * y for m, y in enumerate(x))
        x.append((b[i] - known) / a[i, i])
    return np.sum(np.stack(x) ** 2) + np.sum(b[columns:] ** 2)


@program(lambda random, n: [random.normal(size=(n, n)) + 2.0 * n * numpy.eye(n)])
def determinant_by_elimination(np: Any, a: Any) -> Any:
    total = 0.0
    while a.shape[0] > 1:
        total = total + np.log(np.abs(a[0, 0]))
        a = a[1:, 1:] - np.outer(a[1:, 0], a[0, 1:]) / a[0, 0]
    return total + np.log(np.abs(a[0, 0]))


@program(
    lambda random, n: [random.uniform(0.5, 1.5, size=(n + 1, n)), random.normal(size=(n, n))],
    size=10,
    steps=12,
)
def conjugate_gradients_of_a_grid(np: Any, k: Any, b: Any, steps: int) -> Any:
    """Without a matrix: flow down the rows by `k`, evenly along them."""

    def applied(u: Any) -> Any:
        n = u.shape[0]
        down = np.concatenate([np.zeros((1, n)), u, np.zeros((1, n))])
        along = np.concatenate([np.zeros((n, 1)), u, np.zeros((n, 1))], axis=1)
        flux = k * (down[1:] - down[:-1])
        return 3.0 * u - along[:, 2:] - along[:, :-2] + flux[:-1] - flux[1:]

    x, residual = np.zeros(b.shape), b
    direction, square = residual, np.sum(residual * residual)
    for _ in range(steps):
        image = applied(direction)
        step = square / np.sum(direction * image)
        x = x + step * direction
        residual = residual - step * image
        before, square = square, np.sum(residual * residual)
        direction = residual + square / before * direction
    return np.sum(x * b)


@program(lambda random, n: [random.normal(size=32), random.normal(size=32)])
def fourier_transform_by_recursion(np: Any, x: Any, y: Any) -> Any:
    def transformed(z: Any) -> Any:
        n = z.shape[0]
        if n == 1:
            return z
        even, odd = transformed(z[::2]), transformed(z[1::2])
        turned = np.array(numpy.exp(-2j * numpy.pi * numpy.arange(n // 2) / n)) * odd
        return np.concatenate([even + turned, even - turned])

    spectrum = transformed(x + 1j * y)
    power = np.real(spectrum) ** 2 + np.imag(spectrum) ** 2
    return np.sum(np.log(1.0 + power))


@program(lambda random, n: [random.normal(size=64), random.uniform(0.1, 0.3, size=4)])
def denoising_by_wavelets(np: Any, signal: Any, threshold: Any) -> Any:
    """Lifting steps (5/3), soft thresholds, and back."""
    smooth, details = signal, []
    for level in range(4):
        even, odd = smooth[::2], smooth[1::2]
        detail = odd - 0.5 * (even + np.roll(even, -1))
        smooth = even + 0.25 * (detail + np.roll(detail, 1))
        small = np.abs(detail) - threshold[level]
        details.append(np.sign(detail) * np.maximum(small, 0.0))
    for detail in reversed(details):
        even = smooth - 0.25 * (detail + np.roll(detail, 1))
        odd = detail + 0.5 * (even + np.roll(even, -1))
        smooth = np.reshape(np.stack([even, odd], axis=1), (-1,))
    roughness = np.sum((smooth[1:] - smooth[:-1]) ** 2)
    return np.sum((smooth - signal) ** 2) + 0.1 * roughness


@program(
    lambda random, n: [
        numpy.cumsum(random.uniform(0.5, 1.5, size=10)),
        random.normal(size=10),
        numpy.linspace(2.0, 5.0, 25),
    ],
    wrt=(0, 1),
)
def natural_spline(np: Any, x: Any, y: Any, places: Any) -> Any:
    """Second derivatives by Thomas's algorithm, then pieces of cubics."""
    h, slopes = x[1:] - x[:-1], (y[1:] - y[:-1]) / (x[1:] - x[:-1])
    above, right = [0.0], [0.0]
    for i in range(1, x.shape[0] - 1):
        pivot = 2.0 * (h[i - 1] + h[i]) - h[i - 1] * above[-1]
        above.append(h[i] / pivot)
        right.append((6.0 * (slopes[i] - slopes[i - 1]) - h[i - 1] * right[-1]) / pivot)
    seconds = [np.zeros(())]
    for i in reversed(range(1, x.shape[0] - 1)):
        seconds.append(right[i] - above[i] * seconds[-1])
    m = np.stack([*seconds, np.zeros(())][::-1])
    total = 0.0
    for k in range(x.shape[0] - 1):
        a, b = (x[k + 1] - places) / h[k], (places - x[k]) / h[k]
        value = a * y[k] + b * y[k + 1]
        value = value + ((a**3 - a) * m[k] + (b**3 - b) * m[k + 1]) * h[k] ** 2 / 6.0
        is_here = (places >= x[k]) & (places < x[k + 1])
        total = total + np.sum(np.where(is_here, value, 0.0) ** 2)
    return total


@program(lambda random, n: [random.normal(size=9), numpy.linspace(0.05, 0.95, 20)], wrt=(0,))
def b_spline_by_recursion(np: Any, coefficients: Any, places: Any) -> Any:
    """Cox and de Boor's."""
    knots = numpy.concatenate([[0.0] * 3, numpy.linspace(0.0, 1.0, 7), [1.0] * 3])

    def basis(i: int, degree: int) -> Any:
        if degree == 0:
            return np.where((places >= knots[i]) & (places < knots[i + 1]), 1.0, 0.0)
        total = 0.0
        if knots[i + degree] > knots[i]:
            share = (places - knots[i]) / (knots[i + degree] - knots[i])
            total = total + share * basis(i, degree - 1)
        if knots[i + degree + 1] > knots[i + 1]:
            rest = knots[i + degree + 1] - places
            share = rest / (knots[i + degree + 1] - knots[i + 1])
            total = total + share * basis(i + 1, degree - 1)
        return total

    curve = sum(coefficients[i] * basis(i, 3) for i in range(9))
    return np.sum(curve**2) + np.sum(np.abs(curve[1:] - curve[:-1]))


def chebyshev(n: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Points, and the matrix of derivatives at them."""
    x = numpy.cos(numpy.pi * numpy.arange(n + 1) / n)
    c = numpy.where((numpy.arange(n + 1) % n) == 0, 2.0, 1.0) * (-1.0) ** numpy.arange(n + 1)
    d = numpy.outer(c, 1.0 / c) / (x[:, None] - x[None, :] + numpy.eye(n + 1))
    return x, d - numpy.diag(d.sum(axis=1))


@program(lambda random, n: [numpy.array([0.8, 0.3])], steps=4)
def collocation_by_newton(np: Any, p: Any, steps: int) -> Any:
    """Bratu's problem, u'' + a exp(u) = b x, on Chebyshev's points."""
    x, d = chebyshev(12)
    second, inner = np.array((d @ d)[1:-1, 1:-1]), np.array(x[1:-1])
    u = np.zeros(11)
    for _ in range(steps):
        source = p[0] * np.exp(u)
        residual = second @ u + source - p[1] * inner
        u = u - np.linalg.solve(second + np.diag(source), residual)
    return np.sum(u**2) + u[5]
