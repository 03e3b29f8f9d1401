"""Random numbers by rejection: each element tries until a number is accepted.

Inputs are a key and a counter for each element, and a parameter of the distribution. Trials take
further blocks of bits by the high half of the counter.
"""

import math
import textwrap

import numpy as np

from numba_grad.compiler.library_kernels.calls import LibraryCall, call_of_elements
from numba_grad.compiler.library_kernels.registry import BY_TASK, LibraryKernel, Translated, lowers
from numba_grad.graph.node import Node

__all__ = ["gamma_draw_call", "poisson_draw_call"]

_COST = 64  # of an element, in nanoseconds

# Who tries more often has a parameter that is no number: one in 1e100 others would.
MOST_TRIALS = 100


_BLOCK = 64


def gamma_draw_call(dtype: np.dtype, size: int, *, block: int = _BLOCK) -> LibraryCall:
    """Numbers of shape a >= 1. Inputs: keys, counters (uint64), a; one output, of `size`.

    The first trials of `block` elements are made together.
    """
    return call_of_elements(_gamma_source(dtype, block), 3, size, _COST)


def _gamma_source(dtype: np.dtype, block: int) -> str:
    """Marsaglia and Tsang, "A simple method for generating gamma variables" (2000).

    Trial k takes the blocks 1 + 2 k (a normal number) and 2 + 2 k of the counter. The first trials
    of several elements are vector code; 1 in 20 or fewer is rejected, and goes on alone.
    """

    def trial(stream: str) -> str:
        return f"""\
            d = float64(shapes[i]) - {1 / 3!r}
            first = float64(philox_0(keys[i], counters[i], {stream})) + 0.5
            second = float64(philox_1(keys[i], counters[i], {stream}) >> uint64(11))
            last = float64(philox_0(keys[i], counters[i], {stream} + uint64(1))) + 0.5
            radius = sqrt(-2.0 * log(first * {2.0**-64!r}))
            x = radius * cos(second * {2.0**-53 * 2 * math.pi!r})
            root = 1.0 + x / sqrt(9.0 * d)
            v = root * root * root
            limit = 0.5 * x * x + d * (1.0 - v + log(v))
            is_accepted = (root > 0.0) & (log(last * {2.0**-64!r}) < limit)
"""

    again = textwrap.indent(trial("stream"), 8 * " ")
    return f"""\
def kernel(args, lo, hi):
    keys = buffer(args, 0, uint64)
    counters = buffer(args, 1, uint64)
    shapes = buffer(args, 2, {dtype.name})
    out = buffer(args, 3, {dtype.name})
    draws = local({block}, float64)
    for start in range(lo, hi, {block}):
        end = min(start + {block}, hi)
        for i in range(start, end):
{trial("uint64(1)")}\
            draws[i - start] = select(is_accepted, d * v, nan)
        for i in range(start, end):
            draw = draws[i - start]
            if draw != draw:
                for number in range(1, {MOST_TRIALS}):
                    stream = uint64(1 + 2 * number)
{again}\
                    if is_accepted:
                        draw = d * v
                        break
            out[i] = {dtype.name}(draw)
"""


def poisson_draw_call(dtype: np.dtype, size: int) -> LibraryCall:
    """Numbers with mean lam. Inputs: keys, counters (uint64), lam; one output, int64, of `size`."""
    return call_of_elements(_poisson_source(dtype), 3, size, _COST)


SMALL_MEAN = 10.0


def _poisson_source(dtype: np.dtype) -> str:
    """Hoermann, "The transformed rejection method for generating Poisson random variables" (1993),
    algorithm PTRS. Small means by inversion, from block 0.

    Trial k takes block 1 + k. The logarithm of k! by Stirling's series, eight places further on.
    """
    return f"""\
def kernel(args, lo, hi):
    keys = buffer(args, 0, uint64)
    counters = buffer(args, 1, uint64)
    means = buffer(args, 2, {dtype.name})
    out = buffer(args, 3, int64)
    for i in range(lo, hi):
        key = keys[i]
        counter = counters[i]
        mean = float64(means[i])
        result = -1.0
        if mean >= 0.0 and mean < {SMALL_MEAN!r}:
            bits = philox_0(key, counter, uint64(0))
            u = (float64(bits) + 0.5) * {2.0**-64!r}
            p = exp(-mean)
            result = 0.0
            while u > p and p > 0.0:
                u -= p
                result += 1.0
                p *= mean / result
        elif mean >= {SMALL_MEAN!r} and mean < inf:
            b = 0.931 + 2.53 * sqrt(mean)
            a = -0.059 + 0.02483 * b
            log_mean = log(mean)
            log_inverse = log(1.1239 + 1.1328 / (b - 3.4))
            limit = 0.9277 - 3.6224 / (b - 2.0)
            for trial in range({MOST_TRIALS}):
                stream = uint64(1 + trial)
                u = (float64(philox_0(key, counter, stream)) + 0.5) * {2.0**-64!r} - 0.5
                v = (float64(philox_1(key, counter, stream)) + 0.5) * {2.0**-64!r}
                distance = 0.5 - absolute(u)
                k = floor((2.0 * a / distance + b) * u + mean + 0.43)
                if distance >= 0.07 and v <= limit:
                    result = k
                    break
                if k < 0.0 or (distance < 0.013 and v > distance):
                    continue
                z = k + 9.0
                product = 1.0
                for factor in range(1, 9):
                    product *= k + float64(factor)
                r = 1.0 / (z * z)
                series = {1 / 12!r} - r * ({1 / 360!r} - r * ({1 / 1260!r} - r * {1 / 1680!r}))
                log_factorial = (z - 0.5) * log(z) - z + {0.5 * math.log(2 * math.pi)!r}
                log_factorial += series / z - log(product)
                left = log(v) + log_inverse - log(a / (distance * distance) + b)
                if left <= k * log_mean - mean - log_factorial:
                    result = k
                    break
        out[i] = int64(result)
"""


@lowers("gamma_draw", by=gamma_draw_call, on_gpus=Translated({"block": 1}))
def _gamma_draw(kernel: LibraryKernel, node: Node) -> LibraryCall:
    return kernel(node.dtype, node.type.size)


@lowers("poisson_draw", by=poisson_draw_call, on_gpus=BY_TASK)
def _poisson_draw(kernel: LibraryKernel, node: Node) -> LibraryCall:
    return kernel(node.inputs[2].dtype, node.type.size)
