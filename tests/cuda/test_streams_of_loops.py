"""Loops and branches in streams: they run where they were recorded, jitted ones where they are
called, and so do their derivatives; whoever reads waits. The driver works as late as it may."""

import numpy as np
import pytest

import numba_grad as ng

XS = np.linspace(0.5, 1.5, 7)


def scanned(xs):
    last, ys = ng.scan(lambda c, x: (np.sin(c) * x, c * x), xs[0], xs)
    return last + (ys * ys).sum()


def counted(xs):
    return ng.fori_loop(0, 5, lambda i, c: np.sin(c * xs), xs).sum()


def converged(xs):
    return ng.while_loop(
        lambda x: np.abs(x * x - xs).sum() > 1e-9, lambda x: (x + xs / x) / 2, xs
    ).sum()


def chosen(xs):
    return ng.cond(xs.sum() > 1, lambda x: np.exp(x).sum(), lambda x: x.sum(), xs)


def mapped(xs):
    return ng.map(lambda x: np.sin(x) * x, xs).sum()


def kept_few(xs):
    return ng.scan(lambda c, x: (np.sin(c) * x, c), xs, xs, memory="2 states")[1].sum()


LOOPS = [scanned, counted, converged, chosen, mapped, kept_few]


def close(found, expected):
    found = found.detach().cpu().numpy() if isinstance(found, ng.Tensor) else found
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_runs_in_its_stream_and_so_does_its_derivative(loop, launched):
    wanted, wanted_gradient = ng.value_and_grad(loop)(XS)
    side = ng.cuda.Stream()
    x = ng.tensor(XS, device="cuda:0", requires_grad=True)
    with ng.cuda.stream(side):
        value = loop(x * 1.0)
    launched.clear()
    close(value, wanted)
    assert set(launched) == {side.handle}
    launched.clear()
    value.backward()
    assert side.handle in launched
    close(x.grad, wanted_gradient)


@pytest.mark.parametrize("loop", LOOPS)
def test_what_a_loop_reads_of_another_stream_is_waited_for(loop, late):
    wanted, wanted_gradient = ng.value_and_grad(lambda x: loop(np.exp(-x) + 0.5))(XS)
    one, two, three = ng.cuda.Stream(), ng.cuda.Stream(), ng.cuda.Stream()
    x = ng.tensor(XS, device="cuda:0", requires_grad=True)
    with ng.cuda.stream(one):
        xs = np.exp(-x) + 0.5
    with ng.cuda.stream(two):
        value = loop(xs)
    with ng.cuda.stream(three):
        close(value * 2, 2 * wanted)
        value.backward()
    close(x.grad, wanted_gradient)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_jitted_loop_runs_in_the_stream_of_its_call(loop, launched):
    f = ng.jit(ng.value_and_grad(loop))
    x = ng.tensor(XS, device="cuda:0")
    wanted = ng.value_and_grad(loop)(XS)
    for _ in range(3):  # launched, captured, replayed
        side = ng.cuda.Stream()
        with ng.cuda.stream(side):
            launched.clear()
            value, gradient = f(x)
            assert set(launched) <= {side.handle}
        close(value, wanted[0])
        close(gradient, wanted[1])


def test_the_same_loop_in_two_streams(late):
    """With the memory of each its own."""
    f = ng.jit(scanned)
    streams = [ng.cuda.Stream() for _ in range(3)]
    inputs = [ng.tensor((1 + k) * XS, device="cuda:0") for k in range(3)]
    values = []
    for _ in range(3):
        for stream, x in zip(streams, inputs, strict=True):
            with ng.cuda.stream(stream):
                values.append(f(x))
    for number, value in enumerate(values):
        close(value, scanned((1 + number % 3) * XS))
