"""Plans on GPUs: launched once, captured, replayed, changed in place; branches; streams; errors."""

import itertools

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.runtime.cuda.branches import MOST_STEPS, STREAMS, turns
from tests.threads import run_in_threads


def independent_sums(x):
    parts = [ng.sum(ng.sin(k * x), axis=k % 2) for k in range(1, 6)]
    total = [ng.sum(part * part) for part in parts]
    return sum(total[1:], total[0])


@pytest.fixture
def calls(emulated, monkeypatch):
    """The names of the driver's calls about graphs, in order."""
    names = []
    for name in ("begin_capture", "instantiate", "update", "launch_graph", "launch"):
        original = getattr(emulated, name)

        def noted(*arguments, name=name, original=original):
            names.append(name)
            return original(*arguments)

        monkeypatch.setattr(emulated, name, noted)
    return names


@pytest.mark.thorough(but="late")
def test_first_launches_then_one_graph(calls):
    f = ng.jit(independent_sums)
    a = np.random.default_rng(0).standard_normal((20, 30))
    expected = f(a)
    x = ng.tensor(a, device="cuda")
    results = [f(x) for _ in range(5)]  # kept: so they have different addresses
    np.testing.assert_allclose([r.item() for r in results], expected, rtol=1e-12)
    first_capture = calls.index("begin_capture")
    steps = first_capture  # what the first run launched
    assert steps >= 4 and set(calls[:first_capture]) == {"launch"}
    assert calls.count("launch_graph") == 4 and calls.count("instantiate") == 2
    assert calls.count("update") == 2  # addresses changed twice more


def test_short_plans_are_launched(calls):
    f = ng.jit(lambda x: x * 2 + 1)
    x = ng.tensor(np.arange(4.0), device="cuda")
    for _ in range(3):
        np.testing.assert_array_equal(f(x).tolist(), [1, 3, 5, 7])
    assert calls == ["launch"] * 3


def test_gradients_of_replays(emulated):
    f = ng.jit(ng.value_and_grad(independent_sums))
    for seed in range(5):
        a = np.random.default_rng(seed).standard_normal((6, 3))
        value, gradient = f(ng.tensor(a, device="cuda"))
        e_value, e_gradient = f(a)
        np.testing.assert_allclose(value.item(), e_value, rtol=1e-12)
        np.testing.assert_allclose(gradient.cpu().numpy(), e_gradient, rtol=1e-11)


def test_host_values_of_runs_do_not_mix(emulated):
    """Numbers are copied before each run, while earlier runs may still be waiting."""
    f = ng.jit(lambda x, k: ng.sum(x * k) + ng.sum(ng.sin(x) * k, axis=0).sum())
    x = ng.tensor(np.ones((3, 3)), device="cuda")
    results = [f(x, float(k)) for k in range(6)]
    expected = [9 * k * (1 + np.sin(1.0)) for k in range(6)]
    np.testing.assert_allclose([r.item() for r in results], expected)


def test_threads(emulated):
    f = ng.jit(independent_sums)
    arrays = [np.random.default_rng(k).standard_normal((4, 3)) for k in range(4)]
    expected = [f(a) for a in arrays]
    found = [[] for _ in arrays]

    def work(k):
        x = ng.tensor(arrays[k], device="cuda")
        for _ in range(4):
            found[k].append(f(x).item())

    run_in_threads(work, range(4))
    for values, value in zip(found, expected, strict=True):
        np.testing.assert_allclose(values, [value] * 4, rtol=1e-12)


@pytest.mark.thorough
def test_memory_comes_back(emulated):
    f = ng.jit(ng.grad(independent_sums))
    x = ng.tensor(np.ones((50, 40)), device="cuda")
    f(x)
    f(x)
    ng.cuda.synchronize()
    before = emulated.live_bytes()
    for _ in range(5):
        f(x)
    ng.cuda.synchronize()
    assert emulated.live_bytes() == before


@pytest.mark.thorough
def test_streams_that_come_and_go_leave_nothing(emulated):
    f = ng.jit(independent_sums)
    x = ng.tensor(np.ones((20, 30)), device="cuda")
    used = []
    for _ in range(12):
        with ng.cuda.stream(ng.cuda.Stream()):
            for _ in range(2):
                f(x)
        ng.cuda.synchronize()
        used.append(emulated.live_bytes())
    assert used[-1] == used[6]


def test_a_failed_kernel_is_reported_with_its_operations(emulated):
    x = ng.tensor(np.ones(4), device="cuda")
    emulated.fail_next_kernel()
    with pytest.raises(ng.errors.KernelError, match="tanh"):
        (ng.tanh(x)).tolist()
    with pytest.raises(ng.errors.ContextLostError, match="lost"):
        (x + 1).tolist()


# Streams


def test_operations_run_on_the_stream_they_were_recorded_on(emulated, monkeypatch):
    used = []
    original = emulated.launch

    def launch(function, grid, block, shared, stream, *parameters):
        used.append(stream)
        return original(function, grid, block, shared, stream, *parameters)

    monkeypatch.setattr(emulated, "launch", launch)
    x = ng.tensor(np.ones(3), device="cuda", requires_grad=True)
    side = ng.cuda.Stream()
    with ng.cuda.stream(side):
        y = ng.sum(ng.sin(x))
    assert used == []
    y.item()
    assert set(used) == {side.handle}
    used.clear()
    y.backward()
    assert side.handle in used  # the derivative of what was recorded there
    np.testing.assert_allclose(x.grad.tolist(), np.cos(np.ones(3)))


def test_backward_through_two_streams(emulated):
    a = np.linspace(0.1, 1.0, 5)
    x = ng.tensor(a, device="cuda", requires_grad=True)
    one, two = ng.cuda.Stream(), ng.cuda.Stream()
    for _ in range(3):
        with ng.cuda.stream(one):
            y = ng.exp(x) * 2
        with ng.cuda.stream(two):
            z = ng.sum(y * ng.sin(x))
        z.backward()
    expected = 3 * (2 * np.exp(a) * np.sin(a) + 2 * np.exp(a) * np.cos(a))
    np.testing.assert_allclose(x.grad.tolist(), expected)


def test_the_gradient_is_safe_on_the_stream_of_the_call(emulated):
    x = ng.tensor(np.arange(4.0), device="cuda", requires_grad=True)
    side, own = ng.cuda.Stream(), ng.cuda.Stream()
    with ng.cuda.stream(side):
        loss = ng.sum(x * x)
    with ng.cuda.stream(own):
        loss.backward()
        doubled = x.grad * 2
        np.testing.assert_array_equal(doubled.tolist(), 4 * np.arange(4.0))
        own.synchronize()
        np.testing.assert_array_equal(x.grad.tolist(), 2 * np.arange(4.0))


# Branches


def brute_force(count, accesses):
    """Pairs of steps that must be in order."""
    return {
        (a[0], b[0])
        for a, b in itertools.combinations(accesses.tolist(), 2)
        if a[0] != b[0] and a[1] == b[1] and a[2] < b[3] and b[2] < a[3] and (a[4] or b[4])
    }


@pytest.mark.parametrize("seed", range(20))
def test_branches_keep_every_order_that_matters(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 60))
    rows = []
    for step in range(count):
        for _ in range(rng.integers(1, 4)):
            first = int(rng.integers(0, 12))
            size = int(rng.integers(1, 4))
            rows.append((step, rng.integers(0, 2), first, first + size, rng.integers(0, 3) == 0))
    accesses = np.array(rows, np.int64)
    found = turns(count, accesses)
    before = [set() for _ in range(count)]  # everything that is done when a step starts
    last = {}
    for step, turn in enumerate(found):
        assert 0 <= turn.stream < STREAMS
        for other in (*turn.waits, *([last[turn.stream]] if turn.stream in last else [])):
            assert other < step
            before[step] |= before[other] | {other}
        last[turn.stream] = step
    for earlier, later in brute_force(count, accesses):
        assert earlier in before[later], (earlier, later)


def test_independent_steps_run_beside_each_other():
    accesses = np.array([(k, 0, 8 * k, 8 * k + 8, 1) for k in range(8)], np.int64)
    found = turns(8, accesses)
    assert {turn.stream for turn in found} == set(range(STREAMS))
    assert not any(turn.waits for turn in found)
    chain = np.array([(k, 0, 0, 8, 1) for k in range(8)], np.int64)
    assert {turn.stream for turn in turns(8, chain)} == {0}
    assert MOST_STEPS > 1000


@pytest.mark.thorough(but="late")
def test_records_of_errors_stay_where_they_are(emulated, monkeypatch):
    """So a captured graph need not change for them; and they are empty once they were raised."""
    filled = []
    monkeypatch.setattr(emulated, "fill", lambda *a, fill=emulated.fill: filled.append(fill(*a)))
    f = ng.jit(lambda x, i: independent_sums(x[i]))
    a = np.random.default_rng(0).standard_normal((20, 30))
    index = np.arange(20)[::-1].copy()
    x = ng.tensor(a, device="cuda")
    right, wrong = (ng.tensor(i, device="cuda") for i in (index, index + 7))
    expected = f(a, index)
    for _ in range(6):
        result = f(x, right)
    np.testing.assert_allclose(result.item(), expected, rtol=1e-12)
    assert len(filled) == 1
    for _ in range(2):
        for _ in range(3):
            f(x, wrong)
        with pytest.raises(IndexError, match=r"index 2\d is out of bounds for axis 0 with size 20"):
            ng.cuda.synchronize()
        ng.cuda.synchronize()  # told once
        np.testing.assert_allclose(f(x, right).item(), expected, rtol=1e-12)
