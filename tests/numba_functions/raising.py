"""Functions that raise; not in a test module, where pytest would rewrite `assert`."""

import numpy as np


def roots(x, most):
    total = 0.0
    for i in range(x.shape[0]):
        if x[i] < 0:
            raise ValueError("negative")
        assert x[i] < 100, "large"
        total += np.sqrt(x[i])
    y = np.zeros(most)
    if most > 6:
        raise RuntimeError
    steps = 0
    while total > 1e-3:
        total = total * 0.5 * np.cos(y[0])
        steps += 1
        if steps > 20:
            raise ArithmeticError("no convergence")
    y[:] = total * most
    return y
