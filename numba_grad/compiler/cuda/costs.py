"""What work takes on a GPU, roughly: the figures of an H200. Ratios of others are similar."""

LAUNCH = 2e-6  # seconds of a kernel in a captured graph that has hardly anything to do
BANDWIDTH = 4.3e12  # bytes a second of a copy
OPERATIONS = 1.7e13  # a second, in float64: half of the data sheet's; in float32 twice as many
CACHE_BYTES = 50 << 20  # of all multiprocessors together
MULTIPROCESSORS = 132
THREADS_OF_MULTIPROCESSOR = 2048
# Of all that a device can have: with fewer threads than these, memory is not as fast as it can be.
SHARE_OF_THREADS = 0.25


def seconds(nbytes: float, operations: float, threads: float) -> float:
    """Of a kernel with so many threads at the same time."""
    enough = SHARE_OF_THREADS * MULTIPROCESSORS * THREADS_OF_MULTIPROCESSOR
    share = min(1.0, threads / enough)
    return LAUNCH + max(nbytes / BANDWIDTH, operations / OPERATIONS) / share
