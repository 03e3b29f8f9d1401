"""The kernels of `numba_functions.py` as one writes them for JAX: by `scan`, masks and slices.

    PYTHON_WITH_JAX perf/numba_functions_in_jax.py NAME < arguments

reads the arguments (`numpy.savez`) and prints the times of gradients as JSON: the first one, and
the fastest. `REFUSED` names those that JAX has no reverse mode for.
"""

import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

REFUSED = {"kepler_newton": "a while_loop of unknown length has no reverse mode"}


def functions() -> dict[str, Callable[..., Any]]:
    """By name: functions of the kernel's arguments, integers first known when it is traced."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    def repeated(step: Callable[[Any], Any], state: Any, count: int) -> Any:
        return lax.scan(lambda s, _: (step(s), None), state, None, length=count)[0]

    def rows_in_order(u: Any, row: Callable[[Any, Any, Any, Any], Any], extra: Any) -> Any:
        """A sweep in place: rows see the new row above, and elements the new one to their left."""

        def next_row(above: Any, given: tuple) -> tuple:
            new = row(above, given[0], given[1], given[2])
            return new, new

        _, inner = lax.scan(next_row, u[0], (u[1:-1], u[2:], extra))
        return jnp.concatenate([u[:1], inner, u[-1:]])

    def gauss_seidel(u: Any, f: Any, h: Any, steps: int) -> Any:
        def row(above: Any, own: Any, below: Any, f: Any) -> Any:
            known = above[1:-1] + own[2:] + below[1:-1] - h * h * f[1:-1]
            _, new = lax.scan(lambda left, k: (0.25 * (left + k),) * 2, own[0], known)
            return jnp.concatenate([own[:1], new, own[-1:]])

        return repeated(lambda u: rows_in_order(u, row, f[1:-1]), u, steps)

    def seidel_2d(steps: int, a: Any) -> Any:
        def row(above: Any, own: Any, below: Any, _: Any) -> Any:
            sides = above[:-2] + above[1:-1] + above[2:] + below[:-2] + below[1:-1] + below[2:]
            known = sides + own[1:-1] + own[2:]
            _, new = lax.scan(lambda left, k: ((left + k) / 9.0,) * 2, own[0], known)
            return jnp.concatenate([own[:1], new, own[-1:]])

        return repeated(lambda a: rows_in_order(a, row, a[1:-1]), a, steps)

    def nbody(pos: Any, vel: Any, mass: Any, dt: Any, steps: int) -> Any:
        def accelerations(pos: Any) -> Any:
            d = pos[None] - pos[:, None]
            squared = jnp.sum(d * d, -1) + 0.01
            weight = mass / (squared * jnp.sqrt(squared))
            return jnp.sum((weight * (1.0 - jnp.eye(len(mass))))[..., None] * d, 1)

        def step(state: Any) -> Any:
            pos, vel, acc = state
            vel = vel + 0.5 * dt * acc
            pos = pos + dt * vel
            acc = accelerations(pos)
            return pos, vel + 0.5 * dt * acc, acc

        return repeated(step, (pos, vel, accelerations(pos)), steps)[:2]

    def heat_active_coefficient(u: Any, v: Any, k: Any, steps: int) -> Any:
        def step(state: Any) -> Any:
            u, v = state
            inner = u[1:-1, 1:-1]
            around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * inner
            return v.at[1:-1, 1:-1].set(inner + 0.1 * k[1:-1, 1:-1] * around), u

        return repeated(step, (u, v), steps)

    def lu(a: Any) -> Any:
        n = a.shape[0]
        places = jnp.arange(n)

        def step(k: Any, a: Any) -> Any:
            column = jnp.where(places > k, a[:, k] / a[k, k], 0.0)
            a = a - jnp.outer(column, jnp.where(places > k, a[k], 0.0))
            return a.at[:, k].set(jnp.where(places > k, column, a[:, k]))

        return lax.fori_loop(0, n, step, a)

    def cholesky(a: Any) -> Any:
        n = a.shape[0]
        places = jnp.arange(n)

        def step(k: Any, a: Any) -> Any:
            root = jnp.sqrt(a[k, k])
            column = jnp.where(places > k, a[:, k] / root, 0.0)
            below = (places[:, None] >= places) & (places > k)
            a = a - jnp.where(below, jnp.outer(column, column), 0.0)
            return a.at[:, k].set(jnp.where(places > k, column, a[:, k])).at[k, k].set(root)

        return lax.fori_loop(0, n, step, a)

    def gramschmidt_loops(a: Any, r: Any) -> Any:
        n = a.shape[1]
        places = jnp.arange(n)

        def step(k: Any, state: Any) -> Any:
            a, r = state
            norm = jnp.sqrt(jnp.sum(a[:, k] ** 2))
            q = a[:, k] / norm
            row = jnp.where(places > k, q @ a, 0.0)
            a = (a - jnp.outer(q, row)).at[:, k].set(q)
            return a, r.at[k].set(jnp.where(places > k, row, r[k])).at[k, k].set(norm)

        return lax.fori_loop(0, n, step, (a, r))

    def durbin_loops(r: Any) -> Any:
        n = r.shape[0]
        places = jnp.arange(n)

        def step(state: Any, k: Any) -> Any:
            y, beta, alpha = state
            beta = (1 - alpha * alpha) * beta
            back = jnp.where(places < k, y[k - places - 1], 0.0)
            alpha = -(r[k] + jnp.sum(jnp.where(places < k, r * back, 0.0))) / beta
            y = jnp.where(places < k, y + alpha * back, y)
            return (y.at[k].set(alpha), beta, alpha), None

        first = jnp.zeros(n).at[0].set(-r[0]), 1.0, -r[0]
        return lax.scan(step, first, jnp.arange(1, n))[0][0]

    def floyd_warshall(path: Any) -> Any:
        def step(k: Any, d: Any) -> Any:
            return jnp.minimum(d, d[:, k][:, None] + d[k])

        return lax.fori_loop(0, path.shape[0], step, path)

    def fdtd_2d_loops(steps: int, ex: Any, ey: Any, hz: Any, source: Any) -> Any:
        def step(state: Any, source: Any) -> Any:
            ex, ey, hz = state
            ey = ey.at[0].set(source)
            ey = ey.at[1:].add(-0.5 * (hz[1:] - hz[:-1]))
            ex = ex.at[:, 1:].add(-0.5 * (hz[:, 1:] - hz[:, :-1]))
            curl = ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]
            return (ex, ey, hz.at[:-1, :-1].add(-0.7 * curl)), None

        return lax.scan(step, (ex, ey, hz), source[:steps])[0]

    def matmul_loops(a: Any, b: Any, c: Any) -> Any:
        return a @ b

    def thomas(lower: Any, upper: Any, diagonal: Any, rhs: Any) -> Any:
        def forwards(state: Any, given: Any) -> Any:
            c, x = state
            low, up, middle, right = given
            pivot = middle - low * c
            new = up / pivot, (right - low * x) / pivot
            return new, new

        first = upper[0] / diagonal[0], rhs[0] / diagonal[0]
        _, (c, x) = lax.scan(forwards, first, (lower[1:], upper[1:], diagonal[1:], rhs[1:]))
        c, x = jnp.append(first[0], c), jnp.append(first[1], x)

        def backwards(following: Any, given: Any) -> Any:
            new = given[1] - given[0] * following
            return new, new

        _, rest = lax.scan(backwards, x[-1], (c[:-1], x[:-1]), reverse=True)
        return jnp.append(rest, x[-1])

    def spmv(rows: Any, columns: Any, values: Any, x: Any) -> Any:
        of = np.repeat(np.arange(len(rows) - 1), np.diff(rows))
        return jax.ops.segment_sum(values * x[columns], of, len(rows) - 1, True)

    def garch_likelihood(returns: Any, omega: Any, alpha: Any, beta: Any) -> Any:
        def step(state: Any, r: Any) -> Any:
            variance, total = state
            total = total + jnp.log(variance) + r**2 / variance
            return (omega + alpha * r**2 + beta * variance, total), None

        return 0.5 * lax.scan(step, (omega / (1 - alpha - beta), 0.0), returns)[0][1]

    def burgers_limited(u: Any, courant: Any, steps: int) -> Any:
        def minmod(a: Any, b: Any) -> Any:
            return jnp.where(a * b <= 0.0, 0.0, jnp.where(jnp.abs(a) < jnp.abs(b), a, b))

        def step(u: Any) -> Any:
            d = u[1:] - u[:-1]
            left = u[1:-2] + 0.5 * minmod(d[1:-1], d[:-2])
            right = u[2:-1] - 0.5 * minmod(d[2:], d[1:-1])
            speed = jnp.maximum(jnp.abs(left), jnp.abs(right))
            flux = 0.25 * (left * left + right * right) - 0.5 * speed * (right - left)
            return u.at[2:-2].add(-courant * (flux[1:] - flux[:-1]))

        return repeated(step, u, steps)

    return {name: value for name, value in locals().items() if name not in _NO_KERNELS}


_NO_KERNELS = {"jax", "jnp", "lax", "repeated", "rows_in_order"}


def measured(name: str, arguments: list[Any]) -> dict[str, Any]:
    """Seconds of the first and the fastest gradient, and sums of the gradients to compare."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    function = functions()[name]
    active = [k for k, x in enumerate(arguments) if np.asarray(x).dtype.kind == "f"]

    def loss(*chosen: Any) -> Any:
        given = list(arguments)
        for k, x in zip(active, chosen, strict=True):
            given[k] = x
        return sum(jnp.sum(part) for part in jax.tree.leaves(function(*given)))

    gradient = jax.jit(jax.grad(loss, argnums=tuple(range(len(active)))))
    chosen = [jnp.asarray(arguments[k]) for k in active]
    jax.block_until_ready(jax.jit(lambda x: x * 2.0)(chosen[0]))  # starts the backend
    start = time.perf_counter()
    found = jax.block_until_ready(gradient(*chosen))
    first, best = time.perf_counter() - start, math.inf
    deadline = time.perf_counter() + 1.0
    while time.perf_counter() < deadline:
        start = time.perf_counter()
        jax.block_until_ready(gradient(*chosen))
        best = min(best, time.perf_counter() - start)
    return {"first": first, "best": best, "sums": [float(jnp.sum(g)) for g in found]}


if __name__ == "__main__":
    with np.load(sys.stdin.buffer) as stored:
        given = [stored[key] for key in sorted(stored.files, key=lambda key: int(key[4:]))]
    given = [x if x.ndim else x.item() for x in given]
    print(json.dumps(measured(sys.argv[1], given)))
