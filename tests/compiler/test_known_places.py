"""Known index arrays are slices and choices: few places, and one place of each row."""

import numpy as np
import pytest

import numba_grad as ng

RNG = np.random.default_rng(0)
ROWS, COLUMNS = 30, 5
X = RNG.normal(size=(ROWS, COLUMNS))
LABELS = RNG.integers(-COLUMNS, COLUMNS, ROWS)
STRESS = RNG.normal(size=(70, 3, 3))


def check(f, *arrays):
    """Values and gradients as they are operation by operation."""
    both = ng.value_and_grad(lambda *x: np.sum(abs(f(*x)) ** 2), tuple(range(len(arrays))))
    (value, slopes), (expected, expected_slopes) = ng.jit(both)(*arrays), both(*arrays)
    for x, y in zip([value, *slopes], [expected, *expected_slopes], strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-13, atol=1e-15)


FEW = {
    "trace": lambda s: np.trace(np.exp(s), axis1=1, axis2=2)[:, None, None] * s,
    "trace below the diagonal": lambda s: np.trace(np.exp(s), -1, axis1=2, axis2=1),
    "einsum": lambda s: np.einsum("nii->n", s * s),
    "Voigt's notation": lambda s: np.sin(s)[:, [0, 1, 2, 1, 0, 0], [0, 1, 2, 2, 2, 1]],
    "from the end": lambda s: np.sin(s)[:, [-1, 0], [0, -1]],
    "the same again": lambda s: np.exp(s)[:, [1, 1, 2, 1]] * np.arange(1.0, 5.0)[:, None],
    "a table of places": lambda s: np.exp(s)[:, [[0, 2], [1, 1]]],
    "rows against columns": lambda s: np.exp(s).T[np.ix_([0, 1, 2], [2, 0])],
    "first axis": lambda s: (s * s).T[[2, 0, 1], [1, 2, 0]],
    "diagonal": lambda s: np.diagonal(s * s, axis1=1, axis2=2),
}


@pytest.mark.thorough(but="Voigt's notation")
@pytest.mark.parametrize("name", FEW)
def test_few_places(name):
    check(FEW[name], STRESS)


def log_probabilities(x):
    return x - np.log(np.sum(np.exp(x), axis=-1, keepdims=True))


ONE_OF_EACH_ROW = {
    "index arrays": lambda x: log_probabilities(x)[np.arange(ROWS), LABELS],
    "what is given": lambda x: np.exp(x[np.arange(ROWS), LABELS]),
    "along an axis": lambda x: np.take_along_axis(log_probabilities(x), LABELS[:, None], axis=1),
    "classes first": lambda x: log_probabilities(x).T[LABELS, np.arange(ROWS)],
    "vectors": lambda x: np.stack([x, x * x], axis=2)[np.arange(ROWS), LABELS],
    "two places": lambda x: (x.reshape(10, 3, COLUMNS) ** 2)[np.arange(10), LABELS[:10] % 3, 2],
    "places of two axes": lambda x: (x.reshape(10, 3, COLUMNS) ** 2)[
        np.arange(10), LABELS[:10] % 3, LABELS[10:20]
    ],
    "several of each row": lambda x: np.exp(x)[np.arange(ROWS)[:, None], np.stack([LABELS] * 2, 1)],
    "not each row": lambda x: log_probabilities(x)[np.arange(ROWS - 1), LABELS[1:]],
    "backwards": lambda x: log_probabilities(x)[np.arange(ROWS)[::-1], LABELS],
    "many columns": lambda x: log_probabilities(x @ np.ones((COLUMNS, 40)))[
        np.arange(ROWS), LABELS + 20
    ],
}


@pytest.mark.thorough(but="index arrays")
@pytest.mark.parametrize("name", ONE_OF_EACH_ROW)
def test_one_place_of_each_row(name):
    check(ONE_OF_EACH_ROW[name], X)


def test_labels_that_are_arguments():
    def loss(x, labels):
        return -np.sum(log_probabilities(x)[np.arange(ROWS), labels])

    f = ng.jit(ng.value_and_grad(loss))
    for labels in (LABELS, LABELS[::-1].copy()):
        (value, slope), (expected, expected_slope) = (
            f(X, labels),
            ng.value_and_grad(loss)(X, labels),
        )
        np.testing.assert_allclose(value, expected.item(), rtol=1e-14)
        np.testing.assert_allclose(slope, expected_slope.numpy(), rtol=1e-13)
    wide = RNG.normal(size=(ROWS, 300))
    short = np.abs(LABELS).astype(np.uint8)
    np.testing.assert_allclose(
        f(wide, short)[1], ng.value_and_grad(loss)(wide, short)[1].numpy(), rtol=1e-13
    )
    # Also where the value, which reads at them, is not computed.
    linear = ng.jit(ng.grad(lambda x, labels: np.sum(x[np.arange(ROWS), labels] * 2.0)))
    for f in (linear, ng.jit(ng.grad(loss))):
        with pytest.raises(IndexError, match=f"index {COLUMNS} is out of bounds|out of range"):
            f(X, np.full(ROWS, COLUMNS))


def test_zeros_have_the_sign_that_they_have_by_index_arrays():
    def slope(x, g):
        return ng.grad(lambda x: np.sum(x[np.arange(ROWS), LABELS] * g))(x)

    g = np.where(np.arange(ROWS) % 2, -0.0, 1.0)
    found = np.asarray(ng.jit(slope)(X, g))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(np.asarray(slope(X, g))))


@pytest.mark.usefixtures("not_compiled")
@pytest.mark.parametrize(
    "f", [FEW["trace"], ONE_OF_EACH_ROW["index arrays"], ONE_OF_EACH_ROW["along an axis"]]
)
def test_they_fuse(f):
    x = np.ones((300, 3, 3)) if f is FEW["trace"] else X
    lowered = ng.jit(ng.grad(lambda x: np.sum(f(x) ** 2))).lower(x)
    assert len(lowered.kernels) == 1, [x.name for x in lowered.kernels]


@pytest.mark.usefixtures("not_compiled")
def test_indices_are_tested_before_the_vector_code():
    def loss(x, labels):
        return np.sum(np.take_along_axis(log_probabilities(x), labels[:, None], axis=1))

    [kernel] = ng.jit(ng.grad(loss)).lower(X, LABELS).kernels
    test = kernel.source.index("check_index(")
    assert kernel.source.rindex("keep_scalar()", 0, test) > 0
    assert "exp(" not in kernel.source[:test]
    assert "check_index(" not in kernel.source[kernel.source.index("exp(") :]
