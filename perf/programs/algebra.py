"""Linear algebra."""

from typing import Any

import numpy

from perf.programs import program


@program(
    lambda random, n: [random.normal(size=(n, n)) + 2.0 * n * numpy.eye(n), random.normal(size=n)]
)
def solve(np: Any, a: Any, b: Any) -> Any:
    return np.sum(np.linalg.solve(a, b) ** 2)


@program(
    lambda random, n: [random.normal(size=(n, 3)), random.normal(size=(3, 3)) + 2 * numpy.eye(3)]
)
def gaussian(np: Any, x: Any, root: Any) -> Any:
    covariance = root @ root.T + 0.1 * np.eye(3)
    _, log_determinant = np.linalg.slogdet(covariance)
    return 0.5 * np.sum((x @ np.linalg.inv(covariance)) * x) + 0.5 * x.shape[0] * log_determinant


def positive(random: numpy.random.Generator, n: int) -> numpy.ndarray:
    root = random.normal(size=(n, n))
    return root @ root.T + n * numpy.eye(n)


@program(lambda random, n: [positive(random, n), random.normal(size=n)])
def cholesky(np: Any, a: Any, b: Any) -> Any:
    lower = np.linalg.cholesky(0.5 * (a + a.T))
    return np.sum(np.log(np.diag(lower))) + np.sum(np.linalg.solve(lower, b) ** 2)


@program(lambda random, n: [positive(random, n)])
def eigenvalues(np: Any, a: Any) -> Any:
    values, vectors = np.linalg.eigh(0.5 * (a + a.T))
    return np.sum(np.log(values)) + np.sum(vectors[0] ** 2 * values)


@program(lambda random, n: [random.normal(size=(n + 2, 3)), random.normal(size=n + 2)])
def least_squares_by_normal_equations(np: Any, x: Any, y: Any) -> Any:
    w = np.linalg.solve(x.T @ x + 0.1 * np.eye(3), x.T @ y)
    return np.sum((x @ w - y) ** 2) + np.sum(w**2)


@program(
    lambda random, n: [
        random.uniform(0.5, 1.5, size=2),
        random.normal(size=(n, 2)),
        random.normal(size=n),
    ],
    wrt=(0,),
)
def gaussian_process(np: Any, p: Any, x: Any, y: Any) -> Any:
    squares = np.sum((x[:, None, :] - x[None, :, :]) ** 2, axis=2)
    covariance = p[0] ** 2 * np.exp(-0.5 * squares / p[1] ** 2) + 0.1 * np.eye(x.shape[0])
    _, log_determinant = np.linalg.slogdet(covariance)
    return 0.5 * y @ np.linalg.solve(covariance, y) + 0.5 * log_determinant


@program(lambda random, n: [random.normal(size=(n, 3))])
def singular_values(np: Any, x: Any) -> Any:
    return np.sum(np.log(1.0 + np.linalg.svd(x, full_matrices=False)[1]))


@program(lambda random, n: [random.uniform(0.5, 1.5, size=n), random.normal(size=n)], steps=10)
def implicit_heat(np: Any, conductivity: Any, u: Any, steps: int) -> Any:
    points = u.shape[0]
    differences = np.array(
        2.0 * numpy.eye(points) - numpy.eye(points, k=1) - numpy.eye(points, k=-1)
    )
    matrix = np.eye(points) + 0.1 * conductivity[:, None] * differences
    for _ in range(steps):
        u = np.linalg.solve(matrix, u)
    return np.sum(u**2)


@program(
    lambda random, n: [
        random.normal(size=(n, 2, 2)) + 3.0 * numpy.eye(2),
        random.normal(size=(n, 2)),
    ]
)
def stacks_of_systems(np: Any, a: Any, b: Any) -> Any:
    x = np.linalg.solve(a, b[:, :, None])
    return np.sum(x**2) + np.sum(np.linalg.det(a))
