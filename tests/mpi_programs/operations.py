"""Run by `tests/test_mpi.py` on several ranks: every communication against NumPy on what all ranks
have, and its derivatives."""

import functools
import sys

import numpy as np
from checks import comm, dot, everyone, run, same, values
from mpi4py import MPI

import numba_grad as ng

rank, size = comm.Get_rank(), comm.Get_size()
root = size - 1
after, before = (rank + 1) % size, (rank - 1) % size
counts = [k % 3 + 1 for k in range(size)]
sent = [(rank + k) % 2 + 1 for k in range(size)]
received = [(rank + k) % 2 + 1 for k in range(size)]
right = after if rank + 1 < size else MPI.PROC_NULL
left = before if rank > 0 else MPI.PROC_NULL


def messages(x):
    """A line of ranks, none of which can go on alone."""
    if rank % 2 == 0:
        ng.mpi.send(x, right, 3, comm)
        return ng.mpi.recv(x, left, 3, comm)
    y = ng.mpi.recv(x, left, 3, comm)
    ng.mpi.send(x, right, 3, comm)
    return y


def under_way(x):
    arriving = ng.mpi.irecv(x, before, 5, comm)
    leaving = ng.mpi.isend(x, after, 5, comm)
    squared = x * x
    y = arriving.wait()
    ng.mpi.wait(leaving)
    return y + 0 * squared


# name: shape of x here, the operation, the same by NumPy of a list of all ranks' x
LINEAR = {
    "allreduce": ((3, 2), lambda x: ng.mpi.allreduce(x, MPI.SUM, comm), sum),
    "allreduce ordered": ((3,), lambda x: ng.mpi.allreduce(x, comm=comm, ordered=True), sum),
    "reduce": (
        (2,),
        lambda x: ng.mpi.reduce(x, MPI.SUM, root, comm),
        lambda xs: sum(xs) if rank == root else np.zeros(2),
    ),
    "reduce ordered": (
        (2,),
        lambda x: ng.mpi.reduce(x, MPI.SUM, root, comm, ordered=True),
        lambda xs: sum(xs) if rank == root else np.zeros(2),
    ),
    "bcast": ((2, 2), lambda x: ng.mpi.bcast(x, root, comm), lambda xs: xs[root]),
    "allgather": ((2,), lambda x: ng.mpi.allgather(x, comm), np.stack),
    "allgather of numbers": ((), lambda x: ng.mpi.allgather(x, comm), np.stack),
    "allgatherv": (
        (counts[rank], 2),
        lambda x: ng.mpi.allgatherv(x, counts, comm),
        np.concatenate,
    ),
    "gather": (
        (2,),
        lambda x: ng.mpi.gather(x, root, comm),
        lambda xs: np.stack(xs) if rank == root else np.zeros((0, 2)),
    ),
    "gatherv": (
        (counts[rank],),
        lambda x: ng.mpi.gatherv(x, counts, root, comm),
        lambda xs: np.concatenate(xs) if rank == root else np.zeros(0),
    ),
    "scatter": ((size, 2), lambda x: ng.mpi.scatter(x, root, comm), lambda xs: xs[root][rank]),
    "scatterv": (
        (sum(counts), 2),
        lambda x: ng.mpi.scatterv(x, counts, root, comm),
        lambda xs: np.split(xs[root], np.cumsum(counts)[:-1])[rank],
    ),
    "reduce_scatter": (
        (size, 2),
        lambda x: ng.mpi.reduce_scatter(x, comm=comm),
        lambda xs: np.sum(xs, axis=0)[rank],
    ),
    "reduce_scatter of counts": (
        (sum(counts),),
        lambda x: ng.mpi.reduce_scatter(x, counts, comm=comm),
        lambda xs: np.split(np.sum(xs, axis=0), np.cumsum(counts)[:-1])[rank],
    ),
    "reduce_scatter ordered": (
        (sum(counts), 2),
        lambda x: ng.mpi.reduce_scatter(x, counts, comm=comm, ordered=True),
        lambda xs: np.split(sum(xs), np.cumsum(counts)[:-1])[rank],
    ),
    "alltoall": (
        (size, 2),
        lambda x: ng.mpi.alltoall(x, comm),
        lambda xs: np.stack([x[rank] for x in xs]),
    ),
    "alltoallv": (
        (sum(sent), 2),
        lambda x: ng.mpi.alltoallv(x, sent, received, comm),
        lambda xs: np.concatenate(
            [
                np.split(x, np.cumsum([(k + j) % 2 + 1 for j in range(size)])[:-1])[rank]
                for k, x in enumerate(xs)
            ]
        ),
    ),
    "sendrecv": (
        (2,),
        lambda x: ng.mpi.sendrecv(x, after, before, comm=comm, sendtag=rank, recvtag=before),
        lambda xs: xs[before],
    ),
    "sendrecv of another shape": (
        (rank + 1,),
        lambda x: ng.mpi.sendrecv(x, after, before, comm=comm, recv_like=np.zeros(before + 1)),
        lambda xs: xs[before],
    ),
    "shift": ((3,), lambda x: ng.mpi.shift(x, 1, comm), lambda xs: xs[before]),
    "shift to an end": (
        (3,),
        lambda x: ng.mpi.shift(x, 1, comm, wrap_around=False),
        lambda xs: xs[before] if rank else np.zeros(3),
    ),
    "send and recv": ((3,), messages, lambda xs: xs[before] if rank else xs[0]),
    "isend and irecv": ((3,), under_way, lambda xs: xs[before]),
}


def of_all(x):
    return comm.allgather(np.asarray(x))


def check_linear(name):
    shape, function, reference = LINEAR[name]
    x, t = values(shape, rank), values(shape, 100 + rank)
    y = function(x)
    want = np.asarray(reference(of_all(x)))
    if name == "send and recv" and rank == 0:
        want = x  # nobody sends: what `like` was
    same(y, want)
    compiled = ng.jit(function)
    for _ in range(2):
        same(compiled(x), want)
    # <g, A t> = <A^T g, t>, over all ranks.
    g = values(want.shape, 200 + rank)
    for f in (function, compiled):
        value, pullback = ng.vjp(f, x)
        same(value, want)
        (back,) = pullback(g)
        value, pushed = ng.jvp(f, (x,), (t,))
        same(value, want)
        everyone(np.isclose(dot(g, pushed), dot(back, t)), "dot product test")
    both = ng.jit(lambda x, t: ng.jvp(function, (x,), (t,)))(x, t)
    same(both[1], pushed)

    def loss(x):
        return (function(x) ** 2).sum()

    # H t of the sum of all losses, by three ways.
    hessian_product = ng.jit(lambda x, t: ng.jvp(ng.grad(loss), (x,), (t,))[1])(x, t)
    (wanted,) = ng.vjp(function, x)[1](2 * np.asarray(pushed))
    same(hessian_product, wanted)
    same(ng.grad(lambda x: (ng.grad(loss)(x) * t).sum())(x), wanted)
    # A batch is one communication.
    xs = values((3, *shape), 300 + rank)
    batched = ng.vmap(function)
    wants = np.stack([np.asarray(function(row)) for row in xs])
    same(batched(xs), wants)
    same(ng.jit(batched)(xs), wants)


def check_nonlinear():
    """Extremes and products: values, gradients, and second derivatives."""
    x = values((4,), rank)
    x[1] = 1.5  # on all ranks
    xs = np.stack(of_all(x))
    weights = np.arange(1.0, 5.0)
    for op, ufunc in ((MPI.MAX, np.maximum), (MPI.MIN, np.minimum)):

        def function(x, op=op):
            return ng.mpi.allreduce(x, op, comm)

        y = ufunc.reduce(xs)
        same(function(x), y)
        owners = (xs == y).sum(axis=0)
        want = size * weights * (x == y) / owners
        for f in (function, ng.jit(function)):
            same(ng.grad(lambda x, f=f: (f(x) * weights).sum())(x), want)
            t = values((4,), 40 + rank)
            ts = np.stack(of_all(t))
            same(ng.jvp(f, (x,), (t,))[1], (ts * (xs == y)).sum(axis=0) / owners)

    def product(x):
        return (ng.mpi.allreduce(x, MPI.PROD, comm) * weights).sum()

    others = np.prod(np.delete(xs, rank, axis=0), axis=0)
    for f in (product, ng.jit(product)):
        same(f(x), (np.prod(xs, axis=0) * weights).sum())
        same(ng.grad(f)(x), size * weights * others)
    t = values((4,), 50 + rank)
    pushed = ng.jit(lambda x, t: ng.jvp(ng.grad(product), (x,), (t,))[1])(x, t)
    step = 1e-5
    want = (ng.grad(product)(x + step * t) - ng.grad(product)(x - step * t)) / (2 * step)
    same(pushed, want, rtol=1e-6)


def check_nonlinear_parts():
    """The same reductions, on the root and by rows."""
    x = values((size, 2), rank)
    x[0, 0] = 0.75  # on all ranks
    xs = np.stack(of_all(x))
    for op, ufunc in ((MPI.MAX, np.maximum), (MPI.MIN, np.minimum), (MPI.PROD, np.multiply)):
        total = ufunc.reduce(xs)
        if op == MPI.PROD:
            slope = np.prod(np.delete(xs, rank, axis=0), axis=0)
        else:
            slope = (x == total) / (xs == total).sum(axis=0)

        def on_root(x, op=op):
            return ng.mpi.reduce(x, op, root, comm, ordered=True)

        def by_rows(x, op=op):
            return ng.mpi.reduce_scatter(x, None, op, comm, ordered=True)

        for f in (on_root, ng.jit(on_root)):
            same(f(x), total if rank == root else np.zeros_like(x))
            same(ng.grad(lambda x, f=f: f(x).sum())(x), slope)
        for f in (by_rows, ng.jit(by_rows)):
            same(f(x), total[rank])
            same(ng.grad(lambda x, f=f: f(x).sum())(x), slope)
    # The same bits as in NumPy, rank by rank.
    numbers = values((size, 3), 7 + rank) ** 9
    every = of_all(numbers)
    for op, combine in ((MPI.SUM, np.add), (MPI.PROD, np.multiply)):
        want = functools.reduce(combine, every)
        found = ng.mpi.allreduce(numbers, op, comm, ordered=True)
        np.testing.assert_array_equal(np.asarray(found), want)
        found = ng.mpi.reduce_scatter(numbers, None, op, comm, ordered=True)
        np.testing.assert_array_equal(np.asarray(found), want[rank])


def check_dtypes():
    for dtype in (
        *(np.bool_, np.int8, np.uint16, np.int32, np.int64, np.float16, np.float32),
        *(np.float64, np.complex64, np.complex128),
    ):
        x = (np.arange(5) + rank).astype(dtype)
        same(ng.mpi.bcast(x, root, comm), of_all(x)[root])
        same(ng.mpi.shift(x, 1, comm), of_all(x)[before])
        same(ng.jit(lambda x: ng.mpi.allgather(x, comm))(x), np.stack(of_all(x)))
        if dtype not in (np.bool_, np.float16):
            same(ng.mpi.allreduce(x, comm=comm), np.add.reduce(of_all(x), dtype=dtype))
        else:
            refused(TypeError, "MPI has no sum of this dtype", ng.mpi.allreduce, x)
    z = values((3,), rank) + 1j * values((3,), 9 + rank)
    g = ng.grad(lambda z: (ng.mpi.allreduce(z, comm=comm) * z).real.sum())(z)
    same(g, np.conj(sum(of_all(z)) + sum(of_all(z))))
    # Of what MPI has no sums of, in which derivatives of copies are.
    for dtype in (np.float16, ng.bfloat16):
        x = ng.tensor(np.arange(3.0)).astype(dtype)
        for f, count in (
            (lambda x: ng.mpi.bcast(x, root, comm), size if rank == root else 0),
            (lambda x: ng.mpi.allgather(x, comm), size),
        ):

            def loss(x, f=f):
                return (f(x).astype(np.float32) ** 2).sum()

            for gradient in (ng.grad(loss), ng.jit(ng.grad(loss))):
                assert gradient(x).dtype == dtype
                same(gradient(x).astype(np.float32), 2 * count * np.arange(3.0))
                pushed = ng.jvp(gradient, (x,), (x,))[1]
                same(pushed.astype(np.float32), 2 * count * np.arange(3.0))
    x = ng.tensor(np.arange(3.0)).astype(ng.bfloat16)
    same(ng.mpi.shift(x, 1, comm).astype(np.float32), np.arange(3.0))
    empty = np.zeros((0, 3))
    same(ng.mpi.allreduce(empty, comm=comm), empty)
    same(ng.mpi.shift(empty, 1, comm), empty)


def refused(error, text, f, *args, **kwargs):
    try:
        f(*args, **kwargs)
    except error as found:
        assert text in str(found), found
    else:
        raise AssertionError(f"{f} was not refused")


def check_refusals():
    x = np.arange(3.0)
    refused(ValueError, "there is no such rank", ng.mpi.bcast, x, size, comm)
    refused(ValueError, "have no adjoint", ng.mpi.recv, x, MPI.ANY_SOURCE, 0, comm)
    refused(TypeError, "not a communicator", ng.mpi.allreduce, x, MPI.SUM, 3)
    refused(ValueError, "no derivative is known", ng.mpi.allreduce, x, MPI.BAND, comm)
    refused(ValueError, "not as many rows", ng.mpi.alltoall, np.zeros((size + 1, 2)), comm)
    refused(ValueError, "group that this process is in", ng.mpi.barrier, MPI.COMM_NULL)
    refused(TypeError, "must be an integer", ng.mpi.send, x, 0.5, 0, comm)
    refused(
        ValueError,
        "no memory for a single state",
        ng.scan,
        lambda c, _: (ng.mpi.shift(c, 1, comm), None),
        x,
        length=3,
        memory=8,
    )
    request = ng.mpi.isend(x, rank, 1, comm)
    same(ng.mpi.irecv(x, rank, 1, comm).wait(), x)
    request.wait()
    refused(RuntimeError, "waited for already", request.wait)


def check_communicators():
    """Halves, of ranks in reverse order."""
    half = comm.Split(rank % 2, -rank)
    x = np.array([float(rank)])
    want = sum(k for k in range(size) if k % 2 == rank % 2)
    f = ng.jit(lambda x: ng.mpi.allreduce(x, comm=half))
    same(f(x), [want])
    same(ng.mpi.allgather(x, half)[:, 0], [k for k in reversed(range(size)) if k % 2 == rank % 2])
    half.Free()


def check_bits_in_order():
    """A sum in order has the bits of NumPy's, on all ranks; and so has its cotangent."""
    x = values((1000,), rank) * 10.0 ** (rank - 1)
    want = of_all(x)[0]
    for other in of_all(x)[1:]:
        want = want + other
    f = ng.jit(lambda x: ng.mpi.allreduce(x, comm=comm, ordered=True))
    assert f(x).tobytes() == want.tobytes()
    assert np.asarray(ng.vjp(f, x)[1](x)[0]).tobytes() == want.tobytes()


if __name__ == "__main__":
    run(
        [
            *[(name, check_linear, name) for name in LINEAR],
            check_nonlinear,
            check_nonlinear_parts,
            check_dtypes,
            check_refusals,
            check_communicators,
            check_bits_in_order,
        ],
        sys.argv[1:],
    )
