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

# What a tuple stands for, by its first element.
_PLAIN_TUPLE, _TUPLE, _LIST, _DTYPE, _TYPE, _OP, _GRAPH, _PARAMS, _SHARED, _NUMBER = range(10)


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
                return _PLAIN_TUPLE, value
            return _TUPLE, tuple(map(self.value, value))
        if kind is list:
            return _LIST, tuple(map(self.value, value))
        if kind is dict or kind is SharedParams:
            items = tuple([(key, self.value(x)) for key, x in value.items()])
            return _PARAMS if kind is dict else _SHARED, items
        if kind is Type and value.device == CPU:
            return _TYPE, value.shape, value.dtype.name
        if isinstance(value, np.dtype):
            return _DTYPE, value.name
        if isinstance(value, np.generic):
            return _NUMBER, value.dtype.name, value.tobytes()
        if kind is Op:
            return _OP, value.name
        if kind is CallTarget:
            return _GRAPH, self._number_of_graph(value)
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
        kind, *rest = said
        if kind == _SHARED:
            return self._shared_params(said)
        [x] = rest if len(rest) == 1 else [None]
        if kind == _PLAIN_TUPLE:
            return x
        if kind == _TUPLE:
            return tuple(map(self._value, x))
        if kind == _LIST:
            return list(map(self._value, x))
        if kind == _PARAMS:
            return {key: self._value(value) for key, value in x}
        if kind == _TYPE:
            shape, dtype = rest
            return array_type(shape, as_dtype(dtype))
        if kind == _DTYPE:
            return as_dtype(x)
        if kind == _NUMBER:
            dtype, content = rest
            return np.frombuffer(content, as_dtype(dtype))[0]
        return OPS[x] if kind == _OP else self._graphs[x]

    def _shared_params(self, said: Any) -> SharedParams:
        # One object for equal ones: nodes are compared by it.
        key = marshal.dumps(said, _MARSHAL_FORMAT)
        found = _shared_params.get(key)
        if found is None:
            if len(_shared_params) >= _MOST_NODES:
                _shared_params.clear()
            found = SharedParams([(name, self._value(x)) for name, x in said[1]])
            _shared_params[key] = found
        return found


_shared_params: dict[bytes, SharedParams] = {}


def _again(op: Op, inputs: tuple[Node, ...], params: dict[str, Any]) -> Node:
    if op is item:
        return result(inputs[0], params["number"])
    return with_results(op, inputs, params) if op.family == "call" else record(op, inputs, params)
