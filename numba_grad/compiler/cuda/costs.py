"""What work takes on a GPU, roughly: the figures of an H200. Ratios of others are similar."""

from numba_grad.compiler.fusion.costs import Costs

# Seconds of a kernel in a captured graph that has hardly anything to do: 0.9 us on an H200.
LAUNCH = 1e-6
BANDWIDTH = 4.3e12  # bytes a second, read and written: measured by a copy
# A second, in float64, twice as many in float32: half of what the data sheet says of multiply-adds.
OPERATIONS = 1.7e13
CACHE_BYTES = 50 << 20  # of all multiprocessors together
MULTIPROCESSORS = 132
THREADS_OF_MULTIPROCESSOR = 2048
# Of all that a device can have: with fewer threads than these, memory is not as fast as it can be.
SHARE_OF_THREADS = 0.25

_BYTES = OPERATIONS / BANDWIDTH  # additions in the time that a byte takes
COSTS = Costs(
    # A load from the first-level cache takes as long as 8 additions, but neighbours read much of
    # the same. With 8 a gradient of layer normalization stored a product of what is read anyway,
    # with 1 kernels of the heat equation had 128 registers instead of 40.
    load=4,
    # Three times what bandwidth comes to: kernels wait for memory, and compute for nothing
    # meanwhile. Gradient of the heat equation: 6.8 ms with once that, 5.8 with this, as with more.
    store=48 * _BYTES,
    # Half of what bandwidth comes to: conditions at the edges are written out again for each
    # place. With all of it the gradient of a stencil took 24 s to compile instead of 4.
    store_of_shifts=8 * _BYTES,
    store_of_expansion=400,
    cached_bytes=CACHE_BYTES // 2,
    store_in_cache=16 * _BYTES,
    bytes_in_cache=0,  # not measured
)


def seconds(nbytes: float, operations: float, threads: float) -> float:
    """Of a kernel with so many threads at the same time."""
    enough = SHARE_OF_THREADS * MULTIPROCESSORS * THREADS_OF_MULTIPROCESSOR
    share = min(1.0, threads / enough)
    return LAUNCH + max(nbytes / BANDWIDTH, operations / OPERATIONS) / share
