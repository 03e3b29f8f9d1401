"""Run by `tests/test_mpi.py` on several ranks: loops and branches around communications, ghost
cells, and programs whose gradient does not depend on the number of ranks."""

import sys

import numpy as np
from checks import comm, dot, everyone, run, same, values
from mpi4py import MPI

import numba_grad as ng
from numba_grad.compiler.steps.overlap import PART_SOURCE

rank, size = comm.Get_rank(), comm.Get_size()
after, before = (rank + 1) % size, (rank - 1) % size


def both(f):
    return f, ng.jit(f)


def check_loops():
    """Derivatives of a loop that communicates in each step."""
    derivatives_of_loops((None,))


def check_loops_by_checkpoints():
    # As many states as there is room for on rank 0, of 24 bytes each: 2.
    derivatives_of_loops(("2 states", 72 + 1000 * rank))


def derivatives_of_loops(budgets):

    def states(x, memory=None):
        def step(c, w):
            c = np.sin(c + w * ng.mpi.shift(c, 1, comm))
            return c, ng.mpi.allreduce(c.sum(), comm=comm)

        return ng.scan(step, x, np.linspace(0.1, 1, 5), memory=memory)

    def unrolled(x):
        sums = []
        for w in np.linspace(0.1, 1, 5):
            x = np.sin(x + w * ng.mpi.shift(x, 1, comm))
            sums.append(ng.mpi.allreduce(x.sum(), comm=comm))
        return x, np.stack(sums)

    def loss(run):
        return lambda x: (run(x)[0] ** 2).sum() + (run(x)[1] ** 3).sum()

    x = values((3,), rank)
    want = ng.grad(loss(unrolled))(x)
    for memory in budgets:
        for f in both(loss(lambda x, memory=memory: states(x, memory))):
            same(f(x), loss(unrolled)(x))
            same(ng.grad(f)(x), want)
    t = values((3,), 10 + rank)
    product = ng.jvp(ng.grad(loss(unrolled)), (x,), (t,))[1]
    same(ng.jit(lambda x, t: ng.jvp(ng.grad(loss(states)), (x,), (t,))[1])(x, t), product)


def check_messages_under_way_in_loops():
    """Their buffers are results of a step that others may have, too: no copies of them."""

    def step(c, _):
        arriving = ng.mpi.irecv(c, before, 5, comm)
        leaving = ng.mpi.isend(np.sin(c), after, 5, comm)
        half = 0.5 * c
        y = arriving.wait()
        leaving.wait()
        return half + y * y, None

    def scanned(x):
        return ng.scan(step, x, length=3)[0]

    def unrolled(x):
        for _ in range(3):
            x, _ = step(x, None)
        return x

    x, t = values((3,), rank), values((3,), 10 + rank)
    tangent = ng.jvp(unrolled, (x,), (t,))[1]
    slope = ng.grad(lambda x: (unrolled(x) * t).sum())(x)
    everyone(np.isclose(dot(tangent, t), dot(slope, t)), "dot product test")
    product = ng.jvp(ng.grad(lambda x: (unrolled(x) * t).sum()), (x,), (t,))[1]
    for f in both(scanned):
        same(f(x), unrolled(x))
        same(ng.jvp(f, (x,), (t,))[1], tangent)
        same(ng.grad(lambda x, f=f: (f(x) * t).sum())(x), slope)

    def second(x, t):
        return ng.jvp(ng.grad(lambda x: (scanned(x) * t).sum()), (x,), (t,))[1]

    same(ng.jit(second)(x, t), product)


def check_while():
    """The same number of steps on all ranks, as an allreduce decides about it."""

    def solve(b):
        def goes_on(val):
            return val[1] > 1e-12

        def step(val):
            x = 0.25 * (ng.mpi.shift(val[0], 1, comm) + ng.mpi.shift(val[0], -1, comm)) + b
            return x, ng.mpi.allreduce(abs(x - val[0]).max(), MPI.MAX, comm)

        return ng.while_loop(goes_on, step, (b, 1.0))[0]

    b = values((2,), rank)
    matrix = np.eye(size) - 0.25 * (
        np.roll(np.eye(size), 1, axis=0) + np.roll(np.eye(size), -1, axis=0)
    )
    want = np.linalg.solve(matrix, np.stack(comm.allgather(b)))[rank]
    adjoint = np.linalg.solve(matrix.T, np.stack(comm.allgather(2 * want)))[rank]
    for f in both(solve):
        same(f(b), want, rtol=1e-9)
        same(ng.grad(lambda b, f=f: (f(b) ** 2).sum())(b), adjoint, rtol=1e-6)


def check_while_condition():
    """Conjugate gradients, the condition of which is the residual of all ranks."""
    n = 3
    matrix = 4 * np.eye(n * size) - np.eye(n * size, k=1) - np.eye(n * size, k=-1)

    def product(p):
        above = ng.mpi.shift(p[-1], 1, comm, wrap_around=False)
        below = ng.mpi.shift(p[0], -1, comm, wrap_around=False)
        around = np.concatenate([above.reshape(1), p, below.reshape(1)])
        return 4 * p - around[:-2] - around[2:]

    def dot(a, b):
        return ng.mpi.allreduce(np.sum(a * b), comm=comm)

    def solve(b):
        def goes_on(state):
            return np.sqrt(dot(state[1], state[1])) > 1e-10

        def step(state):
            x, r, p = state
            ap = product(p)
            alpha = dot(r, r) / dot(p, ap)
            new = r - alpha * ap
            return x + alpha * p, new, new + dot(new, new) / dot(r, r) * p

        return ng.while_loop(goes_on, step, (np.zeros_like(b), b, b))[0]

    def newton(x):
        # Only the condition communicates.
        return ng.while_loop(
            lambda y: ng.mpi.allreduce(abs(y * y - x).max(), MPI.MAX, comm) > 1e-12,
            lambda y: 0.5 * (y + x / y),
            x,
        )

    b = values((n,), rank)
    whole = np.concatenate(comm.allgather(b))
    here = slice(n * rank, n * rank + n)
    want = np.linalg.solve(matrix, whole)
    adjoint = np.linalg.solve(matrix.T, 2 * want)[here]
    for f in both(solve):
        same(f(b), want[here], rtol=1e-8)
        same(ng.grad(lambda b, f=f: (f(b) ** 2).sum())(b), adjoint, rtol=1e-6)
    for f in both(newton):
        same(f(b), np.sqrt(b))
        same(ng.grad(lambda b, f=f: f(b).sum())(b), 0.5 / np.sqrt(b), rtol=1e-8)


def check_branches():
    def f(x, communicates):
        return ng.cond(
            communicates,
            lambda x: ng.mpi.allreduce(x * x, comm=comm),
            lambda x: 3 * x,
            x,
        )

    x = values((2,), rank)
    total = sum(comm.allgather(x * x))
    for g in both(f):
        same(g(x, True), total)
        same(g(x, False), 3 * x)
        same(ng.grad(lambda x, c, g=g: g(x, c).sum())(x, True), 2 * size * x)
        same(ng.grad(lambda x, c, g=g: g(x, c).sum())(x, False), 3 + 0 * x)
    h = ng.checkpoint(lambda x: ng.mpi.allreduce(x * x, comm=comm).sum())
    for g in both(h):
        same(ng.grad(g)(x), 2 * size * x)


def check_unused_results():
    """What a rank does with a result, and whether it differentiates through it, is its own affair:
    everybody communicates all the same."""

    def f(x):
        ng.mpi.allreduce(x, comm=comm)  # nobody uses it
        y = ng.mpi.shift(x, 1, comm)
        z = ng.mpi.bcast(x if rank == 0 else np.zeros(2), 0, comm)
        if rank == size - 1:
            return (y * y).sum() + (z * 2).sum()
        return (x * 3).sum()

    x = values((2,), rank)
    want = 3 + 0 * x if rank < size - 1 else 0 * x
    if after == size - 1:
        want = want + 2 * x
    if rank == 0:
        want = want + 2
    for g in (ng.grad(f), ng.jit(ng.grad(f)), ng.grad(ng.jit(f))):
        same(g(x), want)
    with ng.no_grad():
        same(ng.mpi.allreduce(x, comm=comm), sum(comm.allgather(x)))

    def with_statistics(x):
        y = ng.mpi.allreduce(x * x, comm=comm)
        with ng.no_grad():
            ng.mpi.allreduce(x, comm=comm)
        return ng.mpi.allreduce(y, comm=comm).sum()

    for g in both(ng.grad(with_statistics)):
        same(g(x), 2 * size**2 * x)


def check_define_by_run():
    x = ng.tensor(values((2,), rank), requires_grad=True)
    y = ng.mpi.allreduce(x * x, comm=comm)
    z = ng.mpi.shift(y, 1, comm)
    loss = (z * z).sum() if rank else y.sum()
    loss.backward()
    total = sum(comm.allgather(values((2,), rank) ** 2))
    same(x.grad, 2 * values((2,), rank) * (1 + (size - 1) * 2 * total))
    x.grad = None
    ng.mpi.allreduce(x, comm=comm).sum().backward()
    same(x.grad, [size, size])


def check_same_gradient_seeded_once():
    x = values((3,), rank)

    def f(x):
        return ng.mpi.allreduce((x**3).sum(), comm=comm)

    for g in both(ng.value_and_grad(f, comm=comm)):
        value, gradient = g(x)
        same(value, comm.allreduce((x**3).sum()))
        same(gradient, 3 * x * x)
    weights = {"w": np.arange(3.0), "b": np.float64(0.5)}

    def loss_of_data(p):
        return ((p["w"] * x).sum() + p["b"]) ** 2

    for g in both(ng.value_and_grad(loss_of_data, comm=comm, loss="mean")):
        value, gradient = g(weights)
        residual = (weights["w"] * x).sum() + weights["b"]
        same(value, comm.allreduce(residual**2) / size)
        same(gradient["w"], comm.allreduce(2 * residual * x) / size)
        same(gradient["b"], comm.allreduce(2 * residual) / size)


# Ghost cells. The whole array, of which each rank has a part, tells what each of them must be.


def check_ghost_cells(axes, width, periodic):
    dims = MPI.Compute_dims(size, axes)
    cart = comm.Create_cart(dims, [periodic] * axes)
    cells = width + 1
    whole = values([n * cells for n in dims], 7)
    padded = np.pad(whole, width, mode="wrap") if periodic else np.pad(whole, width)
    own = tuple(
        slice(c * cells, (c + 1) * cells + 2 * width) for c in cart.Get_coords(cart.Get_rank())
    )
    inner = (slice(width, -width),) * axes
    u = np.zeros([cells + 2 * width] * axes)
    u[inner] = padded[own][inner]

    def exchange(u):
        return ng.mpi.halo_exchange(u, width, cart)

    for f in both(exchange):
        same(f(u), padded[own])
    # By the dot-product test, and ghosts are zeroed where they were filled.
    g, t = values(u.shape, 20 + rank), values(u.shape, 30 + rank)
    for f in both(exchange):
        back = ng.vjp(f, u)[1](g)[0]
        pushed = ng.jvp(f, (u,), (t,))[1]
        everyone(np.isclose(dot(g, pushed), dot(back, t)), "dot product test")
    transposed = ng.vjp(exchange, u)[1]
    if periodic:
        ghosts = np.ones(u.shape, bool)
        ghosts[inner] = False
        assert not np.asarray(transposed(g)[0])[ghosts].any()
    filled = np.asarray(exchange(u))
    of_squares = np.asarray(transposed(2 * np.asarray(exchange(filled**2)))[0])
    found = ng.jit(ng.grad(lambda u: (exchange(exchange(u) ** 2) ** 2).sum()))(u)
    same(found, transposed(2 * filled * of_squares)[0])
    cart.Free()


# Programs of which the gradient is the same for 1, 2 and 4 ranks: compared with one by NumPy, or by
# this library on one process.


def check_heat_inversion():
    """Where was the heat? A rod in parts, with ghost cells at the ends."""
    cells, steps = 12, 20
    cart = comm.Create_cart([size], [False])
    per_rank = cells // size
    observed = np.sin(np.arange(cells))
    own = slice(rank * per_rank, (rank + 1) * per_rank)

    def advanced(u):
        return u[1:-1] + 0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])

    def loss(u0):
        def step(u, _):
            u = ng.mpi.halo_exchange(np.pad(u, 1), 1, cart)
            return advanced(u), None

        u, _ = ng.scan(step, u0, length=steps)
        return ng.mpi.allreduce(((u - observed[own]) ** 2).sum(), comm=comm)

    def loss_of_one(u):
        for _ in range(steps):
            u = advanced(np.pad(u, 1))
        return ((u - observed) ** 2).sum()

    u0 = values((cells,), 3)
    value, want = ng.value_and_grad(loss_of_one)(u0)
    for f in both(ng.value_and_grad(loss, comm=comm)):
        found, gradient = f(u0[own])
        same(found, value)
        same(gradient, want[own])


def check_interiors(axes):
    """Waves, whose interior is computed while ghost cells are under way: on a grid of all ranks, or
    in slices."""
    cells = 96
    dims = [size, 1] if axes == 1 else MPI.Compute_dims(size, 2)
    cart = comm.Create_cart(dims, [False, False])
    own = tuple(
        slice(c * cells // n, (c + 1) * cells // n)
        for c, n in zip(cart.coords, cart.dims, strict=True)
    )

    def loss(speed, u, exchange, memory=None):
        def step(fields, _):
            before, now = fields
            ringed = exchange(np.pad(now, 1))
            around = ringed[2:, 1:-1] + ringed[:-2, 1:-1] + ringed[1:-1, 2:] + ringed[1:-1, :-2]
            return (now, 2 * now - before + speed * (around - 4 * now)), None

        (_, last), _ = ng.scan(step, (u, u), length=8, memory=memory)
        return (last**2).sum()

    speed, u = 0.1 * values((cells, cells), 11), values((cells, cells), 12)
    value, slopes = ng.value_and_grad(loss, (0, 1))(speed, u, lambda u: u)
    for memory in (None, "3 states"):
        f = ng.jit(
            ng.value_and_grad(
                lambda speed, u, memory=memory: ng.mpi.allreduce(
                    loss(speed, u, lambda u: ng.mpi.halo_exchange(u, 1, cart), memory), comm=comm
                ),
                (0, 1),
                comm=comm,
            )
        )
        for _ in range(2):
            found, gradients = f(speed[own], u[own])
            same(found, value)
            for gradient, slope in zip(gradients, slopes, strict=True):
                same(gradient, slope[own])
        steps = f.lower(speed[own], u[own])._steps()
        assert size == 1 or any(step.source == PART_SOURCE for step in steps)
    cart.Free()


def check_logistic_regression():
    data = values((24, 4), 5) - 1.2
    labels = np.sign(values((24,), 6) - 1.2)
    per_rank = 24 // size
    own = slice(rank * per_rank, (rank + 1) * per_rank)

    def loss(w, data, labels):
        return np.mean(np.log1p(np.exp(-labels * (data @ w))))

    w = values((4,), 8)
    value, want = ng.value_and_grad(loss)(w, data, labels)
    for f in both(ng.value_and_grad(loss, comm=comm, loss="mean")):
        found, gradient = f(w, data[own], labels[own])
        same(found, value)
        same(gradient, want)


def check_all_pairs():
    """Energies of pairs, where the others' particles go round in a ring."""
    per_rank = 12 // size
    points = values((12, 3), 9)
    own = slice(rank * per_rank, (rank + 1) * per_rank)

    def energy_between(x, y):
        d = ((x[:, None] - y[None]) ** 2).sum(axis=-1)
        return (1 / np.sqrt(d + 0.1)).sum()

    def energy(x):
        def step(carry, _):
            visiting, total = carry
            total = total + energy_between(x, visiting)
            return (ng.mpi.sendrecv(visiting, after, before, comm=comm), total), None

        (_, total), _ = ng.scan(step, (x, 0.0), length=size)
        return ng.mpi.allreduce(total, comm=comm)

    value, want = ng.value_and_grad(lambda x: energy_between(x, x))(points)
    for f in both(ng.value_and_grad(energy, comm=comm)):
        found, gradient = f(points[own])
        same(found, value)
        same(gradient, want[own])


GRIDS = [(1, 1, True), (1, 2, False), (2, 1, True), (2, 2, False), (3, 1, True)]

if __name__ == "__main__":
    run(
        [
            check_loops,
            check_loops_by_checkpoints,
            check_while,
            check_while_condition,
            check_branches,
            check_unused_results,
            check_define_by_run,
            check_same_gradient_seeded_once,
            *[(f"ghost cells {grid}", check_ghost_cells, *grid) for grid in GRIDS],
            check_heat_inversion,
            *[(f"interiors {axes}", check_interiors, axes) for axes in (1, 2)],
            check_logistic_regression,
            check_all_pairs,
        ],
        sys.argv[1:],
    )
