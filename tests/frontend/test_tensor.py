"""Tensor: handles and values, assignment, conversion, printing, copies."""

import copy
import gc
import math
import pickle
import weakref

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.autograd import views
from numba_grad.errors import DTypeError, GradientError, ShapeError, TracingError
from numba_grad.frontend.inputs.arrays import wrap
from numba_grad.graph.node import argument, leaf
from numba_grad.graph.types import array_type

pytestmark = pytest.mark.usefixtures("numpy_engine")


def test_recording_computes_nothing():
    y = ng.tensor([1.0, 2.0]) * 3
    assert y._node.value is None
    assert (y.shape, y.dtype, y.ndim, y.size, y.nbytes, y.itemsize) == (
        (2,),
        np.float64,
        1,
        2,
        16,
        8,
    )
    assert y.device == "cpu" and len(y) == 2
    assert y._node.value is None
    np.testing.assert_array_equal(y, [3.0, 6.0])
    assert y._node.value is not None


def test_equal_expressions_are_two_values():
    x = ng.tensor([1.0], requires_grad=True)
    a, b = x * 2, x * 2
    assert a._node is not b._node
    assert x.reshape(1)._node is not x._node  # also where there is nothing to do
    assert ng.real(x) is not x and ng.astype(x, float) is not x
    assert ng.astype(x, float, copy=False) is x and x.to("cpu") is x and x.cpu() is x


def test_a_handle_does_not_keep_its_tensor_alive():
    x = ng.tensor([1.0])
    reference = weakref.ref(x)
    y = x + 1
    del x
    gc.collect()
    assert reference() is None
    assert y.tolist() == [2.0]


def test_tensors_have_no_other_attributes_and_are_not_made_by_their_class():
    with pytest.raises(AttributeError):
        ng.tensor([1.0]).something = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r"ng\.tensor"):
        ng.Tensor([1.0])  # type: ignore[arg-type]


def test_what_others_have_is_neither_there_nor_listed():
    x = ng.tensor([1.0])
    for name in ("exp", "view", "unsqueeze", "det", "vectorize"):
        assert not hasattr(x, name)
        assert not hasattr(ng.Tensor, name)
        assert name not in dir(x)
    assert {"sum", "shape", "backward"} <= set(dir(x))
    # With it, Python would read each attribute five times as slowly.
    assert not any("__getattr__" in vars(kind) for kind in ng.Tensor.__mro__)


def test_numbers_that_are_equal_stay_different_operands():
    """An operator remembers the leaves of Python numbers."""
    x = ng.tensor([1.0, -1.0])
    for _ in range(2):
        for number in (0.0, -0.0, 1, 1.0, True):
            found, wanted = (1.0 / (x * number)).numpy(), 1.0 / (x.numpy() * number)
            assert found.tobytes() == wanted.tobytes()
    for k in range(300):  # more than are remembered
        assert ((x + k * 0.5) - (k * 0.5 + x)).tolist() == [0.0, 0.0]
    whole = ng.tensor([1, 2])
    assert [(whole + y).dtype for y in (1, 1.0, True)] == [np.int64, np.float64, np.int64]
    with pytest.raises(OverflowError):
        ng.tensor([1], dtype="int8") + 1000


def test_functions_of_two_operands_remember_no_other_number():
    x = ng.tensor([0.0, -0.0, 1.0])
    for _ in range(2):
        for y in (0.0, -0.0, 0, 2, 2.0, True, np.float64(-0.0), np.array([-0.0, 0.0, 3.0]), x):
            wanted = y.numpy() if y is x else y
            for f in (np.copysign, np.arctan2, np.hypot, np.greater, np.not_equal):
                found = f(x, y).numpy()
                assert found.tobytes() == f(x.numpy(), wanted).tobytes()
                assert found.dtype == f(x.numpy(), wanted).dtype


def test_powers_are_remembered_by_number_and_class():
    x, whole = ng.tensor([2.0, -3.0], requires_grad=True), ng.tensor([2, -3])
    for _ in range(2):
        for exponent in (2, 2.0, 3, 3.0, -1, 1, 1.0, 0, 0.0, True):
            found, wanted = (x**exponent).detach().numpy(), x.detach().numpy() ** exponent
            np.testing.assert_array_equal(found, wanted)
            if exponent.__class__ is not bool and exponent != -1:
                assert (whole**exponent).dtype == (whole.numpy() ** exponent).dtype
        with pytest.raises(ValueError, match="negative integer powers"):
            whole**-1
    np.sum(x**2 + x**3).backward()
    assert x.grad.tolist() == [16.0, 21.0]


def test_indices_without_arrays_are_remembered_by_class():
    a = np.arange(24.0).reshape(2, 3, 4)
    indices = [1, (1, 2, 3), slice(1, 2, 3), (slice(1, 2, 3),), ..., (1, ...), (1, 2, 3, ...), None]
    indices += [(0, slice(None), slice(1, -1)), (slice(None, None, -1), None, 2), slice(None)]
    for _ in range(2):
        x = ng.tensor(a)
        for index in indices:
            np.testing.assert_array_equal(x[index], a[index])
            assert views.is_view(x[index]) == isinstance(a[index], np.ndarray)
        with pytest.raises(TypeError):
            x[1.0:2]
        with pytest.raises(IndexError):
            x[1.0]
        with pytest.raises(IndexError):
            x[5]
        np.testing.assert_array_equal(x[True], a[True])
        part = x[0, 1:, 2]
        part += 1
        assert x[0, 1, 2].item() == a[0, 1, 2] + 1
        x[1][0][:2] = 7.0
        assert x[1, 0].tolist() == [7.0, 7.0, 14.0, 15.0]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_stacks_of_one_type_and_of_several(axis):
    arrays = [np.arange(3.0), np.arange(3.0) + 1, np.arange(3)]
    for given in (arrays[:2], arrays, arrays[:1]):
        tensors = [ng.tensor(x) for x in given]
        found, wanted = np.stack(tensors, axis), np.stack(given, axis)
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == wanted.dtype


def test_tensors_are_told_apart_by_identity_in_sets():
    x, y = ng.tensor([1.0, 2.0]), ng.tensor([1.0, 2.0])
    assert len({x, y, x}) == 2
    assert (x == y).tolist() == [True, True]
    assert (x != None) is True  # noqa: E711
    assert (x == None) is False  # noqa: E711


def test_operators_refuse_what_is_not_an_array():
    x = ng.tensor([1.0])
    for other in (None, "a", {}, object()):
        with pytest.raises(TypeError, match="unsupported operand"):
            x + other  # type: ignore[operator]
        with pytest.raises(TypeError):
            other - x  # type: ignore[operator]
        with pytest.raises(TypeError, match="not supported between"):
            _ = x < other  # type: ignore[operator]


def test_another_class_may_take_the_operator():
    class Other:
        def __radd__(self, x):
            return "mine"

    assert ng.tensor([1.0]) + Other() == "mine"


def test_errors_are_raised_where_the_operation_is_recorded():
    with pytest.raises(ShapeError, match=r"add: shapes do not broadcast") as caught:
        ng.ones((2, 3)) + ng.ones((2, 4))  # this line
    assert any(
        entry.path == __import__("pathlib").Path(__file__) and "this line" in str(entry.statement)
        for entry in caught.traceback
    )
    assert "float64[2, 3]" in str(caught.value) and "try:" in str(caught.value)


# Values


def test_numpy_is_read_only_and_writing_to_a_copy_changes_nothing():
    x = ng.tensor([1.0, 2.0])
    a = x.numpy()
    with pytest.raises(ValueError, match="read-only"):
        a[0] = 5
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(x)[0] = 5
    b = np.array(x)
    b[0] = 5
    assert x.tolist() == [1.0, 2.0] and b.tolist() == [5.0, 2.0]
    assert np.asarray(x, np.float32).dtype == np.float32
    assert np.asarray(x, "i8").tolist() == [1, 2]
    with pytest.raises(ValueError, match="copy is needed"):
        x.__array__(np.float32, copy=False)


@pytest.mark.parametrize(
    "convert", [lambda x: x.numpy(), np.asarray, np.array, lambda x: np.array([x])]
)
def test_a_tensor_that_requires_grad_is_not_converted(convert):
    x = ng.tensor([1.0], requires_grad=True)
    for tensor in (x, x * 2):
        with pytest.raises(GradientError, match=r"detach\(\)\.numpy\(\)"):
            convert(tensor)
    with ng.no_grad():
        assert convert(x).ravel().tolist() == [1.0]
    assert (x * 2).detach().numpy().tolist() == [2.0]


def test_items_and_python_numbers():
    x = ng.tensor([[1.5, 2.5]], requires_grad=True)
    assert x.tolist() == [[1.5, 2.5]] and x.item(0, 1) == 2.5 and x[0].item(1) == 2.5
    y = x.detach()
    assert float(y[0, 0]) == 1.5 and int(y[0, 1]) == 2 and complex(y[0, 0]) == 1.5
    assert float(ng.tensor([[7]])) == 7.0
    assert isinstance(ng.tensor(3).item(), int) and isinstance(ng.tensor(True).item(), bool)
    with pytest.raises(ValueError, match="not one element"):
        x.item()
    with pytest.raises(TypeError, match="only a tensor of one element"):
        float(x)
    with pytest.raises(TypeError):
        float(ng.tensor(1j))
    assert [10, 20, 30][ng.tensor(1)] == 20  # type: ignore[call-overload]
    assert list(range(5))[: ng.tensor(2)] == [0, 1]
    with pytest.raises(TypeError, match="0-d integer"):
        [10, 20][ng.tensor(1.0)]  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("ask", "fix"),
    [
        (math.sin, r"np\.sin\(x\) in place of ask\(x\)"),
        (int, r"x\.astype\(int\)"),
        (bool, r".*ng\.where\(condition, x, y\) .*ng\.cond"),
        (lambda x: len(ng.ones(3)[np.stack([x, x, x]) > 0]), r"v\[mask\] in place of"),
    ],
)
def test_values_asked_for_while_tracing_name_what_to_write(ask, fix):
    x = wrap(argument(array_type((), np.dtype(float))))
    with pytest.raises(TracingError, match=f"try: {fix}"):
        ask(x)


def test_truth_values():
    assert ng.tensor([[2.0]]) and not ng.tensor(0)
    for x in (ng.ones(2), ng.ones(0)):
        with pytest.raises(ValueError, match="ambiguous"):
            bool(x)


def test_iteration_length_and_containment():
    x = ng.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    first, second = x
    assert second.tolist() == [3.0, 4.0] and second.requires_grad
    assert [y.item() for y in first] == [1.0, 2.0]
    assert 3.0 in x and 7.0 not in x
    for function in (len, iter):
        with pytest.raises(TypeError, match="0-d"):
            function(ng.tensor(1.0))


def traced(*shape):
    return wrap(argument(array_type(shape, np.dtype(float))))


@pytest.mark.parametrize(
    "convert",
    [
        bool,
        float,
        int,
        np.asarray,
        repr,
        lambda x: x.item(),
        lambda x: x.tolist(),
        lambda x: x.numpy(),
    ],
)
def test_a_value_that_does_not_exist_yet_is_a_tracing_error(convert):
    x = traced() * 2
    if convert is repr:
        assert repr(x) == "tensor(<traced>, shape=(), dtype=float64)"
        return
    with pytest.raises(TracingError, match=r"ng\.where|x itself|x\.astype|static_argnums"):
        convert(x)


def test_a_traced_mask_cannot_decide_a_shape_but_can_select():
    x = traced(3)
    with pytest.raises(TracingError):
        len(x[x > 0])
    x[x > 0] = 0.0
    assert x.shape == (3,)


# Indexing and assignment


def test_indexing_with_tensors():
    x = ng.arange(12).reshape(3, 4)
    i, mask = ng.tensor([2, 0]), ng.tensor([True, False, True])
    expected = np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(x[i], expected[[2, 0]])
    np.testing.assert_array_equal(x[i, ng.tensor([1, 3])], expected[[2, 0], [1, 3]])
    np.testing.assert_array_equal(x[mask], expected[[0, 2]])
    np.testing.assert_array_equal(x[ng.tensor(1), ::-2], expected[1, ::-2])
    np.testing.assert_array_equal(x[x > 5], expected[expected > 5])
    np.testing.assert_array_equal(x[..., None, -1], expected[..., None, -1])


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (3, "index 3 is out of bounds for axis 0 with size 3"),
        ((0, -5), "index -5 is out of bounds for axis 1"),
        ([0, 7], "index 7 is out of bounds for axis 0"),
        ((0, 0, 0), "too many indices"),
        (1.0, "not an index"),
        ("a", "not an index"),
        ([0.5], "not an index"),
        ([True, False], "mask"),
        (([0, 1], [0, 1, 2]), "do not broadcast"),
    ],
)
def test_bad_indices_are_refused_when_recorded(index, message):
    x = ng.zeros((3, 4))
    with pytest.raises(IndexError, match=message):
        x[index]
    with pytest.raises(IndexError, match=message):
        x[index] = 1.0


def test_assignment_moves_the_handle_and_keeps_what_was_recorded():
    x = ng.tensor([1.0, 2.0, 3.0])
    before = x * 10
    copy = x[1:].copy()
    x[1] = 7
    x[ng.tensor([0, 2])] = ng.tensor([8.0, 9.0])
    assert x.tolist() == [8.0, 7.0, 9.0]
    assert before.tolist() == [10.0, 20.0, 30.0] and copy.tolist() == [2.0, 3.0]


def test_in_place_operators_move_the_handle():
    x = ng.tensor([4.0, 9.0])
    same, before = x, x + 0
    for step in ("x += 1", "x -= 2", "x *= 3", "x /= 2", "x **= 2", "x //= 2", "x %= 7"):
        scope = {"x": x}
        exec(step, scope)
        assert scope["x"] is same
    y = np.array([4.0, 9.0])
    y = ((y + 1 - 2) * 3 / 2) ** 2 // 2 % 7
    np.testing.assert_array_equal(x, y)
    assert before.tolist() == [4.0, 9.0]
    bits = ng.tensor([1, 2])
    bits |= 4
    bits &= 6
    bits ^= 1
    bits <<= 2
    bits >>= 1
    assert bits.tolist() == [(((1 | 4) & 6) ^ 1) << 1, (((2 | 4) & 6) ^ 1) << 1]
    matrix = ng.eye(2)
    matrix @= [[1.0, 2.0], [3.0, 4.0]]
    assert matrix.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_in_place_results_must_fit():
    x = ng.tensor([1, 2])
    with pytest.raises(DTypeError, match="cannot assign float64 to a tensor of int64"):
        x += 0.5
    with pytest.raises(ShapeError, match="does not fit"):
        x += np.ones((3, 2), int)
    with pytest.raises(ShapeError, match="does not broadcast"):
        x[:] = [1, 2, 3]
    with pytest.raises(DTypeError, match="imaginary"):
        x[0] = 1j
    assert x.tolist() == [1, 2]
    x[0] = 5.9  # as in NumPy
    y = ng.tensor(np.float32([1, 2]))
    y += np.float64(0.5)
    assert x.tolist() == [5, 2] and y.dtype == np.float32 and y.tolist() == [1.5, 2.5]


@pytest.mark.parametrize("dtype", ["bool", "int8", "float32", "complex64"])
def test_truth_is_assigned_to_all_dtypes(dtype):
    x = ng.zeros(3, dtype)
    x[1] = True
    x[2] = False
    assert x.dtype == dtype and x.tolist() == np.array([0, 1, 0], dtype).tolist()


def test_gradients_through_assignment():
    x, v = ng.tensor([1.0, 2.0, 3.0], requires_grad=True), ng.tensor(5.0, requires_grad=True)
    y = x * 2
    z = y * y
    y[1] = v * v
    (z.sum() + (y * ng.tensor([1.0, 10.0, 100.0])).sum()).backward()
    assert x.grad.tolist() == [8 + 2, 16, 24 + 200]
    assert v.grad.item() == 100.0


# Gradients


def test_a_list_of_tensors_that_require_grad_is_to_be_stacked():
    x = ng.tensor(1.0, requires_grad=True)
    for convert in (np.array, ng.tensor):
        with pytest.raises(GradientError, match=r"try: .*np\.stack\(\[x, y\]\)"):
            convert([x, x])
    assert ng.stack([x, x]).requires_grad


def test_integers_cannot_require_grad():
    with pytest.raises(RuntimeError, match="only Tensors of floating point and complex dtype"):
        ng.tensor([1, 2], requires_grad=True)
    with pytest.raises(RuntimeError):
        ng.zeros(3, dtype=bool).requires_grad_()


def test_results_that_have_no_derivative_require_no_grad():
    x = ng.tensor([1.5, -2.0, 0.0], requires_grad=True)
    for result in (x > 0, x == x, ng.isnan(x), x.argmax(), x.argsort(), x.astype(int), x.any()):
        assert not result.requires_grad and result.is_leaf and result.grad_fn is None


def test_gradients_are_deleted_and_no_longer_required():
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    x.grad = ng.ones(2)
    del x.grad
    assert x.grad is None
    x.requires_grad = False
    assert not x.requires_grad


def test_shared_scalars_have_no_gradients_of_their_own():
    a = ng.broadcast_to(0.125, ())
    a.requires_grad_()
    b = ng.broadcast_to(0.125, ())
    assert not b.requires_grad and not (ng.ones(2) * 0.125).requires_grad


# Printing


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ng.tensor([1.0, 2.0], requires_grad=True), "tensor([1., 2.], requires_grad=True)"),
        (lambda: ng.tensor([[1, 2], [3, 4]]), "tensor([[1, 2],\n        [3, 4]])"),
        (lambda: ng.tensor(2.5), "tensor(2.5)"),
        (lambda: ng.tensor([True]), "tensor([ True])"),
        (lambda: ng.tensor([1.0], "float32"), "tensor([1.], dtype=float32)"),
        (lambda: ng.tensor([1], "uint8"), "tensor([1], dtype=uint8)"),
        (lambda: ng.tensor([1 + 2j]), "tensor([1.+2.j])"),
        (lambda: ng.zeros(0), "tensor([], dtype=float64)"),
        (lambda: ng.zeros((0, 3)), "tensor([], shape=(0, 3), dtype=float64)"),
        (lambda: ng.zeros(2000), "tensor([0., 0., 0., ..., 0., 0., 0.], shape=(2000,))"),
    ],
)
def test_repr(make, text):
    assert repr(make()) == text and str(make()) == text


def test_printing_follows_numpys_options():
    with np.printoptions(precision=2):
        assert repr(ng.tensor([1 / 3])) == "tensor([0.33])"
    with np.printoptions(suppress=True):
        assert repr(ng.tensor([1e-9, 1.0])) == "tensor([0., 1.])"
    with np.printoptions(threshold=3, edgeitems=1):
        assert repr(ng.arange(9)) == "tensor([0, ..., 8], shape=(9,))"
    with np.printoptions(linewidth=24):
        text = "tensor([0., 1., 2., 3.,\n        4., 5.],\n       dtype=float32)"
        assert repr(ng.arange(6, dtype="f4")) == text
        x = ng.tensor([1.0, 2.0], requires_grad=True)
        assert repr(x) == "tensor([1., 2.],\n       requires_grad=True)"
    with np.printoptions(formatter={"float": lambda x: f"<{x:g}>"}):
        assert repr(ng.tensor([0.5])) == "tensor([<0.5>])"
    assert f"{ng.tensor(1 / 3):.3f}" == "0.333"
    assert f"{ng.tensor([1.0])}" == "tensor([1.])"


# Copies


def test_copies():
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    for result in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert result is not x and result.is_leaf and result.requires_grad
        assert result.tolist() == [1.0, 2.0]
    assert copy.deepcopy(x).grad.tolist() == [2.0, 4.0]
    assert copy.deepcopy(x).grad is not x.grad
    a, b = copy.deepcopy([x, x])
    assert a is b
    assert not x.copy().is_leaf and not x.clone().is_leaf
    y = x * 2
    with pytest.raises(GradientError, match="graph leaves"):
        copy.deepcopy(y)
    assert pickle.loads(pickle.dumps(y)).tolist() == [2.0, 4.0]


def test_copies_within_functions_keep_their_history():
    class State:
        def __init__(self, x):
            self.x = x
            self.before = [x * 2]

    def f(x):
        state = State(x * x)
        snapshot = copy.deepcopy(state)
        state.x += 1.0
        state.before[0][0] = 0.0
        first = copy.copy(x)
        first[1] = x[0]
        return (snapshot.x * state.x + snapshot.before[0] + state.before[0] + first).sum()

    x = np.array([1.0, 2.0])
    # x^4 + x^2 + 2 x^2 of both, 2 x^2 of the second, and x[0] twice.
    expected = [4 + 2 + 4 + 2, 32 + 4 + 8 + 8]
    assert ng.grad(f)(x).tolist() == expected
    assert ng.jit(ng.grad(f))(x).tolist() == expected
    assert float(ng.jit(f)(x)) == float(f(ng.tensor(x))) == float(ng.vmap(f)(x[None])[0])


def test_copies_of_what_a_jitted_function_closes_over_are_made_at_each_call():
    weights = ng.tensor([1.0, 2.0])
    f = ng.jit(lambda x: x * copy.copy(weights) + copy.deepcopy({"w": weights})["w"])
    assert f(np.ones(2)).tolist() == [2.0, 4.0]
    weights[0] = 5.0
    assert f(np.ones(2)).tolist() == [10.0, 4.0]


def test_copies_keep_values_bits_and_dtypes():
    values = [np.float32([0.0, -0.0, np.nan, np.inf]), np.array(1 + 2j), np.zeros((0, 3), bool)]
    for value in values:
        x = ng.tensor(value)
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            y = pickle.loads(pickle.dumps(x, protocol))
            assert (y.dtype, y.shape) == (x.dtype, x.shape) and not y.requires_grad
            assert y.numpy().tobytes() == x.numpy().tobytes()
    x = ng.tensor([1.0, 2.0])
    y = copy.copy(x)
    y[0] = 7.0  # moves the handle of y alone
    assert x.tolist() == [1.0, 2.0]
    # A tensor is copied as it is now, not as when it was recorded last.
    assert copy.deepcopy({"a": y})["a"].tolist() == [7.0, 2.0]
    with pytest.raises(TracingError, match="pickle"):
        ng.jit(lambda x: pickle.dumps(x) and x)(np.ones(2))


def test_methods_are_the_functions():
    a = np.arange(6.0).reshape(2, 3)
    x = ng.tensor(a)
    pairs = [
        (x.T, a.T),
        (x.mT, a.mT),
        (x.reshape(3, 2), a.reshape(3, 2)),
        (x.reshape((3, -1)), a.reshape(3, 2)),
        (x.reshape(-1), a.ravel()),
        (x.reshape([6]), a.ravel()),
        (x.transpose(), a.T),
        (x.transpose(1, 0), a.T),
        (x.transpose((1, 0)), a.T),
        (x.swapaxes(0, 1), a.T),
        (x[:1].squeeze(0), a[0]),
        (x.ravel(), a.ravel()),
        (x.flatten(), a.ravel()),
        (x.repeat(2, 0), a.repeat(2, 0)),
        (x.take([1], 1), a.take([1], 1)),
        (x.nonzero()[1], a.nonzero()[1]),
        (x.argsort(0), a.argsort(0)),
        (x.cumsum(1), a.cumsum(1)),
        (x.diagonal(1), a.diagonal(1)),
        (x.trace(), a.trace()),
        (x.dot(a.T), a.dot(a.T)),
        (x.clip(1, 3), a.clip(1, 3)),
        ((x / 7).round(2), (a / 7).round(2)),
        (x.sum(0), a.sum(0)),
        (x.prod(1), a.prod(1)),
        (x.mean(), a.mean()),
        (x.var(0, ddof=1), a.var(0, ddof=1)),
        (x.std(keepdims=True), a.std(keepdims=True)),
        (x.max(1), a.max(1)),
        (x.min(), a.min()),
        (x.any(0), a.any(0)),
        (x.all(1), a.all(1)),
        (x.argmax(1), a.argmax(1)),
        (x.argmin(), a.argmin()),
        (x.astype("i4"), a.astype("i4")),
        (x.conj(), a.conj()),
        (x.real, a.real),
        (x.imag, a.imag),
        (x.copy(), a),
        (abs(-x), a),
        (+x, a),
    ]
    for ours, expected in pairs:
        assert ours.dtype == np.asarray(expected).dtype
        np.testing.assert_array_equal(ours, expected)


def test_the_namespace_is_ours():
    assert ng.tensor(1.0).__array_namespace__() is ng


def test_long_chains_are_recorded_and_dropped_without_recursion():
    x = ng.tensor(np.ones(2))
    for _ in range(20_000):
        x = x + 1.0
    del x
    gc.collect()


def test_leaves_alias_nothing():
    a = np.ones(3)
    x = ng.tensor(a)
    y = x * a
    a[:] = 7
    assert x.tolist() == [1.0] * 3 and y.tolist() == [1.0] * 3
    assert leaf(np.ones(1)).handle is None


def test_jitted_calls_that_come_again_look_at_what_their_tensors_are():
    """The short way through `Jitted.__call__` is for computed tensors without gradients alone."""
    f = ng.jit(lambda x, y: (x * y).sum())
    a, b = np.arange(3.0), np.full(3, 2.0)
    x, y = ng.tensor(a), ng.tensor(b)
    for _ in range(3):
        result = f(x, y)
        assert isinstance(result, ng.Tensor) and result.item() == 6.0
    assert f(a, b) == 6.0 and not isinstance(f(a, b), ng.Tensor)
    assert isinstance(f(x, b), ng.Tensor) and isinstance(f(x, b), ng.Tensor)
    assert f(x * 2, y).item() == 12.0  # not computed yet
    v = ng.tensor(a, requires_grad=True)
    f(v, y).backward()
    np.testing.assert_array_equal(v.grad, b)
    assert f(x.astype(np.float32), y.astype(np.float32)).dtype == np.float32
    for k in (2.0, 3.0):
        assert f(x, k).item() == 3 * k and f(a, k) == 3 * k
    assert f(2.0, 3.0) == 6.0 and not isinstance(f(2.0, 3.0), ng.Tensor)
    assert f(2, 3).dtype == np.int64 and f(True, 2.0) == 2.0
    same = ng.jit(lambda x: x)
    for _ in range(2):
        assert same(x) is not x
    x += 1
    assert f(x, y).item() == 12.0


def test_jitted_functions_may_return_what_they_do_not_compute():
    table = np.arange(2.0)
    f = ng.jit(lambda x: {"x": x, "twice": 2 * x, "number": 3.5, "table": table, "none": [x, 7]})
    for _ in range(3):
        for make in (np.asarray, ng.tensor):
            x = make([1.0, 2.0])
            found = f(x)
            np.testing.assert_array_equal(found["x"], [1.0, 2.0])
            np.testing.assert_array_equal(found["twice"], [2.0, 4.0])
            assert found["number"] == 3.5 and found["none"][1] == 7
            np.testing.assert_array_equal(found["table"], [0.0, 1.0])
            assert found["x"] is not x
    assert ng.jit(lambda x: 3.5)(1.0) == 3.5


def test_a_shape_is_not_assigned_to():
    x = ng.ones(4)
    with pytest.raises(AttributeError, match=r"(?s)a tensor keeps its shape.*x\.reshape\(shape\)"):
        x.shape = (2, 2)
