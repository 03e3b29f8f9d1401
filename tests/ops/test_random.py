"""Random bits against the known answers of the Random123 distribution."""

import numpy as np
import pytest

from numba_grad.compiler.evaluate import evaluate
from numba_grad.graph.node import leaf
from numba_grad.ops.random import philox

# kat_vectors of Random123, lines "philox4x32 10": counter, key, expected words.
KNOWN_ANSWERS = [
    (
        "00000000 00000000 00000000 00000000",
        "00000000 00000000",
        "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    ),
    (
        "ffffffff ffffffff ffffffff ffffffff",
        "ffffffff ffffffff",
        "408f276d 41c83b0e a20bc7c6 6d5451fd",
    ),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


def halves(words: str) -> list[int]:
    """64-bit numbers from words of 32 bits, the least significant first."""
    numbers = [int(word, 16) for word in words.split()]
    return [low | high << 32 for low, high in zip(numbers[::2], numbers[1::2], strict=True)]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_known_answers(engine, counter, key, expected):
    operands = [leaf(np.array(x, np.uint64)) for x in (*halves(key), *halves(counter))]
    nodes = [philox(*operands, half=half) for half in (0, 1)]
    evaluate(nodes)
    assert [int(node.value) for node in nodes] == halves(expected)
