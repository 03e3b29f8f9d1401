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


@pytest.mark.thorough(every=12)
@pytest.mark.parametrize("kind", ENUMERATIONS)
@pytest.mark.parametrize("way", WAYS)
def test_values_and_gradients(way, kind, taken):
    i, j = ENUMERATIONS[kind]
    check(ng.value_and_grad(lambda x: np.sum(np.exp(-way(x, i, j)))), points())
    assert taken == [True]


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("kind", ["strict upper", "off-diagonal", "strict lower"])
@pytest.mark.parametrize("way", WAYS)
def test_what_the_diagonal_comes_to_is_in_no_result(way, kind, taken):
    i, j = ENUMERATIONS[kind]
    check(ng.value_and_grad(lambda x: np.sum(1 / way(x, i, j) ** 2)), points())
    check(ng.value_and_grad(lambda x: np.mean(np.log(way(x, i, j)))), points())
    assert taken == [True, True]


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("kind", ENUMERATIONS)
def test_interactions_that_are_not_symmetric(kind):
    i, j = ENUMERATIONS[kind]

    def energy(x, charges):
        return np.sum(charges[i] * np.exp(-by_difference(x, i, j)) * np.sin(x[j, 0]))

    check(ng.value_and_grad(energy, (0, 1)), points(), points(COUNT))


@pytest.mark.thorough(but="float32")
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


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize(
    "f",
    [
        lambda x, i, j: by_difference(x, i, j),  # all of them are wanted
        lambda x, i, j: np.max(by_difference(x, i, j)),
        lambda x, i, j: np.sum(np.cumsum(by_difference(x, i, j))),
        lambda x, i, j: np.sum(by_difference(x, i, j) * x[:, 0].repeat(10)[: len(i)]),
        lambda x, i, j: np.sum(by_difference(x, i, j)[::-1] ** 2),
        lambda x, i, j: np.sum(by_difference(x, i, i) ** 2),
        lambda x, i, j: np.sum(by_difference(x, j, i[::-1].copy()) ** 2),
    ],
)
def test_what_needs_pairs_one_by_one_stays(f, taken):
    check(ng.jacobian(lambda x: f(x, *UPPER)), points())
    assert taken == [False]


def test_constants_of_each_pair(taken):
    i, j = UPPER
    charges = points(COUNT)
    products, links = charges[i] * charges[j], np.arange(len(i))
    check(
        ng.value_and_grad(lambda x: np.sum(products / by_difference(x, i, j) + links * x[i, 0])),
        points(),
    )
    assert taken == [True]


SHAPES = [(200,), (40, 6), (6, 40), (5, 8, 7)]


def selections(shape):
    """Arrays with these first axes, and the index arrays of elements of them."""
    mask = np.random.default_rng(2).random(shape) > 0.1
    return points(*shape, 2), mask


@pytest.mark.thorough(every=10)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "select",
    [
        lambda x, mask: x[mask],
        lambda x, mask: x[np.nonzero(mask)],
        lambda x, mask: x.reshape(-1, 2)[np.flatnonzero(mask)],
        lambda x, mask: np.take(x.reshape(-1, 2), np.flatnonzero(mask), axis=0),
        lambda x, mask: np.stack([x[..., 0][mask], x[..., 1][mask]], axis=1),
        lambda x, mask: np.compress(mask.ravel(), x.reshape(-1, 2), axis=0),
    ],
)
def test_selected_elements(shape, select, taken):
    x, mask = selections(shape)
    data = points(*shape, 2)[mask]
    weights = np.linspace(0.1, 1.0, len(data))

    def misfit(x):
        return np.sum(weights * np.sum((select(x, mask) ** 2 - data) ** 2, axis=-1))

    check(ng.value_and_grad(misfit), x)
    check(ng.value_and_grad(lambda x: np.mean(np.abs(select(np.exp(x), mask)[:, 0]))), x)
    assert taken == [True, True]


def test_what_elements_that_are_not_selected_come_to_is_in_no_result(taken):
    x = np.abs(points(300)) * (np.arange(300) % 10 > 0)
    mask = x > 0
    check(ng.value_and_grad(lambda x: np.sum(np.log(x[mask]) + 1 / x[mask])), x)
    assert taken == [True]


@pytest.mark.thorough
def test_second_derivatives_of_selected_elements(taken):
    x, mask = selections((40, 6))
    slope = ng.grad(lambda x: np.sum(np.exp(x[mask]) * x[mask] ** 2))
    check(ng.grad(lambda x: np.sum(np.sin(slope(x)))), x)
    check(lambda x: ng.jvp(slope, (x,), (np.cos(x),)), x)
    assert taken == [True, True]


def test_graphs_by_a_mask_of_edges(taken):
    adjacency = np.random.default_rng(3).random((COUNT, COUNT)) > 0.3
    i, j = np.nonzero(adjacency)
    check(ng.value_and_grad(lambda x: np.sum(np.sin(x[i] - 2 * x[j]))), points())
    matrix = points(COUNT, COUNT)
    check(ng.value_and_grad(lambda x: np.sum(matrix[i, j] * np.cos(x[j, 0] * x[i, 1]))), points())
    check(ng.value_and_grad(lambda x: np.sum(np.exp(x[j, i]) * x[i, j])), matrix)
    assert taken == [False, False, True]


@pytest.mark.thorough
def test_several_selections_and_assignments(taken):
    x, mask = selections((40, 6))
    x = x[..., 0]

    def f(x):
        filled = ng.zeros(x.shape) + np.cos(x)
        filled[mask] = x[mask] ** 2
        return np.sum(filled * x) + np.sum(np.exp(x[~mask])) + np.sum(x[mask] ** 3)

    check(ng.value_and_grad(f), x)
    assert taken == [True]


def test_half_of_an_array_that_steps_read_and_write(taken):
    x = points(1000)
    half = np.random.default_rng(3).random(1000) < 0.4

    def f(x):
        u, rate = x.copy(), np.sin(x)
        for _ in range(15):
            u[half] -= 0.1 * rate[half] * u[half] ** 2
        return np.sum(u[half] ** 2)

    check(ng.value_and_grad(f), x)
    graph = str(ng.jit(ng.value_and_grad(f)).lower(x).graph)
    assert graph.count("= gather(%") < 3 * 15  # those of `rate` are one
    assert taken[0]


def test_nothing_is_added_to_what_is_not_selected(taken):
    x = np.where(np.arange(300) % 3 == 0, -0.0, points(300))
    others = np.arange(300) % 3 > 0

    def f(x):
        u = np.abs(x) * -1.0
        u[others] += x[others]
        return u, np.sum(x[others])

    got, _ = ng.jit(f)(x)
    assert taken == [True]
    assert np.signbit(got[~others]).all()


@pytest.mark.parametrize(
    "select",
    [
        lambda x, mask: x[mask],  # all of them are wanted
        lambda x, mask: np.sum(np.cumsum(x[mask])),
        lambda x, mask: np.sum(x[np.flatnonzero(mask)[::-1]]),
        lambda x, mask: np.sum(x[np.flatnonzero(mask)[::10]] ** 3),  # few
        lambda x, mask: np.sum(x[np.repeat(np.flatnonzero(mask), 2)] ** 2),
        lambda x, mask: np.max(x[mask]),
    ],
)
def test_selections_that_stay(select, taken):
    x, mask = selections((300,))
    check(ng.jacobian(lambda x: select(x[:, 0], mask)), x)
    assert not any(taken)


def test_masks_that_change():
    x, mask = selections((300,))
    x = x[:, 0]
    data = x[::-1].copy()
    f = ng.jit(ng.value_and_grad(lambda x: np.sum((x[mask] - data[mask]) ** 2)))
    for k in range(3):
        d = np.where(mask, x - data, 0)
        for got, expected in zip(f(x), (np.sum(d**2), 2 * d), strict=True):
            np.testing.assert_allclose(got, expected)
        mask[k], data[k + 5] = not mask[k], k


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


def test_a_function_that_is_traced_again_reads_what_was_filled():
    def spread(x):  # its rows become one array, with a literal that the first trace has computed
        total = 0.0
        for k in range(2, 20):
            total = total + (x[k - 1] - np.mean(x[:k])) ** 2 / np.std(x[:k])
        return total

    x = np.cos(np.arange(20.0))
    first = ng.jit(ng.value_and_grad(spread))(x)
    again = ng.jit(ng.value_and_grad(spread))(x)
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
