"""`pad` in every mode: against NumPy for generated arguments, derivatives, refusals."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import numba_grad as ng
from numba_grad.config import configure
from numba_grad.testing import check_gradients
from tests.frontend.agreement import check_jit_and_vmap

X = np.random.default_rng(2).standard_normal((3, 4))
OPTIONS = {
    "constant": "constant_values",
    "linear_ramp": "end_values",
    "maximum": "stat_length",
    "minimum": "stat_length",
    "mean": "stat_length",
    "median": "stat_length",
    "reflect": "reflect_type",
    "symmetric": "reflect_type",
    "edge": None,
    "wrap": None,
}
quick = settings(max_examples=5 * settings.default.max_examples // 2)


def check_same(call, x, tolerance):
    """The same from NumPy and here, or the same error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = call(np, x)
        except ValueError as error:
            with pytest.raises(type(error)):
                call(ng, x)
            return
        for module in (ng, np):
            found = call(module, ng.tensor(x))
            assert isinstance(found, ng.Tensor)
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@st.composite
def calls(draw):
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4))
    dtype = draw(st.sampled_from([np.float64, np.float32, np.int64, np.uint8, np.complex128]))
    mode = draw(st.sampled_from(list(OPTIONS)))
    if dtype is np.complex128 and mode in ("maximum", "minimum", "median"):
        mode = "edge"
    numbers = np.random.default_rng(draw(st.integers(0, 9))).integers(0, 90, shape)
    x = (numbers / 4).astype(dtype)
    if dtype is np.complex128:
        x = x + 1j * numbers[..., ::-1]

    def pairs(values):
        form = draw(st.sampled_from(["one", "pair", "all"]))
        if form == "one":
            return draw(values)
        if form == "pair":
            return (draw(values), draw(values))
        return [(draw(values), draw(values)) for _ in shape]

    width = pairs(st.integers(0, 9))
    kwargs = {}
    option = OPTIONS[mode]
    if option and draw(st.booleans()):
        if option == "reflect_type":
            kwargs[option] = draw(st.sampled_from(["even", "odd"]))
        elif option == "stat_length":
            kwargs[option] = pairs(st.integers(1, 5))
        else:
            kwargs[option] = pairs(st.integers(0, 50))
    return x, width, mode, kwargs


@quick
@given(calls())
def test_every_mode_does_what_numpys_does(call):
    x, width, mode, kwargs = call
    tolerance = 1e-5 if x.dtype == np.float32 else 1e-12
    with configure(engine="reference"):
        check_same(lambda m, x: m.pad(x, width, mode, **kwargs), x, tolerance)


CALLS = {
    "widths by axis": lambda m, x: m.pad(x, {-1: (1, 2)}),
    "widths of both axes": lambda m, x: m.pad(x, {0: 1, 1: (0, 3)}, "edge"),
    "far beyond": lambda m, x: m.pad(x, ((0, 40), (31, 0)), "reflect", reflect_type="odd"),
    "far around": lambda m, x: m.pad(x, 33, "wrap"),
    "constants": lambda m, x: m.pad(x, 1, constant_values=((1, 2), (3, 4))),
    "ramps": lambda m, x: m.pad(x, (2, 3), "linear_ramp", end_values=(-3, 5)),
    "statistics": lambda m, x: m.pad(x, (2, 1), "mean", stat_length=(2, 3)),
    "medians": lambda m, x: m.pad(x, 1, "median"),
    "mirrors": lambda m, x: m.pad(x, 3, "symmetric"),
    "nothing": lambda m, x: m.pad(x, 0, "minimum"),
}


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("name", CALLS)
def test_kernels_do_what_numpy_does(name):
    arrays = [X, np.asfortranarray(X)[::2]]
    if name != "far beyond":  # NumPy makes nan of one infinity in an odd mirror, we of others
        arrays.append(np.where(X > 1, np.nan, np.where(X < -1, np.inf, X)))
    for x in arrays:
        check_same(CALLS[name], x, 1e-12)


def test_empty_gives_the_shape_of_numpys():
    assert ng.pad(X, (1, 2), "empty").shape == np.pad(X, (1, 2), "empty").shape
    np.testing.assert_array_equal(ng.pad(X, (1, 2), "empty")[1:4, 1:5], X)


DIFFERENTIABLE = {
    "constant": lambda x: ng.pad(x, ((0, 1), (1, 0)), constant_values=3),
    "edge": lambda x: ng.pad(x, 2, "edge"),
    "wrap": lambda x: ng.pad(x, (7, 5), "wrap"),
    "reflect": lambda x: ng.pad(x, (6, 5), "reflect"),
    "odd reflect": lambda x: ng.pad(x, (6, 5), "reflect", reflect_type="odd"),
    "odd symmetric": lambda x: ng.pad(x, (2, 3), "symmetric", reflect_type="odd"),
    "linear_ramp": lambda x: ng.pad(x, 3, "linear_ramp", end_values=0.5),
    "mean": lambda x: ng.pad(x, 2, "mean", stat_length=2),
    "median": lambda x: ng.pad(x, 2, "median"),
    "maximum": lambda x: ng.pad(x, 2, "maximum"),
    "minimum": lambda x: ng.pad(x, 2, "minimum", stat_length=(1, 3)),
}


@pytest.mark.thorough(every=3)
@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_to_second_order(name):
    check_gradients(lambda x: DIFFERENTIABLE[name](x) ** 2, X, elements=6)


@pytest.mark.usefixtures("numpy_engine")
def test_values_that_are_added_have_derivatives():
    def padded(x, v, e):
        return ng.pad(ng.pad(x, 1, constant_values=v), 2, "linear_ramp", end_values=e) ** 2

    check_gradients(padded, X, np.array([[0.1, 0.2], [0.3, 0.4]]), np.array(0.7), elements=6)


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("name", ["wrap", "odd symmetric", "mean"])
def test_jit_and_vmap(name):
    check_jit_and_vmap(DIFFERENTIABLE[name], X)


@pytest.mark.parametrize(
    ("ours", "theirs"), [("edge", "replicate"), ("reflect", "reflect"), ("wrap", "circular")]
)
def test_gradients_are_those_of_torch(ours, theirs):
    torch = pytest.importorskip("torch")
    x, y = ng.tensor(X, requires_grad=True), torch.tensor(X, requires_grad=True)
    (ng.pad(x, ((0, 0), (2, 3)), ours) ** 3).sum().backward()
    (torch.nn.functional.pad(y[None], (2, 3), theirs) ** 3).sum().backward()
    np.testing.assert_allclose(x.grad, y.grad, rtol=1e-13)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: ng.pad(x, 1, lambda *a: None), TypeError, "pad: a function as mode"),
        (lambda x: ng.pad(x, 1, "mirror"), ValueError, "no mode 'mirror'(.|\n)*'symmetric'"),
        (lambda x: ng.pad(x, 1, "edge", stat_length=2), ValueError, "'edge' has no stat_length="),
        (lambda x: ng.pad(x, -1), ValueError, "pad: negative widths"),
        (lambda x: ng.pad(x, 1.5), TypeError, "pad: not integers\n  pad_width : 1.5"),
        (lambda x: ng.pad(x, [1, 2, 3]), ValueError, "pad_width does not fit the axes"),
        (lambda x: ng.pad(x, {2: 1}), np.exceptions.AxisError, "pad: axis out of range"),
        (lambda x: ng.pad(x, 1, constant_values=[1, 2, 3]), ValueError, "constant_values does not"),
        (lambda x: ng.pad(x, 1, "mean", stat_length=0), ValueError, "the mean of no elements"),
        (lambda x: ng.pad(x, 1, "reflect", reflect_type="both"), ValueError, "reflect_type='both'"),
        (lambda x: ng.pad(x[:0], 1, "edge"), ValueError, "axis 0 has no element that mode 'edge'"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(ng.tensor(X))


def test_a_constant_keeps_its_sign():
    padded = np.pad(ng.tensor([1.0]), 1, constant_values=-0.0)
    assert np.signbit(padded.numpy()).tolist() == [True, False, True]
