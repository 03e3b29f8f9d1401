"""The random programs of the compiler's tests on GPUs: gradients match the reference engine, when
kernels are launched one by one and when they are a graph, in whatever order its branches come."""

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import numba_grad as ng
from numba_grad.compiler.cuda import row_chains, target
from numba_grad.compiler.partition import flat_graph
from tests.compiler.test_random_programs import (
    CHAINED,
    COLUMNS,
    ROWS,
    WRITTEN_OVER,
    loss_of,
    programs,
)


def check(lines, gpu):
    arrays = np.random.default_rng(0).normal(size=(2, ROWS, COLUMNS))
    f = ng.value_and_grad(loss_of(lines), argnums=(0, 1))
    on_gpu = ng.jit(f)
    with ng.configure(engine="reference"):
        expected, wanted = f(*arrays)
    tensors = [ng.tensor(a, device=gpu) for a in arrays]
    for _ in range(2):
        value, gradients = on_gpu(*tensors)
        np.testing.assert_allclose(value.item(), expected.item(), rtol=1e-10)
        for found, right in zip(gradients, wanted, strict=True):
            scale = max(1.0, float(np.abs(right.numpy()).max()))
            np.testing.assert_allclose(
                found.cpu().numpy() / scale, right.numpy() / scale, rtol=1e-8, atol=1e-9
            )


# Without shrinking: a kernel takes a tenth of a second to emulate.
PATIENT = settings(
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.thorough
@settings(PATIENT, max_examples=24)
@given(programs)
def test_gradients_match_the_reference(last_gpu, lines):
    check(lines, last_gpu)


@pytest.mark.thorough
def test_chains_of_rows_change_nothing(emulated, monkeypatch):
    """As many chains as there can be, worth it or not."""
    monkeypatch.setattr(flat_graph, "_table", flat_graph.Signatures())  # nothing compiled before
    members = []

    def step(chain, rows):
        members.append(len(chain))
        return row_chains.CHAINING.step(chain, rows)

    chaining = dataclasses.replace(
        row_chains.CHAINING, is_worth=lambda chain, rows: True, step=step
    )
    monkeypatch.setattr(target, "CHAINING", chaining)

    @settings(PATIENT, max_examples=6)
    @given(programs)
    def matches(lines):
        check(lines, "cuda:0")

    matches()
    check(WRITTEN_OVER, "cuda:0")
    check(CHAINED, "cuda:0")
    assert max(members) > 2
