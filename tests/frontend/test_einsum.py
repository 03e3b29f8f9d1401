"""`einsum` and the other products: against NumPy, derivatives, torch's gradients, refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numba_grad as ng
from numba_grad.config import configure
from numba_grad.testing import check_gradients
from tests.frontend.agreement import check_jit_and_vmap
from tests.processes import run_python

RNG = np.random.default_rng(11)
X = RNG.standard_normal((3, 4))
Y = RNG.standard_normal((4, 2))
V = RNG.standard_normal(4)
T = RNG.standard_normal((2, 3, 4))
Z = X + 1j * RNG.standard_normal((3, 4))
W = V + 1j * RNG.standard_normal(4)
SQUARE = RNG.standard_normal((3, 3, 3))
quick = settings(max_examples=3 * settings.default.max_examples // 2)


def check_same(ours, expected, tolerance=1e-12):
    expected = np.asarray(expected)
    assert isinstance(ours, ng.Tensor)
    assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(ours.detach().numpy(), expected, rtol=tolerance, atol=tolerance)


@st.composite
def contractions(draw):
    """Subscripts with repeated letters, "..." and sizes of 1, and arrays for them."""
    sizes = {letter: draw(st.integers(1, 3)) for letter in "abcd"}
    dots = draw(st.lists(st.integers(1, 3), max_size=2))
    terms, arrays = [], []
    for number in range(draw(st.integers(1, 5))):
        term = "".join(draw(st.lists(st.sampled_from("abcd"), max_size=3)))
        own = dots[draw(st.integers(0, len(dots))) :]
        at = draw(st.integers(0, len(term)))
        has_dots = bool(own) or (number > 0 and draw(st.booleans()) and bool(dots))
        shape = [sizes[c] for c in term]
        if has_dots:
            shape[at:at] = [draw(st.sampled_from((1, n))) for n in own]
            term = term[:at] + "..." + term[at:]
        terms.append(term)
        arrays.append(np.random.default_rng(number).integers(-3, 4, shape).astype(float))
    text = ",".join(terms)
    if draw(st.booleans()):
        letters = sorted(set(text) - set(",."))
        kept = draw(st.permutations(letters))[: draw(st.integers(0, len(letters)))]
        at = draw(st.integers(0, len(kept)))
        result = "".join(kept)
        if "..." in text:
            result = result[:at] + "..." + result[at:]
        text += "->" + result
    return text, arrays


@quick
@given(contractions(), st.sampled_from([True, False, "greedy", "optimal"]))
def test_generated_contractions(case, optimize):
    text, arrays = case
    expected = np.einsum(text, *arrays)
    with configure(engine="reference"):
        check_same(ng.einsum(text, *arrays, optimize=optimize), expected)
        lists = in_integers(text, arrays)
        check_same(ng.einsum(*lists, optimize=optimize), np.einsum(*lists))
        tensors = [ng.tensor(x, requires_grad=True) for x in arrays]
        # Linear in each factor: the gradient times the factor is the sum itself.
        total = ng.einsum(text, *tensors, optimize=optimize).sum()
        for x, g in zip(arrays, ng.autograd.grad(total, tensors), strict=True):
            assert g.shape == x.shape
            np.testing.assert_allclose((g.numpy() * x).sum(), expected.sum(), atol=1e-9)


def in_integers(text, arrays):
    """The arguments of the same contraction with lists in place of letters."""
    given, arrow, result = text.partition("->")

    def numbers(term):
        letters = term.replace("...", "*")
        return [... if c == "*" else ord(c) - ord("a") for c in letters]

    pairs = [x for a, t in zip(arrays, given.split(","), strict=True) for x in (a, numbers(t))]
    return [*pairs, numbers(result)] if arrow else pairs


CALLS = [
    (lambda m, x: m.einsum("iii->i", x), SQUARE),
    (lambda m, x: m.einsum("iii", x), SQUARE),
    (lambda m, x: m.einsum("iij,ikk,lll->jkl", x, x, x), SQUARE),
    (lambda m, x: m.einsum("ij,j", x, W), Z),
    (lambda m, x: m.einsum("ij,ij->i", x > 0, x < 0.5), X),
    (lambda m, x: m.einsum("ij,jk", x, np.int8(Y * 3), dtype=np.int32), np.int8(X * 3)),
    (lambda m, x: m.einsum("i,i", x, x, dtype=float), np.float32(V)),
    (lambda m, x: m.einsum(x, [0, 1], Y, [1, 2]), X),
    (lambda m, x: m.einsum(x, [..., 0], [0, ...]), T),
    (lambda m, x: m.einsum("ij,jk,k,i->", x, Y, Y[0], X[:, 0], optimize=("greedy", 100)), X),
    (lambda m, x: m.einsum("ij,jk,kl->il", x, Y, Y.T, optimize=["einsum_path", (1, 2), (0, 1)]), X),
    (lambda m, x: m.matvec(x, V), T),
    (lambda m, x: m.matvec(x, W), Z),
    (lambda m, x: m.vecmat(x, Y), V),
    (lambda m, x: m.vecmat(x, np.stack([Y, -Y])), W),
    (lambda m, x: m.vdot(x, 2j * Z), Z),
    (lambda m, x: m.vecdot(x, W), Z),
    (lambda m, x: m.inner(x, W), Z),
    (lambda m, x: m.outer(x, W), W),
    (lambda m, x: m.tensordot(x, X, axes=[[1, 2], [0, 1]]), T),
    (lambda m, x: m.kron(x, Y), X),
    (lambda m, x: m.cross(x[:, :3], x[:, 1:]), X),
    (lambda m, x: m.dot(x, T.swapaxes(1, 2)), X),
]


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("number", range(len(CALLS)))
def test_products_are_those_of_numpy(number):
    call, x = CALLS[number]
    expected = call(np, x)
    check_same(call(ng, ng.tensor(x)), expected)
    check_same(call(np, ng.tensor(x)), expected)


DIFFERENTIABLE = {
    "a triple diagonal": (lambda x: ng.einsum("iii->i", x), SQUARE),
    "three factors": (lambda x, y, v: ng.einsum("ij,jk,j->ki", x, y, v), X, Y, V),
    "four factors": (lambda x, y: ng.einsum("ij,jk,lk,ml->im", x, y, y, x), X, Y),
    "complex": (lambda x, y: ng.einsum("ij,j,kj->ik", x, y, x), Z, W),
    "dots": (lambda x, v: ng.einsum("...ij,...j,j->i...", x, v, v), T, V),
    "matvec": (lambda x, v: ng.matvec(x, v), T, V),
    "complex vecmat": (lambda v, x: ng.vecmat(v, x.mT), W, Z),
    "complex vdot": (lambda x, y: ng.vdot(x, y * x), Z, Z[::-1]),
    "complex vecdot": (lambda x, y: ng.vecdot(x, y), Z, W),
}


@pytest.mark.thorough(every=4)
@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_to_second_order(name):
    f, *arrays = DIFFERENTIABLE[name]
    check_gradients(lambda *args: f(*args) ** 2, *arrays, elements=5)


@pytest.mark.parametrize("name", ["four factors", "complex", "dots", "complex vecmat"])
def test_jit_and_vmap(name):
    check_jit_and_vmap(*DIFFERENTIABLE[name], rtol=1e-12)


def test_gradients_are_those_of_torch():
    torch = pytest.importorskip("torch")
    pairs = [
        (lambda m, x, w: m.einsum("ij,j,kj->ik", x, w, x), Z, W),
        (lambda m, x, w: m.vdot(x[0], w), Z, W),
        (lambda m, x, w: (m.linalg if m is torch else m).vecdot(x, w), Z, W),
        (lambda m, x, w: m.tensordot(x, w, 1), Z, W),
    ]
    for f, *arrays in pairs:
        ours = [ng.tensor(x, requires_grad=True) for x in arrays]
        theirs = [torch.tensor(x, requires_grad=True) for x in arrays]
        (f(ng, *ours) ** 2).sum().real.backward()
        (f(torch, *theirs) ** 2).sum().real.backward()
        for x, y in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(x.grad, y.grad.resolve_conj(), rtol=1e-11)


def test_a_path_is_found_once_and_may_be_given():
    arrays = [RNG.standard_normal(s) for s in ((2, 50), (50, 3), (3, 60), (60, 2))]
    text = "ab,bc,cd,de->ae"
    path, cost = ng.einsum_path(text, *arrays)
    assert path[0] == "einsum_path" and len(path) == 4 and "FLOP" in cost
    check_same(ng.einsum(text, *arrays, optimize=path), np.einsum(text, *arrays), 1e-10)
    assert ng.einsum_path(text, *arrays, optimize=False)[0][1:] == [(0, 1), (0, 2), (0, 1)]
    assert np.einsum_path(text, *map(ng.tensor, arrays))[0] == path
    assert ng.einsum_path("ij->ji", X)[0] == ["einsum_path", (0,)]


def test_opt_einsum_is_imported_for_more_than_four_factors_only():
    code = (
        "import sys, numpy as np, numba_grad as ng\n"
        "ng.einsum('ij,jk,kl,lm', *[np.eye(2)] * 4)\n"
        "assert 'opt_einsum' not in sys.modules\n"
        "ng.einsum('ij,jk,kl,lm,mn', *[np.eye(2)] * 5)\n"
        "assert 'opt_einsum' in sys.modules"
    )
    run_python(code)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: ng.einsum("ij,jk", x), ValueError, "as many terms as operands"),
        (lambda x: ng.einsum("ijk", x), ValueError, "'ijk' does not have a letter for each axis"),
        (lambda x: ng.einsum("i", x), ValueError, "'i' does not have a letter for each axis"),
        (lambda x: ng.einsum("i1", x), ValueError, "not a term: 'i1'"),
        (lambda x: ng.einsum("ij->ii", x), ValueError, "must be different and occur"),
        (lambda x: ng.einsum("ij->k", x), ValueError, "must be different and occur"),
        (lambda x: ng.einsum("...j->j", x), ValueError, "the result needs '...'"),
        (lambda x: ng.einsum("ij,ij", x, x.T), ValueError, r"different sizes of 'i': \[3, 4\]"),
        (lambda x: ng.einsum("...,...", x, x.T), ValueError, r"different sizes of '...'"),
        (lambda x: ng.einsum(x), TypeError, "einsum: subscripts must be a string"),
        (lambda x: ng.einsum(x, x), TypeError, "each array needs a list of integers"),
        (lambda x: ng.einsum(x, [0, 99]), ValueError, "not labels of axes"),
        (lambda x: ng.einsum("ij,ij,ij", x, x, x, optimize="best"), ValueError, "no method 'best'"),
        (lambda x: ng.einsum("ij,ij,ij", x, x, x, optimize=[(0, 3)]), ValueError, "not a path"),
        (lambda x: np.einsum("ij", x, out=np.zeros(3)), TypeError, "out"),
        (lambda x: ng.matvec(x, x.T), ValueError, r"matvec: shapes do not fit(.|\n)*x2 : float64"),
        (lambda x: ng.vecmat(x, x), ValueError, "vecmat: shapes do not fit"),
        (lambda x: ng.matmul(x, x), ValueError, r"matmul: shapes do not fit(.|\n)*x1 @ x2\.mT"),
        (lambda x: ng.tensordot(x, x, 1), ValueError, "the axes to sum over do not fit"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(ng.tensor(X))
