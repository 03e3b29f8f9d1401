"""Graphs as bytes, for another time or another process: operations, params, bodies of loops.

    GraphWriter    says what was recorded, in terms of nodes that its reader has as well
    GraphReader    records the same again

A node is said by its operation, the numbers of its inputs, its params, and whether it requires
grad; one of several graphs in params, as the body of a loop, by its number among these. What is
known by its identity alone, as a user's function, cannot be said: `NotStorable`.
"""

import marshal
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any

import numpy as np

from numba_grad.errors import InternalError
from numba_grad.graph.node import (
    ARGUMENT,
    HOLDING,
    LEAF,
    OPS,
    Node,
    Op,
    SharedParams,
    argument,
    leaf,
    numbers,
    record,
)
from numba_grad.graph.types import CPU, Type, array_type, as_dtype
from numba_grad.graph.walk import in_order_of_recording, toposort
from numba_grad.ops.control import item, result, with_results
from numba_grad.transforms.call_target import CallTarget

_MARSHAL_FORMAT = 2  # has each float to the bit, and is the same for equal values
_FLAT = frozenset({NoneType, bool, int, float, complex, str, bytes})
_LARGEST_LEAF = 1 << 16  # bytes
_MOST_NODES = 1 << 12  # of one graph: a loop of more costs more than to look for it


class _Kind:
    """What a tuple stands for, by its first element."""

    PLAIN_TUPLE = 0
    TUPLE = 1
    LIST = 2
    DTYPE = 3
    TYPE = 4
    OPERATION = 5
    GRAPH = 6
    PARAMS = 7
    SHARED_PARAMS = 8
    NUMBER = 9


class NotStorable(Exception):
    """There is something that means nothing elsewhere."""


class GraphWriter:
    """Says nodes, one after the other; `given` are the numbers below `count` of those that the
    reader has."""

    def __init__(self, given: dict[Node, int], count: int = 0) -> None:
        self.numbers = given
        self._next = count
        self._nodes: list[Any] = []
        self._graphs: list[Any] = []
        self._numbers_of_graphs: dict[CallTarget, int] = {}

    def add(self, nodes: Sequence[Node]) -> None:
        """Say nodes, inputs before users."""
        for node in nodes:
            self._nodes.append(self._said(node, self.numbers))
            self.numbers[node] = self._next
            self._next += 1
        if len(self._nodes) > _MOST_NODES:
            raise NotStorable

    def number_of(self, node: Node) -> int:
        found = self.numbers.get(node)
        if found is None:
            raise NotStorable
        return found

    def content(self, rest: Any) -> bytes:
        """All that was said, and what is said about it: numbers and texts, in tuples."""
        return marshal.dumps((self._graphs, self._nodes, rest), _MARSHAL_FORMAT)

    def _said(self, node: Node, numbers: dict[Node, int]) -> Any:
        if node.type.device != CPU:
            raise NotStorable
        if node.op is ARGUMENT:
            return None, self.value(node.type), node.requires_grad
        if node.op in HOLDING:
            if node.type.nbytes > _LARGEST_LEAF or node.requires_grad:
                raise NotStorable
            array = node.value
            return node.op is LEAF, array.shape, array.dtype.name, array.tobytes()
        try:
            inputs = tuple([numbers[x] for x in node.inputs])
        except KeyError:
            raise NotStorable from None
        if node.value is not None or node.autograd is not None:
            raise NotStorable
        return node.op.name, inputs, self.value(node.params), node.requires_grad

    def value(self, value: Any) -> Any:
        """A param, as `marshal` takes it."""
        kind = value.__class__
        if kind in _FLAT:
            return value
        if kind is tuple:
            if _FLAT.issuperset(map(type, value)):
                return _Kind.PLAIN_TUPLE, value
            return _Kind.TUPLE, tuple(map(self.value, value))
        if kind is list:
            return _Kind.LIST, tuple(map(self.value, value))
        if kind is dict or kind is SharedParams:
            items = tuple([(key, self.value(x)) for key, x in value.items()])
            return _Kind.PARAMS if kind is dict else _Kind.SHARED_PARAMS, items
        if kind is Type and value.device == CPU:
            return _Kind.TYPE, value.shape, value.dtype.name
        if isinstance(value, np.dtype):
            return _Kind.DTYPE, value.name
        if isinstance(value, np.generic):
            return _Kind.NUMBER, value.dtype.name, value.tobytes()
        if kind is Op:
            return _Kind.OPERATION, value.name
        if kind is CallTarget:
            return _Kind.GRAPH, self._number_of_graph(value)
        raise NotStorable

    def _number_of_graph(self, target: CallTarget) -> int:
        found = self._numbers_of_graphs.get(target)
        if found is None:
            said = self._said_graph(target)
            found = self._numbers_of_graphs[target] = len(self._graphs)
            self._graphs.append(said)
        return found

    def _said_graph(self, target: CallTarget) -> Any:
        if target.surroundings or target.has_rules:
            raise NotStorable
        nodes = in_order_of_recording({*toposort(target.outputs), *target.arguments})
        if len(nodes) > _MOST_NODES:
            raise NotStorable
        numbers: dict[Node, int] = {}
        said = []
        for node in nodes:
            said.append(self._said(node, numbers))
            numbers[node] = len(numbers)
        places = [[numbers[x] for x in part] for part in (target.arguments, target.outputs)]
        return target.name, said, *places


class GraphReader:
    """Records what a `GraphWriter` has said; `given` are the nodes that both have.

    Parameters
    ----------
    known : gives the body that was compiled and differentiated before, if it is equal

    Raises
    ------
    KeyError
        If there is no such operation in this process.
    """

    def __init__(
        self, content: bytes, given: Sequence[Node], known: Callable[[CallTarget], CallTarget]
    ) -> None:
        graphs, said, self.rest = marshal.loads(content)
        self._graphs: list[CallTarget] = []
        for name, nodes, arguments, outputs in graphs:
            own = self._recorded(nodes, [])
            target = CallTarget(name, [own[k] for k in arguments], [own[k] for k in outputs])
            self._graphs.append(known(target))
        self.nodes = self._recorded(said, given)  # those that are given, and after them its own

    def _recorded(self, said: Sequence[Any], given: Sequence[Node]) -> list[Node]:
        nodes = [*given]
        for name, *rest in said:
            if name is None:
                kind, requires_grad = rest
                nodes.append(argument(self._value(kind), requires_grad))
                continue
            if name.__class__ is bool:
                shape, dtype, content = rest
                array = np.frombuffer(content, as_dtype(dtype)).reshape(shape)
                nodes.append(leaf(array) if name else numbers(array))
                continue
            numbers_of_inputs, params, requires_grad = rest
            inputs = tuple([nodes[k] for k in numbers_of_inputs])
            node = _again(OPS[name], inputs, self._value(params))
            node.requires_grad = requires_grad
            nodes.append(node)
        return nodes

    def _value(self, said: Any) -> Any:
        if said.__class__ is not tuple:
            return said
        match said:
            case (_Kind.PLAIN_TUPLE, items):
                return items
            case (_Kind.TUPLE, items):
                return tuple(map(self._value, items))
            case (_Kind.LIST, items):
                return list(map(self._value, items))
            case (_Kind.PARAMS, items):
                return {key: self._value(x) for key, x in items}
            case (_Kind.SHARED_PARAMS, items):
                return self._shared_params(items)
            case (_Kind.TYPE, shape, dtype):
                return array_type(shape, as_dtype(dtype))
            case (_Kind.DTYPE, name):
                return as_dtype(name)
            case (_Kind.NUMBER, dtype, content):
                return np.frombuffer(content, as_dtype(dtype))[0]
            case (_Kind.OPERATION, name):
                return OPS[name]
            case (_Kind.GRAPH, number):
                return self._graphs[number]
        raise InternalError(f"a stored graph has {said!r}")

    def _shared_params(self, items: Any) -> SharedParams:
        # One object for equal ones: nodes are compared by it.
        key = marshal.dumps(items, _MARSHAL_FORMAT)
        found = _shared_params.get(key)
        if found is None:
            if len(_shared_params) >= _MOST_NODES:
                _shared_params.clear()
            found = SharedParams([(name, self._value(x)) for name, x in items])
            _shared_params[key] = found
        return found


_shared_params: dict[bytes, SharedParams] = {}


def _again(op: Op, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node:
    if op is item:
        return result(inputs[0], params["number"])
    return with_results(op, inputs, params) if op.family == "call" else record(op, inputs, params)
