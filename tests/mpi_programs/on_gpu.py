"""Run by `tests/test_mpi.py`: communications of tensors on a GPU, on the emulated driver, which is
late and whose addresses mean nothing to MPI. Values and derivatives are those of the CPU."""

import sys

import numpy as np
from checks import comm, run, same, values
from mpi4py import MPI
from operations import LINEAR, after, before, rank, root, size

import numba_grad as ng
import numba_grad.frontend.cuda
from numba_grad.runtime.cuda.driver import current_driver
from tests.cuda import host_driver
from tests.cuda.emulator import EmulatedDriver
from tests.cuda.host_driver import installed

DEVICE = "cuda:0"


def on_gpu(x):
    return ng.tensor(np.asarray(x), device=DEVICE)


def host(x):
    if isinstance(x, ng.Tensor):
        return np.asarray(x.detach().cpu())
    return np.asarray(x)


def same_on_gpu(f, *arrays):
    """A jitted function gives on a GPU what it gives on the CPU, there; launched and replayed."""
    wanted = f(*arrays)
    compiled = ng.jit(f)
    for _ in range(2):
        found = compiled(*[on_gpu(x) for x in arrays])
        for y, want in zip(found, wanted, strict=True):
            assert y.device == DEVICE, y.device
            same(host(y), host(want))


def check_linear(name):
    """Value, tangent, cotangent, and the product with a Hessian, in one program."""
    shape, function, _ = LINEAR[name]

    def f(x, t):
        y, pushed = ng.jvp(function, (x,), (t,))
        value, pullback = ng.vjp(function, x)
        (back,) = pullback(value * 0.5)
        second = ng.jvp(ng.grad(lambda x: (function(x) ** 2).sum()), (x,), (t,))[1]
        return y, pushed, back, second

    same_on_gpu(f, values(shape, rank), values(shape, 100 + rank))


def check_nonlinear():
    def f(x):
        total = sum(
            ng.mpi.allreduce(x, op, comm) * k
            for k, op in enumerate((MPI.MAX, MPI.MIN, MPI.PROD), start=1)
        )
        y = total + ng.mpi.reduce(x, MPI.PROD, root, comm)
        return y, ng.grad(lambda x: ng.mpi.allreduce(x, MPI.MAX, comm).sum())(x)

    same_on_gpu(f, values((4,), rank))


def check_dtypes():
    for dtype in (np.bool_, np.int8, np.uint16, np.int64, np.float16, np.float32, np.complex128):
        x = (np.arange(3) + rank).astype(dtype)
        same_on_gpu(lambda x: (ng.mpi.shift(x, 1, comm), ng.mpi.bcast(x, root, comm)), x)
    same_on_gpu(lambda x: (ng.mpi.shift(x, 1, comm),), np.zeros((0, 2)))
    # More than the driver has a copy of when it returns.
    same_on_gpu(lambda x: (ng.mpi.sendrecv(x, after, before, comm=comm),), values((9000,), rank))


def check_batch():
    def f(xs):
        return (ng.vmap(lambda x: ng.mpi.allreduce(x * x, comm=comm))(xs),)

    same_on_gpu(f, values((3, 2), rank))


def check_loops_and_branches():
    def step(c, w):
        c = np.sin(c + w * ng.mpi.shift(c, 1, comm))
        return c, ng.mpi.allreduce(c.sum(), comm=comm)

    def scanned(memory):
        def loss(x, ws):
            c, sums = ng.scan(step, x, ws, memory=memory)
            return (c * c).sum() + (sums**3).sum()

        return lambda x, ws: ng.value_and_grad(loss, (0, 1))(x, ws)[1]

    for memory in (None, "2 states"):
        same_on_gpu(scanned(memory), values((3,), rank), np.linspace(0.1, 1, 5))

    def newton(x):
        return ng.while_loop(
            lambda y: ng.mpi.allreduce(abs(y * y - x).max(), MPI.MAX, comm) > 1e-12,
            lambda y: 0.5 * (y + x / y),
            x,
        )

    same_on_gpu(lambda x: (newton(x), ng.grad(lambda x: newton(x).sum())(x)), values((2,), rank))

    def branch(x, c):
        return ng.cond(
            c > 0, lambda x: ng.mpi.allreduce(x * x, comm=comm), lambda x: 3 * x, x
        ).sum()

    for c in (-1.0, 1.0):
        same_on_gpu(lambda x, c: (ng.grad(branch)(x, c[0]),), values((2,), rank), np.array([c]))


def check_ghost_cells():
    cart = comm.Create_cart(MPI.Compute_dims(size, 2), [True, False])

    def f(u):
        def loss(u):
            u = ng.mpi.halo_exchange(u, 1, cart)
            return (u * u * u).sum()

        return ng.mpi.halo_exchange(u, 1, cart), ng.grad(loss)(u)

    same_on_gpu(f, values((4, 5), rank))


def check_outside_of_jit():
    x = on_gpu(values((3,), rank)).requires_grad_()
    y = ng.mpi.allreduce(x * x, comm=comm)
    assert y.device == DEVICE
    y.sum().backward()
    same(host(x.grad), 2 * size * values((3,), rank))


def check_an_error_is_raised_where_values_are_asked_for():
    f = ng.jit(lambda x: ng.mpi.sendrecv(x, after, before, comm=comm))
    try:
        host(f(on_gpu(np.zeros(2 + rank))))
    except ng.errors.CommunicationError as error:
        assert "mpi.exchange" in str(error), error
    else:
        assert size == 1, "no error"


class SharedMemory(EmulatedDriver):
    """A driver of which MPI can read and write the memory, as one that knows GPUs does."""

    def __init__(self):
        self.reserved = np.empty(1 << 26, np.uint8)
        host_driver._FIRST_ADDRESS = self.reserved.ctypes.data
        self.most_copied = 0
        super().__init__(devices=1)

    def copy_to_host(self, host_address, address, nbytes, stream):
        self.most_copied = max(self.most_copied, nbytes)
        super().copy_to_host(host_address, address, nbytes, stream)

    def new_bytes(self, nbytes):
        # The allocator has gone on already.
        taken = -(-(nbytes + host_driver._GAP) // host_driver._ALIGNMENT) * host_driver._ALIGNMENT
        first = self._next_address[0] - taken - self.reserved.ctypes.data
        found = self.reserved[first : first + nbytes]
        found[:] = 0xFF
        return found


def check_an_mpi_that_knows_gpus():
    """It gets addresses of the device, in jit and outside: nothing is copied but words."""
    x = values((1000,), rank)

    def f(x):
        request = ng.mpi.irecv(x, before, 5, comm)
        ng.mpi.isend(x, after, 5, comm).wait()
        y = ng.mpi.shift(x * x, 1, comm) + ng.mpi.bcast(x, root, comm) + request.wait()
        return ng.mpi.allreduce(y, comm=comm)

    def loss(x):
        return (f(x) ** 2).sum()

    want, slope = f(x), ng.grad(loss)(x)
    # Compiled before the setting: it is read when a plan runs.
    before_it = ng.jit(f)
    before_it(on_gpu(x))
    driver = current_driver()
    assert driver.most_copied >= x.nbytes
    with ng.configure(mpi_cuda_aware=True):
        given = on_gpu(x)
        driver.most_copied = 0
        results = [(g(given), want) for g in (f, ng.jit(f), before_it)]
        results += [(g(given), slope) for g in (ng.grad(loss), ng.jit(ng.grad(loss)))]
        assert driver.most_copied < 100 * 8, driver.most_copied
        for found, wanted in results:
            assert found.device == DEVICE
            same(host(found), wanted)


staged = [
    *[(name, check_linear, name) for name in LINEAR],
    check_nonlinear,
    check_dtypes,
    check_batch,
    check_loops_and_branches,
    check_ghost_cells,
    check_outside_of_jit,
    check_an_error_is_raised_where_values_are_asked_for,
]
with installed(EmulatedDriver(late=True)):
    run(staged, sys.argv[1:])
with installed(SharedMemory()):
    run([check_an_mpi_that_knows_gpus], sys.argv[1:])
