"""Second derivatives and Hessians."""

from typing import Any

from perf.programs import DOUBLE, HESSIAN, program


@program(lambda random, n: [random.normal(size=n)], kind=HESSIAN)
def hessian_of_rosenbrock(np: Any, x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


@program(lambda random, n: [random.normal(size=n)], kind=DOUBLE)
def curvature_of_sines(np: Any, x: Any) -> Any:
    return np.sum(np.sin(x) * x**2)
