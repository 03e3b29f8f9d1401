"""Kernels that `differentiable` refuses: the line is marked `here`."""

import numpy as np

try:
    from numba import cuda, float64
    from numba.cuda import syncwarp
except ImportError:  # what needs it is skipped
    cuda = syncwarp = float64 = None


def shared(x, out):
    s = cuda.shared.array(4, float64)  # here
    s[cuda.threadIdx.x] = x[cuda.threadIdx.x]
    out[cuda.threadIdx.x] = s[3 - cuda.threadIdx.x]


def barrier(x, out):
    out[cuda.grid(1)] = x[cuda.grid(1)]
    cuda.syncthreads()  # here


def warp(x, out):
    out[cuda.grid(1)] = x[cuda.grid(1)]
    syncwarp()  # here


def largest(x, out):
    cuda.atomic.max(out, 0, x[cuda.grid(1)])  # here


def exchange(x, out):
    cuda.atomic.cas(out, 0, x[cuda.grid(1)], 2.0)  # here


def former_sum(x, out):
    old = cuda.atomic.add(out, 0, x[cuda.grid(1)])
    out[1] = old  # here


def lane(x, out):
    out[0] = x[0]
    out[1] = cuda.laneid  # here


def raising(x, out):
    i = cuda.grid(1)
    if x[i] < 0.0:
        raise ValueError("negative")  # here
    out[i] = np.sqrt(x[i])


def asserting(x, out):
    i = cuda.grid(1)
    assert x[i] >= 0.0  # here
    out[i] = x[i]


KERNELS = {
    "shared": (shared, "`cuda.shared` cannot"),
    "barrier": (barrier, "`cuda.syncthreads` cannot"),
    "warp": (warp, "`cuda.syncwarp` cannot"),
    "largest": (largest, r"`cuda.atomic.max` cannot"),
    "exchange": (exchange, r"`cuda.atomic.cas` cannot"),
    "former_sum": (former_sum, "what `cuda.atomic.add` returns"),
    "lane": (lane, "`cuda.laneid` cannot"),
    "raising": (raising, "`raise` or `assert` in a kernel"),
    "asserting": (asserting, "`raise` or `assert` in a kernel"),
}
