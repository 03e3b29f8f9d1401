"""Random programs of slices, pads, sums and arithmetic: gradients match the reference engine,
whether a graph is one segment or cut into many."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numba_grad as ng
from numba_grad.compiler import cpu_target, plan_cache
from numba_grad.compiler.partition import flat_graph, segments
from numba_grad.compiler.steps import cpu_row_chains

ROWS, COLUMNS = 19, 34  # longer than what is unrolled
PICKED = [(7 * k) % ROWS for k in range(ROWS - 1)] + [3]  # one of them twice

# Each takes the values so far, two of which it is given, and makes one of the same shape.
STATEMENTS = {
    "sum": lambda a, b: a + b,
    "difference": lambda a, b: a - 0.5 * b,
    "product": lambda a, b: a * b,
    "sine": lambda a, b: np.sin(a) * b,
    "quotient": lambda a, b: a / (2.0 + b * b),
    # Operands are often equal but for rounding, which differs from engine to engine.
    "choice": lambda a, b: np.where(a > b + 0.01, a, 0.1 * b),
    "right": lambda a, b: np.pad(a[:, 1:] - a[:, :-1], ((0, 0), (0, 1))) + b,
    "left": lambda a, b: np.pad(a[:, :-1] * b[:, 1:], ((0, 0), (1, 0))),
    "down": lambda a, b: np.pad(b[1:] + a[:-1], ((1, 0), (0, 0))),
    "around": lambda a, b: np.roll(a, 3, axis=1) - np.roll(b, -1, axis=0),
    "backwards": lambda a, b: a[::-1, ::-1] + b,
    "rows": lambda a, b: a - b.mean(axis=1, keepdims=True),
    "columns": lambda a, b: a * np.tanh(b.sum(axis=0)),
    "joined": lambda a, b: np.concatenate([a[:4], b[4:]], axis=0),
    "interleaved": lambda a, b: np.pad(a[:, ::2], ((0, 0), (0, COLUMNS // 2))) + b,
    "picked": lambda a, b: a[PICKED] * b,
    "flat": lambda a, b: a.reshape(-1)[::-1].reshape(a.shape) + b,
    "outer": lambda a, b: np.exp(-((a[:, :1] - b[:1, :]) ** 2)),
    "pairs": lambda a, b: a + ((a[:, :1] - a[:, 0][None, :]) * b[:, :ROWS]).sum(axis=1)[:, None],
}


def programs_of(statements, longest=12):
    places = st.integers(0, 5)
    lines = st.tuples(st.sampled_from(sorted(statements)), places, places)
    return st.lists(lines, min_size=1, max_size=longest)


programs = programs_of(STATEMENTS)


# A kernel in a chain of rows would write over rows that another one has yet to read.
WRITTEN_OVER = [
    *[("interleaved", 5, 3), ("joined", 4, 0), ("interleaved", 2, 2), ("pairs", 3, 5)],
    *[("joined", 4, 0), ("interleaved", 5, 3), ("interleaved", 0, 1), ("sine", 3, 3)],
    ("difference", 3, 2),
]
# What chains of rows are for: more than two kernels, whatever random programs there are.
CHAINED = [("rows", 1, 1), ("rows", 2, 2), ("rows", 3, 3), ("rows", 4, 4)]


def loss_of(lines, statements=STATEMENTS):
    def loss(x, y):
        values = [x, y]
        for name, a, b in lines:
            # Of the last six, so that programs are deep.
            recent = values[-6:]
            values.append(statements[name](recent[a % len(recent)], recent[b % len(recent)]))
        return sum([(value * value).mean() for value in values[-3:]])

    return loss


def check(lines):
    rng = np.random.default_rng(0)
    arrays = rng.normal(size=(2, ROWS, COLUMNS))
    f = ng.value_and_grad(loss_of(lines), argnums=(0, 1))
    value, gradients = ng.jit(f)(*arrays)
    with ng.configure(engine="reference"):
        expected, wanted = f(*arrays)
    np.testing.assert_allclose(value, expected.item(), rtol=1e-10)
    for found, right in zip(gradients, wanted, strict=True):
        scale = max(1.0, float(np.abs(right.numpy()).max()))
        np.testing.assert_allclose(found / scale, right.numpy() / scale, rtol=1e-8, atol=1e-9)


@pytest.mark.thorough
@settings(max_examples=15)
@given(programs)
def test_gradients_match_the_reference(lines):
    check(lines)


@pytest.mark.thorough
def test_chains_of_rows_change_nothing(monkeypatch):
    monkeypatch.setattr(flat_graph, "_table", flat_graph.Signatures())  # nothing compiled before
    monkeypatch.setattr(plan_cache, "key_of", lambda graph, target: None)
    monkeypatch.setattr(cpu_row_chains, "LEAST_SHARED_BYTES", 1)
    monkeypatch.setattr(cpu_row_chains, "FEWEST_ROWS", 2)
    monkeypatch.setattr(cpu_row_chains, "BLOCK_BYTES", 1 << 11)
    lengths, chaining = [], cpu_row_chains.CHAINING

    def counting(members, rows):
        lengths.append(len(members))
        return chaining.step(members, rows)

    monkeypatch.setattr(cpu_target, "CHAINING", dataclasses.replace(chaining, step=counting))

    @settings(max_examples=25)
    @given(programs)
    def matches(lines):
        check(lines)

    matches()
    check(WRITTEN_OVER)
    check(CHAINED)
    assert max(lengths) > 2


@pytest.mark.thorough
@pytest.mark.parametrize("longest", [12, 30])
def test_cutting_changes_nothing(monkeypatch, longest):
    monkeypatch.setattr(segments, "LONGEST_WHOLE", longest)
    monkeypatch.setattr(segments, "WINDOW", longest)
    monkeypatch.setattr(segments, "LONGEST", 2 * longest)

    @settings(max_examples=15)
    @given(programs)
    def matches(lines):
        check(lines)

    matches()
