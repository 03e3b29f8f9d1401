"""Communications between processes as operations, by MPI's names.

Each reads its operands, a *place* and the token of the communication before it, and gives its
result and a token (`graph/order.py`). A place is an array of handles and ranks (`PlaceWord`): it is
read when a plan runs, so that all processes, and all communicators, have the same plan.

    linear     y = A x over all ranks; the tangent is A t, the cotangent A^T g, both communications
    rows       of these, A may take or give an axis of rows in front: one part for each rank

The adjoint of a communication reads the token that the communication gave as well as that of the
adjoint after it. So it comes after it, and where a derivative computes values again it communicates
again, whether these values are used or not: what is used may differ between ranks.
"""

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from numba_grad.dtypes import is_inexact
from numba_grad.errors import GradientError, InternalError, explain
from numba_grad.fresh_thread import imported
from numba_grad.graph import order
from numba_grad.graph.node import OPS, Node, Op
from numba_grad.graph.types import TupleType, Type
from numba_grad.ops.control import aliases, by_pullback, rebuild_with_results, result, with_results
from numba_grad.ops.families import ALL, NUMERIC, broadcast_to, cast, ones_like, reshape, zeros_like

FAMILY = "call"  # compiled as a segment of its own


class PlaceWord(enum.IntEnum):
    """The words of a place."""

    COMMUNICATOR = 0  # handles
    DATATYPE = 1
    SUM = 2
    MIN = 3
    MAX = 4
    PROD = 5
    FLOAT = 6  # the datatype of float32
    ROOT = 7  # ranks
    RANK = 8
    NOBODY = 9  # MPI.PROC_NULL
    PEERS = 10  # then for each message of an exchange: destination, source, and their tags
    OF_PEER = 4


def units(type: Type) -> int:
    """How many of MPI's elements one of ours is: bytes, where it has no such dtype."""
    return 1 if type.dtype.name in DATATYPES else type.dtype.itemsize


# What MPI calls a dtype.
DATATYPES = {
    "bool": "C_BOOL",
    **{f"{sign}int{n}": f"{sign.upper()}INT{n}_T" for sign in ("", "u") for n in (8, 16, 32, 64)},
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "complex64": "C_FLOAT_COMPLEX",
    "complex128": "C_DOUBLE_COMPLEX",
}


@dataclass(slots=True, eq=False)
class Chain:
    """Communications that are recorded one after the other."""

    place: Node
    token: Node
    after: tuple[Node, ...] = ()  # the token of what is differentiated

    def __call__(self, op: Op, operands: Sequence[Node], params: dict[str, Any]) -> list[Node]:
        """The results of a communication, the token apart."""
        node = with_results(op, [*operands, self.place, self.token, *self.after], params)
        *results, self.token = [result(node, k) for k in range(len(node.type.items))]
        order.compute([*results, self.token])
        return results

    def sum(self, x: Node) -> Node:
        (y,) = self(allreduce, [x], SUM)
        return y


# (chain, tangents or cotangents, results, *operands, **params) -> the same of results or operands
Rule = Callable[..., Sequence[Node | None]]


@dataclass(frozen=True, slots=True, eq=False)
class _Communication:
    """What the record of a communication is made of, and the functions in it.

    types : of the operands and params -> of the results
    tangent, cotangent : by further communications, on a chain
    reference : (MPI communicator, place, *operands, **params) -> results, with mpi4py and NumPy
    takes_rows, gives_rows : whether the first axis of operands and results counts parts for ranks
    is_request : whether the second operand, or result, is a request: one, also of a batch
    """

    name: str
    types: Callable[..., tuple[Type, ...]]
    tangent: Rule
    cotangent: Rule
    reference: Callable[..., Sequence[np.ndarray]]
    operands: int = 1
    takes_rows: bool = False
    gives_rows: bool = False
    is_request: bool = False
    dtypes: str = ALL

    def record(self) -> Op:
        return Op(
            f"mpi_{self.name}",
            FAMILY,
            ("x",),
            self.infer,
            by_pullback,
            self.batch,
            dtypes=self.dtypes,
            extras={
                "pullback": self.pullback,
                "with_tangents": self.with_tangents,
                "evaluate": self.evaluate,
                "rebuild": rebuild_with_results,
                "operands": self.operands,
                "communicates": True,
            },
            jvp=self.jvp,
        )

    def infer(self, *given: Type, **params: Any) -> TupleType:
        device = given[0].device  # of an operand, or of the place
        types = self.types(*given[: self.operands], **params)
        return TupleType((*types, order.TOKEN.on(device)))

    def parts(self, inputs: Sequence[Any]) -> tuple[list[Any], Any, Any]:
        """The operands, the place and the token."""
        count = self.operands
        return list(inputs[:count]), inputs[count], inputs[count + 1]

    def pullback(
        self, cotangents: list[Node | None], out: Node, *inputs: Node, **params: Any
    ) -> list[Node | None]:
        own, place, _ = self.parts(inputs)
        *given, token = cotangents
        after = [None] * (len(inputs) - self.operands - 2)
        if not _has_derivative(own):
            return [*[None] * (self.operands + 1), token, *after]
        if self.is_request and self.name != "wait" and any(g is None for g in given):
            raise _never_waited_for(self.name)
        chain = _chain_after(out, place, token)
        results = _results_of(out)
        seeds = [zeros_like(y) if g is None else g for g, y in zip(given, results, strict=True)]
        found = list(self.cotangent(chain, seeds, results, *own, **params))
        if token is None:
            order.advance([x for x in found if x is not None], chain.token)
        return [*found, None, chain.token, *after]

    def moved(
        self, chain: Chain, tangents: Sequence[Any], results: Any, own: Any, params: Any
    ) -> list[Any]:
        """The tangents of the results."""
        given = tangents[: self.operands]
        directions = [zeros_like(x) if t is None else t for t, x in zip(given, own, strict=True)]
        return list(self.tangent(chain, directions, results, *own, **params))

    def jvp(self, tangents: Sequence[Any], out: Node, *inputs: Node, **params: Any) -> list[Any]:
        own, place, _ = self.parts(inputs)
        token = tangents[self.operands + 1]
        if not _has_derivative(own):
            return [*[None] * (len(out.type.items) - 1), token]
        chain = _chain_after(out, place, token)
        found = self.moved(chain, tangents, _results_of(out), own, params)
        if token is None:
            order.advance([x for x in found if x is not None], chain.token)
        return [*found, chain.token]

    def with_tangents(
        self, tangents: Sequence[Any], *inputs: Node, **params: Any
    ) -> tuple[Node, list[Any]]:
        own, place, token = self.parts(inputs)
        chain = Chain(place, token, tuple(inputs[self.operands + 2 :]))
        results = chain(OPS[f"mpi_{self.name}"], own, params)
        if not _has_derivative(own):
            none = [None] * len(results)
            return aliases([*results, chain.token]), [*none, tangents[self.operands + 1]]
        found = self.moved(chain, tangents, results, own, params)
        return aliases([*results, chain.token]), [*found, chain.token]

    def batch(self, is_batched: Sequence[bool], *inputs: Node, **params: Any) -> Node:
        count = self.operands
        size = next(x.shape[0] for x, has in zip(inputs, is_batched, strict=True) if has)
        own = [
            x if has else _repeated(x, size)
            for x, has in zip(inputs[:count], is_batched, strict=False)
        ]
        if self.is_request:
            own[1:] = [_first(x) for x in own[1:]]
        if self.takes_rows:
            own = [_axes_swapped(x) if x.shape else x for x in own]
        place, token, *after = [
            _first(x) if has else x
            for x, has in zip(inputs[count:], is_batched[count:], strict=True)
        ]
        chain = Chain(place, token, tuple(after))
        results = chain(OPS[f"mpi_{self.name}"], own, params)
        if self.gives_rows:
            results = [_axes_swapped(y) if y.shape else _repeated(y, size) for y in results]
        return aliases([*results, _repeated(chain.token, size)])

    def evaluate(self, _: Any, *arrays: np.ndarray, **params: Any) -> tuple[Any, ...]:
        own, place, _ = self.parts(arrays)
        mpi = imported("mpi4py.MPI")
        communicator = mpi.Comm.fromhandle(int(place[PlaceWord.COMMUNICATOR]))
        results = self.reference(communicator, place, *own, **params)
        return (*[np.ascontiguousarray(y) for y in results], order.VALUE)


def _has_derivative(own: Sequence[Node]) -> bool:
    return all(is_inexact(x.dtype) for x in own)


def _chain_after(out: Node, place: Node, token: Node | None) -> Chain:
    """The chain of what is done for the derivative of `out`."""
    after = (result(out, len(out.type.items) - 1),)
    return Chain(place, order.token() if token is None else token, after)


def _results_of(out: Node) -> list[Node]:
    return [result(out, k) for k in range(len(out.type.items) - 1)]


def _first(x: Node) -> Node:
    """The first member of a batch whose members are the same."""
    rank = len(x.shape)
    sizes = (1, *x.shape[1:])
    part = OPS["slice"](x, starts=(0,) * rank, sizes=sizes, steps=(1,) * rank)
    return reshape(part, x.shape[1:])


def _repeated(x: Node, size: int) -> Node:
    return broadcast_to(reshape(x, (1, *x.shape)), (size, *x.shape))


def _axes_swapped(x: Node) -> Node:
    return OPS["transpose"](x, axes=(1, 0, *range(2, len(x.shape))))


def _as_tangent(name: str) -> Rule:
    """A linear communication: its tangent is that of the tangents."""

    def tangent(chain: Chain, tangents: Any, results: Any, *own: Node, **params: Any) -> list[Node]:
        return chain(OPS[f"mpi_{name}"], tangents, params)

    return tangent


def _same_type(x: Type, **params: Any) -> tuple[Type]:
    return (x,)


def _with_rows(x: Type, *, rows: int, **params: Any) -> tuple[Type]:
    return (x.of_shape((rows, *x.shape[1:])),)


# Reductions.

# Params of an `allreduce`: how values are combined; how many ranks there are, where that must be
# known; whether they are gathered, and combined in the order of ranks.
SUM: dict[str, Any] = {"combine": "sum", "ranks": 0, "ordered": False}
_COMBINED = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}


def _in_order(parts: Sequence[np.ndarray], combine: str) -> np.ndarray:
    total = parts[0]
    for part in parts[1:]:
        total = _COMBINED[combine](total, part)
    return np.asarray(total, parts[0].dtype)


def _others(chain: Chain, x: Node, size: int) -> Node:
    """The product of what the other ranks have."""
    (rows,) = chain(allgather, [reshape(x, (1, *x.shape))], {"counts": (1,) * size, "rows": size})
    rank = _words(chain.place, PlaceWord.RANK, 1)
    is_own = OPS["equal"](OPS["iota"](size=size, dtype=np.dtype(np.int64)), rank)
    is_own = reshape(is_own, (size, *[1] * len(x.shape)))
    return OPS["prod"](OPS["where"](is_own, ones_like(rows), rows), axes=(0,))


def _words(place: Node, first: int, count: int, step: int = 1) -> Node:
    return OPS["slice"](place, starts=(int(first),), sizes=(count,), steps=(int(step),))


def _is_extreme(chain: Chain, x: Node, combine: str) -> tuple[Node, Node]:
    """1 where this rank has the extreme, and how many ranks have it, where it is shared. It is
    found again, since `x` may be computed again, and rounded otherwise."""
    (y,) = chain(allreduce, [x], {**SUM, "combine": combine})
    is_it = cast(OPS["equal"](x, y), x.dtype)
    return is_it, chain.sum(is_it)


def _allreduce_tangent(
    chain: Chain, tangents: Any, results: Any, x: Node, *, combine: str, ranks: int, ordered: bool
) -> list[Node]:
    (t,) = tangents
    if combine == "sum":
        return chain(allreduce, [t], {"combine": combine, "ranks": ranks, "ordered": ordered})
    if combine == "prod":
        return [chain.sum(OPS["multiply"](t, _others(chain, x, ranks)))]
    is_it, count = _is_extreme(chain, x, combine)
    return [OPS["divide"](chain.sum(OPS["multiply"](t, is_it)), count)]


def _allreduce_cotangent(
    chain: Chain, cotangents: Any, results: Any, x: Node, *, combine: str, ranks: int, ordered: bool
) -> list[Node]:
    (g,) = cotangents
    (total,) = chain(allreduce, [g], {"combine": "sum", "ranks": ranks, "ordered": ordered})
    if combine == "sum":
        return [total]
    if combine == "prod":
        others = _others(chain, x, ranks)
        if x.dtype.kind == "c":
            others = OPS["conjugate"](others)
        return [OPS["multiply"](total, others)]
    is_it, count = _is_extreme(chain, x, combine)
    return [OPS["divide"](OPS["multiply"](total, is_it), count)]


allreduce = _Communication(
    "allreduce",
    _same_type,
    dtypes=NUMERIC,
    tangent=_allreduce_tangent,
    cotangent=_allreduce_cotangent,
    reference=lambda comm, place, x, *, combine, ranks, ordered: [
        _in_order(comm.allgather(x), combine)
    ],
).record()


def _summed(chain: Chain, name: str, g: Node, params: dict[str, Any]) -> list[Node]:
    """The adjoint of what is moved to several ranks: a sum, in float32 where MPI has none."""
    op = OPS[f"mpi_{name}"]
    if g.dtype.name in DATATYPES:
        return chain(op, [g], params)
    float32 = _words(chain.place, PlaceWord.FLOAT, 1)
    starts = (int(PlaceWord.DATATYPE),)
    place = OPS["update_slice"](chain.place, float32, starts=starts, steps=(1,))
    wide = Chain(place, chain.token, chain.after)
    (y,) = wide(op, [cast(g, np.dtype(np.float32))], params)
    chain.token = wide.token
    return [cast(y, g.dtype)]


# To and from a root. What other ranks get of a reduction is 0.

reduce = _Communication(
    "reduce",
    _same_type,
    dtypes=NUMERIC,
    tangent=_as_tangent("reduce"),
    cotangent=lambda chain, gs, ys, x: chain(bcast, gs, {}),
    reference=lambda comm, place, x: [
        _in_order(parts, "sum")
        if (parts := comm.gather(x, root_of(place))) is not None
        else np.zeros_like(x)
    ],
).record()
bcast = _Communication(
    "bcast",
    _same_type,
    tangent=_as_tangent("bcast"),
    cotangent=lambda chain, gs, ys, x: _summed(chain, "reduce", gs[0], {}),
    reference=lambda comm, place, x: [comm.bcast(x, root_of(place))],
).record()


def root_of(place: np.ndarray) -> int:
    return int(place[PlaceWord.ROOT])


# Rows for ranks: `counts` says how many each rank has, `rows` how many this one gets.


def _adjoint(name: str) -> Rule:
    """The cotangent by the communication that brings all rows back."""

    def cotangent(
        chain: Chain, gs: Any, ys: Any, x: Node, *, counts: tuple[int, ...], rows: int
    ) -> list[Node]:
        return _summed(chain, name, gs[0], {"counts": counts, "rows": x.shape[0]})

    return cotangent


def _parts(x: np.ndarray, counts: Sequence[int]) -> list[np.ndarray]:
    return np.split(x, np.cumsum(counts)[:-1])


def _rows_communication(name: str, adjoint: str, reference: Callable[..., np.ndarray | None]) -> Op:
    def of_reference(comm: Any, place: Any, x: np.ndarray, **params: Any) -> list[np.ndarray]:
        found = reference(comm, place, x, params["counts"])
        return [x[:0] if found is None else found]

    return _Communication(
        name,
        _with_rows,
        tangent=_as_tangent(name),
        cotangent=_adjoint(adjoint),
        reference=of_reference,
        takes_rows=True,
        gives_rows=True,
    ).record()


allgather = _rows_communication(
    "allgather",
    "reduce_scatter",
    lambda comm, place, x, counts: np.concatenate(comm.allgather(x)),
)
reduce_scatter = _rows_communication(
    "reduce_scatter",
    "allgather",
    lambda comm, place, x, counts: _parts(_in_order(comm.allgather(x), "sum"), counts)[
        comm.Get_rank()
    ],
)
gather = _rows_communication(
    "gather",
    "scatter",
    lambda comm, place, x, counts: (
        None if (parts := comm.gather(x, root_of(place))) is None else np.concatenate(parts)
    ),
)
scatter = _rows_communication(
    "scatter",
    "gather",
    lambda comm, place, x, counts: comm.scatter(
        _parts(x, counts) if comm.Get_rank() == root_of(place) else None, root_of(place)
    ),
)
alltoall = _Communication(
    "alltoall",
    _with_rows,
    tangent=_as_tangent("alltoall"),
    cotangent=lambda chain, gs, ys, x, *, counts, received, rows: chain(
        alltoall, gs, {"counts": received, "received": counts, "rows": x.shape[0]}
    ),
    reference=lambda comm, place, x, *, counts, received, rows: [
        np.concatenate(comm.alltoall(_parts(x, counts)))
    ],
    takes_rows=True,
    gives_rows=True,
).record()

# Messages between pairs of ranks, several at once: row k of `x` goes to the destination k of the
# place, and from its source k comes row k of the result. From nobody comes row k of `like`.


def _exchange_types(x: Type, like: Type, *, backward: bool) -> tuple[Type]:
    return (like,)


def _from_nobody(chain: Chain, g: Node, *, backward: bool) -> Node:
    """The rows of `g` that nobody sends, 0 for the others."""
    peers, count = PlaceWord.PEERS + (0 if backward else 1), g.shape[0]
    sources = _words(chain.place, peers, count, PlaceWord.OF_PEER)
    is_nobody = OPS["equal"](sources, _words(chain.place, PlaceWord.NOBODY, 1))
    is_nobody = reshape(is_nobody, (count, *[1] * (len(g.shape) - 1)))
    return OPS["where"](is_nobody, g, zeros_like(g))


def _exchange_cotangent(
    chain: Chain, cotangents: Any, results: Any, x: Node, like: Node, *, backward: bool
) -> list[Node]:
    (g,) = cotangents
    (of_x,) = chain(exchange, [g, zeros_like(x)], {"backward": not backward})
    return [of_x, _from_nobody(chain, g, backward=backward)]


def _exchange_reference(
    comm: Any, place: np.ndarray, x: np.ndarray, like: np.ndarray, *, backward: bool
) -> list[np.ndarray]:
    y = np.array(like)
    requests = []
    for k in range(len(x)):
        peer = place[
            PlaceWord.PEERS + PlaceWord.OF_PEER * k : PlaceWord.PEERS + PlaceWord.OF_PEER * (k + 1)
        ]
        to, source, to_tag, source_tag = [int(w) for w in peer]
        if backward:
            to, source, to_tag, source_tag = source, to, source_tag, to_tag
        requests.append(comm.irecv(source=source, tag=source_tag))
        comm.isend(x[k], to, to_tag)
        if source == place[PlaceWord.NOBODY]:
            requests[-1] = None
    for k, request in enumerate(requests):
        if request is not None:
            y[k] = request.wait()
    return [y]


exchange = _Communication(
    "exchange",
    _exchange_types,
    operands=2,
    tangent=_as_tangent("exchange"),
    cotangent=_exchange_cotangent,
    reference=_exchange_reference,
    takes_rows=True,
    gives_rows=True,
).record()

# Messages under way. What starts one gives its buffer, which stays where it is as long as somebody
# reads it, and a request; both are what `wait` reads. The cotangent of what was received is sent
# when the backward pass comes to the `wait`, and waited for where the message was started; that of
# what was sent is received so. Their buffers and requests are the cotangents in between.


def _never_waited_for(name: str) -> GradientError:
    return GradientError(
        explain(
            f"mpi.{name}",
            "the message was not waited for, so its adjoint cannot be finished",
            fix="request.wait() in the function that is differentiated",
        )
    )


def _with_request(x: Type, **params: Any) -> tuple[Type, Type]:
    return (x, order.TOKEN.on(x.device))


def _without_numpy(comm: Any, place: Any, *own: Any, **params: Any) -> list[np.ndarray]:
    raise InternalError("reference engine: messages under way need memory that stays")


def _isend_cotangent(
    chain: Chain, cotangents: Any, results: Any, x: Node, *, backward: bool
) -> list[Node]:
    return chain(wait, cotangents, {"receives": True, "backward": not backward})


def _irecv_cotangent(
    chain: Chain, cotangents: Any, results: Any, like: Node, *, backward: bool
) -> list[Node]:
    (g,) = chain(wait, cotangents, {"receives": False, "backward": not backward})
    return [_from_nobody(chain, g, backward=backward)]


def _wait_cotangent(
    chain: Chain,
    cotangents: Any,
    results: Any,
    buffer: Node,
    request: Node,
    *,
    receives: bool,
    backward: bool,
) -> list[Node]:
    start = isend if receives else irecv
    given = cotangents[0] if receives else zeros_like(buffer)
    return chain(start, [given], {"backward": not backward})


def _under_way(
    name: str, types: Callable[..., tuple[Type, ...]], cotangent: Rule, *, operands: int = 1
) -> Op:
    return _Communication(
        name,
        types,
        operands=operands,
        tangent=_as_tangent(name),
        cotangent=cotangent,
        reference=_without_numpy,
        takes_rows=True,
        gives_rows=True,
        is_request=True,
    ).record()


isend = _under_way("isend", _with_request, _isend_cotangent)
irecv = _under_way("irecv", _with_request, _irecv_cotangent)
wait = _under_way("wait", lambda buffer, request, **params: (buffer,), _wait_cotangent, operands=2)

barrier = _Communication(
    "barrier",
    lambda **params: (),
    operands=0,
    tangent=lambda chain, ts, ys: chain(barrier, [], {}),
    cotangent=lambda chain, gs, ys: chain(barrier, [], {}),
    reference=lambda comm, place: [comm.Barrier()][1:],
).record()
