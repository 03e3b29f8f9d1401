"""Elementwise derivatives against torch, at kinks and edges, and the rules that have no torch."""

import re

import numpy as np
import pytest

from numba_grad.compiler.evaluate import evaluate
from numba_grad.errors import DTypeError
from numba_grad.frontend.inputs.arrays import operands
from numba_grad.graph.node import OPS, Op, leaf
from numba_grad.ops import elementwise, functions, logic
from numba_grad.ops.families import loop_dtypes
from numba_grad.ops.samples import draw_operands
from numba_grad.transforms.vjp import cotangents, reached

torch = pytest.importorskip("torch")

OF_TORCH = {
    "identity": torch.clone,
    "conjugate": torch.conj,
    "integer_power": None,  # compared with power below
    "half_integer_power": None,
    "cast": None,  # tested below, as the next two
    "make_complex": None,
    "where": None,
    "clip_to_numbers": None,  # has the derivatives of clip, which is compared
    "floor_divide": None,  # has no derivative in torch
    "ldexp": None,  # of whole exponents; compared in tests/frontend/test_ufuncs.py
    "sign": torch.sgn,
    "power": torch.pow,
    "rint": torch.round,
    "arccosh": torch.acosh,
    "arcsinh": torch.asinh,
    "arctanh": torch.atanh,
}
# Those of `numba_grad.special` are compared in tests/frontend/test_special.py.
MODULES = (elementwise, functions, logic)
OPERATIONS = dict.fromkeys(
    x for module in MODULES for x in vars(module).values() if isinstance(x, Op)
)


def in_torch(name):
    """None where torch has no such function: tests/ops/test_registry.py has differences."""
    return OF_TORCH[name] if name in OF_TORCH else getattr(torch, name, None)


COMPARED = [
    op
    for op in OPERATIONS
    if op.family == "elementwise" and op.vjp is not None and in_torch(op.name)
]
# Of complex numbers torch has none of these; tests/ops/test_registry.py compares with differences.
REAL_IN_TORCH = {"clip", "erf", "erfc", "maximum", "minimum"}
EDGES = [0.0, -0.0, 1.0, -1.0, 2.0, -2.5, 0.5, np.inf, -np.inf, np.nan]

# Where torch has another slope, and why ours is better.
DIFFERENT = {
    "sign": np.isnan,  # 0, as is its value; ours is NumPy's
    "hypot": lambda x, y: (x == 0) & (y == 0),  # NaN, unlike its own norm at 0
    "logaddexp": lambda x, y: (x == y) & np.isinf(x),  # NaN, which is no subgradient
    "logaddexp2": lambda x, y: (x == y) & np.isinf(x),  # the same
    "copysign": lambda x, y: ~np.isfinite(x),  # NaN at infinity
    "fmod": lambda x, y: np.isnan(np.fmod(x, y)),  # infinite, for a value of NaN
    "nextafter": lambda x, y: x == y,  # 0; the neighbours on both sides move with x
}


def gradients(op, arrays, g, **params):
    """Value of the result, and of the cotangent of each floating input, in one program."""
    inputs = [leaf(np.array(a, order="C"), a.dtype.kind in "fc") for a in arrays]
    out = op(*inputs, **params)
    found = cotangents([out], [leaf(np.asarray(g))], reached([out]))
    nodes = [out, *(found[x] for x in inputs if x.requires_grad)]
    evaluate(nodes)
    return [node.value for node in nodes]


def gradients_in_torch(function, arrays, g):
    inputs = [torch.tensor(a, requires_grad=a.dtype.kind in "fc") for a in arrays]
    out = function(*inputs)
    needed = [x for x in inputs if x.requires_grad]
    found = torch.autograd.grad(out, needed, torch.tensor(g))
    return [z.detach().resolve_conj().numpy(force=True) for z in (out, *found)]


def slope_at(name, *values, **params):
    """The derivative of each input at one point."""
    arrays = [np.asarray(value, np.float64) for value in values]
    return [float(s) for s in gradients(OPS[name], arrays, np.float64(1.0), **params)[1:]]


def slopes_of_slopes(name, *values):
    """The Hessian at one point, by two backward passes."""
    inputs = [leaf(np.asarray(value, np.float64), True) for value in values]
    out = OPS[name](*inputs)
    one = leaf(np.ones(()))
    first = cotangents([out], [one], reached([out]))
    rows = []
    for x in inputs:
        second = cotangents([first[x]], [one], reached([first[x]]))
        rows.append([second.get(y) for y in inputs])
    evaluate([node for row in rows for node in row if node is not None])
    return [[0.0 if node is None else float(node.value) for node in row] for row in rows]


@pytest.mark.parametrize("op", COMPARED, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [np.float64, np.complex128], ids=["real", "complex"])
def test_gradients_match_torch(op, dtype, engine):
    if np.dtype(dtype).char not in op.dtypes:
        return
    if dtype is np.complex128 and op.name in REAL_IN_TORCH:
        return
    rng = np.random.default_rng(0)
    arrays = draw_operands(rng, [(40,)] * len(op.samples), op.samples, np.dtype(dtype))
    result_dtype = op(*map(leaf, arrays)).dtype
    (g,) = draw_operands(rng, [(40,)], [(-1, 1)], result_dtype)
    ours = gradients(op, arrays, g)
    theirs = gradients_in_torch(in_torch(op.name), arrays, g)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def assert_slopes_match_torch(name, arrays):
    g = np.ones(arrays[0].shape)
    with np.errstate(invalid="ignore"):
        comparable = ~DIFFERENT.get(name, lambda *arrays: np.zeros(g.shape, bool))(*arrays)
    ours = gradients(OPS[name], arrays, g)
    theirs = gradients_in_torch(in_torch(name), arrays, g)
    for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        bad = ~np.isclose(a, b, rtol=1e-12, equal_nan=True) & comparable
        listed = np.stack([*arrays, a, b], axis=1)[bad]
        assert not bad.any(), f"result {k}: rows of inputs, ours, torch's:\n{listed}"


@pytest.mark.thorough
@pytest.mark.parametrize("op", COMPARED, ids=lambda op: op.name)
def test_slopes_at_edges_match_torch(op, engine):
    if "d" in op.dtypes:
        edges = [np.array(EDGES)] * len(op.input_names)
        assert_slopes_match_torch(op.name, [a.ravel() for a in np.meshgrid(*edges)])


@pytest.mark.parametrize("exponent", [-3, -1, 0, 1, 2, 3, 7])
def test_slopes_of_integer_powers_match_torch(exponent, engine):
    x, g = np.array([*EDGES, 3.0, 1e-3]), np.ones(12)
    ours = gradients(OPS["integer_power"], [x], g, exponent=exponent)
    theirs = gradients_in_torch(lambda x: x**exponent, [x], g)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_ties_of_maximum_and_minimum_share_the_gradient(engine):
    assert slope_at("maximum", 2.0, 2.0) == [0.5, 0.5]
    assert slope_at("minimum", 0.0, -0.0) == [0.5, 0.5]


def test_the_size_of_zero_has_no_slope(engine):
    assert slope_at("absolute", 0.0) == [0.0]
    assert slope_at("hypot", 0.0, 0.0) == [0.0, 0.0]
    zero = np.zeros((), complex)
    assert gradients(OPS["absolute"], [zero], np.float64(1.0))[1] == 0
    assert gradients(OPS["sign"], [zero], np.complex128(1.0))[1] == 0


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_division_by_zero_is_numpys_and_stops_nothing(dtype, engine):
    x = np.array([1 + 2j, 0, 1j, 3 - 1j, -2], dtype)
    y = np.array([1j, 0, 0, 2, 0], dtype)
    with np.errstate(all="ignore"):
        expected = x / y
    quotient, by_x, _ = gradients(OPS["divide"], [x, y], np.ones(5, dtype))
    np.testing.assert_allclose(quotient, expected, rtol=1e-6)
    np.testing.assert_allclose(by_x[[0, 3]], [1j, 0.5], rtol=1e-6)
    assert not np.isfinite(by_x[[1, 2, 4]]).any()


def test_log_of_a_negative_number_has_a_slope(engine):
    assert slope_at("log", -2.0) == [-0.5]


@pytest.mark.parametrize("x", [0.0, -0.0, 2.0, np.inf, np.nan])
def test_power_zero_is_constant(x, engine):
    assert slope_at("power", x, 0.0)[0] == 0
    assert slope_at("integer_power", x, exponent=0) == [0.0]


def test_second_derivatives_of_power_where_a_factor_is_infinite(engine):
    # d2/dx2 x**y = y (y-1) x**(y-2) is 0 * inf for (0, 1), and only the whole is finite.
    assert slopes_of_slopes("power", 0.0, 0.0) == [[0.0, 0.0], [0.0, 0.0]]
    assert slopes_of_slopes("power", 0.0, 1.0)[0][0] == 0
    assert slopes_of_slopes("power", 0.0, 2.0) == [[2.0, 0.0], [0.0, 0.0]]
    hessian = slopes_of_slopes("power", 4.0, 0.0)
    np.testing.assert_allclose(hessian, [[0, 1 / 4], [1 / 4, np.log(4) ** 2]])


def test_where_forms_no_product_with_the_branch_not_taken(engine):
    condition, x = np.array([True, False]), np.array([1.0, 2.0])
    for g in (np.full(2, np.inf), np.full(2, np.nan)):
        _, gx, gy = gradients(OPS["where"], [condition, x, x], g)
        np.testing.assert_array_equal(gx, [g[0], 0])
        np.testing.assert_array_equal(gy, [0, g[1]])


def test_fmod_near_a_whole_quotient(engine):
    x, y = 1.0, 0.1  # 0.1 is a little more than a tenth, yet x / y rounds to 10
    assert x / y == 10
    assert slope_at("fmod", x, y) == [1.0, -9.0]
    assert slope_at("remainder", x, y) == [1.0, -9.0]


def test_derivatives_far_from_zero_keep_their_accuracy(engine):
    np.testing.assert_allclose(slope_at("expm1", -50.0), [np.exp(-50.0)], rtol=1e-15)
    near_one = np.nextafter(1.0, 0.0)
    np.testing.assert_allclose(slope_at("arctanh", near_one), [2.0**52], rtol=1e-15)
    np.testing.assert_allclose(slope_at("arctan2", 3e-200, 4e-200), [16e198, -12e198], rtol=1e-14)
    np.testing.assert_allclose(slope_at("divide", 1.0, 1e200), [1e-200, 0.0], rtol=1e-15)


def test_cotangents_cross_between_real_and_complex(engine):
    x = np.array([1.0, 2.0])
    g = np.array([1 + 2j, 3 + 4j])
    to_complex = gradients(OPS["cast"], [x], g, dtype=np.dtype(np.complex128))[1]
    np.testing.assert_array_equal(to_complex, g.real)
    to_real = gradients(OPS["cast"], [g], x, dtype=np.dtype(np.float64))[1]
    np.testing.assert_array_equal(to_real, x + 0j)
    np.testing.assert_array_equal(gradients(OPS["imag"], [g], x)[1], 1j * x)
    parts = gradients(OPS["make_complex"], [x, x], g)[1:]
    np.testing.assert_array_equal(parts, [g.real, g.imag])


@pytest.mark.parametrize("exponent", [-2.5, -0.5, 1.5, 3.5])
def test_powers_by_roots_and_their_slopes_match_torch(exponent, engine):
    x, g = np.array([*EDGES, 3.0, 1e-3]), np.ones(12)
    node = OPS["half_integer_power"](leaf(x), exponent=exponent)
    evaluate([node])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(node.value, x**exponent, rtol=6e-16)
    assert not np.signbit(node.value[node.value == 0]).any()
    x[[1, 8]] = 7.0  # torch takes roots of -0.0 and minus infinity
    ours = gradients(OPS["half_integer_power"], [x], g, exponent=exponent)
    theirs = gradients_in_torch(lambda x: x**exponent, [x], g)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_make_complex_keeps_parts_apart(engine):
    (z,) = gradients(OPS["make_complex"], [np.array(np.inf), np.array(-0.0)], np.complex128(0))[:1]
    assert z.real == np.inf and z.imag == 0 and np.signbit(z.imag)


@pytest.mark.parametrize("exponent", range(-17, 18))
def test_integer_power_expands_to_few_multiplications(exponent):
    text = OPS["integer_power"].expression(exponent=exponent)
    if abs(exponent) > elementwise.MOST_EXPANDED:
        assert text == f"integer_power({{x}}, {exponent})"
        return
    names = {"x": 3.0, "reciprocal": lambda x: 1 / x, "cast": lambda x, dtype: dtype(x)}
    found = eval(text.format(x="x", dtype="float"), names)
    np.testing.assert_allclose(found, 3.0**exponent, rtol=1e-14)


def test_integers_have_no_negative_integer_powers():
    with pytest.raises(ValueError, match="negative integer powers are not integers"):
        OPS["integer_power"](leaf(np.arange(3)), exponent=-1)


@pytest.mark.parametrize("dtype", [np.int8, np.int64])
def test_a_negative_exponent_of_an_integer_is_an_error(dtype, engine):
    x = leaf(np.array([2, 3], dtype))
    node = OPS["power"](x, leaf(np.array([3, 2], dtype)))
    evaluate([node])
    assert node.value.tolist() == [8, 9]
    with pytest.raises(
        ValueError, match=r"(?i)integers to negative integer powers are not allowed"
    ):
        evaluate([OPS["power"](x, leaf(np.array([3, np.iinfo(dtype).min], dtype)))])


def test_integers_wrap_as_in_numpy(engine):
    x = np.array([-128, 127, 100, 3], np.int8)
    nodes = [
        OPS["absolute"](leaf(x)),
        OPS["negative"](leaf(x)),
        OPS["multiply"](leaf(x), leaf(x)),
        OPS["integer_power"](leaf(x), exponent=3),
        OPS["floor_divide"](leaf(x), leaf(np.array([-1, 0, 7, -2], np.int8))),
        OPS["remainder"](leaf(x), leaf(np.array([-1, 0, 7, -2], np.int8))),
    ]
    evaluate(nodes)
    with np.errstate(all="ignore"):
        wanted = [abs(x), -x, x * x, x**3, [-128, 0, 14, -2], [0, 0, 2, -1]]
    for node, expected in zip(nodes, wanted, strict=True):
        np.testing.assert_array_equal(node.value, np.asarray(expected, np.int8))


def test_comparing_signed_with_unsigned_is_exact(engine):
    x = np.array([-1, 2**53 + 1, 2**53, 2**63 - 1, -(2**63), 5], np.int64)
    y = np.array([2**64 - 1, 2**53, 2**53 + 1, 2**63, 2**63, 5], np.uint64)
    pairs = [
        (ufunc, *of)
        for ufunc in (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
        for of in ((x, y), (y, x))
    ]
    nodes = [OPS[ufunc.__name__](*operands(ufunc, (a, b))) for ufunc, a, b in pairs]
    evaluate(nodes)
    for node, (ufunc, a, b) in zip(nodes, pairs, strict=True):
        np.testing.assert_array_equal(node.value, ufunc(a, b), str(node))


def test_promotion_is_that_of_numpy_loops():
    x, y = np.ones(2, np.int32), np.ones(2, np.float32)
    assert OPS["add"](*operands(np.add, (x, y))).dtype == np.float64
    assert OPS["sqrt"](*operands(np.sqrt, (x,))).dtype == np.float64
    assert loop_dtypes(np.multiply, (np.dtype(np.float32), float))[0] == np.float32
    with pytest.raises(DTypeError, match="bitwise_and: not defined for these dtypes"):
        loop_dtypes(np.bitwise_and, (np.dtype(np.float64), int))


def test_operands_of_different_dtypes_are_refused():
    message = re.escape("add: dtypes that do not fit together\n  x : int64[2]\n  y : float64[2]")
    with pytest.raises(DTypeError, match=message):
        OPS["add"](leaf(np.ones(2, np.int64)), leaf(np.ones(2)))


def test_detach_stops_gradients():
    x = leaf(np.ones(2), True)
    assert not OPS["detach"](x).requires_grad
    assert OPS["identity"](x).requires_grad
