"""One signature of a jitted function: its traced graph, compiled when values are first wanted.

    Specialization   the graph, what it closes over; `replay(values)` runs it, `record(nodes)` makes
                     it an operation of the caller's graph
    Compiled         its program
    Loaded           the program on its device, with the constants that it reads

Any number of threads may call at once. What one of them makes the others see whole or not at all:
`Compiled` and `Loaded` do not change, and are made under a lock.
"""

import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from threading import RLock
from typing import Any

import numpy as np

from numba_grad.compiler.backends import backend_of, copied_to, on_host
from numba_grad.compiler.compiled_program import CompiledProgram, Destination
from numba_grad.compiler.evaluate import evaluate, runner
from numba_grad.compiler.partition.segments import LONGEST_WHOLE
from numba_grad.compiler.programs import compile_program, runs_one_by_one
from numba_grad.compiler.reference_engine import evaluate_with_numpy
from numba_grad.config import config
from numba_grad.errors import DeviceError, InternalError, explain
from numba_grad.fresh_thread import imported
from numba_grad.frontend.compiled_functions.state_between_calls import StateBetweenCalls
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node, own_array, plain
from numba_grad.frontend.inputs.changed_arguments import NewContents
from numba_grad.frontend.inputs.guards import CheckLater
from numba_grad.frontend.inputs.tracing import Check, ClosedOver, is_tracing
from numba_grad.frontend.tensors.python_numbers import Limit
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.graph import order
from numba_grad.graph.node import OPS, Node, argument, leaf, next_serial, recording
from numba_grad.graph.placement import goes_along
from numba_grad.graph.types import CPU, Type
from numba_grad.graph.walk import (
    in_order_of_recording,
    is_traced,
    rebuilt,
    substitute,
    toposort,
)
from numba_grad.immutable import NamedTuple
from numba_grad.locks import new_lock
from numba_grad.transforms.call import call
from numba_grad.transforms.call_target import CallTarget
from numba_grad.transforms.rewrites.repeated_views import without_repeated_views

_op_of = attrgetter("op")
_CONCATENATE, _SUM, _TRANSPOSE = OPS["concatenate"], OPS["sum"], OPS["transpose"]
FEW_PLACES = 16  # that are named by an index array: an axis is written out of as many elements
# Shorter index arrays are not looked at: to gather so few elements takes no time.
FEWEST_PAIRS = 64
FEWEST_SUMMED = 1024  # elements of a matrix of which sums may be joined
LONGEST_KEPT = 20_000  # operations of a graph that stays after it was compiled


class Compiled(NamedTuple):
    """The program of a specialization."""

    program: CompiledProgram
    device: str  # that it runs on
    destination: Destination
    types: tuple[Type, ...]  # of what it computes
    # Where each output is, if not every one is computed in its turn: its number among the inputs,
    # or among what the program computes.
    output_numbers: list[tuple[int | None, int | None]] | None


class Loaded(NamedTuple):
    """A program ready to run."""

    compiled: Compiled
    run: Callable[..., list[Any]]
    constants: list[Any]  # on the device


# From outputs, and leaves whose values are the same in all runs, to outputs.
Rule = Callable[[list[Node], Mapping[Node, np.ndarray]], list[Node]]


@dataclass(slots=True, eq=False)
class Specialization:
    """A traced function for one signature."""

    name: str
    arguments: list[Node]
    # Results, then what arguments become that are changed in place, what is new in containers among
    # them, the state, and whether it raises; None once a long graph was compiled, and let go.
    outputs: list[Node] | None
    changed: list[int]  # numbers of these arguments, and after all arguments of:
    keep_history: list[bool]  # of these: whether they get another value alone
    assigned: list[Any]  # tensors that the function closes over, and changes in place
    contents: NewContents | None  # of containers among the arguments
    state: StateBetweenCalls  # what else it changes
    structure: trees.Structure
    captured: list[Tensor]  # tensors that the function closes over, read at each call
    captured_nodes: list[Node]  # what they were while tracing
    arrays: list[ClosedOver]  # that it closes over, read at each call as well
    constants: list[Node]
    holds: Check  # whether what decided about the trace is as it was
    reached: set[Node] | None  # all nodes of the graph, until it is compiled
    node_count: int
    limits: list[Limit]  # on Python integers among the arguments
    communicates: bool  # then the last argument and the last output are tokens
    said: order.Said  # by what it communicates
    raises: bool  # whether values may have it raise an exception
    has_hooks: bool  # on tensors of the inside, for derivatives that are taken outside
    with_gradients: list[Tensor]  # whose `.grad` is read at each call
    # Which captured tensors did so when it was traced: `requires_grad_` changes the nodes.
    require_grad: list[bool] = field(init=False)
    rebuild: Callable[[Sequence[Any]], Any] = field(init=False)  # the tree of results
    is_used: bool = field(init=False, default=False)  # since `Jitted._keep` looked, or it was made
    _ready: list[Any] = field(init=False, default_factory=list)  # the arrays, if plans can read all
    # What is computed by the program, and what is made for that.
    _lowered: list[Node] | None = field(init=False, default=None)
    _made_constants: list[Node] = field(init=False, default_factory=list)
    _compiled: Compiled | None = field(init=False, default=None)
    _loaded: Loaded | None = field(init=False, default=None)
    _target: CallTarget | None = field(init=False, default=None)
    _ends: list[bool] = field(init=False, default_factory=list)  # of gradients: these outputs
    _lock: RLock = field(init=False, default_factory=new_lock)
    _recording_lock: RLock = field(init=False, default_factory=new_lock)

    def __post_init__(self) -> None:
        self.require_grad = [node.requires_grad for node in self.captured_nodes]
        self.rebuild = trees.rebuilder(self.structure)
        if isinstance(self.holds, CheckLater):
            self.holds.replace = functools.partial(setattr, self, "holds")
        if all(x.is_ready for x in self.arrays):
            self._ready = [x.array for x in self.arrays]

    @property
    def inputs(self) -> list[Node]:
        arrays = [x.node for x in self.arrays]
        return [*self.arguments, *self.captured_nodes, *arrays, *self.constants]

    @property
    def program_inputs(self) -> list[Node]:
        """Of the program, once it is compiled: some of its constants are made then."""
        return [*self.inputs, *self._made_constants]

    @property
    def graph_outputs(self) -> list[Node]:
        if self.outputs is None:
            raise InternalError(f"jit of {self.name}: the graph was let go")
        return self.outputs

    @property
    def has_effects(self) -> bool:
        """Whether calls do more than to compute results."""
        return bool(self.changed or self.contents or self.state or self.raises)

    @property
    def is_repeated_by_calls(self) -> bool:
        """Whether later calls may do what the trace did; else Python runs the function again."""
        return not (self.state.is_rerun or any(is_traced(t._node) for t in self.captured))

    def is_current(self) -> bool:
        """Whether the function would be traced to the same now: captured tensors still have the
        types, and need for gradients, of when it was, and what decided about it is the same."""
        if not self.holds():
            return False
        try:
            now = [tensor._node for tensor in self.captured]
        except TypeError:  # no array any more
            return False
        before = zip(self.captured_nodes, self.require_grad, strict=True)
        return all(
            x.type == node.type and x.requires_grad == required
            for x, (node, required) in zip(now, before, strict=True)
        )

    def reads_captured_values(self) -> bool:
        """Whether captured tensors have values, of the types that were traced, and no history: then
        a call records nothing."""
        for tensor, traced in zip(self.captured, self.captured_nodes, strict=True):
            if tensor.__class__ is not Tensor:
                return False
            node = tensor._node
            if node.value is None or node.requires_grad or node.autograd is not None:
                return False
            if node.type is not traced.type:
                return False
        return True

    def let_go_of_long_graph(self) -> None:
        """Replays need the program alone, and a graph of 400,000 operations takes 0.5 GB. Who wants
        to see it, or records the call in a graph of their own, has the function traced again."""
        if self.node_count > LONGEST_KEPT:
            self.outputs = self._lowered = None

    # To programs

    def compiled(self, *, is_run: bool = False) -> Compiled:
        """The program, compiled by the first thread that asks; `is_run`: at once."""
        found = self._compiled
        if found is None:
            with self._lock:
                found = self._compiled
                if found is None:
                    found = self._compiled = self._compile(is_run=is_run)
                    self.reached = None
        return found

    def program_with_segments(self) -> CompiledProgram:
        """The program, and how it came about: lowered again where its plan was on disk."""
        compiled = self.compiled()
        if compiled.program.segments is None:
            compiled = self._compile(compiled.destination, with_segments=True)
        return compiled.program

    def _compile(
        self,
        destination: Destination | None = None,
        *,
        with_segments: bool = False,
        is_run: bool = False,
    ) -> Compiled:
        outputs = self.graph_outputs
        known = {node: number for number, node in enumerate(self.inputs)}
        computed = [node for node in dict.fromkeys(outputs) if node not in known]
        output_numbers = None
        if computed != outputs:
            number_of = {node: number for number, node in enumerate(computed)}
            output_numbers = [(known.get(x), number_of.get(x)) for x in outputs]
        device = self._only_device()
        if destination is None:
            destination = backend_of(device).destination(device)
        lowered = self._rewritten(computed)
        program = compile_program(
            self.program_inputs,
            lowered,
            self.reached if lowered is computed else None,
            destination,
            with_segments=with_segments,
            is_run=is_run,
        )
        types = tuple([x.type for x in computed])
        return Compiled(program, device, destination, types, output_numbers)

    def _rewritten(self, computed: list[Node]) -> list[Node]:
        """What is computed, once no derivative is taken of it any more: where known index arrays
        name pairs, selected elements or a diagonal, without them."""
        if self._lowered is not None:
            return self._lowered
        if self._only_device() != CPU:
            return computed
        nodes = self.reached or toposort(computed, stop=lambda x: x.value is not None)
        constants = {x: x.value for x in self.constants if x.value is not None}
        rules, has_sums = _rules(nodes, constants), _has_large_sums(nodes)
        if not rules and not has_sums:
            return computed
        # What was looked at has no inputs any more: to rules it is a leaf, as it has them still to
        # whoever else goes through it.
        leaves = {x: leaf(x.value) for x in nodes if _was_looked_at(x)}
        given_to_rules = substitute(computed, leaves) if leaves else computed
        constants = {leaves.get(x, x): value for x, value in constants.items()}
        found, since = given_to_rules, next_serial()
        for rule in rules:
            found = rule(found, constants)
        if found is not given_to_rules or has_sums:
            sums = imported("numba_grad.compiler.passes.row_and_column_sums")
            found = sums.row_and_column_sums(found, constants)
        if found is given_to_rules:
            return computed
        found = _in_order_of_steps(found, since)
        found = substitute(found, {y: x for x, y in leaves.items()}) if leaves else found
        given = {*self.inputs}
        known = [x for x in toposort(found, stop=given.__contains__) if x.value is not None]
        self._made_constants = [x for x in known if x not in given]
        self._lowered = found
        return found

    def _loaded_once(self) -> Loaded:
        compiled = self.compiled(is_run=True)
        with self._lock:
            if self._loaded is None:
                given = [*self.constants, *self._made_constants]
                constants = [copied_to(x.value, compiled.device) for x in given]
                self._loaded = Loaded(compiled, self._runner(compiled), constants)
            return self._loaded

    def _runner(self, compiled: Compiled) -> Callable[..., list[Any]]:
        """What runs a program, and after so many runs has it compiled again."""
        run = runner(compiled.program, compiled.device)
        runs = runs_one_by_one(compiled.program)
        if runs is None:
            return run
        left = itertools.count(runs, -1)

        def counted(*values: Any) -> list[Any]:
            if next(left) == 0:
                self._compile_later()
            return run(*values)

        return counted

    def _compile_later(self) -> None:
        with self._lock:
            if self.outputs is None or self._loaded is None:
                return
            later = self._loaded.compiled.destination.later
            compiled = self._compiled = self._compile(later, is_run=True)
            self._loaded = Loaded(compiled, self._runner(compiled), self._loaded.constants)

    def _only_device(self) -> str:
        """The device of everything that is computed here.

        Raises
        ------
        DeviceError
            If there are several.
        """
        inputs = set(self.inputs)
        outputs = [x for x in self.graph_outputs if x not in inputs]
        # Numbers go where the arrays are, and come back: the gradient by a learning rate. Constants
        # are copied once: index arrays.
        given = [*self.arguments, *self.captured_nodes]
        devices = {x.type.device for x in given if x.shape != () or x.type.device != CPU}
        devices |= {
            x.type.device for x in outputs if x.type.device not in devices and not goes_along(x)
        }
        if len(devices) > 1:
            raise DeviceError(
                explain(
                    f"jit of {self.name}",
                    f"values on several devices: {', '.join(sorted(devices))}",
                    got={
                        f"{what} {k}": x.type
                        for what, nodes in (("input", given), ("result", outputs))
                        for k, x in enumerate(nodes, start=1)
                    },
                    expected="arguments, what the function closes over, and results on one device; "
                    "numbers may be on the CPU",
                    fix="x.to(device) before the call, or after it",
                )
            )
        return devices.pop() if devices else CPU

    # To values, and to graphs

    def replay(self, values: list[Any], as_tensors: bool, after: list[Any] | None = None) -> Any:
        """The results for values of the arguments. `after` gets what arguments become."""
        if self.communicates:
            values.append(order.VALUE)
            self._compare()
        if self.captured:
            values += [_value_of(tensor._node) for tensor in self.captured]
        if config.engine == "reference" and self._only_device() == CPU:
            values += [*self.array_values(), *[node.value for node in self.constants]]
            given = dict(zip(self.inputs, values, strict=True))
            results = evaluate_with_numpy(self.graph_outputs, given)
        else:
            loaded = self._loaded or self._loaded_once()
            compiled = loaded.compiled
            if self.arrays:
                # Mostly, plans read them where they are.
                is_ready = self._ready and compiled.device == CPU
                values += self._ready if is_ready else self.array_values()
            results = loaded.run(*values, *loaded.constants)
            if compiled.device != CPU:
                results = [
                    on_host(x) if type.device == CPU else x
                    for x, type in zip(results, compiled.types, strict=True)
                ]
            if compiled.output_numbers is not None:
                # A result that is an argument, or a constant, must not share its memory.
                values += [node.value for node in self.constants]
                results = [
                    results[computed] if computed is not None else values[given].copy()  # type: ignore[index]
                    for given, computed in compiled.output_numbers
                ]
        if self.communicates:
            results.pop()  # the token
        if after is not None:
            count = self.structure.num_leaves
            after += results[count:]
            del results[count:]
        if as_tensors:
            return self.rebuild([Tensor(leaf(x)) for x in results])
        # value[()]: a 0-d array as NumPy's own functions return it, a scalar. On a GPU, a tensor.
        return self.rebuild(
            [x[()] if isinstance(x, np.ndarray) else Tensor(leaf(x)) for x in results]
        )

    def array_values(self) -> list[Any]:
        """What is in the arrays that the function closes over, on the device of the program."""
        values: list[Any] = self._ready or [
            x.array if x.is_ready else own_array(x.array) for x in self.arrays
        ]
        device = CPU if self._compiled is None else self._compiled.device
        return values if device == CPU else [copied_to(x, device) for x in values]

    def input_values(self, arguments: Sequence[Any]) -> list[Any]:
        """The values of all inputs, for these of the arguments."""
        evaluate([tensor._node for tensor in self.captured])
        captured = [tensor._node.value for tensor in self.captured]
        constants = [node.value for node in [*self.constants, *self._made_constants]]
        if self.communicates:
            arguments = [*arguments, order.VALUE]
        return [*arguments, *captured, *self.array_values(), *constants]

    def record(self, nodes: list[Node]) -> list[Node]:
        """The outputs as nodes of the caller's graph."""
        if self.communicates:
            order.say(self.said)
            if not is_tracing():
                self._compare()
            *outputs, token = self._recorded([*nodes, order.token()])
            order.advance(outputs, token)
            return outputs
        return self._recorded(nodes)

    def _compare(self) -> None:
        if config.mpi_checks and order.compare is not None:
            order.compare(f"jit of {self.name}", self.said)

    def _recorded(self, nodes: list[Node]) -> list[Node]:
        captured = [tensor._node for tensor in self.captured]
        # What the caller records keeps the values of now, as of every array.
        arrays = [x.node if _is_still(x) else as_node(x.array) for x in self.arrays]
        given = [*nodes, *captured, *arrays, *self.constants]
        if self.node_count > LONGEST_WHOLE:
            # Too long for one kernel: the caller's graph gets the operations themselves.
            replacement = dict(zip(self.inputs, given, strict=True))
            return substitute(self.graph_outputs, replacement)
        with self._recording_lock:
            if self._target is None:
                self._ends = _where_gradients_end(self.graph_outputs)
                self._target = self._call_target()
        outputs = call(self._target, given, keeps=True)
        for x, is_end in zip(outputs, self._ends, strict=True):
            x.requires_grad &= not is_end  # as what is recorded within `no_grad`
        return outputs

    def _call_target(self) -> CallTarget:
        stand_ins = [argument(node.type, node.requires_grad) for node in self.inputs]
        replacement = dict(zip(self.inputs, stand_ins, strict=True))
        with recording(True):
            outputs = substitute(self.graph_outputs, replacement)
        without_repeated_views(in_order_of_recording(toposort(outputs)), outputs)
        return CallTarget(self.name, stand_ins, outputs)


def _where_gradients_end(outputs: Sequence[Node]) -> list[bool]:
    """Which outputs have no gradients though what they are made of does: what was recorded within
    `no_grad` or detached, and gradients that are no more differentiated. Results of a call would
    have them all."""
    made_of: set[Node] = set()
    for node in toposort(outputs):
        if node.requires_grad or not made_of.isdisjoint(node.inputs):
            made_of.add(node)
    return [x in made_of and not x.requires_grad for x in outputs]


def _rules(nodes: Collection[Node], constants: Mapping[Node, Any]) -> list[Rule]:
    """What may change a graph of these, in order. Most programs have none, and import nothing."""
    operations = set(map(_op_of, nodes))
    sizes = [x.type.size for x in constants if len(x.shape) == 1 and x.dtype.kind in "iu"]
    rules: list[Rule] = []
    if sizes and OPS["matmul"] in operations:
        diagonals = imported("numba_grad.compiler.passes.diagonals_of_products")
        rules.append(diagonals.diagonals_of_products)
    if any(map(_is_square, constants)) and _has_large_sums(nodes):
        written_out = imported("numba_grad.compiler.passes.written_out_diagonals")
        rules.append(written_out.written_out_diagonals)
    if max(sizes, default=0) >= FEWEST_PAIRS:
        pairs = imported("numba_grad.compiler.passes.pairs_on_grids")
        rules.append(pairs.pairs_on_grids)
    if any(map(_turns_a_stack, nodes)):
        windows = imported("numba_grad.compiler.passes.windows_in_a_row")
        if windows.has_windows_in_a_row(nodes):
            rules.append(windows.windows_in_a_row)
    few = any(x.type.size <= FEW_PLACES and x.dtype.kind in "iu" for x in constants)
    if OPS["scatter_add"] in operations or (few and OPS["gather"] in operations):
        rules.append(imported("numba_grad.compiler.passes.known_places").known_places)
    return rules


def _in_order_of_steps(outputs: list[Node], since: int) -> list[Node]:
    """`outputs`, recorded once more: what rules have made, from the serial `since` on, comes after
    what it is made of, and all else in its old order. Steps of loops are told apart by that, and
    the parts of one that no rule has changed would be before all that were, in memory until then.
    """
    order = in_order_of_recording(toposort(outputs, stop=lambda x: x.value is not None))
    place: dict[Node, int] = {}
    for node in order:
        is_made = node.serial >= since and bool(node.inputs) and node.value is None
        place[node] = max([place[x] for x in node.inputs]) if is_made else node.serial
    done: dict[Node, Node] = {}
    with recording(False):
        for node in sorted(order, key=lambda x: (place[x], x.serial)):
            stays = not node.inputs or node.value is not None
            inputs = () if stays else tuple([done[x] for x in node.inputs])
            done[node] = node if stays else rebuilt(node, inputs, {})
    return [done[x] for x in outputs]


def worth_comparing(constants: Iterable[Node], nodes: Iterable[Node]) -> list[Node]:
    """Arrays that rules make more of than looking at each call whether they are as they were costs:
    matrices such as `1 - np.eye(n)`, where there are sums over pairs."""
    squares = [x for x in constants if _is_square(x) and isinstance(x.value, np.ndarray)]
    if not squares or not _has_large_sums(nodes):
        return []
    written_out = imported("numba_grad.compiler.passes.written_out_diagonals")
    return [x for x in squares if written_out.is_diagonal_matrix(x.value)]


def _has_large_sums(nodes: Iterable[Node]) -> bool:
    """Whether two matrices of many elements are summed over one of their axes."""
    sums = [x for x in nodes if x.op is _SUM and x.shape and len(x.params["axes"]) == 1]
    sizes = [x.inputs[0].type.size for x in sums if x.inputs]
    return sum(size >= FEWEST_SUMMED for size in sizes) > 1


def _turns_a_stack(node: Node) -> bool:
    """Whether this may be windows along two axes, of which the next operation makes one."""
    return node.op is _TRANSPOSE and len(node.shape) > 2 and node.inputs[0].op is _CONCATENATE


def _was_looked_at(x: Node) -> bool:
    return isinstance(x.value, np.ndarray) and not x.inputs and bool(x.op.input_names)


def _is_square(x: Node) -> bool:
    return len(x.shape) == 2 and x.shape[0] == x.shape[1]


def _is_still(x: ClosedOver) -> bool:
    """Whether the copy from tracing serves for the array as it is now."""
    return not is_tracing() and x.is_unchanged()


def _value_of(node: Node) -> Any:
    if node.value is None:
        evaluate([node])
    return node.value


def host_value(x: Any) -> Any:
    """The value of a tensor, computed if need be; of anything else, the array that plans read."""
    if isinstance(x, Tensor):
        return _value_of(x._node)
    if isinstance(x, np.ndarray):
        if x.__class__ is not np.ndarray:
            x = plain(x)
        if x.flags.c_contiguous and x.dtype.isnative:
            return x
    return own_array(x)
