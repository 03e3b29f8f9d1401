"""Differences on grids: relaxation, diffusion, waves, flow."""

import math

import numpy as np
from numba import njit, prange

from tests.numba_functions.programs.record import program


@program(lambda rng, n: (rng.random(n), rng.random(n), 3), writes="A B", small=8, large=10_000)
@njit
def jacobi_1d(A, B, steps):
    for _ in range(1, steps):
        B[1:-1] = 0.33333 * (A[:-2] + A[1:-1] + A[2:])
        A[1:-1] = 0.33333 * (B[:-2] + B[1:-1] + B[2:])


@program(lambda rng, n: (rng.random((n, n)), rng.random((n, n)), 3), writes="A B")
@njit
def jacobi_2d(A, B, steps):
    for _ in range(1, steps):
        B[1:-1, 1:-1] = 0.2 * (
            A[1:-1, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:] + A[2:, 1:-1] + A[:-2, 1:-1]
        )
        A[1:-1, 1:-1] = 0.2 * (
            B[1:-1, 1:-1] + B[1:-1, :-2] + B[1:-1, 2:] + B[2:, 1:-1] + B[:-2, 1:-1]
        )


@program(lambda rng, n: (rng.random((n, n)), rng.random((n, n)), 0.3, 4))
@njit
def jacobi_to_tolerance(u0, f, tolerance, most):
    """Until it changes by little; the result is an array of its own."""
    u = u0.copy()
    new = u0.copy()
    n, m = u.shape
    for _ in range(most):
        change = 0.0
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                new[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])
                change = max(change, abs(new[i, j] - u[i, j]))
        u, new = new, u
        if change < tolerance:
            break
    return u


@program(lambda rng, n: (rng.random((n, n)), rng.random((n, n)), 0.2, 3), writes="u")
@njit
def gauss_seidel(u, f, h, steps):
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                u[i, j] = 0.25 * (
                    u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - h * h * f[i, j]
                )


@program(lambda rng, n: (10 if n > 50 else 3, rng.random((n, n))), writes="A")
@njit
def seidel_2d(steps, A):
    N = len(A)
    for _ in range(0, steps):
        for i in range(1, N - 1):
            for j in range(1, N - 1):
                A[i, j] = (
                    A[i - 1, j - 1]
                    + A[i - 1, j]
                    + A[i - 1, j + 1]
                    + A[i, j - 1]
                    + A[i, j]
                    + A[i, j + 1]
                    + A[i + 1, j - 1]
                    + A[i + 1, j]
                    + A[i + 1, j + 1]
                ) / 9.0


@program(lambda rng, n: (3, n, rng.random((n, n))), writes="A")
@njit
def seidel_2d_rows(steps, n, A):
    """The row above at once, what is next to it one after the other."""
    for _ in range(steps):
        for i in range(1, n - 1):
            A[i, 1:-1] += (
                A[i - 1, :-2]
                + A[i - 1, 1:-1]
                + A[i - 1, 2:]
                + A[i, 2:]
                + A[i + 1, :-2]
                + A[i + 1, 1:-1]
                + A[i + 1, 2:]
            )
            for j in range(1, n - 1):
                A[i, j] += A[i, j - 1]
                A[i, j] /= 9.0


@program(lambda rng, n: (rng.random((n, n)), rng.random((n, n)), 1.4, 3), writes="u")
@njit
def red_black_overrelaxation(u, f, omega, sweeps):
    n, m = u.shape
    for sweep in range(2 * sweeps):
        for i in range(1, n - 1):
            for j in range(1 + (i + sweep) % 2, m - 1, 2):
                residual = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j]
                u[i, j] += omega * 0.25 * (residual - f[i, j])


@program(
    lambda rng, n: (3, rng.random((n, n, n)), rng.random((n, n, n))),
    writes="A B",
    small=4,
    large=40,
)
@njit
def heat_3d(steps, A, B):
    for _ in range(1, steps):
        B[1:-1, 1:-1, 1:-1] = (
            0.125 * (A[2:, 1:-1, 1:-1] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[:-2, 1:-1, 1:-1])
            + 0.125 * (A[1:-1, 2:, 1:-1] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[1:-1, :-2, 1:-1])
            + 0.125 * (A[1:-1, 1:-1, 2:] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[1:-1, 1:-1, 0:-2])
            + A[1:-1, 1:-1, 1:-1]
        )
        A[1:-1, 1:-1, 1:-1] = (
            0.125 * (B[2:, 1:-1, 1:-1] - 2.0 * B[1:-1, 1:-1, 1:-1] + B[:-2, 1:-1, 1:-1])
            + 0.125 * (B[1:-1, 2:, 1:-1] - 2.0 * B[1:-1, 1:-1, 1:-1] + B[1:-1, :-2, 1:-1])
            + 0.125 * (B[1:-1, 1:-1, 2:] - 2.0 * B[1:-1, 1:-1, 1:-1] + B[1:-1, 1:-1, 0:-2])
            + B[1:-1, 1:-1, 1:-1]
        )


@program(lambda rng, n: (rng.random((n, n)), 0.1, 4))
@njit
def heat_two_buffers(u0, c, steps):
    u = u0.copy()
    v = u0.copy()
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                laplacian = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j]
                v[i, j] = u[i, j] + c * laplacian
        u, v = v, u
    return u


@program(
    lambda rng, n: (rng.random((n, n)), rng.random((n, n)), rng.random((n, n)), 3), writes="u v"
)
@njit
def heat_active_coefficient(u, v, k, steps):
    """Odd numbers of steps end in the other buffer: both are results."""
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                v[i, j] = u[i, j] + 0.1 * k[i, j] * (
                    u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j]
                )
        u, v = v, u


@njit
def conductivity(u):
    return 0.1 + 0.05 * u * u


@program(lambda rng, n: (rng.random((n, n)), 0.1, 3), writes="u")
@njit
def heat_nonlinear(u, dt, steps):
    new = np.empty_like(u)
    n, m = u.shape
    for _ in range(steps):
        for i in range(n):
            for j in range(m):
                new[i, j] = u[i, j]
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                east = conductivity(0.5 * (u[i, j] + u[i, j + 1])) * (u[i, j + 1] - u[i, j])
                west = conductivity(0.5 * (u[i, j] + u[i, j - 1])) * (u[i, j] - u[i, j - 1])
                north = conductivity(0.5 * (u[i, j] + u[i + 1, j])) * (u[i + 1, j] - u[i, j])
                south = conductivity(0.5 * (u[i, j] + u[i - 1, j])) * (u[i, j] - u[i - 1, j])
                new[i, j] += dt * (east - west + north - south)
        u[:] = new


@program(
    lambda rng, n: (4, *(rng.random((n, n + 1)) for _ in range(3)), rng.random(4)),
    writes="ex ey hz",
)
@njit
def fdtd_2d(steps, ex, ey, hz, source):
    for t in range(steps):
        ey[0, :] = source[t]
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


@program(
    lambda rng, n: (4, *(rng.random((n, n + 1)) for _ in range(3)), rng.random(4)),
    writes="ex ey hz",
)
@njit
def fdtd_2d_loops(steps, ex, ey, hz, source):
    nx, ny = hz.shape
    for t in range(steps):
        for j in range(ny):
            ey[0, j] = source[t]
        for i in range(1, nx):
            for j in range(ny):
                ey[i, j] -= 0.5 * (hz[i, j] - hz[i - 1, j])
        for i in range(nx):
            for j in range(1, ny):
                ex[i, j] -= 0.5 * (hz[i, j] - hz[i, j - 1])
        for i in range(nx - 1):
            for j in range(ny - 1):
                hz[i, j] -= 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])


@program(lambda rng, n: (2, n, rng.random((n, n))), writes="u", large=60)
@njit
def adi(steps, N, u):
    """Alternating directions: a tridiagonal system for each row, then for each column."""
    v = np.empty(u.shape, dtype=u.dtype)
    p = np.empty(u.shape, dtype=u.dtype)
    q = np.empty(u.shape, dtype=u.dtype)
    DX = 1.0 / N
    DT = 1.0 / steps
    mul1 = 2.0 * DT / (DX * DX)
    mul2 = 1.0 * DT / (DX * DX)
    a = -mul1 / 2.0
    b = 1.0 + mul1
    d = -mul2 / 2.0
    e = 1.0 + mul2
    for _ in range(1, steps + 1):
        v[0, 1 : N - 1] = 1.0
        p[1 : N - 1, 0] = 0.0
        q[1 : N - 1, 0] = v[0, 1 : N - 1]
        for j in range(1, N - 1):
            p[1 : N - 1, j] = -a / (a * p[1 : N - 1, j - 1] + b)
            q[1 : N - 1, j] = (
                -d * u[j, 0 : N - 2]
                + (1.0 + 2.0 * d) * u[j, 1 : N - 1]
                - d * u[j, 2:N]
                - a * q[1 : N - 1, j - 1]
            ) / (a * p[1 : N - 1, j - 1] + b)
        v[N - 1, 1 : N - 1] = 1.0
        for j in range(N - 2, 0, -1):
            v[j, 1 : N - 1] = p[1 : N - 1, j] * v[j + 1, 1 : N - 1] + q[1 : N - 1, j]
        u[1 : N - 1, 0] = 1.0
        p[1 : N - 1, 0] = 0.0
        q[1 : N - 1, 0] = u[1 : N - 1, 0]
        for j in range(1, N - 1):
            p[1 : N - 1, j] = -d / (d * p[1 : N - 1, j - 1] + e)
            q[1 : N - 1, j] = (
                -a * v[0 : N - 2, j]
                + (1.0 + 2.0 * a) * v[1 : N - 1, j]
                - a * v[2:N, j]
                - d * q[1 : N - 1, j - 1]
            ) / (d * p[1 : N - 1, j - 1] + e)
        u[1 : N - 1, N - 1] = 1.0
        for j in range(N - 2, 0, -1):
            u[1 : N - 1, j] = p[1 : N - 1, j] * u[1 : N - 1, j + 1] + q[1 : N - 1, j]


@program(
    lambda rng, n: (
        rng.random((n + 4, n + 4, 2)),
        np.zeros((n, n, 2)),
        0.05 * rng.random((n, n, 2)),
    ),
    writes="out_field",
    small=3,
    large=40,
)
@njit
def hdiff(in_field, out_field, coeff):
    """Horizontal diffusion of a weather model, with a flux limiter."""
    I, J, K = out_field.shape[0], out_field.shape[1], out_field.shape[2]
    lap_field = 4.0 * in_field[1 : I + 3, 1 : J + 3, :] - (
        in_field[2 : I + 4, 1 : J + 3, :]
        + in_field[0 : I + 2, 1 : J + 3, :]
        + in_field[1 : I + 3, 2 : J + 4, :]
        + in_field[1 : I + 3, 0 : J + 2, :]
    )
    res1 = lap_field[1:, 1 : J + 1, :] - lap_field[: I + 1, 1 : J + 1, :]
    flx_field = np.empty((I + 1, J, K), dtype=in_field.dtype)
    for i in range(I + 1):
        for j in range(J):
            for k in range(K):
                if res1[i, j, k] * (in_field[i + 2, j + 2, k] - in_field[i + 1, j + 2, k]) > 0.0:
                    flx_field[i, j, k] = 0.0
                else:
                    flx_field[i, j, k] = res1[i, j, k]
    res2 = lap_field[1 : I + 1, 1:, :] - lap_field[1 : I + 1, : J + 1, :]
    steps = in_field[2 : I + 2, 2 : J + 3, :] - in_field[2 : I + 2, 1 : J + 2, :]
    fly_field = np.where(res2 * steps > 0, 0.0, res2)
    out_field[:, :, :] = in_field[2 : I + 2, 2 : J + 2, :] - coeff * (
        flx_field[1:, :, :] - flx_field[:-1, :, :] + fly_field[:, 1:, :] - fly_field[:, :-1, :]
    )


@program(
    lambda rng, n: (
        *(rng.random((n, 2, 5)) for _ in range(4)),
        rng.random((n + 1, 2, 5)),
        0.15,
    ),
    writes="utens_stage",
    small=3,
    large=200,
)
@njit
def vadv(utens_stage, u_stage, utens, u_pos, wcon, dtr_stage):
    """Vertical advection of a weather model: implicit, a tridiagonal system for each column."""
    I, J, K = utens_stage.shape
    ccol = np.zeros((I, J, K))
    dcol = np.zeros((I, J, K))
    for i in range(I):
        for j in range(J):
            for k in range(K):
                above = 0.0
                below = 0.0
                rest = dtr_stage * u_pos[i, j, k] + utens[i, j, k] + utens_stage[i, j, k]
                if k > 0:
                    gav = -0.25 * (wcon[i + 1, j, k] + wcon[i, j, k])
                    below = gav * 0.8
                    rest -= gav * 0.2 * (u_stage[i, j, k - 1] - u_stage[i, j, k])
                if k < K - 1:
                    gcv = 0.25 * (wcon[i + 1, j, k + 1] + wcon[i, j, k + 1])
                    above = gcv * 0.8
                    rest -= gcv * 0.2 * (u_stage[i, j, k + 1] - u_stage[i, j, k])
                pivot = dtr_stage + 2.0 - below - above
                if k > 0:
                    pivot -= ccol[i, j, k - 1] * below
                    rest -= dcol[i, j, k - 1] * below
                ccol[i, j, k] = above / pivot
                dcol[i, j, k] = rest / pivot
    for i in range(I):
        for j in range(J):
            data = dcol[i, j, K - 1]
            utens_stage[i, j, K - 1] = dtr_stage * (data - u_pos[i, j, K - 1])
            for k in range(K - 2, -1, -1):
                data = dcol[i, j, k] - ccol[i, j, k] * data
                utens_stage[i, j, k] = dtr_stage * (data - u_pos[i, j, k])


@njit
def build_up_b(b, rho, dt, u, v, dx, dy):
    b[1:-1, 1:-1] = rho * (
        1
        / dt
        * ((u[1:-1, 2:] - u[1:-1, 0:-2]) / (2 * dx) + (v[2:, 1:-1] - v[0:-2, 1:-1]) / (2 * dy))
        - ((u[1:-1, 2:] - u[1:-1, 0:-2]) / (2 * dx)) ** 2
        - 2 * ((u[2:, 1:-1] - u[0:-2, 1:-1]) / (2 * dy) * (v[1:-1, 2:] - v[1:-1, 0:-2]) / (2 * dx))
        - ((v[2:, 1:-1] - v[0:-2, 1:-1]) / (2 * dy)) ** 2
    )


@njit
def pressure_poisson(iterations, p, dx, dy, b):
    pn = np.empty_like(p)
    for _ in range(iterations):
        pn[:] = p.copy()
        p[1:-1, 1:-1] = (
            (pn[1:-1, 2:] + pn[1:-1, 0:-2]) * dy**2 + (pn[2:, 1:-1] + pn[0:-2, 1:-1]) * dx**2
        ) / (2 * (dx**2 + dy**2)) - dx**2 * dy**2 / (2 * (dx**2 + dy**2)) * b[1:-1, 1:-1]
        p[:, -1] = p[:, -2]
        p[0, :] = p[1, :]
        p[:, 0] = p[:, 1]
        p[-1, :] = 0


def _cavity(rng, n):
    u, v, p = (0.1 * rng.random((n, n)) for _ in range(3))
    return 2, 2, u, v, 0.01, 0.5, 0.6, p, 1.0, 0.1


@program(_cavity, writes="u v p", large=60)
@njit
def cavity_flow(steps, iterations, u, v, dt, dx, dy, p, rho, nu):
    un = np.empty_like(u)
    vn = np.empty_like(v)
    b = np.zeros(u.shape)
    for _ in range(steps):
        un[:] = u.copy()
        vn[:] = v.copy()
        build_up_b(b, rho, dt, u, v, dx, dy)
        pressure_poisson(iterations, p, dx, dy, b)
        u[1:-1, 1:-1] = (
            un[1:-1, 1:-1]
            - un[1:-1, 1:-1] * dt / dx * (un[1:-1, 1:-1] - un[1:-1, 0:-2])
            - vn[1:-1, 1:-1] * dt / dy * (un[1:-1, 1:-1] - un[0:-2, 1:-1])
            - dt / (2 * rho * dx) * (p[1:-1, 2:] - p[1:-1, 0:-2])
            + nu
            * (
                dt / dx**2 * (un[1:-1, 2:] - 2 * un[1:-1, 1:-1] + un[1:-1, 0:-2])
                + dt / dy**2 * (un[2:, 1:-1] - 2 * un[1:-1, 1:-1] + un[0:-2, 1:-1])
            )
        )
        v[1:-1, 1:-1] = (
            vn[1:-1, 1:-1]
            - un[1:-1, 1:-1] * dt / dx * (vn[1:-1, 1:-1] - vn[1:-1, 0:-2])
            - vn[1:-1, 1:-1] * dt / dy * (vn[1:-1, 1:-1] - vn[0:-2, 1:-1])
            - dt / (2 * rho * dy) * (p[2:, 1:-1] - p[0:-2, 1:-1])
            + nu
            * (
                dt / dx**2 * (vn[1:-1, 2:] - 2 * vn[1:-1, 1:-1] + vn[1:-1, 0:-2])
                + dt / dy**2 * (vn[2:, 1:-1] - 2 * vn[1:-1, 1:-1] + vn[0:-2, 1:-1])
            )
        )
        u[0, :] = 0
        u[:, 0] = 0
        u[:, -1] = 0
        u[-1, :] = 1
        v[0, :] = 0
        v[-1, :] = 0
        v[:, 0] = 0
        v[:, -1] = 0


@program(lambda rng, n: (0.1 * rng.random((n, n)), 0.02, 1.0 / n, 0.3, 1e-2), writes="u", large=40)
@njit
def channel_flow(u, dt, dx, force, tolerance):
    """A developing flow, periodic along x, no slip at walls, until it changes by little."""
    n, m = u.shape
    old = np.empty_like(u)
    change = 1.0
    steps = 0
    while change > tolerance and steps < 20:
        old[:] = u
        total = 0.0
        difference = 0.0
        for i in range(1, n - 1):
            for j in range(m):
                west = old[i, j - 1] if j > 0 else old[i, m - 1]
                east = old[i, j + 1] if j < m - 1 else old[i, 0]
                diffusion = old[i - 1, j] + old[i + 1, j] + west + east - 4 * old[i, j]
                u[i, j] = (
                    old[i, j]
                    - old[i, j] * dt / dx * (old[i, j] - west)
                    + 0.1 * diffusion
                    + force * dt
                )
                total += u[i, j]
                difference += abs(u[i, j] - old[i, j])
        for j in range(m):
            u[0, j] = 0.0
            u[n - 1, j] = 0.0
        change = difference / total
        steps += 1
    return steps


@program(lambda rng, n: (rng.random(n) - 0.5, rng.random(n), 0.3), small=8, large=10_000)
@njit
def upwind_advection(velocity, q, courant):
    new = np.zeros(q.size)
    for i in range(q.size):
        left = q[i - 1]  # the last one, of the first
        right = q[i + 1] if i + 1 < q.size else q[0]
        if velocity[i] >= 0:
            new[i] = q[i] - courant * velocity[i] * (q[i] - left)
        else:
            new[i] = q[i] - courant * velocity[i] * (right - q[i])
    return new


@njit
def minmod(a, b):
    if a * b <= 0.0:
        return 0.0
    if abs(a) < abs(b):
        return a
    return b


@program(lambda rng, n: (rng.random(n), 0.4, 3), writes="u", small=8, large=10_000)
@njit
def burgers_limited(u, courant, steps):
    n = u.shape[0]
    flux = np.zeros(n + 1)
    for _ in range(steps):
        for i in range(2, n - 1):
            left = u[i - 1] + 0.5 * minmod(u[i] - u[i - 1], u[i - 1] - u[i - 2])
            right = u[i] - 0.5 * minmod(u[i + 1] - u[i], u[i] - u[i - 1])
            speed = max(abs(left), abs(right))
            flux[i] = 0.25 * (left * left + right * right) - 0.5 * speed * (right - left)
        for i in range(2, n - 2):
            u[i] -= courant * (flux[i + 1] - flux[i])


@program(
    lambda rng, n: (rng.random(n), rng.random(n), 0.2 + rng.random(n), 0.4, 5),
    small=8,
    large=10_000,
)
@njit
def wave_three_buffers(u0, u1, c, dt, steps):
    """Buffers go round: before, now, after."""
    before, now, after = u0.copy(), u1.copy(), np.zeros_like(u0)
    for _ in range(steps):
        for i in range(1, now.size - 1):
            curvature = now[i - 1] - 2.0 * now[i] + now[i + 1]
            after[i] = 2.0 * now[i] - before[i] + (c[i] * dt) ** 2 * curvature
        before, now, after = now, after, before
    return now, before


@program(
    lambda rng, n: (1 + 0.1 * rng.random(n), 0.1 * rng.random(n), 0.05, 3),
    writes="h hu",
    small=7,
    large=10_000,
)
@njit(fastmath=False)
def shallow_water(h, hu, dt, steps):
    """Lax and Friedrichs' scheme, fluxes from a callee as a tuple."""
    n = h.shape[0]
    for _ in range(steps):
        old_h, old_hu = h.copy(), hu.copy()
        for i in range(1, n - 1):
            left = shallow_flux(old_h[i - 1], old_hu[i - 1])
            right = shallow_flux(old_h[i + 1], old_hu[i + 1])
            h[i] = 0.5 * (old_h[i - 1] + old_h[i + 1]) - dt * (right[0] - left[0])
            hu[i] = 0.5 * (old_hu[i - 1] + old_hu[i + 1]) - dt * (right[1] - left[1])


@njit
def shallow_flux(h, hu):
    return hu, hu * hu / h + 0.5 * 9.81 * h * h


@program(lambda rng, n: (rng.random((n, n)), 0.7), writes="image", large=200)
@njit
def deriche_rows(image, alpha):
    """A recursive filter, forth and back over each row."""
    w, h = image.shape
    k = (1 - math.exp(-alpha)) ** 2 / (1 + 2 * alpha * math.exp(-alpha) - math.exp(2 * alpha))
    a1, a2 = k, k * math.exp(-alpha) * (alpha - 1.0)
    a3, a4 = k * math.exp(-alpha) * (alpha + 1.0), -k * math.exp(-2.0 * alpha)
    b1, b2 = 2.0 ** (-alpha), -math.exp(-2.0 * alpha)
    forth = np.empty_like(image)
    back = np.empty_like(image)
    for i in range(w):
        x1 = y1 = y2 = 0.0
        for j in range(h):
            forth[i, j] = a1 * image[i, j] + a2 * x1 + b1 * y1 + b2 * y2
            x1 = image[i, j]
            y2, y1 = y1, forth[i, j]
        x1 = x2 = y1 = y2 = 0.0
        for j in range(h - 1, -1, -1):
            back[i, j] = a3 * x1 + a4 * x2 + b1 * y1 + b2 * y2
            x2, x1 = x1, image[i, j]
            y2, y1 = y1, back[i, j]
    for i in range(w):
        row = image[i]
        for j in range(h):
            row[j] = forth[i, j] + back[i, j]


@program(lambda rng, n: (rng.random((n, n)), rng.random((n, n)), 0.05, 4), writes="u v")
@njit
def gray_scott(u, v, feed, steps):
    n, m = u.shape
    for _ in range(steps):
        du = np.zeros((n, m))
        dv = np.zeros((n, m))
        for i in range(n):
            up, down = (i - 1) % n, (i + 1) % n
            for j in range(m):
                west, east = (j - 1) % m, (j + 1) % m
                lu = u[up, j] + u[down, j] + u[i, west] + u[i, east] - 4 * u[i, j]
                lv = v[up, j] + v[down, j] + v[i, west] + v[i, east] - 4 * v[i, j]
                uvv = u[i, j] * v[i, j] ** 2
                du[i, j] = 0.16 * lu - uvv + feed * (1 - u[i, j])
                dv[i, j] = 0.08 * lv + uvv - (feed + 0.06) * v[i, j]
        u += du
        v += dv


@program(lambda rng, n: (rng.random((n, n)), 0.2), large=300)
@njit(parallel=True)
def blur_in_parallel(image, weight):
    n, m = image.shape
    out = image.copy()
    for i in prange(1, n - 1):
        for j in range(1, m - 1):
            around = image[i - 1, j] + image[i + 1, j] + image[i, j - 1] + image[i, j + 1]
            out[i, j] = (1 - weight) * image[i, j] + 0.25 * weight * around
    return out
