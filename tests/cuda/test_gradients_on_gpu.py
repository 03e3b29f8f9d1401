"""Gradients on a GPU, beside torch's contract: transforms, loops, numbers of the CPU."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad import autograd


def on(gpu, values, **options):
    return ng.tensor(np.asarray(values, float), device=gpu, **options)


def close(found, expected):
    assert found.device.startswith("cuda")
    np.testing.assert_allclose(found.detach().cpu().numpy(), expected, rtol=1e-10, atol=1e-12)


def test_a_gradient_is_on_the_device_of_its_output(gpu):
    x = on(gpu, [1.0, 2.0], requires_grad=True)
    seen = []
    x.register_hook(lambda g: seen.append(g.device))
    ng.sin(x).backward(on(gpu, [1.0, -1.0]))
    close(x.grad, [np.cos(1.0), -np.cos(2.0)])
    assert seen == [gpu]
    with pytest.raises(RuntimeError, match="cpu"):
        ng.sin(x).backward(ng.tensor([1.0, 1.0]))


def test_transforms(gpu):
    def f(x):
        return (ng.sin(x) * x[::-1]).sum()

    a = np.array([0.3, 1.2, -0.7])
    x = on(gpu, a)
    for transform in (ng.grad, ng.hessian):
        close(transform(f)(x), np.asarray(transform(f)(a)))
        close(ng.jit(transform(f))(x), np.asarray(transform(f)(a)))
    close(ng.jacobian(lambda x: x * x.sum())(x), np.asarray(ng.jacobian(lambda x: x * x.sum())(a)))
    batch = np.stack([a, 2 * a])
    close(ng.vmap(ng.grad(f))(on(gpu, batch)), np.asarray(ng.vmap(ng.grad(f))(batch)))
    value, slope = ng.jvp(f, (x,), (on(gpu, np.ones(3)),))
    e_value, e_slope = ng.jvp(f, (a,), (np.ones(3),))
    close(value, np.asarray(e_value))
    close(slope, np.asarray(e_slope))


@pytest.mark.thorough
def test_forward_mode(gpu):
    step = ng.jit(lambda state: state + 0.1 * ng.sin(state) * state[::-1])

    def f(state):
        for _ in range(3):
            state = step(state)
        return ng.cumprod(state, 0), state.max(), ng.linalg.inv(state[:2, None] * ng.eye(2))

    a, v = np.array([0.3, 1.2, -0.7]), np.array([1.0, -0.5, 2.0])
    expected = ng.jvp(f, (a,), (v,))
    for run in (lambda x, v: ng.jvp(f, (x,), (v,)), lambda x, v: ng.linearize(f, x)):
        found = run(on(gpu, a), on(gpu, v))
        tangents = found[1](on(gpu, v)) if callable(found[1]) else found[1]
        for own, other in zip((*found[0], *tangents), (*expected[0], *expected[1]), strict=True):
            close(own, np.asarray(other))
    for own, other in zip(ng.jacfwd(f)(on(gpu, a)), ng.jacrev(f)(a), strict=True):
        close(own, np.asarray(other))


def test_jitted_steps_in_loops(gpu):
    @ng.jit
    def step(state, rate):
        return state + 0.01 * rate * state * (1 - state)

    def last(state, rate):
        for _ in range(20):
            state = step(state, rate)
        return state.sum()

    a = np.linspace(0.1, 0.9, 40)
    f = ng.value_and_grad(last, (0, 1))
    value, (by_state, by_rate) = ng.jit(f)(on(gpu, a), on(gpu, 0.5))
    expected, (e_state, e_rate) = f(a, 0.5)
    close(value, np.asarray(expected))
    close(by_state, np.asarray(e_state))
    close(by_rate, np.asarray(e_rate))


def test_numbers_of_the_cpu_in_jitted_functions(gpu):
    """Their gradients come back to the CPU, and so do results that are made of them alone."""

    @ng.jit
    def step(x, rate):
        return ng.where(x > 0, x - rate * ng.sin(x), x), rate * rate

    def f(x, rate):
        for _ in range(3):
            x, square = step(x, rate)
        return (x * x).sum() * square

    a, rate = np.array([0.3, -1.2, 0.7]), 0.2
    for call in (f, ng.jit(f)):
        x = on(gpu, a, requires_grad=True)
        number = ng.tensor(rate, requires_grad=True)
        for order in range(2):
            by_x, by_number = autograd.grad(call(x, number), (x, number), create_graph=True)
            expected = ng.grad(f, (0, 1))(a, rate)
            if order:
                by_x, by_number = autograd.grad(by_x.sum() * by_number, (x, number))
                expected = ng.grad(
                    lambda x, r: (lambda g: g[0].sum() * g[1])(ng.grad(f, (0, 1))(x, r)), (0, 1)
                )(a, rate)
            close(by_x, np.asarray(expected[0]))
            assert by_number.device == "cpu"
            np.testing.assert_allclose(by_number.item(), float(expected[1]), rtol=1e-10)
    state, square = step(on(gpu, a), number)
    assert (state.device, square.device) == (gpu, "cpu")
    assert square.item() == pytest.approx(rate**2)
    rows = ng.vmap(ng.grad(f, (0, 1)), (0, 0))(on(gpu, [a, a + 1]), on(gpu, [0.1, 0.2]))
    for found, expected in zip(
        rows,
        ng.vmap(ng.grad(f, (0, 1)), (0, 0))(np.stack([a, a + 1]), np.array([0.1, 0.2])),
        strict=True,
    ):
        close(found, np.asarray(expected))


def test_the_reference_engine_is_for_the_cpu(gpu):
    def f(x, k):
        return (ng.sin(x) * k).sum()

    a = np.array([0.3, 1.2])
    with ng.configure(engine="reference"):
        for call in (ng.grad(f), ng.jit(ng.grad(f))):
            for _ in range(2):
                close(call(on(gpu, a), 2.0), 2 * np.cos(a))


def test_finite_differences(gpu):
    x, y = on(gpu, [0.3, -0.7, 1.1]), np.array([0.5, 1.5, -2.0])
    ng.testing.check_gradients(lambda x, k: (ng.sin(x) * x.sum()) * k, x, 1.5)
    with pytest.raises(AssertionError, match=r"derivative of order 1 differs"):
        ng.testing.check_gradients(lambda x: x * x.detach(), x)
    with pytest.raises(ng.errors.DeviceError, match="different devices"):
        ng.testing.check_gradients(lambda x, y: x * y, x, y)


def test_two_gpus(gpu):
    if ng.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    x = ng.tensor([1.0, 2.0], device="cuda:0", requires_grad=True)
    y = (x * 3).to("cuda:1") ** 2
    assert y.device == "cuda:1"
    y.sum().backward()
    close(x.grad, [18.0, 36.0])
    assert x.grad.device == "cuda:0"
    with ng.cuda.device(1):
        assert ng.ones(2, device="cuda").device == "cuda:1"
        np.testing.assert_array_equal((x.detach() + 1).tolist(), [2.0, 3.0])
