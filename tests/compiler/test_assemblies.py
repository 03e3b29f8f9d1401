"""Arrays that are put together of many pieces have the values that NumPy gives them."""

from dataclasses import replace

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler import evaluate, programs
from numba_grad.compiler.fusion.assemblies import with_assemblies
from numba_grad.compiler.partition.flat_graph import FlatGraph, flatten
from numba_grad.compiler.partition.segment_graphs import segment_graphs
from numba_grad.config import configure
from numba_grad.errors import InternalError

STEPS = 20
X = np.linspace(0.1, 1.0, 3)
W = np.linspace(0.2, 1.2, 3 * STEPS).reshape(STEPS, 3)


def stacked(x, w):
    return np.stack([np.sin(x * w[k]) for k in range(STEPS)])


def stacked_on_the_last_axis(x, w):
    return np.stack([np.sin(x * w[k]) for k in range(STEPS)], axis=-1)


def repeated_and_from_outside(x, w):
    """A piece that is an input, one that is in two places, one that is a part of another array."""
    y = np.sin(x)
    return np.stack([x, y, y, w[1], w[0] * y, *[y * w[k] for k in range(2, STEPS)]])


def pieces_that_are_results(x, w):
    rows = [np.sin(x * w[k]) for k in range(STEPS)]
    return np.stack(rows), rows[3], np.concatenate(rows)


def of_different_lengths(x, w):
    return np.concatenate([np.tanh(x[: 1 + k % 3] * w[k, : 1 + k % 3]) for k in range(STEPS)])


def rows_between_other_rows(x, w):
    table = np.cos(w) * x
    for k in range(1, STEPS - 1):
        table[k] = np.sin(x * w[k]) + table[k - 1]
    return table


def rows_assigned_twice(x, w):
    table = ng.zeros((STEPS, 3))
    for k in range(STEPS):
        table[k] = x * w[k]
        table[k] = table[k] * table[k - 1 if k else 0]
    return table


def rows_added_to(x, w):
    table = 1.0 * w
    for k in range(STEPS - 1):
        table[k] += x
        table[k + 1] += x * w[k]
    return table


def columns_of_a_table(x, w):
    table = ng.zeros((3, STEPS))
    for k in range(STEPS):
        table[:, k] = x * w[k] + (table[:, k - 1] if k else 0.0)
    return table


def elements(x, w):
    table = ng.zeros((STEPS, 3))
    for k in range(STEPS):
        for j in range(3):
            table[k, j] = x[j] * w[k, 2 - j] + (table[k - 1, j] if k else 1.0)
    return table


def looked_at_as_a_whole_meanwhile(x, w):
    table = ng.zeros((STEPS, 3))
    total = 0.0
    for k in range(STEPS):
        table[k] = x * w[k]
        if k == 10:
            total = table.sum()
    return table * total


def parts_of_several_rows(x, w):
    table = ng.zeros((STEPS, 3))
    for k in range(STEPS):
        table[k] = x * w[k] + table[max(k - 2, 0) : k + 1].sum(axis=0)
    return table


def read_by_columns(x, w):
    total = x[0]
    table = np.sin(w.T * x[0])
    for k in range(STEPS):
        total = total + np.sum(table[:, k] * x) * total
    return total


def one_column_of_kept_rows(x, w):
    table = ng.zeros((STEPS, 3))
    for k in range(STEPS):
        x = np.sin(x * w[k])
        table[k] = x
    return table[:, 1]


PROGRAMS = [
    stacked,
    stacked_on_the_last_axis,
    repeated_and_from_outside,
    pieces_that_are_results,
    of_different_lengths,
    rows_between_other_rows,
    rows_assigned_twice,
    rows_added_to,
    columns_of_a_table,
    elements,
    looked_at_as_a_whole_meanwhile,
    parts_of_several_rows,
    read_by_columns,
    one_column_of_kept_rows,
]


@pytest.mark.thorough(but="stacked")
@pytest.mark.parametrize("program", PROGRAMS)
def test_values_and_gradients_are_those_of_the_reference(program):
    def loss(x, w):
        found = program(x, w)
        found = found if isinstance(found, tuple) else (found,)
        return sum(((k + 1.3) * np.sin(y) * y).sum() for k, y in enumerate(found)), found

    def both(x, w):
        values = loss(x, w)[1]
        return values, ng.grad(lambda *a: loss(*a)[0], argnums=(0, 1))(x, w)

    values, gradients = ng.jit(both)(X, W)
    with configure(engine="reference"):
        expected_values, expected_gradients = ng.jit(both)(X, W)
    everything = (*values, *gradients), (*expected_values, *expected_gradients)
    for y, expected in zip(*everything, strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-11, atol=1e-13)


def test_stacking_copies_nothing():
    """What the steps compute they compute into the stack."""

    def states(x):
        kept = []
        for _ in range(100):
            x = np.sin(x) + 0.5
            kept.append(x)
        return np.stack(kept)

    x = np.linspace(0.0, 1.0, 1000)
    lowered = ng.jit(states).lower(x)
    assert sum(kernel.nbytes for kernel in lowered.kernels) <= 2.1 * 100 * x.nbytes
    assert lowered.peak_memory <= 1.1 * 100 * x.nbytes


def test_the_adjoint_of_one_column_is_not_stored():
    """Rows of it are a number each among zeros."""

    def loss(x):
        states = ng.zeros((100, 1000))
        for k in range(100):
            x = np.sin(x) + 0.5
            states[k] = x
        return np.sum(states[:, 300] ** 2)

    lowered = ng.jit(ng.grad(loss)).lower(np.linspace(0.0, 1.0, 1000))
    assert lowered.peak_memory <= 1.2 * 100 * 1000 * 8


def test_segments_end_after_all_copies_of_pieces():
    """Columns that are arguments are copied to their places: readers come in a later segment."""
    x, columns = ng.tensor(X[:, None]), ng.zeros((3, STEPS))
    for k in range(STEPS):
        columns[:, k : k + 1] = x
    y = np.sum(np.sin(columns))
    graph = with_assemblies(flatten([y._node], [x._node]))
    (assembly,) = graph.assemblies
    pieces = graph.reads(assembly)
    assert len(pieces) == STEPS and max(pieces) < assembly


@pytest.mark.parametrize(("steps", "length", "count"), [(8, 100, 1), (6, 140, 0), (8, 20, 0)])
def test_a_few_pieces_are_assembled_if_they_are_far_from_each_other(steps, length, count):
    """Near to each other they are in one segment, which has the array in registers."""
    x, table = ng.tensor(0.5), ng.zeros(steps)
    y = x
    for k in range(steps):
        for _ in range(length):
            y = np.sin(y)
        table[k] = y
    graph = with_assemblies(flatten([table._node], [x._node]))
    assert len(graph.assemblies) == count
    value = evaluate.runner(programs.compile_flat(graph), "cpu")(np.array(0.5))[0]
    expected = [0.5]
    for _ in range(steps * length):
        expected.append(np.sin(expected[-1]))
    np.testing.assert_allclose(value, expected[length::length], rtol=1e-12)


def test_assemblies_that_are_pieces_of_others_are_copied():
    """Rows that are put together of many elements, of which some come after the first row."""
    x, rows = ng.tensor(np.linspace(0.5, 1.0, STEPS)), ng.zeros((STEPS, STEPS))
    rows[0] = np.sin(x)
    for k in range(1, STEPS):
        row = ng.zeros((1, STEPS))
        for j in range(STEPS):
            row[:, j] = np.sin(rows[k - 1, j])
        rows[k : k + 1] = row
    y = np.sum(np.sin(rows))
    graph = with_assemblies(flatten([y._node], [x._node]))
    assert len(graph.assemblies) == STEPS
    assert graph.assemblies and not set(graph.assemblies) & set(graph.places)


def by_elements(x):
    row = 0.0 * x
    for j in range(len(x)):
        row[j] = np.cos(x[j]) * j
    return row


def by_stack(x):
    return np.stack([np.cos(x[j]) * j for j in range(len(x))])


@pytest.mark.parametrize("whole_row", [by_elements, by_stack])
def test_a_row_may_be_an_assembly_itself(whole_row):
    def table_of_rows(x):
        table = 0.0 * (x + x[:, None])
        for i in range(STEPS):
            table[i] = whole_row(x) if i == 1 else np.sin(x) * i
        return table

    x = np.linspace(0.1, 1.0, STEPS)
    table = table_of_rows(ng.tensor(x))
    graph = flatten([table._node])
    assembled = with_assemblies(graph)
    assert len(assembled.assemblies) == 2
    assert set(assembled.places).isdisjoint(assembled.assemblies)
    run = evaluate.runner(programs.compile_flat(graph), "cpu")
    (value,) = run(*[graph.nodes[k].value for k in graph.inputs])
    np.testing.assert_allclose(value, table_of_rows(x), rtol=1e-12)


def without_a_piece(graph: FlatGraph) -> FlatGraph:
    return replace(graph, places=dict(list(graph.places.items())[1:]))


def with_a_piece_too_far(graph: FlatGraph) -> FlatGraph:
    k, (assembly, first) = list(graph.places.items())[3]
    return replace(graph, places={**graph.places, k: (assembly, first + 1)})


def with_a_piece_that_is_given(graph: FlatGraph) -> FlatGraph:
    places = dict(graph.places)
    places[graph.inputs[0]] = places.pop(next(iter(places)))
    return replace(graph, places=places)


def with_an_assembly_that_is_none(graph: FlatGraph) -> FlatGraph:
    return replace(graph, assemblies=[], places={})


def in_another_order(graph: FlatGraph) -> FlatGraph:
    edges = graph.edges.copy()
    edges[graph.starts[graph.reads(graph.assemblies[0])[0]]] = graph.assemblies[0]
    return replace(graph, edges=edges)


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (without_a_piece, "no piece, or of two"),
        (with_a_piece_too_far, "no piece, or of two"),
        (with_a_piece_that_is_given, "a piece that nothing computes"),
        (with_an_assembly_that_is_none, "reads what nothing computes"),
        (in_another_order, "reads what comes after it"),
    ],
)
def test_what_would_read_what_is_not_written_is_refused(broken, problem):
    y = np.sum(np.sin(stacked(ng.tensor(X), W)))
    graph = with_assemblies(flatten([y._node]))
    assert segment_graphs(graph)
    with pytest.raises(InternalError, match=problem):
        segment_graphs(broken(graph))
