"""Programs that look at values to decide how they go on."""

from typing import Any

from perf.programs import program


@program(lambda random, n: [random.uniform(0.5, 2.0, size=n)], looks=True)
def newton_until_it_converges(np: Any, a: Any) -> Any:
    x = a
    for _ in range(50):
        new = x - (x**3 + x - a) / (3.0 * x**2 + 1.0)
        if np.max(np.abs(new - x)) < 1e-10:
            break
        x = new
    return np.sum(new)
