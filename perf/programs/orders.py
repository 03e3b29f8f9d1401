"""Second derivatives and Hessians."""

from typing import Any

from perf.programs import DOUBLE, HESSIAN, program


@program(lambda random, n: [random.normal(size=n)], kind=HESSIAN)
def hessian_of_rosenbrock(np: Any, x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


@program(lambda random, n: [random.normal(size=n)], kind=DOUBLE)
def curvature_of_sines(np: Any, x: Any) -> Any:
    return np.sum(np.sin(x) * x**2)


@program(lambda random, n: [random.normal(size=4), random.normal(size=(n, 4))], kind=HESSIAN)
def hessian_of_a_logistic_loss(np: Any, w: Any, x: Any) -> Any:
    return np.mean(np.log1p(np.exp(-(x @ w))))


@program(lambda random, n: [random.normal(size=(n - 2, 2))], kind=HESSIAN)
def hessian_of_all_pairs(np: Any, x: Any) -> Any:
    d = x[:, None, :] - x[None, :, :]
    return np.sum(1.0 / (np.sum(d**2, axis=2) + 1.0))


@program(lambda random, n: [random.normal(size=n)], kind=HESSIAN, steps=20)
def hessian_of_a_loop(np: Any, x: Any, steps: int) -> Any:
    for _ in range(steps):
        x = x + 0.05 * np.sin(x)
    return np.sum(x**2)


@program(
    lambda random, n: [random.normal(size=shape) for shape in ((n, 3), (3, 4), 4)], kind=DOUBLE
)
def gradient_penalty_of_a_network(np: Any, x: Any, w: Any, v: Any) -> Any:
    return np.sum(np.tanh(x @ w) @ v)
