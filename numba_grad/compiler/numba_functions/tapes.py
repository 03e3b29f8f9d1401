"""Tapes: stacks of numbers of one dtype, known by name.

The first word of a name says the dtype. Others say what is on it: `numbers_dot` has the tangents of
`numbers`, `numbers_of_states` the states of a loop.
"""

import numpy as np

DTYPES = {"numbers": "float64", "singles": "float32", "counts": "int64", "flags": "bool"}
_OF_DTYPE = {dtype: tape for tape, dtype in DTYPES.items()}


def tape_of(dtype: str) -> str:
    """The tape that values of this dtype are kept on."""
    return _OF_DTYPE.get(dtype, "counts")


def dtype_on(tape: str) -> str:
    """The dtype of what a tape keeps."""
    return DTYPES[tape.partition("_")[0]]


def dtype_of_result(tape: str) -> str:
    """The dtype of a tape that is the result of an operation: these have at least 32 bits."""
    return "int32" if dtype_on(tape) == "bool" else dtype_on(tape)


def entry_bytes(tape: str) -> int:
    """The bytes that a number takes on it."""
    return np.dtype(dtype_on(tape)).itemsize


def of_tangents(tape: str) -> str:
    """The tape of the tangents of what is on this one."""
    return f"{tape}_dot"


def of_states(tape: str) -> str:
    """The tape of the states of a loop, in memories of this dtype."""
    return f"{tape}_of_states"
