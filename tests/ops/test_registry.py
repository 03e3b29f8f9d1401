"""Every registered primitive, found by walking the registry: a new record is tested at once.

Values against the NumPy reference, derivatives and their derivatives against central differences,
batching against a loop, and that records say what is true.
"""

import importlib.util

import numpy as np
import pytest

from numba_grad.compiler.evaluate import evaluate
from numba_grad.compiler.reference_engine import evaluate_with_numpy
from numba_grad.dtypes import computed_in, finfo, is_bfloat16
from numba_grad.errors import DTypeError, GradientError, ShapeError
from numba_grad.graph.node import OPS, leaf
from numba_grad.graph.types import DTYPES, as_dtype
from numba_grad.graph.walk import toposort
from numba_grad.ops import all_ops
from numba_grad.ops.families import elementwise, literal
from numba_grad.ops.samples import draw_operands
from numba_grad.transforms.jvp import tangents
from numba_grad.transforms.vjp import cotangents, reached

TESTED = [op for op in all_ops().values() if op.example is not None]
DIFFERENTIABLE = [op for op in TESTED if op.vjp is not None]
ELEMENTWISE = [op for op in TESTED if op.family == "elementwise"]
BY_ELEMENT = [op for op in TESTED if op.family in ("elementwise", "reduction")]
STEP = 1e-6  # of central differences: the best for first derivatives in float64
BFLOAT16 = [as_dtype("bfloat16")] if importlib.util.find_spec("ml_dtypes") else []


def examples(op):
    return op.example(np.random.default_rng(0))


def dtypes_of(op):
    known = list(dict.fromkeys(np.dtype(c) for c in op.dtypes))
    return known + (BFLOAT16 if np.float16 in known else [])


def reference_of(op, arrays, params):
    """The value of the reference; in bfloat16, which NumPy has not, computed in float32."""
    if not any(is_bfloat16(a.dtype) for a in arrays):
        return np.asarray(op.reference(*arrays, **params))
    value = np.asarray(op.reference(*[a.astype(computed_in(a.dtype)) for a in arrays], **params))
    is_rounded = value.dtype == np.float32 and "dtype" not in params
    return value.astype(arrays[-1].dtype) if is_rounded else value


def is_inexact(array):
    return array.dtype.kind in "fc"


def is_double(node):
    return node.dtype in (np.float64, np.complex128)


def random_like(rng, node):
    result = rng.standard_normal(node.shape)
    if node.dtype.kind == "c":
        result = result + 1j * rng.standard_normal(node.shape)
    return np.asarray(result).astype(node.dtype)


def direction_for(op, rng, k, x):
    """Where to vary input k: a Hermitian matrix so that it stays one."""
    direction = random_like(rng, x)
    if k == 0 and op.extras.get("domain") == "hermitian" and is_hermitian(x.value):
        return direction + direction.conj().mT
    return direction


def is_hermitian(array):
    return np.array_equal(array, array.conj().mT)


def stack_of(op, array, size):
    """Different arrays of one shape. Elsewhere in its domain is what is scaled; most have none."""
    if "domain" in op.extras:
        return np.stack([array * (k + 1) for k in range(size)])
    return np.stack([np.roll(array, k) for k in range(size)])


def inputs_of(arrays, requires_grad=True):
    return [leaf(np.array(a, order="C"), requires_grad and is_inexact(a)) for a in arrays]


def variables_of(op, arrays):
    """As `inputs_of`, but those by which the op refuses to be differentiated require no grad."""
    refused = {*op.extras.get("no_derivative", ()), *op.extras.get("constants", ())}
    if not refused:
        return inputs_of(arrays)
    return [
        *(
            leaf(np.array(a, order="C"), name not in refused)
            for name, a in zip(op.input_names, arrays, strict=True)
        )
    ]


def inner(a, b):
    """The real inner product that complex cotangents are cotangents for."""
    return np.vdot(a, b).real


def pull_back(roots, seeds, inputs):
    """A cotangent node for each input that requires grad, None where none arrived."""
    found = cotangents(roots, seeds, reached(roots))
    return [found.get(x) for x in inputs]


def moved(arrays, directions, step):
    return [
        a if d is None else np.asarray(a + step * d)
        for a, d in zip(arrays, directions, strict=True)
    ]


def central_difference(function, arrays, directions):
    ahead = function(moved(arrays, directions, STEP))
    behind = function(moved(arrays, directions, -STEP))
    return (ahead - behind) / (2 * STEP)


def gradients_at(op, params, arrays, g, requires_grad=True):
    """The inputs, the cotangent of the result, and the cotangents of the differentiable inputs."""
    inputs = variables_of(op, arrays)
    out = op(*inputs, **params)
    g_node = leaf(g, requires_grad)
    gradients = pull_back([out], [g_node], inputs)
    return inputs, g_node, gradients


def differentiable_examples(op):
    """Those in double precision with a floating result: differences say nothing of the others."""
    for number, (arrays, params) in enumerate(examples(op)):
        inputs = variables_of(op, arrays)
        out = op(*inputs, **params)
        if out.requires_grad and all(is_double(x) for x in (out, *inputs) if is_inexact(x)):
            yield number, arrays, params, out


@pytest.mark.thorough(
    but="reference|native|fused-(multiply|sin|where|sum|matmul|gather|cumsum|inv)$"
)
@pytest.mark.parametrize("op", TESTED, ids=lambda op: op.name)
def test_value_is_the_reference_of_the_recorded_type(op, engine):
    nodes = []
    for arrays, params in examples(op):
        nodes.append(op(*inputs_of(arrays), **params))
    evaluate(nodes)
    for node, (arrays, params) in zip(nodes, examples(op), strict=True):
        with np.errstate(all="ignore"):
            expected = np.asarray(op.reference(*arrays, **params))
        assert (node.value.shape, node.value.dtype) == (node.shape, node.dtype)
        assert node.value.flags.c_contiguous
        assert (expected.shape, expected.dtype) == (node.shape, node.dtype)
        tolerance = tolerance_of(node.dtype)
        np.testing.assert_allclose(node.value, expected, rtol=tolerance, atol=tolerance)


def tolerance_of(dtype):
    """Some 20 units in the last place: sums are taken in another order than NumPy's. One of
    bfloat16, for it is rounded once."""
    if dtype.kind in "biu":
        return 0
    return float(finfo(dtype).eps) * (1 if is_bfloat16(dtype) else 20)


def comparable(array):
    return array.astype(computed_in(array.dtype))


@pytest.mark.thorough(but="reference|(native|fused)-(add|divide|maximum|exp|where|sum|argmax)$")
@pytest.mark.parametrize("op", BY_ELEMENT, ids=lambda op: op.name)
def test_every_dtype_gives_the_result_of_numpy(op, engine):
    rng = np.random.default_rng(1)
    _, params = examples(op)[0]
    shape = (3, 5, 2) if op.family == "reduction" else (13,)
    cases = []
    for dtype in dtypes_of(op):
        arrays = draw_operands(rng, [shape] * len(op.samples), op.samples, dtype)
        cases.append((dtype, arrays, op(*inputs_of(arrays), **params)))
    evaluate([node for _, _, node in cases])
    for dtype, arrays, node in cases:
        expected = reference_of(op, arrays, params)
        assert node.value.dtype == expected.dtype, dtype
        values = comparable(node.value), comparable(expected)
        tolerance = tolerance_of(node.dtype)
        np.testing.assert_allclose(*values, rtol=tolerance, atol=tolerance, err_msg=str(dtype))


@pytest.mark.thorough(
    but="reference|(native|fused)-(multiply|divide|sin|power|maximum|sum|prod|matmul|gather|slice|pad|cumsum|inv|fft)$"
)
@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
def test_vjp_matches_central_differences(op, engine):
    rng = np.random.default_rng(2)
    cases = []
    for number, arrays, params, out in differentiable_examples(op):
        g = random_like(rng, out)
        inputs, _, gradients = gradients_at(op, params, arrays, g)
        cases.append((number, arrays, params, g, inputs, gradients))
    evaluate([gx for case in cases for gx in case[-1] if gx is not None])

    for number, arrays, params, g, inputs, gradients in cases:

        def loss(at, g=g, params=params):
            (value,) = evaluate_with_numpy([op(*inputs_of(at), **params)])
            return inner(g, value)

        for k, (x, gx) in enumerate(zip(inputs, gradients, strict=True)):
            if not x.requires_grad:
                assert gx is None
                continue
            assert gx is not None, f"example {number}: no rule for input {k}"
            assert gx.type == x.type
            direction = direction_for(op, rng, k, x)
            directions = [direction if j == k else None for j in range(len(inputs))]
            np.testing.assert_allclose(
                inner(gx.value, direction),
                central_difference(loss, arrays, directions),
                rtol=1e-6,
                atol=1e-6,
                err_msg=f"example {number}, input {k}",
            )


@pytest.mark.thorough(every=6)
@pytest.mark.parametrize(
    "op", [op for op in DIFFERENTIABLE if op.family == "library"], ids=lambda op: op.name
)
def test_gradients_are_linear_in_what_arrives(op):
    """Also where that is large: the digits of operands do not drown in it."""
    rng = np.random.default_rng(7)
    cases = []
    for number, arrays, params, out in differentiable_examples(op):
        g = random_like(rng, out)
        both = (g, np.asarray(g * 2.0**40))
        own = [gradients_at(op, params, arrays, of_size)[2] for of_size in both]
        cases.append((number, list(zip(*own, strict=True))))
    evaluate([gx for _, pairs in cases for pair in pairs for gx in pair if gx is not None])
    for number, pairs in cases:
        for small, large in pairs:
            if small is not None:
                np.testing.assert_allclose(
                    large.value / 2.0**40,
                    small.value,
                    rtol=1e-9,
                    atol=1e-12 * np.abs(small.value).max(initial=0),
                    err_msg=f"example {number}",
                )


@pytest.mark.thorough(but="reference|native-(multiply|power|sum|gather)$", every=4)
@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
def test_vjp_of_vjp_matches_central_differences(op, engine):
    rng = np.random.default_rng(3)
    cases = []
    for number, arrays, params, out in differentiable_examples(op):
        g = random_like(rng, out)
        inputs, g_node, gradients = gradients_at(op, params, arrays, g)
        roots = [gx for gx in gradients if gx is not None]
        # A rule with a result that depends on nothing: the zeros of step functions.
        if not any(root.requires_grad for root in roots):
            continue
        seeds = [random_like(rng, root) for root in roots]
        variables = [*inputs, g_node]
        seconds = pull_back(roots, [leaf(seed) for seed in seeds], variables)
        cases.append((number, arrays, params, g, seeds, variables, seconds))
    evaluate([s for case in cases for s in case[-1] if s is not None])

    for number, arrays, params, g, seeds, variables, seconds in cases:

        def loss(at, params=params, seeds=seeds):
            _, _, gradients = gradients_at(op, params, at[:-1], at[-1])
            values = evaluate_with_numpy([gx for gx in gradients if gx is not None])
            return sum(inner(seed, value) for seed, value in zip(seeds, values, strict=True))

        for k, (x, second) in enumerate(zip(variables, seconds, strict=True)):
            if not x.requires_grad:
                continue
            direction = direction_for(op, rng, k, x)
            directions = [direction if j == k else None for j in range(len(variables))]
            np.testing.assert_allclose(
                0.0 if second is None else inner(second.value, direction),
                central_difference(loss, [*arrays, g], directions),
                rtol=2e-6,
                atol=2e-6,
                err_msg=f"example {number}, variable {k}",
            )


@pytest.mark.parametrize("op", [op for op in TESTED if op.input_names], ids=lambda op: op.name)
def test_batching_matches_a_loop(op):
    """On the reference engine only: batching rewrites graphs, into the same operations."""
    size = 3
    cases = []
    for number, (arrays, params) in enumerate(examples(op)):
        for choice in range(1, 1 << len(arrays)):
            is_batched = [bool(choice >> k & 1) for k in range(len(arrays))]
            stacks = [
                stack_of(op, a, size) if batched else a
                for a, batched in zip(arrays, is_batched, strict=True)
            ]
            result = op.batch(is_batched, *inputs_of(stacks), **params)
            singles = [
                [s[k] if batched else s for s, batched in zip(stacks, is_batched, strict=True)]
                for k in range(size)
            ]
            cases.append((number, is_batched, params, result, singles))
    values = evaluate_with_numpy([case[3] for case in cases])
    for (number, is_batched, params, result, singles), value in zip(cases, values, strict=True):
        loop = evaluate_with_numpy([op(*inputs_of(one), **params) for one in singles])
        tolerance = tolerance_of(result.dtype)
        np.testing.assert_allclose(
            value,
            np.stack(loop),
            rtol=tolerance,
            atol=tolerance,
            err_msg=f"example {number}, batched {is_batched}",
        )


def test_a_missing_derivative_has_a_reason():
    for op in TESTED:
        if op.vjp is None and op.input_names and not op.extras.get("no_vjp"):
            results = [op(*inputs_of(arrays), **params) for arrays, params in examples(op)]
            assert not any(is_inexact(node) for node in results), op.name


REFUSING = [(op, name) for op in TESTED for name in op.extras.get("no_derivative", {})]


@pytest.mark.parametrize(("op", "name"), REFUSING, ids=lambda x: getattr(x, "name", x))
def test_a_derivative_that_is_missing_for_one_input_is_refused(op, name):
    arrays, params = examples(op)[0]
    out = op(*inputs_of(arrays), **params)
    k = op.input_names.index(name)
    with pytest.raises(GradientError, match=rf"{op.name}: there is no derivative by {name}: \w"):
        op.vjp(k, leaf(np.ones(out.shape)), out, *out.inputs, **params)
    own = [leaf(np.ones_like(a)) if j == k else None for j, a in enumerate(arrays)]
    with pytest.raises(GradientError, match=rf"{op.name}: there is no derivative by {name}: \w"):
        op.jvp(own, out, *out.inputs, **params)


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("op", BY_ELEMENT, ids=lambda op: op.name)
def test_saves_is_what_the_rules_read(op):
    """A second backward pass raises only where values were saved: no record may claim more."""
    read = set()
    for dtype in [d for d in dtypes_of(op) if d.kind in "fc"]:
        rng = np.random.default_rng(4)
        for arrays, params in examples(op):
            shapes = [a.shape for a in arrays]
            inputs = variables_of(op, draw_operands(rng, shapes, op.samples, dtype))
            out = op(*inputs, **params)
            if not out.requires_grad:
                continue
            g = leaf(random_like(rng, out))
            for k, x in enumerate(inputs):
                if x.requires_grad:
                    gx = op.vjp(k, g, out, *inputs, **params)
                    below = set(toposort([gx], stop=lambda node, out=out: node is out))
                    read |= {"out"} if out in below else set()
                    read |= {"inputs"} if below & set(inputs) else set()
    assert read == set(op.saves)


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_elementwise_errors_name_the_arguments(op):
    arrays, params = examples(op)[0]
    refused = [d for d in (*DTYPES, *BFLOAT16) if d not in dtypes_of(op)]
    for dtype in refused:
        with pytest.raises(DTypeError, match=rf"(?s){op.name}: .*{dtype}"):
            op(*(leaf(np.zeros(3, dtype)) for _ in arrays), **params)
    if len(arrays) > 1:
        shapes = [(2,)] * (len(arrays) - 1) + [(3,)]
        names = ".*".join(op.input_names)
        with pytest.raises(ShapeError, match=rf"(?s){op.name}: shapes do not broadcast.*{names}"):
            op(*(leaf(a.ravel()[: shape[0]]) for a, shape in zip(arrays, shapes, strict=True)))


def test_literals_are_keyed_by_bytes(engine):
    values = [0.0, -0.0, np.nan]
    nodes = [literal(value, np.dtype(np.float64)) for value in values]
    evaluate(nodes)
    for value, node in zip(values, nodes, strict=True):
        assert node.value.tobytes() == np.float64(value).tobytes()


def test_dtype_in_an_expression_is_no_input(engine):
    op = elementwise("add_half_", expression="{x} + {dtype}(0.5)", reference=lambda x: x + 0.5)
    try:
        assert op.input_names == ("x",)
        result = op(leaf(np.arange(3.0)))
        evaluate([result])
        np.testing.assert_array_equal(result.value, np.arange(3.0) + 0.5)
    finally:
        del OPS[op.name]


# Tangents.

TANGENTS_BY_TRANSPOSITION = {
    "cholesky",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "lstsq",
    "lu",
    "qr",
    "svd",
    "svdvals",
}


def test_these_operations_have_their_tangents_from_their_vjp():
    without = {op.name for op in DIFFERENTIABLE if op.jvp is None}
    assert without == TANGENTS_BY_TRANSPOSITION


def tangents_at(op, params, arrays, directions):
    """The inputs, the result and its tangent, in directions given for the inputs."""
    inputs = variables_of(op, arrays)
    out = op(*inputs, **params)
    given = {x: leaf(d) for x, d in zip(inputs, directions, strict=True) if d is not None}
    (tangent,) = tangents([out], given)
    return inputs, out, tangent


@pytest.mark.thorough(
    but="reference|(native|fused)-(multiply|divide|sin|power|maximum|sum|prod|matmul|gather|slice|pad|cumsum|inv|fft)$"
)
@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
def test_tangent_matches_central_differences(op, engine):
    """In the direction of each input alone, and of all of them."""
    rng = np.random.default_rng(5)
    cases = []
    for number, arrays, params, _ in differentiable_examples(op):
        inputs = variables_of(op, arrays)
        whole = [
            direction_for(op, rng, k, x) if x.requires_grad else None for k, x in enumerate(inputs)
        ]
        singles = [
            [d if j == k else None for j in range(len(whole))]
            for k, d in enumerate(whole)
            if d is not None and len(whole) > 1
        ]
        for directions in (whole, *singles):
            _, out, tangent = tangents_at(op, params, arrays, directions)
            cases.append((number, arrays, params, directions, out, tangent))
    evaluate([case[-1] for case in cases if case[-1] is not None])

    for number, arrays, params, directions, out, tangent in cases:

        def value(at, params=params):
            return evaluate_with_numpy([op(*inputs_of(at), **params)])[0]

        if tangent is not None:
            assert tangent.type is out.type
        np.testing.assert_allclose(
            np.zeros(out.shape) if tangent is None else tangent.value,
            central_difference(value, arrays, directions),
            rtol=1e-6,
            atol=2e-6,
            err_msg=f"example {number}, directions {[d is not None for d in directions]}",
        )


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
def test_tangents_and_cotangents_are_adjoint(op):
    """<u, J v> = <J^T u, v>, in every dtype and of every example, at kinks and multiple values."""
    rng = np.random.default_rng(6)
    cases = []
    for number, (arrays, params) in enumerate(examples(op)):
        for dtype in [None, *(d for d in dtypes_of(op) if d in ("f4", "f8", "c8", "c16"))]:
            if dtype in ("f4", "f8") and any(np.iscomplexobj(a) for a in arrays):
                continue
            own = arrays if dtype is None else [cast_where_inexact(a, dtype) for a in arrays]
            try:
                inputs = variables_of(op, own)
                out = op(*inputs, **params)
            except (DTypeError, ShapeError):
                continue
            if not out.requires_grad:
                continue
            directions = [random_like(rng, x) if x.requires_grad else None for x in inputs]
            g = random_like(rng, out)
            _, _, gradients = gradients_at(op, params, own, g)
            _, _, tangent = tangents_at(op, params, own, directions)
            cases.append((number, dtype, out, directions, g, gradients, tangent))
    roots = [x for case in cases for x in (*case[-2], case[-1]) if x is not None]
    with np.errstate(all="ignore"):
        values = dict(zip(roots, evaluate_with_numpy(roots), strict=True))
    for number, dtype, out, directions, g, gradients, tangent in cases:
        assert tangent is None or tangent.type is out.type
        forward = 0.0 if tangent is None else inner(values[tangent], g)
        pairs = [
            (values[gx], d)
            for gx, d in zip(gradients, directions, strict=True)
            if gx is not None and d is not None
        ]
        reverse = sum(inner(gx, d) for gx, d in pairs)
        scale = sum(np.linalg.norm(gx.ravel()) * np.linalg.norm(d.ravel()) for gx, d in pairs)
        coarsest = max(finfo(x.dtype).eps for x in (out, *out.inputs) if is_inexact(x))
        tolerance = 1000 * float(coarsest) * max(1.0, scale)
        message = f"example {number} in {dtype}"
        np.testing.assert_allclose(forward, reverse, rtol=0, atol=tolerance, err_msg=message)


def cast_where_inexact(array, dtype):
    return array.astype(dtype) if is_inexact(array) else array


def test_a_tangent_of_zero_is_not_computed_with():
    for op in DIFFERENTIABLE:
        for arrays, params in examples(op)[:2]:
            inputs = variables_of(op, arrays)
            out = op(*inputs, **params)
            assert tangents([out], dict.fromkeys(inputs)) == [None], op.name
            assert tangents([out], {}) == [None], op.name
