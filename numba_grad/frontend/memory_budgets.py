"""How many states of a loop its derivative may keep, from what the user says about memory."""

import math
import os
import re
from collections.abc import Sequence
from numbers import Real

from numba_grad.errors import explain
from numba_grad.graph.node import Node

Memory = int | float | str | None

_UNITS = {"B": 1, **{f"{p}B": 10 ** (3 * (k + 1)) for k, p in enumerate("kMGT")}}
_UNITS |= {f"{p}iB": 2 ** (10 * (k + 1)) for k, p in enumerate("KMGT")}
_UNITS = {unit.lower(): count for unit, count in _UNITS.items()}
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*([A-Za-z]+)\s*")
# Of a loop whose length is known when it runs, where nothing is said of memory.
_MOST_STATES = 1 << 20
_FEWEST_BYTES = 1 << 28
# Of loops that communicate, where nothing is said: of known length, and of others.
_ALL_STATES = 1 << 40
_STATES_OF_RANKS = 256


def states_within(
    operation: str, memory: Memory, carried: Sequence[Node], length: int | None = None
) -> int | None:
    """For how many states of what is carried there is room; None: for all of them.

    `length`: of the loop, if it is known.

    Raises
    ------
    ValueError
        If there is none for a single one, or `memory` says nothing that is understood.
    """
    state_bytes = max(1, sum(node.type.nbytes for node in carried))
    if memory is None:
        if length is not None and length * state_bytes <= _FEWEST_BYTES:
            return None
        # A power of two, so that the plan is the same tomorrow.
        room = 1 << max(_free_bytes() // 2, _FEWEST_BYTES).bit_length() - 1
        states = min(room // state_bytes, _MOST_STATES if length is None else length)
        states = max(states, 1)
    else:
        states = _states(operation, memory, state_bytes)
    if states < 1:
        raise ValueError(
            explain(
                operation,
                "there is no memory for a single state",
                got={"memory": memory, "bytes of a state": state_bytes},
                expected=f"at least {state_bytes} bytes",
            )
        )
    if length is not None and states >= length:
        return None
    return states


def memory_on_all_ranks(operation: str, memory: Memory, *, is_bounded: bool = True) -> Memory:
    """What to say of the memory of a loop that communicates, of which all ranks must keep as many
    states as the others: what is done again communicates again.

    `is_bounded`: whether the number of steps is known.

    Raises
    ------
    ValueError
        If `memory` is in bytes, which may be room for more states here than there.
    """
    if memory is None:
        return f"{_ALL_STATES if is_bounded else _STATES_OF_RANKS} states"
    match = _AMOUNT.fullmatch(memory) if isinstance(memory, str) else None
    if match is not None and match.group(2) in ("state", "states"):
        return memory
    raise ValueError(
        explain(
            operation,
            "the steps communicate, so all ranks must keep the same number of states",
            got={"memory": repr(memory)},
            expected='"40 states"',
            fix='memory=f"{comm.allreduce(budget // nbytes, MPI.MIN)} states", with the bytes of '
            "what is carried",
        )
    )


def _states(operation: str, memory: Memory, state_bytes: int) -> int:
    if isinstance(memory, Real) and not isinstance(memory, bool) and math.isfinite(memory):
        return int(memory) // state_bytes
    match = _AMOUNT.fullmatch(memory) if isinstance(memory, str) else None
    if match is not None:
        number, unit = match.groups()
        if unit in ("state", "states"):
            return int(float(number))
        if unit.lower() in _UNITS:
            return int(float(number) * _UNITS[unit.lower()]) // state_bytes
    raise ValueError(
        explain(
            operation,
            "memory is a number of bytes, or of states",
            got={"memory": repr(memory)},
            expected='500_000_000, "500 MB", "40 states"',
        )
    )


def _free_bytes() -> int:
    """Memory that is there for the asking, roughly."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 4 << 30  # a system that does not say
