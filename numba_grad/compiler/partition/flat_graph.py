"""A graph as arrays of integers: what the passes over a whole graph work on.

A long loop in Python is a million nodes. A pass that looks at each of them through dictionaries of
nodes costs microseconds per node; one over arrays, nanoseconds. So a graph is walked once, by
`flatten`, and from then on a node is its position in the order of recording.
"""

import zlib
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Number
from typing import Any, Protocol, TypeVar

import numpy as np

from numba_grad.compiler.partition.roles import (
    ALIASES,
    ASSIGNMENTS,
    FREE_FAMILIES,
    OVERWRITES,
    VIEWS,
    WRITES,
)
from numba_grad.errors import InternalError
from numba_grad.graph.node import ARGUMENT, Node, SharedParams
from numba_grad.graph.traced_bodies import check_compiled, check_inside
from numba_grad.graph.types import Type
from numba_grad.graph.walk import by_serial, in_order_of_recording, toposort, value_inputs
from numba_grad.locks import new_lock
from numba_grad.ops.control import item

Derived = TypeVar("Derived")


class ClosedGraph(Protocol):
    """A graph in the params of an operation: that of a called function, of a body."""

    name: str
    arguments: tuple[Node, ...]
    outputs: tuple[Node, ...]

    def derived(self, key: Hashable, make: Callable[[], Derived]) -> Derived:
        """What is made of this graph once."""
        ...


def target_of(call: Node) -> ClosedGraph:
    """The graph of the function that is called."""
    return call.params["target"]


class Role:
    """How the value of a node comes about. Plain numbers: members of an Enum cost 1 us to name."""

    INPUT = 0  # from outside
    FREE = 1  # at each use
    VIEW = 2  # at each use, or as a pointer into another array
    COMPUTED = 3  # by a step, in memory of its own
    CALL_ITEM = 4  # computed, by the steps of a called function


_ALL = slice(None)
_MANY = 1000


@dataclass(slots=True, eq=False)
class FlatGraph:
    """A graph in the order of recording, inputs before users.

    What the node at position k reads is at the positions `edges[starts[k]:starts[k + 1]]`. It is to
    be read here, not in `nodes[k].inputs`: another thread may compute the node, which then lets go
    of its inputs.
    """

    nodes: list[Node]
    signatures: np.ndarray  # int32: what each node does; equal numbers mean the same
    starts: np.ndarray  # int32, one more than nodes
    edges: np.ndarray  # int32
    inputs: list[int]  # the positions of the graph's inputs, in their order
    outputs: list[int]
    calls: dict[int, Node]  # of the results of calls of traced functions: by position, the call
    table: "Signatures"  # the meaning of `signatures`
    # What `assemblies.py` adds: arrays that others compute their pieces into, what must be in
    # memory, and of pieces the assembly and the first element there.
    assemblies: list[int] = field(default_factory=list)
    stored: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    places: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for graphs that have the same program, as long as the types in `types` live."""
        return (
            self.table,
            self.signatures.tobytes(),
            self.starts.tobytes(),
            self.edges.tobytes(),
            tuple([id(type) for type in self.types]),
            tuple(self.inputs),
            tuple(self.outputs),
        )

    def reads(self, position: int) -> list[int]:
        """The positions of what the node at one reads."""
        return self.edges[self.starts[position] : self.starts[position + 1]].tolist()

    def check_order(self) -> None:
        """Refuse nodes that read what comes after them, as a transform may leave them that puts one
        node in the place of another: run one by one, they would read what is not there yet."""
        users = np.repeat(np.arange(len(self.nodes)), self.starts[1:] - self.starts[:-1])
        for k in users[self.edges >= users][:1].tolist():
            raise InternalError(f"graph: {self.nodes[k]}, number {k}, reads what comes after it")

    def facts(self, name: str, positions: np.ndarray | slice = _ALL) -> np.ndarray:
        """What is known, by one name of `_FACTS`, of the nodes at these positions: a new array."""
        if name == "hash":
            self.table.hash_all()
        return self.table.facts[name][self.signatures[positions]]

    def combining(self) -> list[int]:
        """The positions of contractions and reductions: few, in a graph that may be long."""
        return np.flatnonzero(self.facts("combines")).tolist()

    @property
    def types(self) -> list[Type]:
        """The types of the inputs. In the key they count by identity, which is fast to hash."""
        return [self.nodes[k].type for k in self.inputs]


class FlatGraphWriter:
    """A graph in the making: `append` takes its nodes in their order."""

    def __init__(self, table: "Signatures") -> None:
        self.table = table
        self.nodes: list[Node] = []
        self.signatures: list[int] = []
        self.starts = [0]
        self.edges: list[int] = []
        self.calls: dict[int, Node] = {}

    def append(
        self, node: Node, reads: Sequence[int], signature: int | None = None, of: Node | None = None
    ) -> int:
        """The position of the node, which reads what is at others; `of`: the call whose result it
        is."""
        position = len(self.nodes)
        self.nodes.append(node)
        self.signatures.append(self.table.number(node) if signature is None else signature)
        self.edges.extend(reads)
        self.starts.append(len(self.edges))
        if of is not None:
            self.calls[position] = of
        return position

    def graph(self, inputs: list[int], outputs: list[int]) -> FlatGraph:
        """What was written, with the positions of its inputs and outputs."""
        return FlatGraph(
            self.nodes,
            np.array(self.signatures, np.int32),
            np.array(self.starts, np.int32),
            np.array(self.edges, np.int32),
            inputs,
            outputs,
            self.calls,
            self.table,
        )


def flatten(
    outputs: Sequence[Node],
    inputs: Sequence[Node] | None = None,
    reached: Collection[Node] | None = None,
) -> FlatGraph:
    """The graph between `inputs` and `outputs`; by default, down to the nodes that have values.

    Those then stand where they are first read, whatever their age: a number that was used before,
    or a state that the last pass of a loop has left as it was, makes no other graph.

    `reached`: all of its nodes and no others, from who has walked it before; a million of them take
    0.5 s, and the shortest graph a tenth of a look at its value.
    """
    known = set() if inputs is None else set(inputs)
    seen = known.copy() if reached is None else known.union(reached)
    stack = list(outputs) if reached is None else []
    if inputs is None:
        known.update([x for x in seen if x.value is not None])
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if inputs is None and node.value is not None:
            known.add(node)
        else:
            stack += node.inputs if node.op is not item else value_inputs(node)
    nodes: list[Node] = []
    unread = known.copy() if inputs is None else set()
    table = signature_table()
    signatures: list[int] = []
    starts: list[int] = [0]
    read: list[Node] = []  # what each node reads
    # Once per recorded operation, so what is common is written out: 1 us matters here.
    known_numbers = table.numbers
    calls: dict[int, Node] = {}
    for node in in_order_of_recording(seen.difference(unread)):
        if node in known:
            signatures.append(0)
        else:
            sources = node.inputs if node.op is not item else value_inputs(node)
            if unread and not unread.isdisjoint(sources):
                for x in sources:
                    if x in unread:
                        unread.remove(x)
                        nodes.append(x)
                        signatures.append(0)
                        starts.append(len(read))
            params = node.params
            key: object
            if not params:
                key = node.op
            elif params.__class__ is SharedParams:
                key = (node.op, params)
            else:
                key = (node.op, *params.items())
            found = known_numbers.get(key)
            if found is None:
                found = table.number(node)
                if is_item_of_call(node):  # which have no number of their own
                    calls[len(signatures)] = node.inputs[0]
            signatures.append(found)
            read += sources
        nodes.append(node)
        starts.append(len(read))
    for x in in_order_of_recording(unread):  # outputs that have values
        nodes.append(x)
        signatures.append(0)
        starts.append(len(read))
    count = len(read)
    read += [x for x in nodes if x in known] if inputs is None else inputs
    first_output = len(read)
    read += outputs
    positions = _positions(nodes, read)
    return FlatGraph(
        nodes,
        np.array(signatures, np.int32),
        np.array(starts, np.int32),
        positions[:count],
        positions[count:first_output].tolist(),
        positions[first_output:].tolist(),
        calls,
        table,
    )


def _positions(nodes: Sequence[Node], wanted: Sequence[Node]) -> np.ndarray:
    """Where in `nodes` each of `wanted` is, as int32."""
    if len(nodes) < _MANY:
        # `searchsorted` takes 20 us for the shortest graph.
        position = dict(zip(nodes, range(len(nodes)), strict=True))
        return np.fromiter(map(position.__getitem__, wanted), np.int32, len(wanted))
    # A dict of a million nodes takes four times as long to be made and asked.
    serials = np.fromiter(map(by_serial, nodes), np.int64, len(nodes))
    order = np.argsort(serials, kind="stable").astype(np.int32)
    of_wanted = np.fromiter(map(by_serial, wanted), np.int64, len(wanted))
    ordered = serials[order]
    found = order[np.searchsorted(ordered, of_wanted)]
    shared = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(shared):
        # A copy has the number of its original, and so has what a transform has put in the place of
        # a node that others still read.
        position = {nodes[k]: k for k in np.flatnonzero(np.isin(serials, shared)).tolist()}
        for k in np.flatnonzero(np.isin(of_wanted, shared)).tolist():
            found[k] = position[wanted[k]]
    return found


def with_stored_operands(graph: FlatGraph) -> FlatGraph:
    """The graph, in which what loops and branches read is in memory."""
    of_bodies = [k for k, call in graph.calls.items() if call.op.name != "call"]
    if not of_bodies:
        return graph
    reads = {x for k in of_bodies for x in graph.reads(k)}
    reads -= {*graph.inputs, *graph.calls, *graph.assemblies}
    stored = sorted(reads.union(graph.stored.tolist()))
    return replace(graph, stored=np.array(stored, np.int64))


# What is known of a signature; of number 0, the input of a graph, all of it is 0.
_FACTS = np.dtype(
    [
        ("hash", np.int64),  # of its content: the same in every process
        ("cost", np.int64),  # of an element, in additions; 0 where that is not all there is to it
        ("role", np.int8),
        ("writes", np.bool_),  # whether it changes a part of its first input
        ("overwrites", np.bool_),  # whether it may be computed to the memory of an input
        ("assigns", np.bool_),  # whether it is an assignment to a region
        ("slices", np.bool_),  # whether it is a slice
        ("combines", np.bool_),  # whether it is a contraction or a reduction
    ]
)


class Signatures:
    """Numbers for what nodes do: the op and its params. Types follow from those of the inputs."""

    def __init__(self) -> None:
        self.numbers: dict[object, int] = {}  # by op or (op, *params)
        self.facts = np.zeros(256, _FACTS)  # by number, with room for more
        self._unhashed: dict[int, str | tuple[str, tuple]] = {}  # of what the hash is not known
        self._count = 1
        self.programs: dict[object, Any] = {}  # what was compiled, by keys that contain numbers
        self.meanings: dict[int, object] = {0: "input"}  # of each number the key in `numbers`
        self.digests: dict[int, bytes] = {}  # of these, as `plan_cache.py` needs them

    def number(self, node: Node) -> int:
        """The number of a node that `numbers` does not have: a new one, or an item."""
        own: object = (node.op, *node.params.items()) if node.params else node.op
        key = own
        if is_item_of_call(node):
            parent = node.inputs[0]
            key = (parent.op, *parent.params.items(), node.params["number"])
        elif node.op.name in ALIASES or node.op.family == "call":
            key = "alias"
        with _numbers_lock:
            found = self.numbers.get(key)
            if found is None:
                found = self._described(node)
                self.meanings[found] = key
                self.numbers[key] = found
            if node.op is not item:  # one that looks the same may be of another call
                self.numbers[own] = found
                if node.params.__class__ is SharedParams:
                    self.numbers[node.op, node.params] = found
            return found

    def _described(self, node: Node) -> int:
        """A new number, and the facts. An interrupt may leave a number that nobody uses."""
        content: str | tuple[str, tuple] = (node.op.name, tuple(node.params.items()))
        role = _role(node)
        changing = {node.op.name}
        if role == Role.CALL_ITEM:
            parent = node.inputs[0]
            targets = targets_of(parent)
            names = " ".join(target.name for target in targets)
            content = f"{parent.op.name} {names} {node.params['number']}"
            # What a loop or a branch computes goes to memory of its own.
            reached = toposort(targets[0].outputs) if parent.op.name == "call" else []
            changing = {x.op.name for x in reached}
        elif node.op.name in ALIASES or node.op.family == "call":
            content = "alias"
        number = self._count
        self._count += 1
        if number >= len(self.facts):
            self.facts = np.concatenate([self.facts, np.zeros_like(self.facts)])
        self._unhashed[number] = content
        self.facts[number] = (
            0,
            node.op.cost if node.op.family == "elementwise" else 0,
            role,
            not changing.isdisjoint(WRITES),
            "matmul" in changing or not changing.isdisjoint(OVERWRITES),
            node.op.name in ASSIGNMENTS,
            node.op.name == "slice",
            node.op.family in ("contraction", "reduction"),
        )
        return number

    def hash_all(self) -> None:
        """Find the hashes that are missing: where a graph is cut into segments, and not before."""
        with _numbers_lock:
            for number, content in self._unhashed.items():
                if not isinstance(content, str):
                    content = f"{content[0]} {_content(content[1])}"
                self.facts["hash"][number] = zlib.crc32(content.encode())
            self._unhashed.clear()


def _content(value: object) -> str:
    """Text that is the same for equal params, whoever comes first, in every process.

    Other params may have it as well: of what is known by its identity, it is the class alone.
    """
    if isinstance(value, tuple | list):
        return f"({' '.join(map(_content, value))})"
    if isinstance(value, Number | np.generic):
        # Of 1, 1.0, True and NumPy's, which are equal, one is as good as another.
        return str(hash(value)) if value == value else "nan"
    if isinstance(value, np.dtype):
        return value.str
    if value is None or isinstance(value, str | bytes):
        return repr(value)
    return type(value).__name__


def is_item_of_call(node: Node) -> bool:
    """Whether this is a result of a call of a traced function, a loop or a branch."""
    return node.op is item and node.inputs[0].op.family == "call"


def targets_of(node: Node) -> list[ClosedGraph]:
    """The graphs in the params of a call, a loop or a branch."""
    found: list[Any] = []
    for value in node.params.values():
        found += value if value.__class__ is tuple else (value,)
    return [x for x in found if hasattr(x, "arguments") and hasattr(x, "outputs")]


def calls_of(graph: FlatGraph) -> dict[Node, dict[int, list[int]]]:
    """The calls of a graph, with the positions of each result that is there, by its number."""
    found: dict[Node, dict[int, list[int]]] = {}
    for k, call in graph.calls.items():
        found.setdefault(call, {}).setdefault(graph.nodes[k].params["number"], []).append(k)
    return found


def once_run(call: Node) -> Sequence[ClosedGraph]:
    """The graphs of a call that are run at most once: the function, or the branches. A loop has
    none."""
    if call.op.name == "call":
        return (target_of(call),)
    return call.params["branches"] if call.op.name == "branch" else ()


def graph_of(target: ClosedGraph, numbers: tuple[int, ...], table: "Signatures") -> FlatGraph:
    """Some outputs of a graph over its arguments, with the signatures of a table: that in force."""

    def flat() -> FlatGraph:
        graph = flatten([target.outputs[k] for k in numbers], target.arguments)
        graph.check_order()
        return graph

    found = target.derived(("flat", numbers), flat)
    return found if found.table is table else flat()


def _role(node: Node) -> int:
    if node.op is ARGUMENT:
        check_inside(node)
        check_compiled(node)
        raise InternalError(f"flatten: {node} has no value; it is the parameter of a trace")
    if is_item_of_call(node):
        return Role.CALL_ITEM
    if node.op.name in VIEWS:
        return Role.VIEW
    if node.op.name in ALIASES or node.op.family == "call":
        return Role.FREE
    if node.op.family in FREE_FAMILIES and node.op.name not in ASSIGNMENTS:
        return Role.FREE
    return Role.COMPUTED


_numbers_lock = new_lock()


_MOST_SIGNATURES = 1 << 16
_table = Signatures()


def signature_table() -> Signatures:
    """The table in force. One that has grown too large, by ever new params, is left to those who
    hold it."""
    global _table
    if len(_table.numbers) > _MOST_SIGNATURES:
        _table = Signatures()
    return _table
