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
