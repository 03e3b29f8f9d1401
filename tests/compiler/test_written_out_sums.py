"""Sums of few products, however they are written, are computed in the loops around them."""

import numpy as np
import pytest

import numba_grad as ng

K = np.array([1.0, -2.0, 1.0])
random = np.random.default_rng(0)
X = random.normal(size=100)


def windows(x, shape=3):
    return np.lib.stride_tricks.sliding_window_view(x, shape)


# A function of x and of weights, and the same in other words.
WAYS = {
    "tiny": (
        lambda x, w: (w[:2, None] * x[:2]) @ x[3:5],
        lambda x, w: w[:2] * (x[:2] * x[3:5]).sum(),
    ),
    "convolve": (
        lambda x, w: np.convolve(x, w, "valid"),
        lambda x, w: w[2] * x[:-2] + w[1] * x[1:-1] + w[0] * x[2:],
    ),
    "same": (
        lambda x, w: np.convolve(x, w, "same"),
        lambda x, w: w[2] * np.pad(x[:-1], (1, 0)) + w[1] * x + w[0] * np.pad(x[1:], (0, 1)),
    ),
    "full": (
        lambda x, w: np.convolve(w, x)[2:-2],
        lambda x, w: w[2] * x[:-2] + w[1] * x[1:-1] + w[0] * x[2:],
    ),
    "correlate": (
        lambda x, w: np.correlate(x, w),
        lambda x, w: w[0] * x[:-2] + w[1] * x[1:-1] + w[2] * x[2:],
    ),
    "windows": (
        lambda x, w: windows(x) @ w,
        lambda x, w: w[0] * x[:-2] + w[1] * x[1:-1] + w[2] * x[2:],
    ),
    "einsum": (
        lambda x, w: np.einsum("ij,j->i", windows(x), w),
        lambda x, w: w[0] * x[:-2] + w[1] * x[1:-1] + w[2] * x[2:],
    ),
    "rows": (
        lambda x, w: w @ np.stack([x[:-2], x[1:-1], x[2:]]),
        lambda x, w: w[0] * x[:-2] + w[1] * x[1:-1] + w[2] * x[2:],
    ),
}


def value_and_gradients(f):
    return ng.jit(ng.value_and_grad(lambda x, w: np.sum(np.sin(f(x, w))), argnums=(0, 1)))


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("name", WAYS)
def test_ways_of_writing_a_sum_agree(name):
    way, plain = (value_and_gradients(f)(X, K) for f in WAYS[name])
    np.testing.assert_allclose(way[0], plain[0], rtol=1e-13)
    for own, other in zip(way[1], plain[1], strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", ["tiny", "convolve", "correlate", "rows"])
def test_nothing_is_computed_between_loops(name):
    """One kernel: neither products nor correlations are calls."""
    assert len(ng.jit(WAYS[name][0]).lower(X, K).kernels) == 1


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 2), (2, 1)),
        ((1, 3), (3, 100)),
        ((100, 3), (3, 1)),
        ((100, 1), (1, 3)),
        ((4, 2), (2, 1)),
        ((30, 3, 5), (30, 5, 1)),
        ((30, 1, 5), (1, 5, 3)),
        ((2, 1, 5, 1), (1, 3, 1, 4)),
    ],
)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_products(shapes, dtype):
    x, y = (random.normal(size=shape).astype(dtype) for shape in shapes)
    lowered = ng.jit(lambda x, y: x @ y + 1)
    assert len(lowered.lower(x, y).kernels) == 1
    # Sums that nearly cancel have the error of their terms.
    most = 8 * np.finfo(dtype).eps * (abs(x) @ abs(y) + 1)
    assert np.all(abs(np.asarray(lowered(x, y)) - (x @ y + 1)) <= most)


def test_what_is_not_there_is_not_multiplied():
    """Beyond the ends of a convolution nothing is added, not zero times a weight."""
    x, weights = np.ones(20), np.array([np.inf, 1.0, 1.0])
    np.testing.assert_array_equal(
        ng.jit(lambda x, w: np.convolve(x, w, "same"))(x, weights), np.convolve(x, weights, "same")
    )


@pytest.mark.parametrize("size", [2, 4, 20])
def test_products_of_matrices_are_calls(size):
    x = random.normal(size=(size, size))
    assert len(ng.jit(lambda x: x @ x + 1).lower(x).kernels) == 2


def test_products_of_large_matrices_of_a_stack_and_vectors_are_calls():
    x, y = random.normal(size=(2, 40, 40)), random.normal(size=(2, 40, 1))
    kernels = ng.jit(lambda x, y: x @ y + 1).lower(x, y).kernels
    assert any("matmul" in kernel.name for kernel in kernels)


def test_an_outer_product_of_stacks_is_no_call():
    """As the gradient by the matrices of a stack is one."""
    x = random.normal(size=(2, 40, 1))
    assert len(ng.jit(lambda x: x @ x.mT + 1).lower(x).kernels) == 1


def strains(x, y):
    f = (x[:, 1:] - x[:, :1]).mT @ y
    return np.sum((f.mT @ f - np.eye(2)) ** 2)


def turned_by_einsum(x, y):
    return np.sum(np.einsum("nij,njk,nlk->il", x, y, y))


@pytest.mark.parametrize("f", [strains, turned_by_einsum])
def test_products_of_stacks_of_tiny_matrices_are_no_calls(f):
    x, y = random.normal(size=(70, 3, 2)), random.normal(size=(70, 2, 2))
    slopes = ng.value_and_grad(f, argnums=(0, 1))
    assert not calls_of_products(ng.jit(slopes), x, y)
    with ng.configure(engine="reference"):
        expected = [np.asarray(z) for z in (f(x, y), *slopes(x, y)[1])]
    value, of_both = ng.jit(slopes)(x, y)
    for got, wanted in zip((value, *of_both), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-12)


def test_stacks_of_which_the_terms_would_be_too_much_text_are_multiplied_by_calls():
    x, y = random.normal(size=(2, 70, 3, 3))

    def layers(x, y):
        for _ in range(4):
            x = np.tanh(x @ y)
        return np.sum(x)

    assert calls_of_products(ng.jit(ng.grad(layers)), x, y)
    x, y = random.normal(size=(2, 70, 4, 4))
    assert calls_of_products(ng.jit(lambda x, y: x @ y + 1), x, y)


def test_where_one_product_is_a_call_tiny_ones_are():
    x = random.normal(size=(2, 2))
    kernels = ng.jit(lambda x: (x @ x + 1) @ x[0] + 1).lower(x).kernels
    assert sum(kernel.count for kernel in kernels if "matmul" in kernel.name) == 2


def test_values_of_an_index_array_that_names_neighbours_are_guarded():
    index = (np.arange(50) + 1) % 50
    f = ng.jit(lambda x: x[index] - x)
    x = X[:50]
    np.testing.assert_array_equal(f(x), x[index] - x)
    index[:] = (index + 3) % 50
    np.testing.assert_array_equal(f(x), x[index] - x)
    index[:] = index[::-1].copy()
    np.testing.assert_array_equal(f(x), x[index] - x)


def test_the_longest_part_of_a_loop_tests_nothing():
    """The adjoint of differences of differences is a pad of a sum with a pad: bounds of the inner
    conditions are bounds of the loop, too."""

    def gradient(x, g):
        return ng.grad(lambda x: np.sum(g * np.diff(np.diff(x))))(x)

    [kernel] = ng.jit(gradient).lower(X, X[2:]).kernels
    parts = kernel.source.split("for i0 in ")[1:]
    vectorized = [part for part in parts if "opaque" not in part]
    assert len(vectorized) == 1
    assert "select" not in vectorized[0]
    expected = np.zeros(100)
    for k, weight in enumerate((1, -2, 1)):
        expected[k : k + 98] += weight * X[2:]
    np.testing.assert_allclose(ng.jit(gradient)(X, X[2:]), expected, atol=1e-14)


U = random.normal(size=(40, 50))
STENCIL = random.normal(size=(3, 3))


def by_slices(u, w):
    places = np.ndindex(3, 3)
    return sum(w[i, j] * u[i : i + 38, j : j + 48] for i, j in places)


def stacked(u, axis=0):
    return np.stack([u[i : i + 38, j : j + 48] for i, j in np.ndindex(3, 3)], axis=axis)


SQUARES = {
    "sum": lambda u, w: (windows(u, (3, 3)) * w).sum((-1, -2)),
    "einsum": lambda u, w: np.einsum("ijkl,kl->ij", windows(u, (3, 3)), w),
    "tensordot": lambda u, w: np.tensordot(windows(u, (3, 3)), w, 2),
    "stack": lambda u, w: np.sum(stacked(u) * w.reshape(9, 1, 1), axis=0),
    "stack in einsum": lambda u, w: np.einsum("k,kij->ij", w.ravel(), stacked(u)),
    "stack in tensordot": lambda u, w: np.tensordot(w.ravel(), stacked(u), 1),
    "stack before a vector": lambda u, w: stacked(u, axis=-1) @ w.ravel(),
    "convolve": lambda u, w: ng.signal.convolve(u, w[::-1, ::-1], "valid"),
}


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("name", SQUARES)
def test_stencils_of_two_axes(name):
    way, plain = (
        ng.jit(ng.value_and_grad(lambda u, w, f=f: np.sum(np.sin(f(u, w))), argnums=(0, 1)))(
            U, STENCIL
        )
        for f in (SQUARES[name], by_slices)
    )
    np.testing.assert_allclose(way[0], plain[0], rtol=1e-12)
    for own, other in zip(way[1], plain[1], strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-11, atol=1e-12)
    assert len(ng.jit(SQUARES[name]).lower(U, STENCIL).kernels) == 1


def test_a_slice_of_images_times_a_matrix_is_one_product():
    x, w = random.normal(size=(3, 6, 7, 4)), random.normal(size=(4, 5))
    f = ng.jit(lambda x, w: x[:, 1:4, 2:] @ w)
    np.testing.assert_allclose(f(x, w), x[:, 1:4, 2:] @ w, rtol=1e-13)
    assert "matmul(%3, %1)  float64[45, 5]" in str(f.lower(x, w).graph)


def distances(x, centers):
    return np.sum(x * x, 1)[:, None] - 2 * x @ centers.T + np.sum(centers * centers, 1)


def soft_clusters(x, centers):
    return np.sum(np.log(np.sum(np.exp(-distances(x, centers)), axis=1)))


def kernel_matrix(x, y):
    return np.sum(np.exp(-distances(x, x))) * np.sum(y)


def projected(x, rotation):
    turned = x @ rotation.T + 0.1
    return np.sum((turned[:, :1] / (5 + turned[:, 1:]) - 0.3) ** 2)


def in_columns(x, centers):
    return np.sum(np.cos(centers @ x.T))


OF_POINTS = [soft_clusters, kernel_matrix, projected, in_columns]


def calls_of_products(f, *arrays):
    return [k for k in f.lower(*arrays).kernels if "matmul" in str(k)]


@pytest.mark.thorough(but="shapes0-float64-(kernel_matrix|projected)")
@pytest.mark.parametrize("f", OF_POINTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
@pytest.mark.parametrize("shapes", [((80, 2), (5, 2)), ((300, 3), (3, 3)), ((70, 2), (40, 2))])
def test_products_of_points_are_no_calls(f, dtype, shapes):
    x, y = (random.normal(size=shape).astype(dtype) for shape in shapes)
    slopes = ng.value_and_grad(lambda x, y: f(x, y).real, argnums=(0, 1))
    compiled = ng.jit(slopes)
    assert not calls_of_products(compiled, x, y)
    (value, of_both), (expected, expected_of_both) = compiled(x, y), slopes(x, y)
    rtol = 2e-3 if dtype == np.float32 else 1e-10
    np.testing.assert_allclose(value, np.asarray(expected), rtol=rtol)
    for got, slope in zip(of_both, expected_of_both, strict=True):
        slope = np.asarray(slope)
        np.testing.assert_allclose(got, slope, rtol=rtol, atol=rtol * np.abs(slope).max())


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.exp(-np.sum(x * x, axis=1)) @ (x - x[0])),
        lambda x: np.sum(np.sin(x.T @ np.cos(x[:, 0]))),
        lambda x: np.sum(np.exp(np.cos(x).T @ x)),
    ],
)
@pytest.mark.parametrize("columns", [2, 3])
def test_sums_over_points_are_no_calls(f, columns):
    x = random.normal(size=(80, columns)) / 9
    value = ng.jit(f)
    assert not calls_of_products(value, x)
    np.testing.assert_allclose(value(x), f(x), rtol=1e-12)
    with ng.configure(engine="reference"):
        slopes = np.asarray(ng.grad(f)(x))
    np.testing.assert_allclose(ng.jit(ng.grad(f))(x), slopes, rtol=1e-10, atol=1e-12)


def test_products_of_points_that_are_added_to_another_product_are_calls():
    x, w, h, u = (random.normal(size=n) for n in ((64, 3), (3, 20), (64, 30), (30, 20)))
    added = ng.jit(lambda x, w, h, u: x @ w + h @ u)
    assert len(calls_of_products(added, x, w, h, u)) == 2
    np.testing.assert_allclose(added(x, w, h, u), x @ w + h @ u)


ELEMENTS = random.permuted(np.tile(np.arange(120), (4, 1)), axis=1).T
STIFFNESS = random.normal(size=(4, 4))
OF_ELEMENTS = [
    lambda u: u[ELEMENTS] @ STIFFNESS,
    lambda u: (STIFFNESS.T @ u[ELEMENTS.T]).T,
    lambda u: np.einsum("ji,ej->ei", STIFFNESS, u[ELEMENTS]),
]


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("multiplied", OF_ELEMENTS)
def test_products_of_gathered_rows_are_no_calls(multiplied):
    def f(u):
        forces = np.zeros_like(u)
        np.add.at(forces, ELEMENTS, multiplied(u))
        return np.sum(np.sin(forces) * u)

    u, both = random.normal(size=120), ng.value_and_grad(f)
    compiled = ng.jit(both)
    assert not calls_of_products(compiled, u)
    for got, expected in zip(compiled(u), both(u), strict=True):
        np.testing.assert_allclose(got, np.asarray(expected), rtol=1e-11, atol=1e-11)


def test_rows_that_are_gathered_for_others_as_well_are_multiplied_by_calls():
    u = random.normal(size=120)
    f = ng.jit(lambda u, k: np.sum(np.sin(u[ELEMENTS] @ k) * np.cos(u[ELEMENTS])))
    assert len(calls_of_products(f, u, STIFFNESS)) == 1
    of_matrix = ng.jit(ng.grad(lambda k, u: np.sum(np.sin(u[ELEMENTS] @ k))))
    assert sum(k.count for k in calls_of_products(of_matrix, STIFFNESS, u)) == 2
    forces = np.sin(u[ELEMENTS] @ STIFFNESS)
    np.testing.assert_allclose(f(u, STIFFNESS), np.sum(forces * np.cos(u[ELEMENTS])))


def test_points_that_were_computed_before():
    """A transpose or a sum whose value is there is an input, which reads nothing."""
    x, turn = random.normal(size=(3, 200)), random.normal(size=(3, 3))
    with ng.configure(engine="fused"):
        points, matrix = ng.tensor(x, requires_grad=True), ng.tensor(turn, requires_grad=True)
        rows, moved = points.T, points.T + 1.0
        assert rows.sum().item() and moved.sum().item()  # computed here
        (((rows @ matrix) ** 2).sum() + ((moved @ matrix) ** 3).sum()).backward()
    of_rows, of_moved = 2 * (x.T @ turn), 3 * ((x.T + 1) @ turn) ** 2
    expected = x @ of_rows + (x + 1) @ of_moved
    np.testing.assert_allclose(matrix.grad, expected, rtol=1e-11)
    expected = (of_rows + of_moved) @ turn.T
    np.testing.assert_allclose(points.grad, expected.T, rtol=1e-11)
