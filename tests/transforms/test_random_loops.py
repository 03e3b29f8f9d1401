"""Random programs with loops, as people write them. Loops that are found in their graphs, rows as
values, assemblies and segments change nothing."""

import random
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler import evaluate
from numba_grad.compiler.fusion import assemblies, assignment_chains
from numba_grad.compiler.partition import flat_graph, segments
from numba_grad.compiler.partition.segment_graphs import segment_graphs
from numba_grad.compiler.reference_engine import evaluate_with_numpy
from numba_grad.graph import walk
from numba_grad.graph.node import Node
from numba_grad.transforms import python_loops

STEPS, SIZE = 20, 3
WEIGHTS = np.cos(np.arange(STEPS * SIZE)).reshape(STEPS, SIZE)
RNG = np.random.default_rng(0)
P, Q, FORCE = RNG.normal(size=SIZE), RNG.normal(size=SIZE), RNG.normal(size=(STEPS, SIZE))

ROWS = "u[k-1] u[k-1] u[k-1] u[k-2] u[k-3:k].mean(axis=0) u[k] u[k//2] u[STEPS-1-k] u[k-1,::-1]"
ROWS += " p x x F[k] F[k] F[STEPS-1-k] L[-1] L[-2] v[k-1] v[:,k-1]"
OF_ROWS = [
    *["np.sin({r})", "(0.5*{r}+0.3*{r})", "(0.6*{r}-0.3*{r})", "{r}*q[1]", "0.5*{r}*{s}"],
    *["np.maximum({r},0.2*{r})", "np.where({r}>0.1,{r},0.3)", "np.roll({r},1)", "np.sort({r})"],
    *["(0.5*{r}+0.1*np.floor({r}))", "0.2*np.logaddexp.reduce({r})*{r}", "np.tanh({r}+0.01*k)"],
]
NUMBERS = ["q[0]", "np.sum({r})/3", "u[k-1,0]", "{r}.max()", "{r}[np.argmax({r})]", "v[k-1,-1]"]
STATEMENTS = [
    *["u[k] = {r}", "u[k] = {r}", "u[k] += {r}", "u[k,0] = {s}; u[k,1:] = ({r})[1:]"],
    *["u[k,1:-1] = 0.5*u[k-1,2:]+0.3*u[k-1,:-2]; u[k,0] = {s}; u[k,-1] = {s}"],
    *["u[k,::2] = {s}; u[k,1::2] = ({r})[1::2]", "z = u[k]; z += {r}; z[0] = {s}"],
    *["for j in range(SIZE): u[k,j] = {s}+0.1*p[j]", "u[k-1] = {r}", "u[k-1:k+1] *= 0.9"],
    *["x = np.tanh({r})", "x = 0.7*x+0.2*{r}", "x = 0.6*x; x[0] = {s}", "L.append({r})"],
    *["v[k] = {r}", "v[:,k] = {r}", "v[:,k:k+1] = ({r})[:,None]", "v[k] += 0.1*{r}"],
]
RESULTS = ["np.sum(u*W)", "np.sum(u[-1]**2)", "np.sum(u[::5])", "np.sum(u[[1,4,4]])", "u[3:].max()"]
RESULTS += ["np.sum(x)", "np.sum(np.stack(L)[2::3]**2)", "np.sum(np.stack(L,axis=1)[0])"]
RESULTS += ["np.sum(v*v)", "np.sum(v[-1])"]


def program(seed: int) -> str:
    """The text of a function of `p` and `q`."""
    choice = random.Random(seed).choice
    by_columns = choice([False, False, True])
    rows = [r for r in ROWS.split() if r != ("v[k-1]" if by_columns else "v[:,k-1]")]
    without = [] if choice([0, 0, 1]) else ["k//2", "STEPS-1-k", "sort", "argmax", "v["]

    def filled(patterns: Sequence[str], depth: int) -> str:
        fit = [t for t in patterns if not any(word in t for word in without)]
        other = "v[k" if by_columns else "v[:,"
        fit = [t for t in fit if not t.startswith(other) or "-1]" in t]
        text = choice(fit)
        while "{r}" in text:
            row = filled(OF_ROWS, depth - 1) if depth and choice([0, 1]) else choice(rows)
            text = text.replace("{r}", row, 1)
        while "{s}" in text:
            text = text.replace("{s}", filled(NUMBERS, 0), 1)
        return text

    lines = [f"v = xp.zeros({'(SIZE, STEPS)' if by_columns else '(STEPS, SIZE)'})"]
    lines += ["u = xp.zeros((STEPS, SIZE)); u[:3] = p; x = 1.0*p; L = [p, 0.5*p]"]
    for _ in range(choice([1, 1, 2])):
        lines += ["for k in range(3, STEPS):"]
        for _ in range(choice([1, 2, 2, 3])):
            statement = filled(STATEMENTS, 2)
            condition = choice(["", "", "", "", "", "if k % 3 == 0: "])
            lines.append("    " + (condition if "for" not in statement else "") + statement)
    lines.append("return " + "+".join([choice(RESULTS) for _ in range(3)]))
    return "def f(p, q, xp):\n" + "\n".join("    " + line for line in lines)


def by_segments(targets: Sequence[Node], given: dict[Node, np.ndarray] | None = None) -> list[Any]:
    """As `evaluate_with_numpy`, and what segments of the compiler's graph compute is the same."""
    expected = evaluate_with_numpy(targets, given)
    graph = assemblies.with_assemblies(flat_graph.flatten(targets))
    memory = {k: np.ravel(graph.nodes[k].value) for k in graph.inputs}
    memory |= {k: np.full(graph.nodes[k].type.size, np.nan) for k in graph.assemblies}
    for segment in segment_graphs(graph):
        local = []
        for k, array, first in zip(segment.outside, segment.arrays, segment.firsts, strict=True):
            type = graph.nodes[k].type
            local.append(memory[array][first : first + type.size].reshape(type.shape))
            assert not np.isnan(local[-1]).any()  # all of it is written
        ends = np.cumsum(segment.degrees)
        for k, reads in zip(segment.own, np.split(segment.reads, ends[:-1]), strict=True):
            node, arrays, call = graph.nodes[k], [local[r] for r in reads], graph.calls.get(int(k))
            if call is None:
                local.append(np.asarray(node.op.reference(*arrays, **node.params)))
            else:
                run = call.op.extras["evaluate"]
                items = run(evaluate_with_numpy, *arrays, **call.params)
                local.append(np.asarray(items[node.params["number"]]))
        for k, number in zip(segment.needed, segment.needed_numbers, strict=True):
            memory[k] = np.ravel(local[number])
            if k in graph.places:
                assembly, first = graph.places[k]
                memory[assembly][first : first + memory[k].size] = memory[k]
    for value, k in zip(expected, graph.outputs, strict=True):
        if k in memory:
            np.testing.assert_allclose(memory[k], np.ravel(value), rtol=1e-9, atol=1e-9)
    return expected


def check(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"np": np, "STEPS": STEPS, "SIZE": SIZE, "F": FORCE, "W": WEIGHTS}
    exec(program(seed), names)

    def of(xp: ModuleType) -> Any:
        return lambda p, q: names["f"](p, q, xp)

    value = of(np)(P.copy(), Q.copy())
    if not np.isfinite(value) or abs(value) > 1e4:
        return
    f = ng.value_and_grad(of(ng), argnums=(0, 1))
    with ng.configure(engine="reference"), monkeypatch.context() as patch:
        _, expected = f(P, Q)  # no loop is looked for, see conftest.py
        for name in ("FEWEST_NODES", "FEWEST_NODES_COMPILED"):
            patch.setattr(python_loops, name, 32)
        patch.setattr(flat_graph, "_MANY", 16)
        patch.setattr(walk, "MANY", 16)
        for module in (assemblies, assignment_chains):
            patch.setattr(module, "MOST_PIECES", 5)
        for name, length in (("LONGEST_WHOLE", 40), ("WINDOW", 32), ("LONGEST", 64)):
            patch.setattr(segments, name, length)
        patch.setattr(evaluate, "evaluate_with_numpy", by_segments)
        variables = [ng.tensor(a, requires_grad=True) for a in (P, Q)]
        of(ng)(*variables).backward()
        jitted = ng.jit(f)
        jitted(P + 0.1, Q)
        for found, gradients in (f(P, Q), jitted(P, Q), (value, [x.grad for x in variables])):
            np.testing.assert_allclose(float(found), value, rtol=1e-9)
            for x, right in zip(gradients, expected, strict=True):
                x = np.zeros(SIZE) if x is None else np.asarray(x)
                scale = max(1.0, float(np.abs(right.numpy()).max()))
                np.testing.assert_allclose(x / scale, right.numpy() / scale, atol=1e-8)


def test_loops_compute_what_their_steps_do(monkeypatch: pytest.MonkeyPatch) -> None:
    check(1, monkeypatch)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(60))
def test_many_loops_compute_what_their_steps_do(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check(seed, monkeypatch)
