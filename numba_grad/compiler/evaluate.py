"""Give values to recorded nodes, on the engine in force and on the devices that they are on.

One program computes what is wanted on one device and stream. Where values go from one to another,
they are computed first, where they come from. What users hold of the past of what is wanted is
computed on the way and kept (`held_values.py`), so that a loop that looks at values goes on from
there.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from numba_grad.compiler.backends import backend_of, copied_to
from numba_grad.compiler.compiled_program import CompiledProgram, Destination
from numba_grad.compiler.held_values import (
    carried_along,
    gone_on_from,
    is_filled,
    past_of,
    set_rows,
    still_pending,
    to_keep,
)
from numba_grad.compiler.partition.flat_graph import FlatGraph, flatten
from numba_grad.compiler.partition.segments import LONGEST_WHOLE
from numba_grad.compiler.programs import (
    PROCESSOR,
    compile_flat,
    compile_small,
    first_tier_runs,
    is_small_each_time,
    runs_one_by_one,
)
from numba_grad.compiler.reference_engine import evaluate_with_numpy
from numba_grad.compiler.written_rows import next_row
from numba_grad.config import config
from numba_grad.graph import order, placement
from numba_grad.graph.collection import without_collection
from numba_grad.graph.node import Node
from numba_grad.graph.placement import is_made_of_literals
from numba_grad.graph.streams import stream_of
from numba_grad.graph.types import CPU, Type
from numba_grad.graph.walk import toposort, value_inputs
from numba_grad.locks import LocksByKey, new_lock
from numba_grad.ops.control import item, pending_results
from numba_grad.ops.transfer import is_move
from numba_grad.runtime.native_engine import UnfinishedError


def evaluate(targets: Sequence[Node], *, is_look: bool = False, is_complete: bool = False) -> None:
    """Compute `targets` and set their `value`: those on one device in one program.

    `is_look`: the user asks for them, maybe in a loop, and no function is being traced.
    `is_complete`: what users hold is among them, where it is to be kept.

    Raises
    ------
    IndexError, LinAlgError
        What the values turn out to be wrong for; then no value is set.
    """
    pending = list(dict.fromkeys(node for node in targets if node.value is None))
    if not pending:
        return
    if order.evaluate is not None:
        pending = _with_what_comes_along(pending)
    if not placement.is_in_use():
        _evaluate_on(CPU, pending, is_look, is_complete)
        return
    for moves, leaving in _stages_before(pending):
        for node in moves:
            with backend_of(node.type.device).on_stream(node.type.device, stream_of(node)):
                _set_values([node], [copied_to(node.inputs[0].value, node.type.device)])
        _evaluate_by_place(leaving)
    _evaluate_by_place(pending)


def _with_what_comes_along(targets: list[Node]) -> list[Node]:
    """`targets`, and what else the communications behind them give: who asks for that later must
    not make them happen again."""
    found = dict.fromkeys(targets)
    for node in toposort(targets, stop=lambda node: node.value is not None):
        if node.value is None and node.op is item and order.communicates(node.inputs[0]):
            found.update(dict.fromkeys(pending_results(node.inputs[0])))
    return list(found)


DeviceStream = tuple[str, Any]  # a device, and its stream


def _place(node: Node) -> DeviceStream:
    return node.type.device, stream_of(node)


def _evaluate_by_place(nodes: Iterable[Node]) -> None:
    by_place: dict[DeviceStream, list[Node]] = {}
    for node in dict.fromkeys(nodes):
        if node.value is None:
            by_place.setdefault(_place(node), []).append(node)
    for (device, stream), own in by_place.items():
        with backend_of(device).on_stream(device, stream):
            _evaluate_on(device, own)


def _evaluate_on(
    device: str,
    nodes: list[Node],
    is_look: bool = False,
    is_complete: bool = False,
    states: Sequence[Node] = (),
) -> None:
    """`states`: what the look that needs `nodes` goes on from."""
    kept: list[Node] = []
    row: Node | None = None
    while True:
        if row is not None:
            _evaluate_on(device, [row], states=states)
        with _graph_lock:
            past = past_of(nodes, LONGEST_WHOLE if is_complete else math.inf)
            if past.parts:
                set_rows(past, is_look=is_look)
                if is_look:
                    # Before rows have values: behind those it could not be seen.
                    states = gone_on_from(past) if row is None else states
                    row = next_row(past, nodes)
                    if row is not None:
                        continue
                    set_rows(past, is_look=True)  # of arrays that were written now
                past = still_pending(past, nodes)
            if not is_complete:
                if is_look:
                    kept = carried_along(past)
                wanted = [*nodes, *kept]
                if kept:
                    past = past_of(wanted)
                kept += to_keep(past, wanted, is_look=is_look, states=states)
            break
    is_whole = not is_complete or len(past.nodes) <= LONGEST_WHOLE
    reached = past.nodes if is_whole else None
    if kept:
        together = [*nodes, *kept]
        try:
            values = _values(device, together, reached)
        except Exception:
            reached = None  # a mistake in what nobody asked for, or in what is wanted: we will see
        else:
            _set_values(together, values)
            return
    _set_values(nodes, _values(device, nodes, reached))


def _values(device: str, nodes: list[Node], reached: Collection[Node] | None) -> list[Any]:
    """`reached`: what `nodes` are computed from, with both, from who has walked it."""
    if config.engine == "reference" and device == CPU:
        return evaluate_with_numpy(nodes)
    return _evaluate_with_kernels(device, nodes, reached)


def _set_values(nodes: Sequence[Node], values: Sequence[Any]) -> None:
    with _graph_lock:
        for node, value in zip(nodes, values, strict=True):
            if node.value is None:
                node.value = value
            # Else a loop that asks for values would keep all of its past. Of `ones(3)` and the like
            # it stays known that they are no data.
            if not node.requires_grad and not is_filled(node):
                node.inputs = ()


def _stages_before(targets: Sequence[Node]) -> list[tuple[list[Node], list[Node]]]:
    """What is to be computed before `targets`, in stages: moves between devices, whose inputs the
    stage before has computed, and then the values that are used in another place."""
    with _graph_lock:
        stage_of: dict[Node, int] = {}
        stages: list[tuple[list[Node], list[Node]]] = []
        stack = list(targets)
        while stack:
            node = stack[-1]
            if node in stage_of:
                stack.pop()
                continue
            if node.value is not None:
                stage_of[node] = 0
                continue
            inputs = node.inputs if node.op is not item else value_inputs(node)
            missing = [x for x in inputs if x not in stage_of]
            if missing:
                stack += missing
                continue
            stage = max((stage_of[x] for x in inputs), default=0)
            leaving = [
                x
                for x in inputs
                if x.value is None and _place(x) != _place(node) and not is_made_of_literals(x)
            ]
            if leaving or is_move(node):
                stage = max(stage, 1 + max((stage_of[x] for x in inputs), default=0))
                while len(stages) <= stage:
                    stages.append(([], []))
                for x in leaving:
                    stages[stage_of[x]][1].append(x)
                if is_move(node):
                    stages[stage][0].append(node)
            stage_of[node] = stage
    return stages


# Held while a graph is read or changed here, not while one is compiled or kernels run: two threads
# may want values of graphs that have nodes in common.
_graph_lock = new_lock()


def _evaluate_with_kernels(
    device: str, targets: list[Node], reached: Collection[Node] | None
) -> list[Any]:
    with _graph_lock:
        bases = [_without_reshapes(node) for node in targets]
        values = {base: base.value for base in bases}
        known = [base for base, value in values.items() if value is None]
        if known != targets:
            reached = None  # what another one is computed from is not what these are
        if reached is None or len(reached) > LONGEST_WHOLE:
            graph = without_collection(flatten, known, reached=reached) if known else None
        else:
            graph = flatten(known, reached=reached)  # too short for a pause, which takes 3 us
        input_values = [graph.nodes[k].value for k in graph.inputs] if graph else []
    if graph is not None:
        values.update(zip(known, _results(device, graph, input_values), strict=True))
    return [values[base].reshape(node.shape) for node, base in zip(targets, bases, strict=True)]


def _results(device: str, graph: FlatGraph, values: Sequence[Any]) -> list[Any]:
    try:
        return runner(_program_for(device, graph), device)(*values)
    except UnfinishedError:
        return runner(_program_for(device, graph, is_long=True), device)(*values)


@dataclass(slots=True, eq=False)
class _Known:
    """A program, by the structure of its graph: a training loop records the same one each time."""

    program: CompiledProgram
    types: list[Type]  # which the key has by identity
    runs_left: int | None  # after which the graph is compiled again; None: it is not
    later: Destination | None = None  # for what


# Longer graphs are not kept: their segments are, and a key takes memory for every node.
_programs: OrderedDict[tuple, _Known] = OrderedDict()
_programs_lock = new_lock()
_making = LocksByKey()
_MOST_PROGRAMS = 256
_LONGEST_KEPT = 50_000


def _program_for(device: str, graph: FlatGraph, *, is_long: bool = False) -> CompiledProgram:
    """The program for graphs like this; compiled once, whoever else wants it. `is_long`: a loop in
    it turned out to be, so it is fused from now on."""
    destination = backend_of(device).destination(device)
    if len(graph.nodes) > _LONGEST_KEPT:
        may_be = not is_long and _may_be_run_by_operations(destination)
        if may_be and is_small_each_time(graph):
            return compile_small(graph)
        return compile_flat(graph, destination)
    key = (destination.name, graph.key, config.unroll_extent, config.engine)
    if is_long:
        with _programs_lock:
            if key in _programs and _programs[key].runs_left is not None:
                _programs[key].runs_left = 0
    found = _known_program(key)
    if found is None:
        with _making.lock_of(key):
            found = _known_program(key)
            if found is None:
                found = _made(graph, destination, _programs.get(key))
                with _programs_lock:
                    _programs[key] = found
                    while len(_programs) > _MOST_PROGRAMS:
                        _programs.popitem(last=False)
    return found.program


def _known_program(key: tuple) -> _Known | None:
    """The program to run now; None if one has to be made."""
    with _programs_lock:
        found = _programs.get(key)
        if found is None:
            return None
        _programs.move_to_end(key)
        if found.runs_left is not None:
            if found.runs_left == 0:
                return None
            found.runs_left -= 1
        return found


def _made(graph: FlatGraph, destination: Destination, former: _Known | None) -> _Known:
    if former is not None and former.later is not None:
        destination = former.later
    elif _may_be_run_by_operations(destination) and (runs := first_tier_runs(graph)):
        return _Known(compile_small(graph), graph.types, runs - 1, destination)
    program = compile_flat(graph, destination)
    runs = runs_one_by_one(program)
    return _Known(program, graph.types, None if runs is None else runs - 1, destination.later)


def _may_be_run_by_operations(destination: Destination) -> bool:
    return destination is PROCESSOR and config.engine == "native"


def runner(program: CompiledProgram, device: str) -> Callable[..., list[Any]]:
    """What takes the values of a program's inputs and returns its outputs."""
    return backend_of(device).runner(program, device)


def _without_reshapes(node: Node) -> Node:
    """What has the same elements in the same order: values are never written to, so they can be
    shared."""
    while node.value is None and node.op.name in ("reshape", "detach", "identity"):
        node = node.inputs[0]
    return node
