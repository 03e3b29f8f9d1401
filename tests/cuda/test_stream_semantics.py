"""What PyTorch documents of streams in backward passes ("CUDA semantics"), and what we add: a
stream waits for what another one computed, without being told.

The driver does its work as late as it may and fills memory with nan, so a missing wait shows.
"""

import threading

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.runtime.cuda.devices import active
from tests.cuda.emulator import EmulatedDriver
from tests.cuda.host_driver import installed
from tests.threads import run_in_threads

A = np.linspace(0.1, 1.0, 6)


def close(found, expected):
    np.testing.assert_allclose(found.detach().cpu().numpy(), expected, rtol=1e-12)


def variable(device="cuda"):
    return ng.tensor(A, device=device, requires_grad=True)


def test_derivatives_run_where_their_operations_did(launched):
    """Each backward operation runs on the stream of its forward operation, so that what ran side by
    side forward does so backward."""
    x, z = variable(), variable()
    one, two = ng.cuda.Stream(), ng.cuda.Stream()
    with ng.cuda.stream(one):
        y = ng.sin(x).sum()
    with ng.cuda.stream(two):
        w = ng.exp(z).sum()
    total = y + w
    assert total.item() == pytest.approx(np.sin(A).sum() + np.exp(A).sum())
    launched.clear()
    total.backward()
    assert {one.handle, two.handle} <= set(launched)
    close(x.grad, np.cos(A))
    close(z.grad, np.exp(A))


def test_initial_gradients_of_another_stream(late):
    x = variable()
    side = ng.cuda.Stream()
    y = ng.sin(x)
    with ng.cuda.stream(side):
        g = ng.tensor(A, device="cuda") * 2  # PyTorch asks for a wait here
    y.backward(g)
    close(x.grad, 2 * A * np.cos(A))


def test_gradients_are_used_on_the_stream_of_the_call(late):
    x = variable()
    side = ng.cuda.Stream()
    y = (x**3).sum()
    with ng.cuda.stream(side):
        y.backward()
        close(x.grad * 2, 6 * A**2)


def test_gradients_are_used_on_any_other_stream(late):
    """Where PyTorch asks for `wait_stream`."""
    x = variable()
    side, other = ng.cuda.Stream(), ng.cuda.Stream()
    with ng.cuda.stream(side):
        (x**3).sum().backward()
    close(x.grad + 1, 3 * A**2 + 1)
    with ng.cuda.stream(other):
        close(x.grad - 1, 3 * A**2 - 1)


def test_the_callers_stream_is_ordered_after_backward(late):
    """Also for those who look at memory themselves: an event of the caller's stream comes to pass
    after all of the backward pass, on whatever stream that was."""
    x = variable()
    side = ng.cuda.Stream()
    with ng.cuda.stream(side):
        y = ng.sin(x).sum()
    y.backward()
    ng.cuda.current_stream().synchronize()
    raw = np.empty_like(A)
    value = x.grad._node.value
    with active(0):
        late.copy_to_host(raw.ctypes.data, value.address, value.nbytes, side.handle)
    side.synchronize()
    np.testing.assert_allclose(raw, np.cos(A))


def test_accumulation_from_several_streams(late):
    x = variable()
    for stream in (ng.cuda.Stream(), ng.cuda.Stream(), ng.cuda.default_stream()):
        with ng.cuda.stream(stream):
            ng.exp(x).sum().backward()
    close(x.grad, 3 * np.exp(A))


def test_second_derivatives_across_streams(late):
    x = variable()
    one, two = ng.cuda.Stream(), ng.cuda.Stream()
    with ng.cuda.stream(one):
        y = (ng.sin(x) * x).sum()
    with ng.cuda.stream(two):
        (g,) = ng.autograd.grad(y, x, create_graph=True)
    (h,) = ng.autograd.grad(g.sum(), x)
    close(h, 2 * np.cos(A) - A * np.sin(A))


def test_jitted_functions_run_on_the_current_stream(launched):
    f = ng.jit(ng.value_and_grad(lambda x: (ng.sin(x) * x).sum()))
    x = ng.tensor(A, device="cuda")
    sides = [ng.cuda.Stream(), ng.cuda.Stream()]
    results = []
    for side in sides * 3:
        launched.clear()
        with ng.cuda.stream(side):
            results.append(f(x + len(results)))
        assert set(launched) <= {side.handle}
    for k, (value, gradient) in enumerate(results):
        b = A + k
        assert value.item() == pytest.approx((np.sin(b) * b).sum())
        close(gradient, np.sin(b) + b * np.cos(b))


def test_hooks_see_the_stream_of_the_call_or_of_the_operation(late):
    x = variable()
    side = ng.cuda.Stream()
    with ng.cuda.stream(side):
        y = x * 2
        y.register_hook(lambda g: g * ng.tensor(A, device="cuda"))
    y.sum().backward()
    close(x.grad, 2 * A)


def test_moves_between_devices_and_streams(late):
    x = variable("cuda:0")
    one, two = ng.cuda.Stream("cuda:0"), ng.cuda.Stream("cuda:1")
    with ng.cuda.stream(one):
        y = ng.sin(x)
    with ng.cuda.stream(two):
        z = (y.to("cuda:1") ** 2).sum()
    z.backward()
    assert x.grad.device == "cuda:0"
    close(x.grad, np.sin(2 * A))


@pytest.mark.parametrize("has_own_streams", [False, True])
def test_threads_share_a_graph(late, has_own_streams):
    x = variable()
    shared = ng.exp(x)
    found = {}

    def work(k):
        stream = ng.cuda.Stream() if has_own_streams else ng.cuda.default_stream()
        with ng.cuda.stream(stream):
            y = (shared * (k + 1)).sum()
            (g,) = ng.autograd.grad(y, x, retain_graph=True)
            found[k] = (y, g)

    run_in_threads(work, range(4))
    for k, (y, g) in found.items():
        assert y.item() == pytest.approx((k + 1) * np.exp(A).sum())
        close(g, (k + 1) * np.exp(A))
    assert len(found) == 4


@pytest.mark.thorough
@pytest.mark.parametrize("is_late", [False, True])
def test_threads_devices_streams_and_sizes_at_once(is_late):
    """One jitted function, called by several threads, on two devices, on streams of their own or
    not, with other sizes each time; some results are kept, so that addresses change."""

    def loss(x, w, k):
        h = ng.tanh(x @ w * k)
        p = ng.softmax(h, 1)
        return (ng.log(p) * ng.cumsum(p, 1)).sum() + (ng.sort(h, 0)[::2] ** 2).sum()

    f = ng.jit(ng.value_and_grad(loss, (0, 1)))
    checked = []

    def work(seed):
        rng = np.random.default_rng(seed)
        kept = []
        for _ in range(4):
            x, w = rng.standard_normal((rng.integers(1, 4), 3)), rng.standard_normal((3, 4))
            k = float(rng.random())
            device = f"cuda:{rng.integers(0, 2)}"
            is_own = rng.random() < 0.5
            stream = ng.cuda.Stream(device) if is_own else ng.cuda.default_stream(device)
            with ng.cuda.stream(stream):
                result = f(ng.tensor(x, device=device), ng.tensor(w, device=device), k)
            kept.append((result, (x, w, k)))
            if rng.random() < 0.3:
                kept.pop(0)
        for (value, gradients), arguments in kept:
            e_value, e_gradients = f(*arguments)
            np.testing.assert_allclose(value.item(), e_value, rtol=1e-10)
            for found, expected in zip(gradients, e_gradients, strict=True):
                np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=1e-9, atol=1e-12)
        checked.append(seed)

    with installed(EmulatedDriver(late=is_late)):
        run_in_threads(work, range(4))
    assert sorted(checked) == [0, 1, 2, 3]


def test_kernels_are_loaded_between_captures(late, monkeypatch):
    """While one thread captures a graph, another one comes with kernels that are not loaded yet:
    it waits, for loading may wait for the device."""

    def compute(x):
        return ng.cumsum(ng.cumsum(ng.cumsum(ng.sort(x))))

    def other(x):
        return ng.cumprod(x)

    f, g = ng.jit(compute), ng.jit(other)
    x = ng.tensor(A, device="cuda")
    g.lower(x)  # so that nothing but loading is left to do
    found = []
    loader = threading.Thread(target=lambda: found.append(g(x)))
    begin = late.begin_capture

    def begin_capture(stream):
        begin(stream)
        loader.start()
        loader.join(0.5)  # ample time to do it wrong
        assert loader.is_alive()

    f(x)
    monkeypatch.setattr(late, "begin_capture", begin_capture)
    close(f(x), np.cumsum(np.cumsum(np.cumsum(A))))
    loader.join()
    close(found[0], np.cumprod(A))
