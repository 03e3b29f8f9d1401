"""Recurrent networks, filters, and other recurrences over time."""

from typing import Any

from perf.programs import program


@program(
    lambda random, n: [random.normal(size=n), random.uniform(0.5, 1.5, size=2)],
)
def kalman_filter(np: Any, observed: Any, noises: Any) -> Any:
    f = np.array([[1.0, 0.1], [0.0, 1.0]])
    h = np.array([[1.0, 0.0]])
    mean, covariance = np.zeros(2), np.eye(2)
    total = 0.0
    for k in range(observed.shape[0]):
        mean = f @ mean
        covariance = f @ covariance @ f.T + noises[0] * np.eye(2)
        s = h @ covariance @ h.T + noises[1] * np.eye(1)
        gain = covariance @ h.T @ np.linalg.inv(s)
        difference = observed[k] - h @ mean
        mean = mean + gain @ difference
        covariance = covariance - gain @ h @ covariance
        total = total + 0.5 * (np.log(s[0, 0]) + difference[0] ** 2 / s[0, 0])
    return total
