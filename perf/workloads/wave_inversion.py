"""One-dimensional wave equation, inverted for the speed of sound: a stencil, a thousand times."""

from typing import Any, NamedTuple

import numpy as np

from perf.goals import (
    LIKE_BY_HAND,
    NEVER_SLOWER,
    NO_MORE_MEMORY,
    NO_MORE_THAN_SCAN,
    EachWay,
    Times,
)
from perf.implementations import (
    Prepared,
    by_autograd,
    by_hand,
    by_jax,
    by_numba_grad,
    by_pytensor,
    by_torch,
)


class Size(NamedTuple):
    steps: int
    points: int

    @property
    def way(self) -> int:
        """From the middle to the source and, on the other side, to the receiver: waves arrive."""
        return min(self.steps, self.points) // 5

    @property
    def source(self) -> int:
        return self.points // 2 - self.way

    @property
    def receiver(self) -> int:
        return self.points // 2 + self.way


TITLE = "Wave equation inversion, gradient for the speed at all points"
SIZES = {
    "small": Size(steps=100, points=100),
    "medium": Size(steps=1_000, points=1_000),
    "large": Size(steps=500, points=20_000),
}
OTHERWISE = (
    "numba_grad, assignment",
    "numba_grad, joined, readings stacked",
    "numba_grad, roll, states in a buffer",
)
GOALS = [
    NEVER_SLOWER,
    LIKE_BY_HAND,
    NO_MORE_MEMORY,
    NO_MORE_THAN_SCAN,
    Times(10.0, sizes=("small",)),
    EachWay(1.3, OTHERWISE),
    EachWay(1.1, ("numba_grad, scan",)),
]


def inputs(size: Size) -> list[np.ndarray]:
    """Squared Courant numbers; the source in time; its place; what the receiver should see."""
    x = np.linspace(0.0, 1.0, size.points)
    courant = (0.7 + 0.2 * np.exp(-200.0 * (x - 0.5) ** 2)) ** 2
    time = np.arange(size.steps) - 60.0
    wavelet = (1.0 - 2.0 * (time / 20.0) ** 2) * np.exp(-((time / 20.0) ** 2))
    place = np.zeros(size.points)
    place[size.source] = 1.0
    return [courant, wavelet, place, np.random.default_rng(0).normal(size=size.steps)]


def in_a_loop(size: Size, pad: Any) -> Any:
    """The loss with a plain Python loop; `pad` puts a zero at both ends."""

    def loss(courant: Any, wavelet: Any, place: Any, observed: Any) -> Any:
        before = now = 0.0 * place
        total = 0.0
        for k in range(size.steps):
            bend = now[2:] - 2.0 * now[1:-1] + now[:-2]
            inner = 2.0 * now[1:-1] - before[1:-1] + courant[1:-1] * bend
            before, now = now, pad(inner) + wavelet[k] * place
            total = total + (now[size.receiver] - observed[k]) ** 2
        return total

    return loss


def with_assignment(size: Size) -> Prepared:
    """As people write it who do not think of fusion: the new state is assigned to."""

    def loss(courant: Any, wavelet: Any, place: Any, observed: Any) -> Any:
        import numba_grad as ng

        before = now = ng.zeros(size.points)
        seen = []
        for k in range(size.steps):
            new = 2.0 * now - before
            new[1:-1] += courant[1:-1] * (now[2:] - 2.0 * now[1:-1] + now[:-2])
            new[0] = 0.0
            new[-1] = 0.0
            new[size.source] += wavelet[k]
            before, now = now, new
            seen.append(now[size.receiver])
        return ((np.stack(seen) - observed) ** 2).sum()

    return by_numba_grad(loss, inputs(size))


def joined(size: Size) -> Prepared:
    """The ends are concatenated; what the receiver sees is kept in a list and stacked."""

    def loss(courant: Any, wavelet: Any, place: Any, observed: Any) -> Any:
        zero = np.zeros(1)
        before = now = 0.0 * place
        seen = []
        for k in range(size.steps):
            bend = now[2:] - 2.0 * now[1:-1] + now[:-2]
            inner = 2.0 * now[1:-1] - before[1:-1] + courant[1:-1] * bend
            before, now = now, np.concatenate([zero, inner, zero]) + wavelet[k] * place
            seen.append(now[size.receiver])
        return ((np.stack(seen) - observed) ** 2).sum()

    return by_numba_grad(loss, inputs(size))


def rolled(size: Size) -> Prepared:
    """Neighbors by rolling and a mask; all states are rows of a buffer."""

    def loss(courant: Any, wavelet: Any, place: Any, observed: Any) -> Any:
        import numba_grad as ng

        inside = np.ones(size.points)
        inside[[0, -1]] = 0.0
        states = ng.zeros((size.steps, size.points))
        before = now = 0.0 * place
        for k in range(size.steps):
            bend = np.roll(now, -1) - 2.0 * now + np.roll(now, 1)
            new = inside * (2.0 * now - before + courant * bend) + wavelet[k] * place
            before, now = now, new
            states[k] = new
        return ((states[:, size.receiver] - observed) ** 2).sum()

    return by_numba_grad(loss, inputs(size))


def torch_loss(size: Size) -> Any:
    import torch

    return in_a_loop(size, lambda x: torch.nn.functional.pad(x, (1, 1)))


def autograd(size: Size) -> Prepared:
    import autograd.numpy as anp

    zero = np.zeros(1)
    return by_autograd(in_a_loop(size, lambda x: anp.concatenate([zero, x, zero])), inputs(size))


def by_scan(size: Size, np: Any, scan: Any) -> Any:
    """The loss with a loop as an operation, in a library with NumPy's functions."""

    def loss(courant: Any, wavelet: Any, place: Any, observed: Any) -> Any:
        def step(state: Any, given: Any) -> Any:
            before, now = state
            weight, seen = given
            bend = now[2:] - 2.0 * now[1:-1] + now[:-2]
            inner = 2.0 * now[1:-1] - before[1:-1] + courant[1:-1] * bend
            new = np.pad(inner, 1) + weight * place
            return (now, new), (new[size.receiver] - seen) ** 2

        start = np.zeros(size.points)
        return scan(step, (start, start), (wavelet, observed))[1].sum()

    return loss


def jax_scan(size: Size) -> Prepared:
    import jax.numpy as jnp
    from jax import lax

    return by_jax(by_scan(size, jnp, lax.scan), inputs(size))


def with_scan(size: Size) -> Prepared:
    import numba_grad as ng

    return by_numba_grad(by_scan(size, np, ng.scan), inputs(size))


def jax_unrolled(size: Size) -> Prepared:
    import jax.numpy as jnp

    return by_jax(in_a_loop(size, lambda x: jnp.pad(x, 1)), inputs(size))


def pytensor_scan(size: Size) -> Prepared:
    import pytensor
    import pytensor.tensor as pt

    def step(weight: Any, before: Any, now: Any, courant: Any, place: Any) -> Any:
        bend = now[2:] - 2.0 * now[1:-1] + now[:-2]
        inner = 2.0 * now[1:-1] - before[1:-1] + courant[1:-1] * bend
        return pt.pad(inner, 1) + weight * place

    def loss(courant: Any, wavelet: Any, place: Any, observed: Any) -> Any:
        states = pytensor.scan(
            step,
            sequences=[wavelet],
            outputs_info=[{"initial": pt.zeros((2, size.points)), "taps": [-2, -1]}],
            non_sequences=[courant, place],
            return_updates=False,
        )
        return ((states[:, size.receiver] - observed) ** 2).sum()

    return by_pytensor(loss, inputs(size))


def hand_written(size: Size) -> Prepared:
    """All states kept; one pass forward and one backward per step."""
    import numba

    receiver = size.receiver

    @numba.njit(fastmath=True)
    def kernel(
        courant: np.ndarray,
        wavelet: np.ndarray,
        place: np.ndarray,
        observed: np.ndarray,
        states: np.ndarray,
    ) -> tuple[float, np.ndarray]:
        n = courant.size
        total = 0.0
        states[:2] = 0.0
        for k in range(wavelet.size):
            before, now, new = states[k], states[k + 1], states[k + 2]
            new[0], new[n - 1] = 0.0, 0.0
            for i in range(1, n - 1):
                bend = now[i + 1] - 2.0 * now[i] + now[i - 1]
                new[i] = 2.0 * now[i] - before[i] + courant[i] * bend + wavelet[k] * place[i]
            total += (new[receiver] - observed[k]) ** 2
        gradient = np.zeros(n)
        # The cotangents of the states after this step, and of the ones before and after those.
        later, here, earlier = np.zeros(n), np.zeros(n), np.zeros(n)
        scaled = np.zeros(n)
        for k in range(wavelet.size - 1, -1, -1):
            now = states[k + 1]
            here[receiver] += 2.0 * (states[k + 2, receiver] - observed[k])
            for i in range(1, n - 1):
                gradient[i] += here[i] * (now[i + 1] - 2.0 * now[i] + now[i - 1])
                scaled[i] = here[i] * courant[i]
            # now: direct part and bend; before: minus.
            for i in range(1, n - 1):
                earlier[i] = (
                    later[i] + 2.0 * here[i] - 2.0 * scaled[i] + scaled[i - 1] + scaled[i + 1]
                )
            earlier[0] = later[0] + scaled[1]
            earlier[n - 1] = later[n - 1] + scaled[n - 2]
            for i in range(1, n - 1):
                later[i] = -here[i]
            later[0], later[n - 1] = 0.0, 0.0
            here, earlier = earlier, here
        return total, gradient

    return by_hand(kernel, *inputs(size), np.zeros((size.steps + 2, size.points)))


# Without torch.compile: for 100 steps it is not ready after 150 seconds.
IMPLEMENTATIONS = {
    "numba_grad": lambda size: by_numba_grad(in_a_loop(size, lambda x: np.pad(x, 1)), inputs(size)),
    "numba_grad, assignment": with_assignment,
    "numba_grad, joined, readings stacked": joined,
    "numba_grad, roll, states in a buffer": rolled,
    "numba_grad, scan": with_scan,
    "by hand": hand_written,
    "torch": lambda size: by_torch(torch_loss(size), inputs(size)),
    "jax scan": jax_scan,
    "jax, unrolled": jax_unrolled,
    "pytensor": pytensor_scan,
    "autograd": autograd,
}
