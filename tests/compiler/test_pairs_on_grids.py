"""Pairs by index arrays are computed as matrices; where that cannot be, as they are."""

import numpy as np
import pytest

import numba_grad as ng

COUNT = 20


def points(*shape, dtype=np.float64):
    return np.random.default_rng(0).normal(size=shape or (COUNT, 3)).astype(dtype)


UPPER = np.triu_indices(COUNT, 1)
OTHERS = np.nonzero(~np.eye(COUNT, dtype=bool))
ALL = tuple(np.indices((COUNT, COUNT)).reshape(2, -1))
ENUMERATIONS = {
    "strict upper": UPPER,
    "upper": np.triu_indices(COUNT),
    "strict lower": np.tril_indices(COUNT, -1),
    "lower": np.tril_indices(COUNT),
    "off-diagonal": OTHERS,
    "all": ALL,
    "columns first": UPPER[::-1],
    "without its ends": tuple(index[1:-2] for index in OTHERS),
    "short integers": tuple(index.astype(np.int32) for index in UPPER),
}


def arrays_in(results):
    if not isinstance(results, tuple):
        return [results]
    return [x for result in results for x in arrays_in(result)]


def check(f, *arrays, rtol=1e-9):
    """What a compiled function gives is what it gives operation by operation."""
    got, expected = ng.jit(f)(*arrays), f(*arrays)
    for x, y in zip(arrays_in(got), arrays_in(expected), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * np.abs(y).max(initial=0.0))


def by_difference(x, i, j):
    d = x[i] - x[j]
    return np.sum(d * d, axis=1)


def by_columns(x, i, j):
    d = x.T[:, i] - x.T[:, j]
    return np.sum(d**2, axis=0)


def by_components(x, i, j):
    return sum((x[i, k] - x[j, k]) ** 2 for k in range(x.shape[1]))


def by_take(x, i, j):
    d = np.take(x, i, axis=0) - np.take(x, j, axis=0)
    return np.einsum("ij,ij->i", d, d)


def by_matrix(x, i, j):
    d = x[:, None] - x
    return np.sum(d * d, axis=-1)[i, j]


def by_joined(x, i, j):
    d = np.concatenate([x[i], -x[j]], axis=1)
    return np.sum((d[:, :3] + d[:, 3:]) ** 2, axis=1)


WAYS = [by_difference, by_columns, by_components, by_take, by_matrix, by_joined]


@pytest.fixture
def taken(monkeypatch):
    """Of each graph that has index arrays of pairs: whether it was computed as matrices."""
    from numba_grad.compiler.passes import pairs_on_grids

    found = []
    original = pairs_on_grids.pairs_on_grids

    def noting(outputs, known):
        result = original(outputs, known)
        found.append(result is not outputs)
        return result

    monkeypatch.setattr(pairs_on_grids, "pairs_on_grids", noting)
    return found


@pytest.mark.parametrize("kind", ENUMERATIONS)
@pytest.mark.parametrize("way", WAYS)
def test_values_and_gradients(way, kind, taken):
    i, j = ENUMERATIONS[kind]
    check(ng.value_and_grad(lambda x: np.sum(np.exp(-way(x, i, j)))), points())
    assert taken == [True]


@pytest.mark.parametrize("kind", ["strict upper", "off-diagonal", "strict lower"])
@pytest.mark.parametrize("way", WAYS)
def test_what_the_diagonal_comes_to_is_in_no_result(way, kind, taken):
    i, j = ENUMERATIONS[kind]
    check(ng.value_and_grad(lambda x: np.sum(1 / way(x, i, j) ** 2)), points())
    check(ng.value_and_grad(lambda x: np.mean(np.log(way(x, i, j)))), points())
    assert taken == [True, True]


@pytest.mark.parametrize("kind", ENUMERATIONS)
def test_interactions_that_are_not_symmetric(kind):
    i, j = ENUMERATIONS[kind]

    def energy(x, charges):
        return np.sum(charges[i] * np.exp(-by_difference(x, i, j)) * np.sin(x[j, 0]))

    check(ng.value_and_grad(energy, (0, 1)), points(), points(COUNT))


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_dtypes(dtype, taken):
    i, j = UPPER
    rtol = 1e-4 if dtype == np.float32 else 1e-9
    check(
        ng.value_and_grad(lambda x: np.sum(np.exp(-by_difference(x, i, j))).real),
        points(dtype=dtype),
        rtol=rtol,
    )
    assert taken == [True]


def test_second_derivatives(taken):
    i, j = OTHERS
    energy = ng.grad(lambda x: np.sum(1 / (1 + by_difference(x, i, j))))
    check(ng.grad(lambda x: np.sum(energy(x) ** 2)), points())
    check(lambda x: ng.jvp(energy, (x,), (np.cos(x),)), points())
    assert taken == [True, True]


def test_gradients_of_a_compiled_function_are_those_of_pairs():
    # Its derivative is taken of what was recorded: of a matrix it would be 0 times infinity.
    i, j = UPPER
    f = ng.jit(lambda x: np.sum(1 / by_difference(x, i, j)))
    got = ng.grad(f)(points())
    np.testing.assert_allclose(got, ng.grad(lambda x: np.sum(1 / by_difference(x, i, j)))(points()))


def test_forces_that_are_added_and_matrices_that_are_filled(taken):
    i, j = UPPER

    def forces(x):
        f = (x[i] - x[j]) / by_difference(x, i, j)[:, None]
        total = ng.zeros((COUNT, 3))
        np.add.at(total, i, f)
        np.subtract.at(total, j, f)
        return total

    def filled(x):
        matrix = np.eye(COUNT) * ng.asarray(1.0)
        matrix[i, j] = np.exp(-by_difference(x, i, j))
        return matrix

    check(forces, points())
    check(ng.value_and_grad(lambda x: np.sum(forces(x) ** 2)), points())
    check(ng.value_and_grad(lambda x: np.sum(filled(x) ** 2)), points())
    assert taken[:2] == [True, True]


def test_pairs_of_two_sets(taken):
    x, y = points(12, 2), points(9, 2)
    i, j = np.repeat(np.arange(12), 9), np.tile(np.arange(9), 12)
    check(
        ng.value_and_grad(lambda x, y: np.sum(np.exp(-np.sum((x[i] - y[j]) ** 2, 1))), (0, 1)), x, y
    )
    assert taken == [True]


def test_two_loops(taken):
    def energy(x):
        total = 0.0
        for i in range(COUNT):
            for j in range(i):
                total = total + 1 / np.sum((x[i] - x[j]) ** 2)
        return total

    check(ng.value_and_grad(energy), points())
    assert taken == [True]


@pytest.mark.parametrize(
    "f",
    [
        lambda x, i, j: by_difference(x, i, j),  # all of them are wanted
        lambda x, i, j: np.max(by_difference(x, i, j)),
        lambda x, i, j: np.sum(np.cumsum(by_difference(x, i, j))),
        lambda x, i, j: np.sum(by_difference(x, i, j) * np.arange(len(i))),
        lambda x, i, j: np.sum(by_difference(x, i, j)[::-1] ** 2),
        lambda x, i, j: np.sum(by_difference(x, i, i) ** 2),
        lambda x, i, j: np.sum(by_difference(x, j, i[::-1].copy()) ** 2),
    ],
)
def test_what_needs_pairs_one_by_one_stays(f, taken):
    check(ng.jacobian(lambda x: f(x, *UPPER)), points())
    assert taken == [False]


def test_index_arrays_that_change(taken):
    i, j = (index.copy() for index in UPPER)
    f = ng.jit(lambda x: np.sum(by_difference(x, i, j)))
    x = points()
    f(x)
    i[:], j[:] = np.random.default_rng(1).permutation(np.stack(UPPER), axis=1)
    i[0], j[0] = 3, 3
    np.testing.assert_allclose(f(x), np.sum(by_difference(x, i, j)))
    assert taken == [True, False]


def test_values_that_are_not_finite():
    i, j = UPPER
    x = points()
    x[3], x[7, 1] = np.inf, np.nan
    f = ng.value_and_grad(lambda x: np.sum(np.exp(-by_difference(x, i, j))))
    with np.errstate(invalid="ignore"):
        (value, slope), (expected, expected_slope) = ng.jit(f)(x), f(x)
    np.testing.assert_array_equal(np.isnan(value), np.isnan(np.asarray(expected)))
    np.testing.assert_array_equal(np.isnan(slope), np.isnan(np.asarray(expected_slope)))
