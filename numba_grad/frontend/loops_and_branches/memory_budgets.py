"""How many states of a loop its derivative may keep, from what the user says about memory."""

import math
import os
import re
from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from typing import Any

from numba_grad.errors import DeviceError, explain
from numba_grad.frontend.inputs.devices import device_kind
from numba_grad.frontend.namespaces import namespace
from numba_grad.graph.node import Node
from numba_grad.graph.types import CPU
from numba_grad.runtime.buffers import pool_limit

Memory = int | float | str | None

_UNITS = {"B": 1, **{f"{p}B": 10 ** (3 * (k + 1)) for k, p in enumerate("kMGT")}}
_UNITS |= {f"{p}iB": 2 ** (10 * (k + 1)) for k, p in enumerate("KMGT")}
_UNITS = {unit.lower(): count for unit, count in _UNITS.items()}
_ON_DISK = re.compile(r"disk:(.+):([^:]*)")
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*([A-Za-z]+)\s*")
# Of a loop whose length is known when it runs, where nothing is said of memory.
_MOST_STATES = 1 << 20
_MANY_STATES = 1 << 12
_FEWEST_BYTES = 1 << 28
# Of loops that communicate, where nothing is said: of known length, and of others.
_ALL_STATES = 1 << 40
_STATES_OF_RANKS = 256
# On a GPU, where memory is there at once or not at all, of such a loop; and in all, as the schedule
# is made by the host.
_MOST_STATES_OF_GPU = 1 << 12
_MOST_STATES_IN_SCHEDULE = 1 << 20


def states_within(
    operation: str,
    memory: Memory,
    carried: Sequence[Node],
    length: int | None = None,
    most: int | None = None,
) -> tuple[int | None, str]:
    """For how many states of what is carried there is room; None: for all of them. And the
    directory of the file that they go to; "": they stay in memory.

    `length`: of the loop, if it is known; `most`: or how many steps it has at most.

    Raises
    ------
    ValueError
        If there is none for a single one, or `memory` says nothing that is understood.
    OSError
        If there is no such directory.
    DeviceError
        If the states are on a GPU, and to go to a file.
    """
    memory, directory = _directory_in(operation, memory)
    state_bytes = max(1, sum(node.type.nbytes for node in carried))
    device = next((node.type.device for node in carried), CPU)
    if memory is None:
        if length is not None and length * state_bytes <= _FEWEST_BYTES:
            return None, ""
        # A power of two, so that the plan is the same tomorrow.
        room = 1 << max(_free_bytes(device) // 2, _FEWEST_BYTES).bit_length() - 1
        if length is None:
            length_at_most = _MOST_STATES if device == CPU else _MOST_STATES_OF_GPU
            if device == CPU:
                # The pool keeps memory from one run to the next, and new pages take longer than
                # many a loop. With so many states hardly a step is done again for want of more.
                kept = 1 << pool_limit().bit_length() - 2
                length_at_most = min(length_at_most, max(kept // state_bytes, _MANY_STATES))
            if most is not None:  # a power of two again: programs for other limits are the same
                length_at_most = min(length_at_most, 1 << most.bit_length())
        else:
            length_at_most = length
        states = max(min(room // state_bytes, length_at_most), 1)
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
    if directory:
        if device != CPU:
            raise DeviceError(
                explain(
                    operation,
                    "states on a GPU cannot go to a file",
                    got={"memory": memory, "device": device},
                    fix="memory of the GPU, such as memory='4 GB'",
                )
            )
        most = _MOST_STATES_IN_SCHEDULE if length is None else max(length, 1)
        return min(states, most), directory
    if length is not None and states >= length:
        return None, ""
    return (states if device == CPU else min(states, _MOST_STATES_IN_SCHEDULE)), ""


def _directory_in(operation: str, memory: Memory) -> tuple[Memory, str]:
    """The amount in "disk:PATH:4 GB", and the path; "" if there is none."""
    match = _ON_DISK.fullmatch(memory) if isinstance(memory, str) else None
    if match is None:
        return memory, ""
    path, amount = match.groups()
    directory = Path(path).expanduser().absolute()
    if not directory.is_dir():
        is_there = directory.exists()
        raise (NotADirectoryError if is_there else FileNotFoundError)(
            explain(
                operation,
                "there is no such directory for the states",
                got={"memory": memory, "path": str(directory)},
                fix=f"os.makedirs({str(directory)!r}) before" if not is_there else "",
            )
        )
    return amount, str(directory)


def memory_on_all_ranks(
    operation: str,
    memory: Memory,
    carried: Sequence[Node],
    communicators: Sequence[Any],
    *,
    is_bounded: bool = True,
) -> Memory:
    """What to say of the memory of a loop that communicates, of which all ranks must keep as many
    states as the others: what is done again communicates again. A budget in bytes is room for as
    many as fit on the rank where fewest do.

    `communicators`: of the steps. `is_bounded`: whether the number of steps is known.
    """
    if memory is None:
        return f"{_ALL_STATES if is_bounded else _STATES_OF_RANKS} states"
    amount, directory = _directory_in(operation, memory)
    states = _states(operation, amount, max(1, sum(node.type.nbytes for node in carried)))
    for communicator in communicators:
        states = namespace("mpi").all_ranks.least_on_ranks(states, communicator)
    return f"disk:{directory}:{states} states" if directory else f"{states} states"


def tape_bytes(operation: str, memory: Memory) -> int:
    """The bytes that the tape of a loop in a user's function may take.

    Raises
    ------
    ValueError
        If `memory` is no number of bytes.
    """
    if memory is None:
        # A power of two of the machine's, so that the code is the same tomorrow.
        return 1 << max(_machine_bytes() // 2, _FEWEST_BYTES).bit_length() - 1
    is_of_bytes = not isinstance(memory, str) or not re.search("states?$|^disk:", memory.strip())
    nbytes = _states(operation, memory, 1) if is_of_bytes else 0
    if nbytes < 1:
        raise ValueError(
            explain(
                operation,
                "memory is a number of bytes: steps differ in what they keep",
                got={"memory": repr(memory)},
                expected='500_000_000, "500 MB"',
            )
        )
    return nbytes


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
            expected='500_000_000, "500 MB", "40 states", "disk:PATH:4 GB"',
        )
    )


def _machine_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 8 << 30  # a system that does not say


def _free_bytes(device: str) -> int:
    """Memory that is there for the asking, roughly."""
    if device != CPU:
        return device_kind(device).free_bytes(device)
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 4 << 30  # a system that does not say
