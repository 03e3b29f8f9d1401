"""What all communication needs: a communicator, operands, a place in the order of the program."""

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_grad.compiler.evaluate import evaluate
from numba_grad.config import config
from numba_grad.errors import ShapeError, explain
from numba_grad.frontend.inputs.arrays import as_node
from numba_grad.frontend.message_passing.rank_agreement import agree, communicates, tell_of_failures
from numba_grad.graph import order
from numba_grad.graph.node import OPS, Node, numbers
from numba_grad.graph.types import CPU
from numba_grad.ops import communication
from numba_grad.ops.communication import DATATYPES, PlaceWord, units
from numba_grad.ops.families import placed
from numba_grad.runtime.mpi import handle_of, library

order.evaluate = evaluate

_MOST_COUNT = (1 << 31) - 1


class Communicator:
    """What is asked of an mpi4py communicator, once for each communication."""

    def __init__(self, operation: str, comm: Any) -> None:
        self.mpi = library()
        self.comm = self.mpi.COMM_WORLD if comm is None else comm
        if not isinstance(self.comm, self.mpi.Comm):
            raise TypeError(
                explain(
                    operation,
                    "not a communicator",
                    got={"comm": repr(comm)},
                    expected="one of mpi4py's, such as MPI.COMM_WORLD",
                )
            )
        if self.comm == self.mpi.COMM_NULL or self.comm.Is_inter():
            raise ValueError(
                explain(
                    operation,
                    "needs a communicator of one group that this process is in",
                    got={"comm": "MPI.COMM_NULL, or between two groups"},
                )
            )
        tell_of_failures()
        self.operation = operation
        self.size: int = self.comm.Get_size()
        self.rank: int = self.comm.Get_rank()

    def root(self, root: Any) -> int:
        number = as_integer(self.operation, "root", root)
        if not 0 <= number < self.size:
            raise ValueError(
                explain(
                    self.operation,
                    "there is no such rank",
                    got={"root": root},
                    expected=f"0 to {self.size - 1}",
                )
            )
        return number

    def peer(self, name: str, rank: Any) -> int:
        number = as_integer(self.operation, name, rank)
        if not (0 <= number < self.size or number == self.mpi.PROC_NULL):
            known = " (messages from whoever comes first have no adjoint)"
            raise ValueError(
                explain(
                    self.operation,
                    f"there is no such rank{known if number == self.mpi.ANY_SOURCE else ''}",
                    got={name: rank},
                    expected=f"0 to {self.size - 1}, or MPI.PROC_NULL for nobody",
                )
            )
        return number

    def place(
        self, dtype: np.dtype, root: int = 0, peers: Sequence[tuple[int, int, int, int]] = ()
    ) -> Node:
        """Handles and ranks of a communication; `peers`: destination, source, and their tags."""
        handle = handle_of(self.comm)
        return _place(handle, self.rank, self.mpi.PROC_NULL, dtype, root, tuple(peers))


@functools.lru_cache(maxsize=1 << 12)
def _place(
    handle: int,
    rank: int,
    nobody: int,
    dtype: np.dtype,
    root: int,
    peers: tuple[tuple[int, int, int, int], ...],
) -> Node:
    mpi = library()
    words = np.zeros(PlaceWord.PEERS + PlaceWord.OF_PEER * len(peers), np.int64)
    words[PlaceWord.COMMUNICATOR] = handle
    words[PlaceWord.DATATYPE] = handle_of(getattr(mpi, DATATYPES.get(dtype.name, "BYTE")))
    for name in ("SUM", "MIN", "MAX", "PROD"):
        words[PlaceWord[name]] = handle_of(getattr(mpi, name))
    words[PlaceWord.FLOAT] = handle_of(mpi.FLOAT)
    words[PlaceWord.ROOT], words[PlaceWord.RANK], words[PlaceWord.NOBODY] = (
        root,
        rank,
        nobody,
    )
    words[PlaceWord.PEERS :] = [word for peer in peers for word in peer]
    return numbers(words)


def as_integer(operation: str, name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            explain(operation, f"`{name}` must be an integer", got={name: repr(value)})
        ) from None


def as_operand(operation: str, x: Any) -> Node:
    node = as_node(x)
    count = node.type.size * units(node.type)
    if count > _MOST_COUNT:
        raise ShapeError(
            explain(
                operation,
                "more elements than MPI counts in one message",
                got={"x": node.type},
                expected=f"at most {_MOST_COUNT:,}",
                fix="several parts of it",
            )
        )
    return node


def communicate(
    name: str, operands: Sequence[Node], place: Node, params: dict[str, Any]
) -> list[Node]:
    """The results of a communication, in the order in which the program says them, where the
    operands are.

    What is on a GPU goes through the memory of the host, unless MPI knows GPUs.
    """
    communicates(f"mpi.{name}")
    device = _device_of(operands)
    where = device if config.mpi_cuda_aware else CPU
    chain = communication.Chain(place, placed(order.token(), where))
    results = chain(OPS[f"mpi_{name}"], [placed(x, where) for x in operands], params)
    order.advance(results, placed(chain.token, CPU))
    return [placed(y, device) for y in results]


def _device_of(operands: Sequence[Node]) -> str:
    return next((x.type.device for x in operands if x.type.device != CPU), CPU)


def collective(
    given: Communicator, name: str, x: Node, params: dict[str, Any], root: int = 0
) -> Node:
    """The result of a communication that all ranks take part in."""
    _agree_on(given, name, x, params, root)
    (y,) = communicate(name, [x], given.place(x.dtype, root), params)
    return y


def _agree_on(
    given: Communicator, name: str, x: Node | None, params: dict[str, Any], root: int
) -> None:
    """Compare what ranks are about to do, if that is wanted; rows may differ in number."""
    shared = {key: value for key, value in params.items() if key not in ("rows", "received")}
    if "received" in params:
        shared.pop("counts")
    type = None if x is None else x.type
    if type is not None and "counts" in params:
        type = type.of_shape(type.shape[1:])  # of a row
    agree(given.comm, f"mpi.{name}", f"{type}, root {root}, {shared}")
