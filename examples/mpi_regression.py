"""Logistic regression over several processes
=============================================
Each has its part of the data, all have the weights.

Run it as `mpiexec -n 2 python examples/mpi_regression.py`, or `make demo-mpi`. Needs mpi4py and an
MPI library: `pip install "numba_grad[mpi]"`.

Each process computes the gradient of the mean loss of its own observations; `value_and_grad` with
`comm` averages value and gradient over the processes, in one message. So the weights stay the same
everywhere, and are those of one process with all the data.
"""

import numpy as np
from mpi4py import MPI

import numba_grad as ng

OBSERVATIONS, FEATURES, STEPS, RATE = 40_000, 20, 200, 2.0


def observations(comm):
    """This process's part of a data set that is the same for any number of processes."""
    random = np.random.default_rng(1)
    features = random.normal(size=(OBSERVATIONS, FEATURES))
    weights = random.normal(size=FEATURES)
    chance = 1 / (1 + np.exp(-features @ weights))
    labels = np.where(random.uniform(size=OBSERVATIONS) < chance, 1.0, -1.0)
    own = np.array_split(np.arange(OBSERVATIONS), comm.size)[comm.rank]
    return features[own], labels[own]


def loss(weights, features, labels):
    return np.logaddexp(0.0, -labels * (features @ weights)).mean()


def fit(comm, features, labels):
    """The weights after gradient descent, and the loss of each step."""
    gradient = ng.value_and_grad(loss, comm=comm, loss="mean")

    @ng.jit
    def descend(features, labels):
        def step(weights, _):
            value, slope = gradient(weights, features, labels)
            return weights - RATE * slope, value

        return ng.scan(step, np.zeros(FEATURES), length=STEPS)

    return descend(features, labels)


def main():
    comm = MPI.COMM_WORLD
    # Means of parts are the mean of all where the parts are of one size.
    weights, losses = fit(comm, *observations(comm))
    if comm.rank == 0:
        print(f"{comm.size} processes, {OBSERVATIONS:,} observations, {STEPS} steps")
        print(f"loss from {losses[0]:.6f} to {losses[-1]:.6f}")
        print("first weights", np.array2string(np.asarray(weights[:4]), precision=4))


if __name__ == "__main__":
    main()
