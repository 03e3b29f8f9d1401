"""Philox 4x32-10: 128 random bits for each key of 64 bits and counter of 128.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011), with their
constants. Words of 32 bits stand in 64-bit values, as LLVM then multiplies them as vectors.
"""

from __future__ import annotations

from numba_grad.compiler.elementary.registry import UNSIGNED, formula
from numba_grad.compiler.elementary.scalar import Value

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
_WORD = 0xFFFFFFFF


def _words(x: Value) -> tuple[Value, Value]:
    return x & _WORD, x >> 32


def _block(key: Value, low: Value, high: Value) -> tuple[Value, Value, Value, Value]:
    key0, key1 = _words(key)
    c0, c1, c2, c3 = (*_words(low), *_words(high))
    for number in range(ROUNDS):
        if number:
            key0, key1 = (key0 + KEY_STEPS[0]) & _WORD, (key1 + KEY_STEPS[1]) & _WORD
        product0, product1 = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0, c2 = (product1 >> 32) ^ c1 ^ key0, (product0 >> 32) ^ c3 ^ key1
        c1, c3 = product1 & _WORD, product0 & _WORD
    return c0, c1, c2, c3


@formula(UNSIGNED, name="philox_0")
def first_half(key: Value, low: Value, high: Value) -> Value:
    """The first two words of the block, as the low and high half of a 64-bit integer."""
    c0, c1, _, _ = _block(key, low, high)
    return c0 | (c1 << 32)


@formula(UNSIGNED, name="philox_1")
def second_half(key: Value, low: Value, high: Value) -> Value:
    _, _, c2, c3 = _block(key, low, high)
    return c2 | (c3 << 32)
