"""What cells compute of themselves and of a neighbour is computed once, where derivatives are taken
in a compiled function; nobody can tell but by the time it takes, and by the sign of a zero."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.transforms.rewrites import shared_with_neighbours

RNG = np.random.default_rng(11)
U = RNG.random((18, 19))
K = 0.5 + RNG.random((18, 19))
SIDES = {
    (axis, by): tuple(
        slice(1 + (by if k == axis else 0), n - 1 + (by if k == axis else 0))
        for k, n in enumerate((20, 21))
    )
    for axis in (0, 1)
    for by in (1, -1)
}


def by_edges(u, k):
    p, q = np.pad(u, 1, mode="edge"), np.pad(k, 1, mode="edge")
    return sum(0.5 * (k + q[s]) * (p[s] - u) for s in SIDES.values())


def by_ghosts(u, k):
    p, q = np.concatenate([u[:1], u, u[-1:]]), np.hstack([u[:, :1], u, u[:, -1:]])
    a, b = np.concatenate([k[:1], k, k[-1:]]), np.hstack([k[:, :1], k, k[:, -1:]])
    down, up = (k + a[2:]) * (p[2:] - u), (a[:-2] + k) * (u - p[:-2])
    right, left = (b[:, 2:] + k) * (q[:, 2:] - u), (k + b[:, :-2]) * (u - q[:, :-2])
    return down - up + right - left


def by_shifts(u, k):
    below, above = np.vstack([u[1:], u[-1]]), np.vstack([u[0], u[:-1]])
    k_below, k_above = np.vstack([k[1:], k[-1]]), np.vstack([k[0], k[:-1]])
    return (below - u) * (k_below * k) + (above - u) * (k * k_above)


def by_faces(u, k):
    p = np.pad(u, 1, mode="edge")
    faces = np.pad(0.5 * (k[1:] + k[:-1]), ((1, 1), (0, 0)))
    return faces[1:] * (p[2:, 1:-1] - u) - faces[:-1] * (u - p[:-2, 1:-1])


def by_quotients(u, k):
    p, q = np.pad(u, 1, mode="edge"), np.pad(k, 1, mode="edge")
    resistances = [1 / k + 1 / q[s] for s in SIDES.values()]
    return sum((p[s] - u) / r for s, r in zip(SIDES.values(), resistances, strict=True))


def by_functions(u, k):
    """The same on both sides, not the opposite."""
    p, q = np.pad(u, 1, mode="edge"), np.pad(k, 1, mode="edge")
    return sum(np.tanh((k * q[s]) * np.cos(p[s] + u)) * k for s in SIDES.values())


def by_rolls(u, k):
    return sum(
        (k + np.roll(k, by, axis)) * (np.roll(u, by, axis) - u) for axis in (0, 1) for by in (1, -1)
    )


def of_walls(u, k):
    c, d = u[1:-1, 1:-1], k[1:-1, 1:-1]
    sides = (
        (d + k[2:, 1:-1]) * (u[2:, 1:-1] - c)
        + (d + k[:-2, 1:-1]) * (u[:-2, 1:-1] - c)
        + (d + k[1:-1, 2:]) * (u[1:-1, 2:] - c)
        + (d + k[1:-1, :-2]) * (u[1:-1, :-2] - c)
    )
    return np.pad(sides, 1)


# With how many values of one step are those of neighbours.
WAYS = {
    "edges": (by_edges, 2),
    "ghosts": (by_ghosts, 2),
    "shifts": (by_shifts, 1),
    "faces": (by_faces, 1),
    "quotients": (by_quotients, 2),
    "functions": (by_functions, 2),
    "rolls": (by_rolls, 0),  # which are as fast as they are
    "walls": (of_walls, 0),  # as well: nothing is put together
}


def shared_in(monkeypatch, f, *args):
    """How many values become those of neighbours, where a gradient of `f` is traced."""
    count = 0
    original = shared_with_neighbours._of_neighbour

    def counted(*args):
        nonlocal count
        count += 1
        return original(*args)

    monkeypatch.setattr(shared_with_neighbours, "_of_neighbour", counted)
    ng.jit(ng.grad(f, argnums=tuple(range(len(args))))).lower(*args)
    monkeypatch.undo()
    return count


def assert_same_gradients(f, *args, engine="reference"):
    """As defined by run, where nothing is shared."""
    argnums = tuple(range(len(args)))
    with ng.configure(engine=engine):
        value, gradients = ng.jit(ng.value_and_grad(f, argnums=argnums))(*args)
    with ng.configure(engine="reference"):
        expected, by_run = ng.value_and_grad(f, argnums=argnums)(*args)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for got, want in zip(gradients, by_run, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def stepped(step, count):
    def loss(u, k):
        for _ in range(count):
            u = u + 0.1 * step(u, k)
        return np.sum(u**3)

    return loss


@pytest.mark.parametrize("way", WAYS)
def test_sides_are_those_of_neighbours(monkeypatch, way):
    step, count = WAYS[way]
    assert shared_in(monkeypatch, stepped(step, 2), U, K) == 2 * count
    assert_same_gradients(stepped(step, 2), U, K, engine="native")


def test_weights_of_fewer_axes():
    """A part of a row of weights has another place than parts of the grid: along one axis."""
    weights = np.linspace(0.5, 1.5, 30)

    def step(u, k, w):
        p = np.pad(u, 1, mode="edge")
        down, up = u - p[2:, 1:-1], p[:-2, 1:-1] - u
        return w[3:22] * down * np.abs(down) - w[3:22] * up * np.abs(up)

    def loss(u, k, w):
        return np.sum((u + step(u, k, w)) ** 3)

    assert_same_gradients(loss, U, K, weights)


@pytest.mark.parametrize("way", ["edges", "functions"])
def test_sides_of_cells_in_space_and_on_a_line(monkeypatch, way):
    def along_each_axis(u, k):
        total = 0
        for axis in range(u.ndim):
            width = [(1, 1) if k == axis else (0, 0) for k in range(u.ndim)]
            p, q = np.pad(u, width, mode="edge"), np.pad(k, width, mode="edge")
            for part in (slice(2, None), slice(None, -2)):
                side = (slice(None),) * axis + (part,)
                flux = (
                    (k + q[side]) * (p[side] - u)
                    if way == "edges"
                    else (k * q[side]) * (u * p[side])
                )
                total = total + flux
        return total

    for shape in ((300,), (7, 8, 9)):
        u, k = RNG.random(shape), RNG.random(shape)
        assert shared_in(monkeypatch, stepped(along_each_axis, 2), u, k) > 0
        assert_same_gradients(stepped(along_each_axis, 2), u, k)


def test_fluxes_of_many_operations_in_steps_of_a_loop(monkeypatch):
    """Rims of which would be more nodes than there are serial numbers for: parts of them are."""

    def flux(left, right, a_left, a_right):
        fastest = np.maximum(abs(a_left * left), abs(a_right * right))
        return 0.5 * (a_left * left**2 + a_right * right**2) - 0.5 * fastest * (right - left)

    def loss(u, a):
        for _ in range(20):
            p, q = np.pad(u, 1, mode="edge"), np.pad(a, 1, mode="edge")
            right = flux(p[1:-1], p[2:], q[1:-1], q[2:])
            left = flux(p[:-2], p[1:-1], q[:-2], q[1:-1])
            u = u - 0.05 * (right - left)
        return np.sum(u**3)

    u, a = RNG.random(300), RNG.random(300)
    assert shared_in(monkeypatch, loss, u, a) >= 20
    assert_same_gradients(loss, u, a)


def test_in_steps_of_scan(monkeypatch):
    def loss(u, k):
        def step(u, _):
            return u + 0.1 * by_edges(u, 1 + u * u), None

        return np.sum(k * ng.scan(step, u, None, length=4)[0] ** 3)

    assert shared_in(monkeypatch, loss, U, K) > 0
    assert_same_gradients(loss, U, K)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("way", ["edges", "ghosts", "faces", "quotients"])
def test_numbers_that_are_none_spread_as_they_do(way, number):
    """At a rim, where a cell is its own neighbour: inf - inf."""
    f = stepped(WAYS[way][0], 1)
    for place in ((0, 3), (17, 18), (5, 0), (9, 9)):
        for changed in (0, 1):
            given = [U.copy(), K.copy()]
            given[changed][place] = number
            assert_same_gradients(f, *given)


def test_equal_cells_and_zeros():
    for u in (np.zeros_like(U), np.ones_like(U), -np.zeros_like(U)):
        for k in (K, np.zeros_like(K), np.ones_like(K)):
            assert_same_gradients(stepped(by_edges, 2), u, k)


def test_other_neighbours_are_others(monkeypatch):
    """Two places apart, other conductivities, another sign, another array."""

    def two_apart(u, k):
        p, q = np.pad(u, 1, mode="edge"), np.pad(k, 1, mode="edge")
        return q[2:, 1:-1] * p[2:, 1:-1] + q[:-2, 1:-1] * p[:-2, 1:-1]

    def others(u, k):
        p = np.pad(u, 1, mode="edge")
        return k * (p[2:, 1:-1] - u) + k * (p[:-2, 1:-1] - u)

    def one_sided(u, k):
        p, q = np.pad(u, 1, mode="edge"), np.pad(k, 1, mode="edge")
        return (k - q[2:, 1:-1]) * (p[2:, 1:-1] - u) + (k + q[:-2, 1:-1]) * (p[:-2, 1:-1] - u)

    for step in (two_apart, others, one_sided):
        assert shared_in(monkeypatch, stepped(step, 2), U, K) == 0
        assert_same_gradients(stepped(step, 2), U, K)


def sides_down(u, k):
    p, q = np.pad(u, 1, mode="edge"), np.pad(k, 1, mode="edge")
    down, up = (slice(2, None), slice(1, -1)), (slice(None, -2), slice(1, -1))
    return (k + q[down]) * (p[down] - u), (k + q[up]) * (p[up] - u)


def test_a_sign_of_zero_that_somebody_sees(monkeypatch):
    """1 / flux is inf or -inf."""

    def of_flux(u, k):
        down, up = sides_down(u, k)
        return np.sum(np.arctan(1 / down) + np.arctan(1 / up))

    def of_difference(u, k):
        p, q = np.pad(u, 1, mode="edge"), np.pad(k, 1, mode="edge")
        down, up = list(SIDES.values())[:2]
        inflow = (k * q[down]) / (p[down] - u)
        outflow = (k * q[up]) / (p[up] - u)
        return np.sum(np.arctan(inflow + 1) + np.arctan(outflow + 1))

    def of_two_differences(u, k):
        """Whose product has no other sign, but for zeros."""
        p, q = np.pad(u, 1, mode="edge"), np.pad(k, 1, mode="edge")
        down, up = list(SIDES.values())[:2]
        products = [(p[s] - u) * (q[s] - k) for s in (down, up)]
        return np.sum(np.arctan(1 / products[0]) + np.arctan(1 / products[1]))

    for loss in (of_flux, of_difference, of_two_differences):
        assert shared_in(monkeypatch, loss, U, K) == 0
        value, _ = ng.jit(ng.value_and_grad(loss))(np.ones_like(U), K)
        with np.errstate(divide="ignore"):
            assert np.isclose(value, loss(np.ones_like(U), K))


def test_what_is_held_returned_or_cut_off_is_computed_where_it_is(monkeypatch):
    def returned(u, k):
        down, up = sides_down(u, k)
        return np.sum((down + up) ** 3), up

    f = ng.jit(ng.value_and_grad(returned, has_aux=True))
    (value, up), gradient = f(U, K)
    with ng.configure(engine="reference"):
        (expected, by_run), wanted = ng.value_and_grad(returned, has_aux=True)(U, K)
    np.testing.assert_allclose(up, by_run, rtol=1e-12)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-9, atol=1e-12)

    def inner_gradient(u, k):
        """By a side itself, of which the loss must go on to be a function."""
        p = np.pad(u, 1, mode="edge")
        down = k * (p[2:, 1:-1] - u)
        up = np.concatenate([k[:1], k[:-1]]) * (p[:-2, 1:-1] - u)
        (by_up,) = ng.autograd.grad(np.sum((down + up) ** 3), [up], create_graph=True)
        return np.sum(by_up * u)

    assert_same_gradients(inner_gradient, U, K)

    def cut_off(u, k):
        down, up = sides_down(u, k)
        with ng.no_grad():
            _, constant = sides_down(u, k)
        return np.sum((down + up) ** 3 + (down + constant) ** 2)

    assert_same_gradients(cut_off, U, K)


def test_second_derivatives_and_batches():
    f = stepped(by_edges, 1)
    v = RNG.random(U.shape)

    def product(u, k):
        return np.sum(ng.grad(f)(u, k) * v)

    assert_same_gradients(product, U, K)
    batch = np.stack([U, 2 * U])
    together = ng.jit(ng.vmap(ng.grad(f), in_axes=(0, None)))(batch, K)
    for k in range(2):
        np.testing.assert_allclose(together[k], ng.jit(ng.grad(f))(batch[k], K), rtol=1e-10)


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("seed", range(40))
def test_random_sides(seed):
    """Sums of products of a random make, each with that of the other side somewhere."""
    rng = np.random.default_rng(seed)
    makes = [
        lambda a, b, c, d: (a + b) * (c - d),
        lambda a, b, c, d: a * b * (d - c),
        lambda a, b, c, d: (c - d) / (1 + a * b),
        lambda a, b, c, d: np.sin(c * d) * (a + b),
        lambda a, b, c, d: (a - b) * (c - d),
        lambda a, b, c, d: a * c - d * b,
        lambda a, b, c, d: a * (c + d),
    ]
    mode = rng.choice(["edge", "constant", "reflect", "wrap"])
    chosen = [makes[k] for k in rng.integers(len(makes), size=2)]
    sides = [list(SIDES.values())[k] for k in rng.permutation(4)[: rng.integers(2, 5)]]
    signs = rng.choice([-1, 1], size=8)

    def step(u, k):
        p, q = np.pad(u, 1, mode=mode), np.pad(k, 1, mode="edge")
        total, number = 0, 0
        for make in chosen:
            for s in sides:
                given = (k, q[s], p[s], u) if rng_bits[number] else (q[s], k, u, p[s])
                total = total + signs[number % 8] * make(*given)
                number += 1
        return total

    rng_bits = rng.integers(2, size=16)
    assert_same_gradients(stepped(step, 2), U, K)


def test_what_is_made_of_much_is_not_followed_to_its_end(monkeypatch):
    # Populations that move, in a list: each sum of them holds all that were added before.
    def work(count):
        velocities = [(k % 3 - 1, k // 3 % 3 - 1) for k in range(count)]

        def f(u):
            populations = [u * (1 + 0.1 * k) for k in range(count)]
            for _ in range(3):
                density = sum(populations)
                flows = [
                    sum(c[axis] * x for c, x in zip(velocities, populations, strict=True))
                    for axis in range(2)
                ]
                moved = []
                for c, x in zip(velocities, populations, strict=True):
                    along = (c[0] * flows[0] + c[1] * flows[1]) / density
                    x = x - 0.5 * (x - 0.1 * density * (1 + along + 0.5 * along * along))
                    moved.append(ng.roll(ng.roll(x, c[0], axis=0), c[1], axis=1))
                populations = moved
            return ng.sum(populations[1] ** 2)

        looks = []
        source = shared_with_neighbours._Regions.source
        with monkeypatch.context() as patch:
            patch.setattr(
                shared_with_neighbours._Regions,
                "source",
                lambda *given: looks.append(1) or source(*given),
            )
            ng.jit(ng.grad(f)).lower(np.ones((20, 20)))
        return len(looks)

    # What is too much for a rim is not looked through: else 740.
    assert 0 < work(9) < 300
