"""How fast is sound where?
===========================
A 2-D acoustic inversion on a grid of processes.

Run it as `mpiexec -n 2 python examples/mpi_wave_inversion.py`, or `make demo-mpi`. Needs mpi4py and
an MPI library, `pip install "numba_grad[mpi]"`, and matplotlib for the plot.

Each process has a block of the ground. A step of the wave equation needs a ring of cells around it
(`ng.mpi.halo_exchange`), and so does the adjoint of one, which sends their cotangents back. A shot
near the surface is recorded by receivers at the bottom; the gradient of the misfit by the squared
speed in each cell then leads to the anomaly. The loop keeps as many states as the process with the
least memory has room for, and computes the others again: all processes must keep the same ones, as
what is computed again communicates again.
"""

import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

import numba_grad as ng

CELLS = 96  # along each side
STEPS = 220
ITERATIONS = 12
BUDGET = 64 << 20  # bytes for states of the loop, of all processes together
COURANT = 0.2  # squared: of the background


class Ground:
    """The blocks of a square, one for each process."""

    def __init__(self, comm):
        self.comm = comm
        self.cart = comm.Create_cart(MPI.Compute_dims(comm.size, 2), [False, False])
        edges = [np.linspace(0, CELLS, n + 1).astype(int) for n in self.cart.dims]
        self.block = tuple(
            slice(e[c], e[c + 1]) for e, c in zip(edges, self.cart.coords, strict=True)
        )
        rows, columns = np.mgrid[self.block]
        self.rows, self.columns = rows, columns
        # Waves leave at the sides: they are damped there.
        depth = np.minimum.reduce([rows, columns, CELLS - 1 - rows, CELLS - 1 - columns])
        self.damping = np.where(depth < 12, np.exp(-((0.02 * (12 - depth)) ** 2)), 1.0)
        self.source = ((rows == 16) & (columns == CELLS // 2)).astype(float)
        self.receivers = ((rows == CELLS - 17) & (columns % 4 == 0)).astype(float)

    def true_speed(self):
        distance = (self.rows - 0.55 * CELLS) ** 2 + (self.columns - 0.5 * CELLS) ** 2
        return COURANT * (1 + 0.25 * np.exp(-distance / 80))

    def states(self):
        """How many states fit in the budget, on every process."""
        nbytes = 2 * 8 * self.rows.size  # two fields
        return self.comm.allreduce(BUDGET // self.comm.size // nbytes, MPI.MIN)

    def whole(self, block):
        """The blocks of all processes, on the first one."""
        blocks = self.comm.gather((self.block, np.asarray(block)))
        if blocks is None:
            return None
        result = np.zeros((CELLS, CELLS))
        for where, values in blocks:
            result[where] = values
        return result


def ricker(steps):
    t = 0.11 * (np.arange(steps) - 25)
    return (1 - 2 * t**2) * np.exp(-(t**2))


def recordings(ground, speed):
    """What is recorded in each step: zero but at receivers."""

    def step(fields, strength):
        before, now = fields
        ringed = ng.mpi.halo_exchange(np.pad(now, 1), 1, ground.cart)
        laplacian = (
            ringed[2:, 1:-1]
            + ringed[:-2, 1:-1]
            + ringed[1:-1, 2:]
            + ringed[1:-1, :-2]
            - 4 * ringed[1:-1, 1:-1]
        )
        new = 2 * now - before + speed * laplacian + strength * ground.source
        damped = ground.damping * new
        return (ground.damping * now, damped), damped * ground.receivers

    still = np.zeros(ground.rows.shape)
    memory = f"{ground.states()} states"
    return ng.scan(step, (still, still), ricker(STEPS), memory=memory)[1]


def inversion(ground):
    """The squared speed that explains the recordings, and the misfits on the way."""
    observed = np.asarray(ng.jit(lambda c: recordings(ground, c))(ground.true_speed()))

    def misfit(speed):
        difference = recordings(ground, speed) - observed
        return 0.5 * ng.mpi.allreduce((difference**2).sum(), comm=ground.comm)

    gradient = ng.jit(ng.value_and_grad(misfit, comm=ground.comm))
    speed = np.full(ground.rows.shape, COURANT)
    # No changes where the shot and the receivers are: gradients are largest there.
    is_free = (ground.rows > 24) & (ground.rows < CELLS - 22)
    misfits, stepsize = [], 0.01 * COURANT
    direction = None
    for _ in range(ITERATIONS):
        value, slope = gradient(speed)
        slope = np.asarray(slope) * is_free
        misfits.append(float(value))
        norm = np.sqrt(ground.comm.allreduce(float((slope**2).sum())))
        direction = slope if direction is None else 0.6 * direction + slope
        speed = speed - stepsize * np.sqrt(is_free.size * ground.comm.size) * direction / norm
    return speed, misfits


def plot(true, found, path):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.6), layout="constrained")
    for axes, values, title in zip(
        figure.subplots(1, 2), (true, found), ("true", "found"), strict=True
    ):
        image = axes.imshow(np.sqrt(values / COURANT), vmin=0.95, vmax=1.12)
        axes.set_title(f"speed, {title}")
    figure.colorbar(image, ax=figure.axes)
    figure.savefig(path, dpi=150)


def main():
    ground = Ground(MPI.COMM_WORLD)
    speed, misfits = inversion(ground)
    true, found = ground.whole(ground.true_speed()), ground.whole(speed)
    if ground.comm.rank:
        return
    print(f"{ground.comm.size} processes, blocks of {ground.rows.shape}, {STEPS} steps")
    print(f"misfit from {misfits[0]:.6f} to {misfits[-1]:.6f}")
    try:
        path = Path("mpi_wave_inversion.png")
        plot(true, found, path)
        print(f"wrote {path}")
    except ImportError:
        print("the plot needs matplotlib: pip install matplotlib", file=sys.stderr)


if __name__ == "__main__":
    main()
