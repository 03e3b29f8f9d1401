"""Tensors on a GPU, as a user has them: moving, mixing, gradients, jit, errors."""

import copy
import pickle

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import DeviceError, GradientError, ShapeError


@pytest.fixture
def x(gpu):
    return ng.tensor(np.linspace(-1.0, 2.0, 12).reshape(3, 4), device=gpu, requires_grad=True)


def test_made_there(gpu):
    for made, expected in (
        (ng.tensor([1.0, 2.0], device=gpu), [1.0, 2.0]),
        (ng.zeros((2, 2), device="cuda"), np.zeros((2, 2))),
        (ng.ones(3, np.float32, device=gpu), np.ones(3, np.float32)),
        (ng.full((2,), 7, device=gpu), [7, 7]),
        (ng.arange(4, device=gpu), [0, 1, 2, 3]),
        (ng.arange(0.0, 1.0, 0.25, device=gpu), [0, 0.25, 0.5, 0.75]),
        (ng.linspace(0, 1, 3, device=gpu), [0, 0.5, 1]),
        (ng.eye(2, device=gpu), np.eye(2)),
        (ng.asarray(np.arange(3), device=gpu), [0, 1, 2]),
        (ng.zeros_like(ng.ones(2, device=gpu)), [0, 0]),
        (ng.full_like(ng.ones(2, device=gpu), 3.0), [3, 3]),
        (ng.zeros_like(np.ones(2), device=gpu), [0, 0]),
    ):
        assert made.device == gpu
        np.testing.assert_array_equal(made.cpu().numpy(), expected)


@pytest.mark.parametrize("make", [ng.tensor, ng.asarray, ng.array])
def test_made_of_lists_of_tensors(gpu, make):
    host = ng.tensor(np.linspace(-1, 2, 12, dtype=np.float32).reshape(3, 4))
    there = host.to(gpu)
    for pick in (
        lambda x: [x[0], x[1]],
        lambda x: ([x[0, 0], 2.0], [x[1, 1], 3]),
        lambda x: [x[0, 0], host[1, 1], np.float64(0.5)],
        lambda x: [[x[0, 0]], [1j]],
        lambda x: [x[0, :0]],
    ):
        made, expected = make(pick(there)), make(pick(host))
        assert (made.device, made.dtype) == (gpu, expected.dtype)
        np.testing.assert_array_equal(made.cpu().numpy(), expected.numpy())
    assert make([there[0]], np.float16).dtype == np.float16
    np.testing.assert_array_equal(
        ng.sin([there[0], there[1]]).cpu().numpy(), ng.sin(there[:2]).cpu().numpy()
    )
    with pytest.raises(DeviceError, match=f"different devices, cpu and {gpu}"):
        make([there[0], host[0]])
    with pytest.raises(ShapeError, match="different lengths"):
        make([there[0], there[1, :2]])
    variable = (there[1] * 1).requires_grad_()
    if make is ng.tensor:
        with pytest.raises(GradientError, match=r"np\.stack"):
            make([there[0], variable])
    else:
        assert make([there[0], variable]).requires_grad


def test_a_new_leaf_of_a_list_requires_grad(gpu):
    x = ng.tensor([3.0, 4.0], device=gpu)
    leaf = ng.tensor([x, x * 2], requires_grad=True)
    (leaf**2).sum().backward()
    np.testing.assert_array_equal(leaf.grad.cpu().numpy(), [[6, 8], [12, 16]])


@pytest.mark.parametrize("name", ["cudaa", "CUDA", "cuda:", "cuda:-1", "cuda:99", "mps", 1.5, None])
def test_devices_that_there_are_not(x, name):
    for call in (lambda: ng.zeros(2, device=name or "gpu"), lambda: x.to(name or "gpu")):
        with pytest.raises(DeviceError, match=r"(no such device|no GPU of that number)"):
            call()


def test_numbers_of_devices_and_names_of_dtypes(gpu, x):
    assert x.cuda(0).device == "cuda:0"
    with pytest.raises(DeviceError, match="no GPU of that number"):
        x.cuda(99)
    for name in ("float32", np.float32, np.dtype("f4"), "f4", float):
        assert x.to(name).dtype == np.dtype(name) and x.to(name).device == gpu


def test_moves(gpu, x):
    assert x.device == gpu and x.to(gpu) is x and x.cuda() is x
    host = x.cpu()
    assert host.device == "cpu" and host.cpu() is host
    (host * host).sum().backward()
    np.testing.assert_allclose(x.grad.cpu().numpy(), 2 * x.detach().cpu().numpy())
    assert x.grad.device == gpu
    back = ng.tensor([1.0, 2.0], requires_grad=True)
    (back.cuda() ** 3).sum().backward()
    assert back.grad.device == "cpu"
    np.testing.assert_allclose(back.grad.numpy(), [3.0, 12.0])


def test_numbers_of_the_host_take_part(x):
    scale = ng.tensor(3.0, requires_grad=True)
    (x * scale + 1 - np.float64(2)).sum().backward()
    assert scale.grad.device == "cpu"
    np.testing.assert_allclose(scale.grad.numpy(), x.detach().cpu().numpy().sum())
    late = ng.tensor([1.0, 2.0]).sum()  # computed on the CPU, later
    np.testing.assert_allclose((x.detach() * late).cpu().numpy(), 3 * x.detach().cpu().numpy())


def test_arrays_of_the_host_do_not(gpu, x):
    host = ng.tensor(np.ones((3, 4)))
    for other in (host, np.ones((3, 4)), ng.exp(host) * 2):
        with pytest.raises(DeviceError, match=f"different devices, cpu and {gpu}") as error:
            x + other
        assert f"x.to('{gpu}')" in str(error.value)
    if ng.cuda.device_count() > 1:
        with pytest.raises(DeviceError, match="cuda:1"):
            x + host.to("cuda:1")
    # What is made of constants alone is made where it is needed.
    assert (x + ng.ones((3, 4))).device == gpu


def test_numpy_refuses_and_says_why(gpu, x):
    with pytest.raises(TypeError, match=r"x\.cpu\(\)"):
        np.asarray(x.detach())
    with pytest.raises(TypeError, match=r"x\.cpu\(\)"):
        x.detach().numpy()
    assert x.detach()[0, 0].item() == -1.0
    assert float(x.detach()[2, 3]) == 2.0
    assert f"device='{gpu}'" in repr(x)
    assert x.tolist()[0][0] == -1.0


def test_indexing(x):
    a = x.detach().cpu().numpy()
    for index in (
        0,
        (slice(None), 1),
        ([0, 2], [1, 3]),
        a > 0,
        (..., None),
        (slice(None, None, -2),),
    ):
        np.testing.assert_array_equal(x.detach()[index].cpu().numpy(), a[index])
    np.testing.assert_array_equal(x.detach()[x.detach() > 0].cpu().numpy(), a[a > 0])
    y = x.detach().copy()
    y[1:, ::2] = 5.0
    b = a.copy()
    b[1:, ::2] = 5.0
    np.testing.assert_array_equal(y.cpu().numpy(), b)


def test_jit_and_its_replay(gpu):
    def loss(x, rate):
        return ng.sum(ng.exp(-rate * x) * ng.sin(x)) + ng.sum(x * x, axis=0).max()

    f = ng.jit(ng.value_and_grad(loss, argnums=(0, 1)))
    for seed in range(6):
        a = np.random.default_rng(seed).standard_normal((5, 3))
        value, (by_x, by_rate) = f(ng.tensor(a, device=gpu), 0.5)
        expected, (e_x, e_rate) = ng.value_and_grad(loss, argnums=(0, 1))(a, 0.5)
        np.testing.assert_allclose(value.cpu().numpy(), expected, rtol=1e-12)
        np.testing.assert_allclose(by_x.cpu().numpy(), e_x, rtol=1e-12)
        np.testing.assert_allclose(by_rate.cpu().numpy(), e_rate, rtol=1e-12)
        assert by_x.device == gpu
    with pytest.raises(DeviceError, match=r"(several|different) devices"):
        f(ng.tensor(a, device=gpu), a)


def test_lowered(gpu, x):
    lowered = ng.jit(lambda x: ng.sum(ng.tanh(x))).lower(x.detach())
    (kernel, *_) = lowered.kernels
    assert "@cuda.jit" in kernel.source and lowered.device == gpu
    with pytest.raises(ng.errors.KernelError, match="has no llvm"):
        assert kernel.llvm
    assert len(lowered.profile(x.detach())) >= 1


def test_copies(gpu, x):
    for other in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert other.device == gpu and other.requires_grad and other is not x
        np.testing.assert_array_equal(other.detach().cpu().numpy(), x.detach().cpu().numpy())


def test_an_index_out_of_range_is_raised_with_the_next_value(gpu):
    x = ng.arange(5.0, device=gpu)
    wrong = x[ng.tensor([1, 9], device=gpu)]
    with pytest.raises(IndexError, match="index 9 is out of bounds for axis 0 with size 5"):
        wrong.tolist()
    with pytest.raises(IndexError):
        _ = float(x[ng.tensor([7], device=gpu)].sum())
    np.testing.assert_array_equal((x + 1).tolist(), [1, 2, 3, 4, 5])  # and is over


def test_backward_belongs_to_the_stream_of_the_operation(gpu):
    x = ng.tensor([1.0, 2.0, 3.0], device=gpu, requires_grad=True)
    side = ng.cuda.Stream()
    with ng.cuda.stream(side):
        y = (x * x).sum()
    z = (x * 3).sum()
    (y + z).backward()
    np.testing.assert_allclose(x.grad.tolist(), [5.0, 7.0, 9.0])


def test_numbers_that_are_on_no_device_go_along(gpu, x):
    a = np.linspace(-1.0, 2.0, 12).reshape(3, 4)
    x = x.detach()
    for found, expected in (
        (x - [1, 2, 3, 4], a - [1, 2, 3, 4]),
        ([[1], [2], [3]] * x, [[1], [2], [3]] * a),
        (x @ [1.0, 2, 3, 4], a @ [1.0, 2, 3, 4]),
        (ng.concatenate([x[0], (5, 6)]), np.concatenate([a[0], (5, 6)])),
        (ng.average(x, 1, range(1, 5)), np.average(a, 1, range(1, 5))),
        (ng.interp(x, [0, 1], [5, 7]), np.interp(a, [0, 1], [5, 7])),
        (x * ng.hanning(4) + ng.arange(4.0), a * np.hanning(4) + np.arange(4.0)),
        (x + ng.linspace(0, 1, 4) * ng.geomspace(1, 8, 4), a + np.linspace(0, 1, 4) * [1, 2, 4, 8]),
        (ng.jit(lambda x: x * [1, 2, 3, 4])(x), a * [1, 2, 3, 4]),
        (x * ng.array([1, 2, 3, 4]), a * [1, 2, 3, 4]),
        (ng.jit(lambda x: ng.asarray([0.5] * 4) @ x.T)(x), a.sum(1) / 2),
    ):
        assert found.device == gpu
        np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=1e-14)
    for made in (ng.ones((3, 4)), ng.zeros(4), ng.full((3, 1), 2.0), ng.arange(4), ng.arange(4.0)):
        assert str(made)  # whether it was computed meanwhile makes no difference
        np.testing.assert_array_equal((x + made).tolist(), a + made.numpy())
    y = x.copy()
    y[0] = [5, 6, 7, 8]
    y *= [1, 2, 3, 4]
    np.testing.assert_array_equal(y[0].tolist(), [5, 12, 21, 32])
    z = ng.array([0.0, 0.0])
    z[1] = x[2, 3]
    assert z.device == gpu and z.tolist() == [0.0, 2.0]


def test_a_leaf_of_the_cpu_does_not_go_along(gpu, x):
    for leaf in (ng.array([1.0, 2, 3, 4]), ng.tensor([1.0, 2, 3, 4], requires_grad=True)):
        leaf.requires_grad_()
        with pytest.raises(DeviceError, match="different devices, cpu and cuda"):
            x * leaf


def test_masks_indices_and_parameters_may_be_on_the_cpu(gpu, x):
    a, x = x.detach().cpu().numpy(), x.detach()
    mask, order = a > 0, np.argsort(-a, axis=1)
    for found, expected in (
        (ng.where(mask, x, 0), np.where(mask, a, 0)),
        (ng.sum(x, 0, where=mask), np.sum(a, 0, where=mask)),
        (ng.take_along_axis(x, order, 1), np.take_along_axis(a, order, 1)),
        (ng.take(x, np.array([1, 3]), axis=1), a[:, [1, 3]]),
        (ng.select([mask], [x], -1), np.select([mask], [a], -1)),
        (ng.quantile(x, np.array([0.25, 0.5]), axis=1), np.quantile(a, [0.25, 0.5], axis=1)),
        (ng.histogram(x, np.array([-1.0, 0, 2]))[0], np.histogram(a, [-1.0, 0, 2])[0]),
        (ng.digitize(x, np.array([0.0, 1.0])), np.digitize(a, [0.0, 1.0])),
        (ng.repeat(x, ng.tensor([1, 0, 2], device=gpu), 0), np.repeat(a, [1, 0, 2], 0)),
    ):
        assert found.device == gpu
        np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=1e-14)
    y = x.copy()
    ng.putmask(y, mask, [7.0])
    ng.copyto(y, 5.0, where=~mask)
    np.testing.assert_array_equal(y.tolist(), np.where(mask, 7.0, 5.0))


def test_numpy_makes_arrays_where_others_are(gpu, x):
    for made, expected in (
        (np.zeros((2, 3), like=x), np.zeros((2, 3))),
        (np.array([1.0, 2.0], like=x), [1.0, 2.0]),
        (np.asarray(np.arange(3), like=x), [0, 1, 2]),
        (np.arange(3.0, like=x), [0, 1, 2]),
        (np.eye(2, like=x), np.eye(2)),
        (np.full(2, 7.0, like=x), [7.0, 7.0]),
    ):
        assert made.device == gpu
        np.testing.assert_array_equal(made.cpu().numpy(), expected)


def test_numbers_on_gpus_are_read(gpu):
    number = ng.tensor(3.0, device=gpu)
    assert ng.arange(number).tolist() == [0, 1, 2]
    y = ng.tensor([1.0, 2.0, 3.0], device=gpu)
    np.multiply.at(y, ng.tensor([0, 0, 2], device=gpu), number)
    np.add.at(y, y > 4, [10.0, 20.0])
    assert y.tolist() == [19.0, 2.0, 29.0]


@pytest.mark.parametrize("is_empty", [False, True])
def test_sums_of_sizes_that_come_and_go(gpu, is_empty):
    f = ng.jit(lambda x, y: (ng.sum(x[:, None] * y, 1), ng.sum(ng.sin(x)), x @ ng.outer(x, y)))
    for m, n in ((3, 4), (3, 0), (0, 4), (0, 0), (3, 4)) if is_empty else ((5, 2), (300, 7)):
        a, b = np.arange(m) / 7, np.arange(n) / 3
        expected = [(a[:, None] * b).sum(1), np.sin(a).sum(), a @ np.outer(a, b)]
        results = f(ng.tensor(a, device=gpu), ng.tensor(b, device=gpu))
        for found, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(found.cpu().numpy(), wanted, rtol=1e-12)


def test_jitted_functions_may_make_what_they_return(gpu, x):
    made = ng.jit(lambda n: n * ng.ones(3, device=gpu))
    for n in (2.0, np.float64(3.0), 4.0):
        assert made(n).device == gpu and made(n).tolist() == [n] * 3
    f = ng.jit(lambda x: [x, x.T, 3.5, x.cpu().sum()])
    for _ in range(3):
        same, turned, number, moved = f(x.detach())
        assert same.device == turned.device == gpu and moved.device == "cpu"
        np.testing.assert_array_equal(same.tolist(), x.detach().tolist())
        np.testing.assert_array_equal(turned.T.tolist(), x.detach().tolist())
        assert number.item() == 3.5 and moved.item() == pytest.approx(6.0)


def test_random_numbers_have_the_bits_of_the_cpu(gpu):
    key = ng.random.key(7)
    there = key.to(gpu)
    for draw in (
        lambda key: ng.random.bits(key, (20,)),
        lambda key: ng.random.split(key, 5),
        lambda key: ng.random.integers(key, 0, 10, (20,)),
        lambda key: ng.random.uniform(key, (20,)),
        lambda key: ng.random.permutation(key, 20),
    ):
        assert draw(there).device == gpu
        np.testing.assert_array_equal(draw(there).cpu().numpy(), draw(key).numpy())
    for draw in (
        lambda key: ng.random.normal(key, (20,)),
        lambda key: ng.random.gamma(key, 2.5, (20,)),
    ):
        np.testing.assert_allclose(draw(there).cpu().numpy(), draw(key).numpy(), rtol=1e-12)
    loc = ng.tensor([1.0, 2.0], device=gpu, requires_grad=True)
    ng.random.normal(key, (3, 2), loc=loc).sum().backward()  # a key goes where numbers are used
    np.testing.assert_array_equal(loc.grad.cpu().numpy(), [3.0, 3.0])
