"""Sums of generated kernels whose terms may be added in any order, as those of cotangents may.

In a loop a compiler may then add to several partial sums at once: an addition in order waits for
the one before, four cycles of a processor that adds eight numbers in one. The order follows from
the number of passes alone, so results are the same in every run.
"""


def added(total: float, term: float) -> float:
    """The sum of both."""
    return total + term
