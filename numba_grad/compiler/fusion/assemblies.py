"""Arrays that are put together of many pieces: stacked states, rows that are assigned one by one.

    states.append(y) ... np.stack(states)      table[k] = y ...      the gradient of weights[k] ...

Computed as one value, such an array would be a kernel as long as the loop, or as many kernels as
there are rows. Here it becomes an *assembly*: memory that belongs to no segment, in which each
piece has its place. A segment that computes a piece writes it there, by a pointer that is not part
of its code, so that all steps of a loop stay equal. Nothing is copied but what is in memory already
or belongs to two arrays.

What is read between assignments, `table[k - 1]`, is the value that was assigned there. So of a
chain of assignments nothing is left but the pieces, forward and backward.

Columns are rows of the transposed array, which movements make of it for nothing.
"""

import math

import numpy as np

from numba_grad.compiler.fusion.assembly_rewriting import (
    MOST_DISTANT_PIECES,
    MOST_PIECES,
    AssemblyRewriting,
    Layout,
    Reference,
    assemble,
    layout_of,
)
from numba_grad.compiler.fusion.assignment_chains import chains_of
from numba_grad.compiler.partition.flat_graph import FlatGraph, Role
from numba_grad.compiler.partition.roles import RENAMINGS, VIEWS
from numba_grad.graph.node import OPS


def with_assemblies(graph: FlatGraph) -> FlatGraph:
    """The graph with assemblies in the place of what has many pieces, and with what is read in many
    pieces in memory."""
    degrees = np.diff(graph.starts)
    assignments = np.flatnonzero(graph.facts("assigns")).tolist()
    joined = np.flatnonzero(degrees > MOST_PIECES).tolist()
    joined = [k for k in joined if graph.nodes[k].op.name == "concatenate"]
    if len(assignments) > MOST_DISTANT_PIECES or joined:
        rewriting = AssemblyRewriting(graph)
        last = {chain.links[-1]: chain for chain in chains_of(rewriting, assignments)}
        # A piece may be an assembly itself, in memory of its own then: so inner ones come first.
        for k in sorted([*last, *joined]):
            if k in last:
                last[k].commit()
            else:
                _assemble_concatenation(rewriting, k)
        graph = rewriting.result()
    sliced = _sliced(graph)
    padded = {k: views for k, views in sliced.items() if graph.nodes[k].op.name == "pad"}
    if padded:
        rewriting = AssemblyRewriting(graph)
        for array, views in padded.items():
            for k in views:
                _slice_before_pad(rewriting, array, k)
        graph = rewriting.result()
        sliced = _sliced(graph)
    if sliced:
        rewriting = AssemblyRewriting(graph)
        for array, views in sliced.items():
            _store_slices(rewriting, array, views)
        graph = rewriting.result()
    return graph


def _assemble_concatenation(rewriting: AssemblyRewriting, k: int) -> None:
    node, inputs = rewriting.node(k), rewriting.inputs_of(k)
    axis = node.params["axis"]
    types = [rewriting.node(x).type for x in inputs]
    if math.prod(node.shape[:axis]) == 1:
        layout = Layout(node.shape, tuple(range(len(node.shape))))
    elif all(type.shape[axis] == 1 for type in types):
        others = [a for a in range(len(node.shape)) if a != axis]
        layout = Layout(node.shape, (axis, *others))
    else:
        return
    first = 0
    pieces: list[tuple[Reference, int]] = []
    for x, type in zip(inputs, types, strict=True):
        if type.size:
            pieces.append((x, first))
        first += type.size
    assemble(rewriting, k, layout, pieces)


# Rows and columns


def _sliced(graph: FlatGraph) -> dict[int, list[int]]:
    """By array, the slices of it, where they are many and make up much of it."""
    slices = np.flatnonzero(graph.facts("slices"))
    arrays = graph.edges[graph.starts[slices]]
    is_one_of_many = np.bincount(arrays, minlength=len(graph.nodes))[arrays] > MOST_PIECES
    by_array: dict[int, list[int]] = {}
    for k, array in zip(
        slices[is_one_of_many].tolist(), arrays[is_one_of_many].tolist(), strict=True
    ):
        by_array.setdefault(array, []).append(k)
    result: dict[int, list[int]] = {}
    for array, views in by_array.items():
        size_of = {graph.nodes[k].params["starts"]: graph.nodes[k].type.size for k in views}
        if len(size_of) > MOST_PIECES and 2 * sum(size_of.values()) >= graph.nodes[array].type.size:
            result[array] = views
    return result


def _store_slices(rewriting: AssemblyRewriting, array: int, views: list[int]) -> None:
    """Let slices be runs of elements of an array in memory: a pointer each, where steps of a loop
    that compute them from what the array is made of would all be different."""
    node = rewriting.node(views[0])
    layout = layout_of(
        rewriting.node(array).shape, *(node.params[name] for name in ("starts", "steps", "sizes"))
    )
    if layout is None:
        return
    if layout.is_identity:
        while rewriting.is_only_another_shape(array):
            (array,) = rewriting.inputs_of(array)
        is_view = rewriting.node(array).op.name in (*VIEWS, *RENAMINGS)
        if rewriting.role(array) in (Role.COMPUTED, Role.FREE) and not is_view:
            rewriting.stored.append(array)
        return
    moved: Reference | None = None
    for k in views:
        node = rewriting.node(k)
        starts, steps, sizes = (node.params[name] for name in ("starts", "steps", "sizes"))
        if layout.first_of_run(starts, steps, sizes) is None:
            continue
        if moved is None:
            moved = rewriting.put_in(k, OPS["transpose"], [array], axes=layout.axes)
            rewriting.stored.append(moved)
        region = {
            name: tuple([values[axis] for axis in layout.axes])
            for name, values in (("starts", starts), ("steps", steps), ("sizes", sizes))
        }
        row = rewriting.put_in(k, OPS["slice"], [moved], **region)
        rewriting.change(k, OPS["reshape"], [row], shape=node.shape)


def _slice_before_pad(rewriting: AssemblyRewriting, array: int, view: int) -> None:
    """Let a slice of a pad be a pad of a slice, where it can be: a row of the adjoint of
    `states[:, receiver]` is one number among zeros that nobody has to store."""
    params, node = rewriting.node(array).params, rewriting.node(view)
    (inner,) = rewriting.inputs_of(array)
    regions = zip(*(node.params[name] for name in ("starts", "sizes", "steps")), strict=True)
    pads = list(zip(*(params[name] for name in ("low", "high", "interior")), strict=True))
    whole = [(0, n, 1) for n in rewriting.node(array).shape]
    own: list[tuple[int, int, int]] = []
    for region, pad, all_of_it, n in zip(
        regions, pads, whole, rewriting.node(inner).shape, strict=True
    ):
        if any(pad) and region != all_of_it:
            return
        own.append((0, n, 1) if any(pad) else region)
    starts, sizes, steps = zip(*own, strict=True)
    part = rewriting.put_in(view, OPS["slice"], [inner], starts=starts, sizes=sizes, steps=steps)
    if "dropped" in node.params:
        padded = rewriting.put_in(view, OPS["pad"], [part], **params)
        rewriting.change(view, OPS["reshape"], [padded], shape=node.shape)
    else:
        rewriting.change(view, OPS["pad"], [part], **params)
