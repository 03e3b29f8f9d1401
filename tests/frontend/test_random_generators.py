"""`numba_grad.numpy.random`: NumPy's numbers, of which arrays of floats are tensors."""

import copy
import pickle

import numpy
import pytest
import scipy.optimize
import scipy.stats

import numba_grad as ng
import numba_grad.numpy as np
import numba_grad.numpy.random as npr

KINDS = {
    "Generator": (numpy.random.default_rng, np.random.default_rng),
    "RandomState": (numpy.random.RandomState, np.random.RandomState),
}
ARGUMENTS = {
    "beta": (2.0, 3.0),
    "binomial": (9, 0.3),
    "chisquare": (3.0,),
    "dirichlet": ([1.0, 2.0, 3.0],),
    "f": (3.0, 4.0),
    "gamma": (2.0,),
    "geometric": (0.3,),
    "hypergeometric": (5, 4, 3),
    "integers": (0, 9),
    "logseries": (0.4,),
    "multinomial": (5, [0.2, 0.8]),
    "multivariate_hypergeometric": ([3, 4], 3),
    "multivariate_normal": ([0.0, 1.0], [[1.0, 0.2], [0.2, 2.0]]),
    "negative_binomial": (3, 0.4),
    "noncentral_chisquare": (3.0, 1.0),
    "noncentral_f": (3.0, 4.0, 1.0),
    "pareto": (2.0,),
    "power": (2.0,),
    "randint": (0, 9),
    "standard_gamma": (2.0,),
    "standard_t": (4.0,),
    "triangular": (0.0, 1.0, 3.0),
    "vonmises": (0.0, 1.0),
    "wald": (1.0, 1.0),
    "weibull": (2.0,),
    "zipf": (2.5,),
}
BY_ANOTHER_NAME = ("choice", "permutation", "permuted", "shuffle", "rand", "randn")
NO_NUMBERS = ("bit_generator", "bytes", "get_state", "random_integers", "seed", "set_state")
LOCATIONS_AND_SCALES = {
    "exponential": (2.0,),
    "gumbel": (1.0, 2.0),
    "laplace": (1.0, 2.0),
    "logistic": (1.0, 2.0),
    "lognormal": (0.1, 0.2),
    "normal": (1.0, 2.0),
    "rayleigh": (2.0,),
    "uniform": (1.0, 3.0),
}


def distributions(kind):
    methods = {name for name in dir(getattr(numpy.random, kind)) if not name.startswith("_")}
    return sorted(methods - {*BY_ANOTHER_NAME, *NO_NUMBERS, "spawn", "tomaxint"})


def same_numbers(ours, theirs):
    assert isinstance(ours, ng.Tensor) == (
        isinstance(theirs, numpy.ndarray) and theirs.dtype.kind == "f"
    )
    assert isinstance(ours, ng.Tensor) or type(ours) is type(theirs)
    numpy.testing.assert_array_equal(numpy.asarray(ours), theirs, strict=True)


@pytest.mark.parametrize("kind", KINDS)
def test_distributions_give_numpys_numbers(kind):
    for name in distributions(kind):
        theirs, ours = (getattr(make(3), name) for make in KINDS[kind])
        arguments = ARGUMENTS.get(name, ())
        for _ in range(2):
            same_numbers(ours(*arguments), theirs(*arguments))
            same_numbers(ours(*arguments, size=(2, 3)), theirs(*arguments, size=(2, 3)))


def test_functions_of_the_module_share_numpys_state():
    for name, arguments in (("randn", (3,)), ("rand", (2, 2)), ("uniform", (1, 2, 3))):
        npr.seed(0)
        ours = getattr(npr, name)(*arguments)
        getattr(numpy.random, "seed")(0)  # noqa: B009
        same_numbers(ours, getattr(numpy.random, name)(*arguments))
    assert type(npr.rand()) is float
    assert type(npr.randint(0, 5, 3)) is numpy.ndarray


def test_what_is_drawn_can_be_assigned_to():
    def factors(data):
        rng = np.random.default_rng(0)
        w, h = rng.uniform(1, 2, (3, 2)), np.abs(rng.normal(size=(2, 4)))
        for _ in range(3):
            h *= (w.T @ data) / (w.T @ w @ h)
            w *= (data @ h.T) / (w @ h @ h.T)
            w[w > 1.5] = data.mean()
        return np.sum((data - w @ h) ** 2)

    data = numpy.random.default_rng(1).uniform(1, 2, (3, 4))
    gradient = ng.grad(factors)(data)
    direction = numpy.random.default_rng(2).normal(size=data.shape)
    up, down = (float(factors(data + h * direction)) for h in (1e-6, -1e-6))
    assert np.sum(gradient * direction) == pytest.approx((up - down) / 2e-6, rel=1e-6)
    numpy.testing.assert_allclose(ng.jit(ng.grad(factors))(data), gradient.numpy(), rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(7,), (5, 3)])
def test_elements_of_tensors_are_those_that_numpy_draws(kind, shape):
    theirs, ours = (make(4) for make in KINDS[kind])
    x = numpy.arange(float(numpy.prod(shape))).reshape(shape)
    t = ng.tensor(x, requires_grad=True)
    for axis in range(len(shape)) if kind == "Generator" else [0]:
        chosen = {"axis": axis} if kind == "Generator" else {}
        same_numbers(ours.permutation(t, **chosen).detach(), theirs.permutation(x, **chosen))
        y, u = x.copy(), t * 1.0
        theirs.shuffle(y, **chosen)
        ours.shuffle(u, **chosen)
        same_numbers(u.detach(), y)
        if len(shape) > 1 and kind == "RandomState":
            continue  # whose `choice` is of one axis
        even = numpy.full(shape[axis], 1 / shape[axis])
        for arguments in ((2,), ((2, 2),), (2, False), (2, True, even)):
            drawn = ours.choice(t, *arguments, **chosen)
            same_numbers(drawn.detach(), theirs.choice(x, *arguments, **chosen))
            assert drawn.requires_grad
    assert ng.grad(lambda v: np.random.default_rng(0).permutation(v)[0])(x.ravel()).sum() == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LOCATIONS_AND_SCALES)
def test_locations_and_scales_may_be_tensors(kind, name):
    theirs, ours = (getattr(make(4), name) for make in KINDS[kind])
    numbers = LOCATIONS_AND_SCALES[name]
    arrays = [numpy.array([x, 1.1 * x]) for x in numbers]
    for parameters, size in ((numbers, None), (numbers, 4), (numbers, ()), (arrays, (3, 2))):
        drawn = ours(*map(ng.tensor, parameters), size=size)
        numpy.testing.assert_allclose(drawn.numpy(), theirs(*parameters, size=size), rtol=1e-14)

    def total(*parameters):
        return np.sum(getattr(KINDS[kind][1](5), name)(*parameters, 3))

    for place in range(len(numbers)):
        moved = [[x + h * (k == place) for k, x in enumerate(numbers)] for h in (1e-6, -1e-6)]
        up, down = (float(total(*x)) for x in moved)
        slope = ng.grad(total, place)(*numbers)
        assert float(slope) == pytest.approx((up - down) / 2e-6, rel=1e-7)


def test_parameters_that_numpy_refuses_are_refused():
    with pytest.raises(TypeError):
        npr.normal(ng.tensor(1.0), 2.0, 3, 4)
    with pytest.raises(TypeError):
        npr.normal(ng.tensor(1.0), width=2.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_go_on_with_tensors_of_the_same_numbers(kind, copied):
    rng = KINDS[kind][1](3)
    rng.standard_normal(3)
    other = copied(copy.deepcopy(rng))
    same_numbers(other.standard_normal(3), rng.standard_normal(3).numpy())


def test_older_generators_are_seeded_and_put_back():
    rng = np.random.RandomState(1)
    state = rng.get_state()
    first = rng.rand(3).numpy()
    rng.set_state(state)
    same_numbers(rng.rand(3), first)
    rng.seed(7)
    same_numbers(rng.rand(3), numpy.random.RandomState(7).rand(3))


def test_classes_are_as_true_as_numpys():
    rng = np.random.default_rng(0)
    assert np.random.default_rng(rng) is rng
    assert isinstance(rng, numpy.random.Generator)
    assert isinstance(numpy.random.default_rng(0), np.random.Generator)
    assert issubclass(numpy.random.RandomState, np.random.RandomState)
    assert not isinstance(rng, np.random.RandomState)
    same_numbers(
        np.random.Generator(np.random.PCG64(3)).normal(size=2),
        numpy.random.default_rng(3).normal(size=2),
    )
    (child,) = rng.spawn(1)
    (theirs,) = numpy.random.default_rng(0).spawn(1)
    same_numbers(child.normal(size=2), theirs.normal(size=2))


def test_libraries_draw_from_them():
    rng = np.random.default_rng(0)
    drawn = scipy.stats.norm.rvs(size=3, random_state=rng)
    expected = scipy.stats.norm.rvs(size=3, random_state=numpy.random.default_rng(0))
    numpy.testing.assert_array_equal(numpy.asarray(drawn), expected)
    found = scipy.optimize.differential_evolution(
        lambda x: float((x**2).sum()), [(-1, 1)] * 2, rng=rng, maxiter=20
    )
    assert found.fun < 1e-6


@pytest.mark.filterwarnings("ignore::numba_grad.errors.PerformanceWarning")
def test_jitted_functions_draw_other_numbers_at_each_call():
    rng, older, draw = np.random.default_rng(0), np.random.RandomState(0), npr.randn
    method = rng.normal
    for f in (
        lambda x: x * rng.normal(size=2),
        lambda x: x * older.rand(2),
        lambda x: x * npr.randn(2),
        lambda x: x * draw(2),
        lambda x: x * method(size=2),
    ):
        jitted = ng.jit(f)
        results = [jitted(1.0) for _ in range(3)]
        assert len({tuple(x.tolist()) for x in results}) == 3


@pytest.mark.parametrize("name", ["normal", "laplace", "lognormal"])
def test_parameters_that_numpy_refuses(name):
    draw = getattr(ng.numpy.random.default_rng(0), name)
    x = ng.tensor([1.0, 2.0, 3.0], requires_grad=True)
    for scale in (-1.0, ng.tensor([1.0, -1.0, 2.0])):
        with pytest.raises(ValueError, match="a scale is negative"):
            draw(x, scale)
    for size in (2, 1, (1,), (3, 2)):
        with pytest.raises(ValueError, match="broadcast"):
            draw(x, 1.0, size=size)
    assert draw(x, 1.0, size=(2, 3)).shape == (2, 3)
