"""One operation of a computation (`Node`), and everything known about a primitive (`Op`).

    Op    = name, infer, expression, vjp, batch, reference, ...       one record per primitive
    Node  = op, inputs, params, type, and once computed a value       one per recorded operation

Recording checks shapes and dtypes at once and computes nothing. Nodes are never merged while
recording: two equal expressions are two values with their own gradients and hooks.
"""

import itertools
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from numba_grad.dtypes import is_inexact
from numba_grad.errors import InternalError
from numba_grad.fresh_thread import carried
from numba_grad.graph import streams
from numba_grad.graph.placement import NUMBERS_NAME, infer, settled
from numba_grad.graph.types import CPU, TupleType, Type, array_type

NO_PARAMS: dict[str, Any] = {}


class SharedParams(dict[str, Any]):
    """Params that many nodes have: made once, by a cache, and never changed.

    Their hash is that of the object, so looking up what was inferred for them does not look at
    what they contain: two thirds of the price of recording `x[0]`.
    """

    __slots__ = ()
    __hash__ = object.__hash__  # type: ignore[assignment]


# One in sixteen: transforms may put nodes right before and after another, and those of derivatives
# of derivatives before and after these.
SERIALS_A_NODE = 16
_serials = itertools.count(0, SERIALS_A_NODE)
next_serial = _serials.__next__


def recorded_nodes() -> int:
    """How many nodes there have been: by the next serial, without taking it."""
    following, _, _ = repr(_serials)[len("count(") :].partition(",")
    return int(following) // SERIALS_A_NODE


class GradMode(threading.local):
    """Whether this thread records history for gradients. A new thread starts with True."""

    enabled = True


grad_mode = carried(GradMode())

# Threads that do not record history, or did not when they ended: empty nearly always, which is
# known faster than a state of the thread.
threads_without_history: set[int] = set()


class recording:
    """Within it, this thread records history for gradients or does not."""

    __slots__ = ("_enabled", "_previous")

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled

    def __enter__(self) -> None:
        self._previous = grad_mode.enabled
        _set_mode(self._enabled)

    def __exit__(self, *error: object) -> None:
        _set_mode(self._previous)


def _set_mode(is_enabled: bool) -> None:
    if not is_enabled:
        threads_without_history.add(threading.get_ident())
    grad_mode.enabled = is_enabled
    if is_enabled:
        threads_without_history.discard(threading.get_ident())


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """All the library knows about one primitive. Made by the constructors in `ops/families.py`.

    Calling it records a node. All fields but `name`, `family` and `infer` may be absent: an op
    without `vjp` gives results that do not require grad.
    """

    name: str  # as in messages, dumps and generated source
    family: str  # how the compiler lowers it: "elementwise", "reduction", "movement", ...
    input_names: tuple[str, ...]  # for messages; the last one repeats for variadic ops
    infer: Callable[..., Type | TupleType]
    # infer(*input types, **params) -> output type; raises ShapeError
    vjp: Callable[..., "Node | None"] | None = None
    # vjp(k, g, out, *inputs, **params) -> the cotangent of input k, of exactly its type, or None
    batch: Callable[..., "Node"] | None = None
    # batch(is_batched, *inputs, **params) -> result with its batch axis first, as in batched inputs
    reference: Callable[..., np.ndarray] | None = None
    # reference(*arrays, **params) -> array: the same function in NumPy
    expression: str | Callable[..., str] | None = None
    # elementwise: kernel source, inputs in braces; or a function of the params that gives it.
    # Reductions: combine
    cost: int = 1  # elementwise: roughly, in additions
    saves: tuple[str, ...] = ("inputs",)
    # what vjp reads: "inputs", "out"; () if neither (then never "freed")
    samples: tuple[tuple[float, float], ...] = ()  # tests: (low, high) of each input
    dtypes: str = "fdFD"  # tests: numpy type characters that inputs may have
    example: Callable[..., Any] | None = None  # tests: rng -> list of (input arrays, params)
    kinks: tuple[float, ...] = ()  # for the docs: where it has no derivative
    extras: dict[str, Any] = field(default_factory=dict)  # what only one family needs
    jvp: Callable[..., Any] | None = None
    # jvp(tangents, out, *inputs, **params) -> the tangent of the result, of exactly its type, or
    # None for 0; `tangents` has one for each input, None for 0. Several results: a list. Without
    # a rule of its own, an op with `vjp` gets its tangent from that: `transforms/jvp.py`

    def __post_init__(self) -> None:
        if self.name in OPS:
            raise InternalError(f"two operations are named {self.name!r}")
        OPS[self.name] = self

    def __call__(self, *inputs: "Node", **params: Any) -> "Node":
        return record(self, inputs, params or NO_PARAMS)

    def __repr__(self) -> str:
        return f"<op {self.name}>"


OPS: dict[str, Op] = {}  # the registry; tests walk it


class Node:
    """One operation of a computation. Made by `record`, `leaf` or `argument`, never by its class.

    `op`, `params` and `type` never change. `value` is set once, when computed. `inputs` are dropped
    once neither the value nor a gradient needs them.
    """

    # A plain slots class: a frozen dataclass costs four times as much to make, and 400,000 are made
    # for 5,000 Runge-Kutta steps.
    __slots__ = (
        "__weakref__",
        "autograd",
        "handle",
        "inputs",
        "kind",
        "op",
        "params",
        "released",
        "requires_grad",
        "serial",
        "type",
        "value",
    )

    op: Op
    inputs: "tuple[Node, ...]"
    params: dict[str, Any]
    type: Any  # Type, or TupleType for the few operations with several results
    # once computed, an ndarray or an array on the device (C-contiguous, of exactly `type`); a tuple
    # for TupleType
    value: Any
    requires_grad: bool
    released: bool  # a backward pass that did not retain the graph went through here
    serial: int  # order of recording: inputs before users; periodic in a loop: the compiler's cue
    autograd: Any  # grad, hooks, ...: a record of autograd/, made when first needed
    handle: weakref.ref | None  # the user's Tensor, while the user holds it
    # The same number for nodes with the same op, params, type and types of inputs, so that long
    # graphs are compared in arrays; 0 where nobody can say without a look at the params.
    kind: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> np.dtype:
        return self.type.dtype

    def __repr__(self) -> str:
        return f"<{self.op.name} {self.type}>"

    # Operators look the op up by name, so that graph/ imports nothing from ops/.
    def __add__(self, other: "Node") -> "Node":
        return record(OPS["add"], (self, other))

    def __sub__(self, other: "Node") -> "Node":
        return record(OPS["subtract"], (self, other))

    def __mul__(self, other: "Node") -> "Node":
        return record(OPS["multiply"], (self, other))

    def __truediv__(self, other: "Node") -> "Node":
        return record(OPS["divide"], (self, other))

    def __neg__(self) -> "Node":
        return record(OPS["negative"], (self,))


def _no_infer(*types: Type, **params: Any) -> Type:
    raise InternalError("leaves are made by leaf() and argument()")


def new_node(
    op: Op,
    inputs: tuple[Node, ...],
    params: dict[str, Any],
    type: Any,
    value: Any,
    requires_grad: bool,
) -> Node:
    """A node of just this, without a look at whether it fits: see `record`, `leaf`, `argument`."""
    # Not as `Node.__init__`, which Python takes 0.3 us longer to call: a quarter of an addition.
    node = Node()
    node.op = op
    node.inputs = inputs
    node.params = params
    node.type = type
    node.value = value
    node.requires_grad = requires_grad
    node.released = False
    node.serial = next_serial()
    node.autograd = None
    node.handle = None
    node.kind = 0
    return node


LEAF = Op("leaf", "leaf", (), _no_infer)  # has a value from the start
NUMBERS = Op(NUMBERS_NAME, "leaf", (), _no_infer)  # the same; what users wrote down as lists
HOLDING = (LEAF, NUMBERS)  # leaves with a value
ARGUMENT = Op("argument", "leaf", (), _no_infer)  # a traced function's parameter: no value


def leaf(value: Any, requires_grad: bool = False) -> Node:
    """A node that holds `value`, an ndarray or an array on another device. It must be C-contiguous,
    native, and never written to again."""
    type = array_type(value.shape, value.dtype, str(value.device))
    return new_node(LEAF, (), NO_PARAMS, type, value, requires_grad)


def numbers(value: np.ndarray) -> Node:
    """As `leaf`, of numbers that no device has yet: they go along with operands on a GPU."""
    return new_node(NUMBERS, (), NO_PARAMS, array_type(value.shape, value.dtype), value, False)


def argument(type: Type, requires_grad: bool = False) -> Node:
    """A node that stands for a parameter of a function that is being traced."""
    return new_node(ARGUMENT, (), NO_PARAMS, type, None, requires_grad)


def held_tensor(node: Node) -> Any | None:
    """The live handle of `node`, if there is one."""
    reference = node.handle
    if reference is None:
        return None
    tensor = reference()
    # A handle moves on to another node when it is assigned into.
    return tensor if tensor is not None and tensor._node is node else None


# Called with each node that `record` makes, while anomaly detection or a backward pass asks for it.
observer: Callable[[Node], None] | None = None

# What is known of a node by its op, its params and the types of its operands: the type of the
# result, whether it is one that gradients flow to, if an operand has one, and its kind.
Inferred = tuple[Any, bool, int]

_inferred: dict[tuple[Any, ...], Inferred] = {}
_INFERRED_LIMIT = 1 << 18
_next_kind = itertools.count(1).__next__


def record(op: Op, inputs: tuple[Node, ...], params: dict[str, Any] = NO_PARAMS) -> Node:
    """The node `op(*inputs, **params)`. Raises on shapes or dtypes that do not fit.

    It requires grad if gradients are recorded here, an input requires grad, the op has a derivative
    and the result is floating or complex.
    """
    # Shape rules cost 2-20 us; a cached answer 0.2 us.
    key: tuple[Any, ...]
    if params:
        name = params if params.__class__ is SharedParams else tuple(params.items())
        if len(inputs) == 1:
            key = (op, name, inputs[0].type)
        else:
            key = (op, name, *[x.type for x in inputs])
    elif len(inputs) == 2:
        x, y = inputs
        key = (op, x.type, y.type)
    elif len(inputs) == 1:
        key = (op, inputs[0].type)
    else:
        key = (op, *[x.type for x in inputs])
    found = _inferred.get(key)
    if found is None:
        found = _infer(op, [x.type for x in inputs], params, key)
    return recorded(op, inputs, params, found)


def recorded(op: Op, inputs: tuple[Node, ...], params: dict[str, Any], inferred: Inferred) -> Node:
    """As `record`, for who keeps what `inferred_of` says: half of the time of an addition."""
    type, may_require_grad, kind = inferred
    if type.device is not CPU:
        inputs = settled(op, inputs, type.device, _moved)
    requires_grad = False
    if may_require_grad:
        for x in inputs:
            if x.requires_grad:
                requires_grad = grad_mode.enabled
                break
    # As `new_node`, whose call alone takes a fifth of this.
    node = Node()
    node.op = op
    node.inputs = inputs
    node.params = params
    node.type = type
    node.value = None
    node.requires_grad = requires_grad
    node.released = False
    node.serial = next_serial()
    node.autograd = None
    node.handle = None
    node.kind = kind
    if type.device is not CPU:
        streams.note(node)
    if observer is not None:
        observer(node)
    return node


def inferred_of(op: Op, types: Sequence[Any], params: dict[str, Any] = NO_PARAMS) -> Inferred:
    """What is known of nodes with operands of these types."""
    name: tuple[Any, ...] = ()
    if params:
        name = (params if params.__class__ is SharedParams else tuple(params.items()),)
    key = (op, *name, *types)
    return _inferred.get(key) or _infer(op, types, params, key)


def _infer(op: Op, types: Sequence[Any], params: dict[str, Any], key: tuple[Any, ...]) -> Inferred:
    """What `_inferred` has from now on under `key`."""
    type = infer(op, list(types), params)
    is_differentiable = isinstance(type, TupleType) or is_inexact(type.dtype)
    # Params that are compared may be equal and not the same: 0.0 and -0.0.
    is_told_apart = not params or params.__class__ is SharedParams
    kind = _next_kind() if is_told_apart else 0
    found = type, op.vjp is not None and is_differentiable, kind
    if len(_inferred) > _INFERRED_LIMIT:
        _inferred.clear()
    _inferred[key] = found
    return found


def _moved(node: Node, device: str) -> Node:
    return record(OPS["to_device"], (node,), {"device": device})
