"""Random bits as a function of a key and a counter: no state, so any order gives the same."""

import numpy as np

from numba_grad.ops.families import elementwise

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_WORD = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


def philox_reference(
    key: np.ndarray, counter: np.ndarray, stream: np.ndarray, *, half: int
) -> np.ndarray:
    """Philox 4x32-10 of Salmon et al. (2011), in NumPy."""
    k0, k1 = key & _WORD, key >> _32
    c0, c1, c2, c3 = counter & _WORD, counter >> _32, stream & _WORD, stream >> _32
    for number in range(10):
        if number:
            k0, k1 = (k0 + _KEY_STEPS[0]) & _WORD, (k1 + _KEY_STEPS[1]) & _WORD
        product0, product1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c2 = (product1 >> _32) ^ c1 ^ k0, (product0 >> _32) ^ c3 ^ k1
        c1, c3 = product1 & _WORD, product0 & _WORD
    return c2 | (c3 << _32) if half else c0 | (c1 << _32)


# Half 0 or 1 of the 128 bits that belong to a key and a counter, of which `counter` is the low and
# `stream` the high half.
philox = elementwise(
    "philox",
    expression=lambda *, half: f"philox_{half}({{key}}, {{counter}}, {{stream}})",
    reference=philox_reference,
    no_vjp="its result is an integer",
    input_names=("key", "counter", "stream"),
    dtypes="LQ",
    samples=((0, 2.0**62),) * 3,
    cost=60,
    params_samples=({"half": 0}, {"half": 1}),
)
