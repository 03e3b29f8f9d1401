"""Reductions with every argument: values and warnings of NumPy, derivatives, torch's gradients."""

import functools
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

RNG = np.random.default_rng(7)
X = RNG.standard_normal((3, 4, 2))
MASK = RNG.random((3, 4, 2)) > 0.4
ROW = np.array([[True], [False], [True], [True]])
ZEROS = np.where(RNG.random((3, 4, 2)) > 0.6, 0.0, X)
Z = X + 1j * X[::-1]

WITH_INITIAL = ("sum", "prod", "max", "min", "nansum", "nanprod", "nanmax", "nanmin")
WITHOUT_NAN = ("nanmean", "nanvar", "nanstd")
WITH_WHERE = (*WITH_INITIAL, "any", "all", "mean", "var", "std", *WITHOUT_NAN)
REDUCTIONS = (*WITH_WHERE, "ptp", "count_nonzero")
quick = settings(max_examples=2 * settings.default.max_examples)


def outcome(function, *args, **kwargs):
    """The result and its warnings, or the class of the error."""
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        try:
            result = function(*args, **kwargs)
        except (TypeError, ValueError) as error:
            return error
    # NumPy's divisions warn besides.
    said = {str(w.message).rstrip(".") for w in caught if "divide" not in str(w.message)}
    return result, said


def check_same(ours, numpys, tolerance=1e-12):
    if isinstance(numpys, Exception):
        assert isinstance(ours, type(numpys))
        return
    assert not isinstance(ours, Exception), ours
    (ours, said), (numpys, expected_said) = ours, numpys
    expected = np.asarray(numpys)
    assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(ours.detach().numpy(), expected, rtol=tolerance, atol=tolerance)
    assert said == expected_said


@st.composite
def calls(draw):
    """A reduction, an array and keywords."""
    name = draw(st.sampled_from(REDUCTIONS))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    dtype = draw(st.sampled_from([bool, np.int8, np.uint16, np.int64, np.float64]))
    if name == "ptp" and dtype is bool:
        dtype = np.int64
    x = (np.arange(1, 1 + np.prod(shape, dtype=int)).reshape(shape) % 5).astype(dtype)
    if name.startswith("nan") and dtype is np.float64:
        x = np.where(draw(hnp.arrays(bool, shape)), np.nan, x)
    kwargs = {}
    kinds = ["none", "one", "several"] if shape else ["none"]
    kind = draw(st.sampled_from(kinds))
    if kind == "one":
        kwargs["axis"] = draw(st.integers(-len(shape), len(shape) - 1))
    elif kind == "several":
        kwargs["axis"] = draw(hnp.valid_tuple_axes(len(shape)))
    if draw(st.booleans()):
        kwargs["keepdims"] = draw(st.booleans())
    if name in WITH_INITIAL and draw(st.booleans()):
        kwargs["initial"] = draw(st.sampled_from([0, 3, 1]))
    if name in WITH_WHERE and draw(st.booleans()):
        own = shape[draw(st.integers(0, len(shape))) :]
        own = tuple(draw(st.sampled_from((1, n))) for n in own)
        kwargs["where"] = draw(hnp.arrays(bool, own))
    if name.removeprefix("nan") in ("sum", "prod") and draw(st.booleans()):
        kwargs["dtype"] = draw(st.sampled_from([np.float32, np.int16, np.complex128, bool]))
    if name.removeprefix("nan") in ("var", "std") and draw(st.booleans()):
        kwargs[draw(st.sampled_from(["ddof", "correction"]))] = draw(st.integers(0, 3))
    return name, x, kwargs


@quick
@given(calls())
def test_every_argument_does_what_numpys_does(call):
    name, x, kwargs = call
    expected = outcome(getattr(np, name), x, **kwargs)
    has_mask = "where" in kwargs or name.startswith("nan")
    if has_mask and not isinstance(expected, Exception):
        expected = (expected[0], set())  # how many elements a mask chooses is not known yet
    with configure(engine="reference"):
        for call in (getattr(ng, name), getattr(np, name), getattr(ng.Tensor, name, None)):
            if call is not None:
                found = outcome(call, ng.tensor(x), **kwargs)
                if has_mask and not isinstance(found, Exception):
                    found = (found[0], set())
                check_same(found, expected)


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_kernels_do_what_numpy_does(name):
    kwargs = {"axis": (0, -1)}
    if name in WITH_WHERE:
        kwargs["where"] = MASK
    if name in WITH_INITIAL:
        kwargs["initial"] = 0.5
    check_same(outcome(getattr(ng, name), X, **kwargs), outcome(getattr(np, name), X, **kwargs))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions(name):
    x = np.array([[3.0, 1, 3], [np.nan, 1, np.nan]])
    for value in (x, x > 1, x.T[::2], np.int8([[5, 5], [2, 9]]), np.float32(x)):
        for axis in (None, 0, -1):
            for keepdims in (False, True):
                expected = getattr(np, name)(value, axis, keepdims=keepdims)
                found = getattr(ng, name)(value, axis, keepdims=keepdims)
                np.testing.assert_array_equal(found, expected)
                np.testing.assert_array_equal(
                    getattr(ng.tensor(value), name)(axis, keepdims=keepdims), expected
                )


def test_nan_and_infinity():
    x = np.array([[1.0, np.nan, 2.0], [np.inf, -np.inf, 0.0], [-np.inf, -np.inf, -np.inf]])
    for name in ("sum", "prod", "max", "min", "mean", "var", "ptp", "any", "all"):
        for axis in (None, 0, 1):
            expected = outcome(getattr(np, name), x, axis)[0], set()
            check_same(outcome(getattr(ng, name), x, axis), expected)
    mask = ~np.isnan(x)
    for name in ("max", "min"):
        expected = getattr(np, name)(x, 1, where=mask, initial=0.5)
        np.testing.assert_array_equal(getattr(ng, name)(x, 1, where=mask, initial=0.5), expected)


DIFFERENTIABLE = {
    "sum": (lambda x, v: ng.sum(x**2, 1, where=MASK, initial=v), X, np.array(0.3)),
    "prod with zeros": (lambda x: ng.prod(x, 1), ZEROS),
    "prod of all with one zero": (lambda x: ng.prod(x), np.array([0.5, 0.0, -2.0, 1.5])),
    "prod of all with two zeros": (lambda x: ng.prod(x), np.array([0.5, 0.0, -2.0, 0.0])),
    "prod where": (lambda x, v: ng.prod(x, 0, where=MASK, initial=v), ZEROS, np.array(0.3)),
    "complex prod": (lambda x: ng.prod(x, 1), Z * (np.abs(Z) > 0.7)),
    "max": (lambda x, v: ng.max(x, 1, initial=v, where=MASK) ** 2, X, np.array(0.3)),
    "min of none": (lambda x, v: ng.min(x[:0], 0, initial=v) ** 2, X, np.array(0.3)),
    "ptp": (lambda x: ng.ptp(x, (0, 2)) ** 2, X),
    "mean": (lambda x: ng.mean(x**2, (0, 1), where=MASK), X),
    "var": (lambda x: ng.var(x, 1, ddof=1, where=ROW), X),
    "var of a given mean": (lambda x, m: ng.var(x, 2, mean=m), X, X[..., :1]),
    "complex var": (lambda x: ng.var(x, (0, 1), where=MASK), Z),
    "std": (lambda x: ng.std(x, 1, correction=0.5, where=ROW), X),
    "logsumexp": (lambda x: ng.logsumexp(x, (0, 2)), X),
    "softmax": (lambda x: ng.softmax(x, (0, 1)) ** 2, X),
    "log_softmax": (lambda x: ng.log_softmax(x, 1) ** 2, X),
}


@pytest.mark.thorough(every=6)
@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_to_second_order(name):
    check_gradients(*DIFFERENTIABLE[name])


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("name", ["sum", "prod where", "max", "var"])
def test_jit_and_vmap(name):
    check_jit_and_vmap(*DIFFERENTIABLE[name])


@pytest.mark.thorough
def test_gradients_are_those_of_torch():
    torch = pytest.importorskip("torch")
    tied = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    pairs = [
        (lambda m, x: m.prod(x, 1), ZEROS),
        (lambda m, x: m.prod(x), np.array([0.0, 2.0, 3.0])),
        (lambda m, x: m.amax(x, 1) ** 2, tied),
        (lambda m, x: m.amin(x, (0, 1)) ** 2, tied),
        (lambda m, x: m.var(x, 1, correction=2), X),
        (lambda m, x: m.std(x, (0, 2), correction=1), X),
        (lambda m, x: m.logsumexp(x, 1), np.array([[-np.inf] * 3, [1, 2, -np.inf]])),
        (lambda m, x: m.softmax(x, 1) ** 2, X),
        (lambda m, x: m.log_softmax(x, 0) ** 2, X),
    ]
    for f, x in pairs:
        ours, theirs = ng.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
        f(ng, ours).sum().backward()
        f(torch, theirs).sum().backward()
        expected = theirs.grad.numpy()
        if np.isinf(x).any():
            expected = np.nan_to_num(expected)  # of only -inf: nan in torch, 0 here
        np.testing.assert_allclose(ours.grad, expected, rtol=1e-12, atol=1e-14)


def test_what_a_mask_leaves_out_has_the_gradient_0():
    x = ng.tensor([4.0, np.nan, 1.0, np.inf], requires_grad=True)
    chosen = np.array([True, False, True, False])
    for f in (ng.sum, ng.prod, ng.mean, ng.var, ng.std, lambda x, **k: ng.max(x, initial=0, **k)):
        (g,) = ng.autograd.grad(f(x, where=chosen), x)
        assert np.isfinite(g).all() and not np.asarray(g)[~chosen].any() and g[0].item() != 0
    for f in (ng.mean, ng.var):
        (g,) = ng.autograd.grad(f(x, where=np.zeros(4, bool)), x)
        np.testing.assert_array_equal(g, 0)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_numbers_to_start_from_that_the_dtype_does_not_have(name):
    """Python's are refused, those that have a dtype converted: as in NumPy."""
    x = np.array([1, 2], np.uint8)
    for number, error in ((-9, OverflowError), (-9.5, OverflowError), (np.nan, ValueError)):
        for array in (x, ng.tensor(x)):
            with pytest.raises(error):
                getattr(np, name)(array, initial=number)
    for number in (0.7, np.int64(-9), True):
        expected = getattr(np, name)(x, initial=number)
        np.testing.assert_array_equal(getattr(ng, name)(x, initial=number), expected)


def test_nothing_to_reduce():
    empty = np.zeros((0, 3))
    assert ng.sum(empty).item() == 0 and ng.prod(empty).item() == 1
    assert ng.max(empty, 0, initial=2.0).numpy().tolist() == [2.0] * 3
    assert ng.max(empty, 1).shape == (0,)
    assert ng.logsumexp(empty).item() == -np.inf and ng.softmax(empty, 0).shape == (0, 3)
    with pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        assert np.isnan(ng.mean(empty, 0)).all()
    with pytest.warns(RuntimeWarning, match="Degrees of freedom <= 0"):
        assert np.isnan(ng.var(np.ones(1), ddof=1).item())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: ng.max(x[:0]), ValueError, "max: zero-size array has no identity"),
        (lambda x: ng.argmin(x[:0]), ValueError, "argmin: "),
        (lambda x: ng.ptp(x[:0]), ValueError, "zero-size array has no identity"),
        (lambda x: ng.max(x, where=x > 0), ValueError, r"max: without initial=(.|\n)*initial=-inf"),
        (lambda x: ng.sum(x, where=[[True, False]] * 3), ValueError, r"sum: the mask(.|\n)*where"),
        (lambda x: ng.mean(x, where=[True] * 2), ValueError, "mean: the mask does not broadcast"),
        (lambda x: ng.sum(x, initial=[1.0, 2.0]), ValueError, "initial: not one number"),
        (lambda x: ng.var(x, ddof=1, correction=1), ValueError, "var: two names for one number"),
        (lambda x: ng.sum(x, 1), np.exceptions.AxisError, "sum: axis out of range"),
        (lambda x: ng.mean(x, (0, 0)), np.exceptions.AxisError, "mean: repeated axis"),
        (lambda x: ng.sum(x, 0.5), TypeError, "sum: an axis must be an integer"),
        (lambda x: np.sum(x, out=np.zeros(())), TypeError, r"numpy\.sum: out= is not supported"),
        (lambda x: np.mean(x, out=np.zeros(())), TypeError, r"numpy\.mean: out= is not supported"),
        (lambda x: x.sum(out=np.zeros(())), TypeError, "out"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(ng.tensor([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("out", ["int8", "int64", "float32", "float64"])
@pytest.mark.parametrize("of", ["bool", "int8", "int32", "float32", "float64"])
@pytest.mark.parametrize("name", ["sum", "cumsum", "prod", "add.reduce", "multiply.accumulate"])
def test_into_an_array_of_another_dtype(name, of, out):
    """NumPy computes in a dtype that takes both, and cuts off then."""
    x = np.array([[1.6, -1.7, 1.8], [100, 1.4, 0.9]]).astype(of)
    expected = np.zeros(x.shape if "cu" in name else 3, out)
    found = ng.tensor(expected)
    f = functools.reduce(getattr, name.split("."), np)
    f(x, axis=0, out=expected)
    with ng.configure(engine="reference"):
        f(ng.tensor(x), axis=0, out=found)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
