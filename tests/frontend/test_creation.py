"""Tensors from data, and constants, ranges and grids against NumPy."""

import array
import itertools
from collections import deque

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import DeviceError, DTypeError, ShapeError
from numba_grad.frontend.inputs import arrays
from numba_grad.graph.types import array_type, as_dtype
from tests.counting import functions_entered
from tests.frontend.agreement import same

pytestmark = pytest.mark.usefixtures("numpy_engine")


@pytest.mark.parametrize(
    "value",
    [
        1,
        2.5,
        True,
        1j,
        2**63,
        [],
        [[]],
        [1, 2.5],
        [[1, 2], [3, 4]],
        (1, 2),
        [True, False],
        range(3),
        np.float32(3),
        np.arange(6).reshape(2, 3).T,
        np.arange(10)[::-3],
        np.arange(3, dtype=">i4"),
        np.arange(3, dtype=">f8"),
        np.arange(3, dtype=np.longlong),
        np.zeros((0, 3), np.float16),
        np.broadcast_to(1.0, (2, 3)),
        np.array(7, np.uint8),
        array.array("d", [1.0, 2.0]),
        pytest.param(memoryview(b"abc"), id="memoryview"),
        [np.float64(1), np.array(2)],
    ],
    ids=str,
)
def test_tensor_has_numpys_dtype_and_values(value):
    expected = np.asarray(value)
    same(ng.tensor(value), expected.astype(expected.dtype.newbyteorder("=")))
    same(ng.asarray(value), expected.astype(expected.dtype.newbyteorder("=")))
    same(ng.tensor(value, dtype="complex64"), expected.astype(np.complex64))
    assert ng.tensor(value).detach().numpy().flags.c_contiguous
    assert ng.tensor(value)._node.value.dtype.isnative


def test_dtypes_are_those_of_the_type_system():
    for name in ("?", "i1", "u8", "f2", "float32", np.complex128, float, int, bool, ">f4"):
        assert ng.zeros(2, name).dtype == np.dtype(name).newbyteorder("=")
    with pytest.raises(DTypeError, match="not a supported dtype"):
        ng.zeros(2, np.longdouble)
    with pytest.raises(DTypeError, match="not a dtype"):
        ng.zeros(2, "nonsense")


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ([[1, 2], [3]], ShapeError, "different lengths"),
        ([1, [2, 3]], ShapeError, "different lengths"),
        ([None], DTypeError, "not an array of numbers"),
        ("text", DTypeError, "not an array of numbers"),
        (["a", "b"], DTypeError, "not an array of numbers"),
        pytest.param(object(), DTypeError, "not an array of numbers", id="object"),
        ({"a": 1}, DTypeError, "not an array of numbers"),
        (2**64, DTypeError, "not a supported dtype|not an array of numbers"),
        (np.array(["2020-01-01"], "datetime64[D]"), DTypeError, "not an array of numbers"),
        (np.zeros(2, [("a", int)]), DTypeError, "not an array of numbers"),
        (np.ma.array([1, 2], mask=[0, 1]), DTypeError, "the mask would be lost"),
        (np.zeros(2, np.longdouble), DTypeError, "not a supported dtype"),
    ],
    ids=str,
)
def test_what_is_not_an_array_of_numbers_is_refused(value, error, message):
    with pytest.raises(error, match=message):
        ng.tensor(value)
    with pytest.raises(error, match=message):
        ng.sin(value)


def test_read_only_and_subclass_inputs():
    a = np.arange(3.0)
    a.flags.writeable = False
    same(ng.tensor(a) * a, a * a)
    m = np.ones((1, 2)).view(np.recarray)
    assert type(ng.tensor(m).numpy()) is np.ndarray


def test_a_tensor_of_a_tensor_is_a_new_leaf():
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    y = ng.tensor(x * 2, dtype="f4")
    assert y.is_leaf and not y.requires_grad and y.dtype == np.float32
    z = ng.tensor(x, requires_grad=True)
    (z * 3).sum().backward()
    assert x.grad is None and z.grad.tolist() == [3.0, 3.0]


def test_asarray_keeps_tensors():
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    assert ng.asarray(x) is x and ng.asarray(x, float) is x
    assert ng.asarray(x, copy=True) is not x and ng.asarray(x, copy=True).requires_grad
    assert ng.asarray(x, np.float32).requires_grad
    assert ng.asarray(ng.tensor([1, 2]), float).dtype == np.float64
    with pytest.raises(ValueError, match="a copy is needed"):
        ng.asarray(x, np.float32, copy=False)


def test_without_copy_memory_is_shared_or_the_reason_is_given():
    a = np.ones(3)
    x = ng.tensor(a, copy=False)
    a[0] = 5
    assert x.tolist() == [5.0, 1.0, 1.0]
    for value, message in (
        ([1.0], "not a NumPy array"),
        (np.ones(4)[::2], "C-contiguous"),
        (np.ones(2, ">f8"), "to convert"),
    ):
        with pytest.raises(ValueError, match=message):
            ng.tensor(value, copy=False)
    with pytest.raises(ValueError, match="to convert"):
        ng.tensor(a, np.float32, copy=False)


@pytest.mark.parametrize("device", ["gpu", 0, "tpu", "cuda:x", "cuda:-1"])
def test_devices_that_do_not_exist(device):
    for make in (ng.zeros, ng.ones, ng.tensor, ng.arange, ng.eye, ng.zeros_like):
        with pytest.raises(DeviceError, match=r"expected: 'cpu'"):
            make(3, device=device)
    with pytest.raises(DeviceError):
        ng.ones(2).to("gpu")
    assert ng.zeros(3, device="cpu").device == "cpu"


@pytest.mark.parametrize("shape", [(), 3, (2, 3), [2, 0], np.int64(2), np.array([2, 1])])
def test_constants(shape):
    same(ng.zeros(shape), np.zeros(shape))
    same(ng.ones(shape, "i4"), np.ones(shape, "i4"))
    same(ng.empty(shape, bool), np.zeros(shape, bool))
    same(ng.full(shape, 7), np.full(shape, 7))
    same(ng.full(shape, 0.5, np.float32), np.full(shape, 0.5, np.float32))
    same(ng.full(shape, np.uint8(3)), np.full(shape, np.uint8(3)))


def test_constants_take_no_memory_until_asked_for():
    x = ng.zeros((1 << 40, 1 << 18)) + ng.full((1 << 18,), 2.0)
    assert x.shape == (1 << 40, 1 << 18) and x._node.value is None


def test_bad_shapes():
    for shape, error in (
        ("ab", TypeError),
        (1.5, TypeError),
        ((2, None), TypeError),
        (-1, ValueError),
    ):
        with pytest.raises(error, match="zeros"):
            ng.zeros(shape)


def test_full_of_a_tensor_is_differentiable():
    v = ng.tensor(2.0, requires_grad=True)
    ng.full((2, 3), v).sum().backward()
    assert v.grad.item() == 6.0
    same(ng.full((2, 3), [1, 2, 3]), np.full((2, 3), [1, 2, 3]))


def test_matrices_of_ones_and_zeros():
    for n, m, k in itertools.product((0, 1, 3), (None, 2), (-1, 0, 2)):
        same(ng.eye(n, m, k), np.eye(n, m, k))
        same(ng.tri(n, m, k), np.tri(n, m, k))
    same(ng.identity(2, int), np.identity(2, int))
    with pytest.raises(ValueError, match="'xy' or 'ij'"):
        ng.meshgrid([1], indexing="ab")
    with pytest.raises(ShapeError, match="no axis"):
        ng.tril(1.0)


def test_arrays_and_copies():
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    y = ng.array(x, ndmin=3)
    assert y.shape == (1, 1, 2) and ng.array(x, ndmin=1, copy=None) is x
    (ng.copy(x) * y).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    same(ng.array([1, 2], np.float32, ndmin=2), np.array([1, 2], np.float32, ndmin=2))
    same(ng.array(3, ndmin=1), np.array(3, ndmin=1))
    a = np.ones(2)
    copied = ng.copy(a)
    a[0] = 7
    assert copied.tolist() == [1.0, 1.0]


def test_from_buffers_and_iterators():
    data = bytearray(np.arange(4.0).tobytes())
    x = ng.frombuffer(data, count=2, offset=8)
    data[8:16] = bytes(8)
    assert x.tolist() == [1.0, 2.0]
    same(ng.frombuffer(b"abc", np.uint8), np.frombuffer(b"abc", np.uint8))
    same(ng.fromiter((k * k for k in range(5)), int), np.array([0, 1, 4, 9, 16]))
    same(ng.fromiter(iter([1, 2, 3]), "f4", 2), np.array([1, 2], "f4"))
    with pytest.raises(DTypeError):
        ng.fromiter("ab", "U1")
    of_tensors = ng.grad(lambda x: (ng.fromiter((v * v for v in x), float, 2) * [1, 10]).sum())
    assert of_tensors(np.array([1.0, 2.0, 3.0])).tolist() == [2.0, 40.0, 0.0]
    with pytest.raises(ValueError, match="too short"):
        ng.grad(lambda x: ng.fromiter(iter(x), float, 4).sum())(np.ones(3))


def test_other_shapes_and_dtypes_than_the_prototype():
    x = ng.ones((2, 3), "f4")
    for name in ("zeros_like", "ones_like", "empty_like"):
        assert getattr(ng, name)(x, shape=4).shape == (4,)
        assert getattr(np, name)(x, shape=(4, 5), dtype=int).dtype == np.int64
    same(ng.full_like(x, 7, shape=()), np.full_like(np.float32(0), 7))


@pytest.mark.parametrize(
    "make",
    [
        lambda like: np.zeros((2, 3), **like),
        lambda like: np.ones(3, dtype="i4", **like),
        lambda like: np.empty(0, **like),
        lambda like: np.full((2, 2), 7, **like),
        lambda like: np.full(2, fill_value=0.5, dtype=np.float32, **like),
        lambda like: np.arange(5, **like),
        lambda like: np.arange(1, 6, 2, dtype=float, **like),
        lambda like: np.eye(2, 3, k=1, **like),
        lambda like: np.eye(2, M=4, dtype=int, **like),
        lambda like: np.identity(3, **like),
        lambda like: np.tri(3, k=-1, **like),
        lambda like: np.array([1, 2], ndmin=2, **like),
        lambda like: np.asarray([1, 2], float, **like),
        lambda like: np.frombuffer(b"abcd", np.uint8, count=2, **like),
        lambda like: np.ascontiguousarray(3.0, **like),
        lambda like: np.fromiter(range(3), float, **like),
        lambda like: np.fromstring("1, 2", sep=",", **like),
        lambda like: np.fromfunction(lambda i, j: i * j, (2, 3), dtype=int, **like),
    ],
)
def test_numpys_creation_functions_make_tensors_like_a_tensor(make):
    ours = make({"like": ng.tensor(1.0)})
    assert isinstance(ours, ng.Tensor)
    expected = make({})
    same(ours, expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda **k: ng.zeros(3, **k),
        lambda **k: ng.ones((2, 2), "f4", **k),
        lambda **k: ng.full(2, 3.0, **k),
        lambda **k: ng.arange(3.0, **k),
        lambda **k: ng.linspace(0, 1, 3, **k),
        lambda **k: ng.eye(2, **k),
        lambda **k: ng.tensor([1.0], **k),
        lambda **k: ng.empty(2, **k),
    ],
)
def test_created_tensors_that_require_grad_are_leaves(make):
    x = make(requires_grad=True)
    assert x.is_leaf and x.requires_grad
    np.testing.assert_array_equal(x.detach(), make())
    (x * 2).sum().backward()
    assert (x.grad == 2).all()


def test_scalars_share_leaves_by_type_dtype_and_bits():
    f8, f4 = np.dtype("f8"), np.dtype("f4")
    same = arrays.scalar_leaf(0.5, f8)
    assert arrays.scalar_leaf(0.5, f8) is same
    assert arrays.scalar_leaf(0.5, f4) is not same
    zeros = [arrays.scalar_leaf(z, f8) for z in (0.0, -0.0, 0, False)]
    assert len(set(zeros)) == 4
    assert [np.signbit(z.value).item() for z in zeros] == [False, True, False, False]
    c16 = np.dtype("c16")
    parts = [arrays.scalar_leaf(z, c16) for z in (complex(1, 0.0), complex(1, -0.0))]
    assert [np.signbit(z.value.imag).item() for z in parts] == [False, True]
    for k in range(2 * arrays._SCALARS_KEPT):
        arrays.scalar_leaf(float(k), f8)
    assert arrays.scalar_leaf(0.5, f8) is same
    del same, zeros, parts
    operands = 2 * 256  # what operators keep of their own
    assert len(arrays._scalars) <= arrays._SCALARS_KEPT + 32 * operands


def test_negative_zero_survives_arithmetic():
    x = ng.tensor([1.0])
    assert np.signbit((x * -0.0).numpy()).all() and not np.signbit((x * 0.0).numpy()).any()
    assert np.isnan((x * float("nan")).numpy()).all()


def test_python_integers_that_do_not_fit():
    x = ng.tensor([1, 2], "uint8")
    for operate in (lambda: x + 300, lambda: x * -1, lambda: 256 - x):
        with pytest.raises(OverflowError):
            operate()
    assert (x < 300).tolist() == [True, True] and (x == -1).tolist() == [False, False]
    assert (x < 10**30).tolist() == [True, True] and (x >= -(10**30)).tolist() == [True, True]
    with pytest.raises(OverflowError):
        x[0] = 256


def test_both_64_bit_integers_of_numpy_are_one():
    for name in ("longlong", "ulonglong"):
        dtype = np.dtype(name)
        canonical = as_dtype(dtype)
        assert canonical.num in (np.dtype("int64").num, np.dtype("uint64").num)
        assert array_type((2,), dtype) is array_type((2,), canonical)
        assert ng.zeros(2, dtype=dtype).dtype.num == canonical.num


HUGE = 2**40


def _stretched(*shape):
    """All of it one element in memory."""
    return ng.broadcast_to(ng.ones((1,) * len(shape)), shape)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ng.zeros((HUGE, HUGE)),
        lambda: ng.full((0, HUGE, HUGE), 1.0),
        lambda: ng.zeros(2**70),
        lambda: ng.eye(HUGE),
        lambda: ng.arange(2**62),
        lambda: ng.zeros_like(ng.ones(3), shape=(HUGE, HUGE)),
        lambda: _stretched(HUGE, HUGE),
        lambda: _stretched(HUGE, 1) + _stretched(1, HUGE),
        lambda: ng.broadcast_arrays(_stretched(HUGE, 1), _stretched(1, HUGE)),
        lambda: np.outer(_stretched(HUGE), _stretched(HUGE)),
        lambda: np.kron(_stretched(HUGE), _stretched(HUGE)),
        lambda: _stretched(HUGE, 2) @ _stretched(2, HUGE),
        lambda: np.tile(ng.ones(3), (HUGE, HUGE)),
        lambda: np.repeat(ng.ones(3), 2**62),
        lambda: np.pad(ng.ones(3), 2**62),
        lambda: np.concatenate([_stretched(2**58)] * 4),
        lambda: np.stack([_stretched(2**58)] * 4),
        lambda: _stretched(8, 2**55)[np.zeros(64, int)],
        lambda: ng.ones(2**59, dtype=np.int8).astype(np.float64),
        lambda: np.fft.fft(ng.ones(3), 2**60),
        lambda: ng.ones(0).reshape(0, HUGE, HUGE),
    ],
)
def test_what_has_more_bytes_than_there_are_addresses_is_refused(make):
    with pytest.raises(ng.errors.ShapeError, match="array is too big"):
        make()


# Lists and tuples of tensors


def test_a_state_of_two_tensors_takes_no_longer_than_to_stack_them():
    x = ng.tensor([1.0, 2.0])
    u, v = x[0], x[1]
    most = functions_entered(lambda: ng.numpy.stack([u, v])) + 5
    assert functions_entered(lambda: ng.numpy.array([u, v])) <= most
    assert functions_entered(lambda: ng.numpy.asarray((x, x))) <= most


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("dtype", [None, "float32"])
def test_arrays_of_tensors_of_one_type_and_of_several(kind, dtype):
    x, y = ng.tensor([1.0, 2.0], requires_grad=True), ng.tensor([3, 4])
    given = np.array([1.0, 2.0]), np.array([3, 4])
    makers = [
        lambda a, b: [a[0], a[1]],
        lambda a, b: [a[0], b[1]],
        lambda a, b: [a, a],
        lambda a, b: [a, b],
        lambda a, b: [a[1], 2.0],
        lambda a, b: [kind([b[0], b[1]]), kind([a[0], a[1]])],
    ]
    for make in makers:
        expected = np.array(kind(make(*given)), dtype)
        same(ng.numpy.array(kind(make(x, y)), dtype), expected)
        same(ng.numpy.asarray(kind(make(x, y)), dtype), expected)
        same(ng.numpy.array(kind(make(x, y)), dtype, ndmin=3), np.array(expected, ndmin=3))
    with pytest.raises(ValueError, match="a copy is needed"):
        ng.numpy.asarray([x, x], copy=False)


def test_lists_of_tensors_are_arrays_that_gradients_flow_through():
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    for result in (
        ng.array([x, x + 2]),
        ng.asarray((x, [1.0, x[0]])),
        ng.asarray([[x[0], 1], [2, x[1]]], dtype=np.float32),
        ng.mean([x, x**2]),
        ng.sin([x, [0.0, 1.0]]),
        ng.linalg.norm([x, x]),
        np.append(x, [x[0], x[1]]),
        ng.r_[x, [x[0], 1]],
    ):
        assert result.requires_grad
    (slope,) = ng.autograd.grad(ng.sum(ng.array([x, x**2])), x)
    assert slope.tolist() == [3, 5]


def test_lists_of_tensors_have_the_dtype_that_numpy_gives_them():
    single = ng.tensor(1.0, dtype=np.float32)
    assert ng.array([single]).dtype == np.float32
    assert ng.array([single, 2.0]).dtype == np.float64
    assert ng.array([ng.tensor(True), ng.tensor(2)]).dtype == np.int64
    assert ng.array([np.ones(2), ng.zeros(2)]).shape == (2, 2)


def test_lists_of_tensors_are_traced():
    def powers(x):
        return ng.array([x, x**2, 1])

    assert ng.jit(powers)(3.0).tolist() == [3, 9, 1]
    assert ng.vmap(powers)(np.array([2.0, 3.0])).tolist() == [[2, 4, 1], [3, 9, 1]]
    assert ng.jacobian(powers)(3.0).tolist() == [1, 6, 0]


def test_deques_are_lists():
    """As a mean of the last few states."""

    def f(x):
        window = deque(maxlen=3)
        for k in range(5):
            window.append(k * x)
        return np.sum(ng.mean(window, axis=0) * ng.array([window]) + ng.exp(window))

    x = np.array([0.5, -1.0])
    last = np.array([2.0, 3.0, 4.0])[:, None]
    expected = 2 * x * 3 * last.sum() + np.sum(last * np.exp(last * x), axis=0)
    np.testing.assert_allclose(ng.grad(f)(x).numpy(), expected)
    np.testing.assert_allclose(ng.jit(ng.grad(f))(x), expected)
    same(ng.tensor(deque([1, 2.5])), np.array([1, 2.5]))


def test_lists_of_tensors_of_different_shapes_are_refused():
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(ShapeError, match="different lengths"):
        ng.array([x, x[0]])
    with pytest.raises(ValueError, match="copy"):
        ng.asarray([x, x], copy=False)


def test_those_like_another_may_require_grad():
    x = ng.ones(2)
    for make in (ng.zeros_like, ng.ones_like, ng.empty_like):
        assert make(x, requires_grad=True).is_leaf
        assert make(x, requires_grad=True).requires_grad
    assert ng.full_like(x, 3, requires_grad=True).requires_grad
