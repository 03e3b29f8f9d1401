"""Tensors as Python's and NumPy's numbers: what loses no gradient, and what is refused."""

import collections
import math
import pickle
import re
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.polynomial import Polynomial, chebyshev

import numba_grad as ng
from numba_grad.autograd import running
from numba_grad.errors import GradientError, TracingError
from numba_grad.frontend.inputs import calling_lines
from numba_grad.frontend.tensors import conversions as tensor_conversions

X = np.array([1.5, 2.0, 3.0])


def store(x):
    b = np.zeros(3)
    b[0] = x[0] ** 2


def store_slice(x):
    b = np.zeros(3)
    b[:] = x**2


def store_integer(x):
    b = np.zeros(3, int)
    b[1] = x[0]


def store_sum(x):
    b = np.zeros(3)
    b[0] += x[0]


def fill(x):
    b = np.zeros(3)
    b.fill(x[0])


def add_in_place(x):
    b = np.zeros(3)
    b += x


DOUBLED = np.vectorize(lambda x: 2 * x)
STORES = [store, store_slice, store_integer, store_sum, fill]
NUMBERS = [
    (lambda x: float(x[0]), "x itself in place of float"),
    (lambda x: complex(x[0]), "x itself in place of complex"),
    (lambda x: math.sin(x[0]), r"np\.sin\(x\) in place of math\.sin\(x\)"),
    (lambda x: math.lgamma(x[0]), r"scipy\.special\.gammaln\(x\)"),
    (lambda x: np.float64(x[0]), r"x itself in place of np\.float64"),
    (lambda x: np.array([x[0], x[1]]), r"np\.stack\(\[x, y\]\) in place of np\.array"),
    (lambda x: np.mean([x[0], x[1]]), r"np\.mean\(np\.stack\(\[x, y\]\)\) in place of np\.mean"),
    (lambda x: np.full((2, 2), x[0]), r"ng\.full\(\.\.\.\), which has a gradient; x\.detach"),
    (lambda x: Polynomial(x), r"np\.poly1d\(c\[::-1\]\)\(x\)"),
    (lambda x: chebyshev.chebval(0.5, x), r"sum of c\[k\] \* ng\.special\.eval_chebyt\(k, x\)"),
    (lambda x: DOUBLED(x), "a loop over elements; or import numba_grad.numpy as np, where DOUBLED"),
    (lambda x: np.asarray(x, dtype=float), r"x\.astype\(float\)"),
    (lambda x: x[0].item(), r"x\.detach\(\)\.item\(\)"),
    (lambda x: x.item(0), r"x\.detach\(\)\.item\(\)"),
    (lambda x: x.tolist(), r"x\.detach\(\)\.tolist\(\)"),
    (lambda x: x.numpy(), r"x\.detach\(\)\.numpy\(\)"),
    (pickle.dumps, r"x\.detach\(\)"),
    (lambda x: X.dot(x), r"X @ x in place of X\.dot\(x\)"),
    (lambda x: X.searchsorted(x), r"np\.searchsorted\(X, x\) in place of X\.searchsorted"),
]
TEXT = [str, repr, "{}".format, lambda x: f"{x[0]:.3f}", lambda x: "%g %s" % (x[0], x)]  # noqa: UP031
CONTROL = [
    lambda x: bool(x[0]),
    lambda x: x[0] > 1 and x[1] < 5,
    lambda x: 1.5 in x,
    lambda x: np.allclose(x, 0),
    lambda x: int(np.argmax(x)),
    lambda x: int(np.floor(x[0])) + float(np.sign(x[1])) + float(x[2] // 2),
    lambda x: float(x[0].detach()) + x.detach().item(1) + x.detach().numpy()[2],
    lambda x: x[x > 1].size,
    lambda x: [1, 2][x.astype(int)[0]],
    lambda x: (int(x[0]), round(x[1]), math.floor(x[2]), math.ceil(x[0]), math.trunc(x[1])),
]


def root(error):
    """The exception behind NumPy's "setting an array element with a sequence"."""
    return error if error.__cause__ is None else root(error.__cause__)


def scalar_of(ask):
    def f(x):
        ask(x)
        return (x * x).sum()

    return f


def with_torch_signature(transform):
    return lambda f: transform(f, ng.tensor(X))


TRANSFORMS = {
    "grad": lambda f: ng.grad(f)(X),
    "value_and_grad": lambda f: ng.value_and_grad(f)(X),
    "jacobian": lambda f: ng.jacobian(f)(X),
    "hessian": lambda f: ng.hessian(f)(X),
    "vjp": lambda f: ng.vjp(f, X),
    "jvp": lambda f: ng.jvp(f, (X,), (X,)),
    "hvp": lambda f: ng.hvp(f, (X,), (X,)),
    "functional.vjp": with_torch_signature(ng.autograd.functional.vjp),
    "functional.jvp": lambda f: ng.autograd.functional.jvp(f, ng.tensor(X), ng.tensor(X)),
    "functional.jacobian": with_torch_signature(ng.autograd.functional.jacobian),
    "functional.hessian": with_torch_signature(ng.autograd.functional.hessian),
    "functional.vhp": lambda f: ng.autograd.functional.vhp(f, ng.tensor(X), ng.tensor(X)),
    "functional.hvp": lambda f: ng.autograd.functional.hvp(f, ng.tensor(X), ng.tensor(X)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_no_transform_makes_a_constant_of_its_argument(name):
    for ask in (store, lambda x: math.sin(x[0]), lambda x: x.sum().item()):
        with pytest.raises((GradientError, ValueError)) as caught:
            TRANSFORMS[name](scalar_of(ask))
        assert isinstance(root(caught.value), GradientError)
    TRANSFORMS[name](scalar_of(lambda x: float(x[0].detach())))
    assert not running._transform_of


@pytest.mark.parametrize("ask", [*STORES, add_in_place])
def test_a_store_into_an_array_is_refused_and_names_like(ask):
    leaf = ng.tensor(X, requires_grad=True)
    for run in (
        lambda: ng.grad(scalar_of(ask))(X),
        lambda: ng.jit(scalar_of(ask))(X),
        lambda: ng.vmap(scalar_of(ask))(X[None]),
        lambda: ask(leaf * 2),  # PyTorch's rules hold for numbers, not for arrays
    ):
        with pytest.raises((GradientError, TypeError, ValueError)) as caught:
            run()
        assert re.search(r"b = np\.zeros\(3, like=x\)", str(root(caught.value)))


@pytest.mark.parametrize("ask", STORES)
def test_what_has_no_gradient_may_be_stored(ask):
    leaf = ng.tensor(X, requires_grad=True)
    ask(leaf.detach())
    with ng.no_grad():
        ask(leaf)


@pytest.mark.parametrize(("ask", "fix"), NUMBERS)
def test_a_number_in_a_transform_is_refused_and_the_message_says_what_to_type(ask, fix):
    with pytest.raises(GradientError, match=f"(?s)try: .*{fix}"):
        ng.grad(scalar_of(ask))(X)


@pytest.mark.parametrize(("ask", "fix"), NUMBERS)
def test_there_are_no_numbers_of_any_kind_while_tracing(ask, fix):
    with pytest.raises(TracingError) as caught:
        ng.jit(ng.grad(scalar_of(ask)))(X)
    assert "detach" not in str(caught.value) and "try: " in str(caught.value)


@pytest.mark.parametrize("ask", TEXT + CONTROL)
def test_text_and_control_flow_and_constants_are_free(ask):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(ng.grad(scalar_of(ask))(X), 2 * X)
        ask(ng.tensor(X, requires_grad=True))


@pytest.mark.parametrize("question", [math.isnan, math.isinf, math.isfinite])
def test_what_kind_of_number_it_is_has_no_derivative(question):
    def checked(x):
        return x**2 if question(x) else 3 * x

    slope = 4.0 if question is math.isfinite else 3.0
    assert ng.grad(checked)(2.0).item() == slope
    assert ng.grad(lambda x: x if math.isclose(x, 2.0) else 2 * x)(2.0).item() == 1.0
    with pytest.raises(TracingError, match=rf"try: np\.{question.__name__}\(x\)"):
        ng.jit(lambda x: x if question(x) else 2 * x)(1.0)
    with pytest.raises(GradientError, match="the result would be a constant"):
        ng.grad(lambda x: math.fabs(x))(2.0)


def test_text_is_possible_while_tracing():
    seen = []
    ng.jit(lambda x: seen.append(f"{x:.3f}") or x)(1.0)
    assert seen == ["tensor(<traced>, shape=(), dtype=float64)"]


def test_numbers_of_what_an_outer_transform_differentiates_by_are_refused_in_an_inner_one():
    def outer(x):
        return ng.grad(lambda y: y * x.item())(2.0)

    with pytest.raises(GradientError, match="arguments of grad"):
        ng.grad(outer)(3.0)
    assert ng.grad(lambda x: ng.grad(lambda y: y * x.detach().item() * x)(2.0))(3.0).item() == 3.0


def test_numbers_are_refused_in_the_threads_of_a_transformed_function():
    with ThreadPoolExecutor(1) as pool, pytest.raises(GradientError, match="arguments of grad"):
        ng.grad(lambda x: pool.submit(float, x * 2).result() * x)(1.0)


def test_numbers_of_a_leaf_are_constants_within_a_transform_too():
    leaf = ng.tensor(2.0, requires_grad=True)
    assert ng.grad(lambda x: x * (leaf * 3).item())(1.0).item() == 6.0


def test_numbers_of_what_a_finished_transform_returned_are_ordinary_ones():
    leaf = ng.tensor(2.0, requires_grad=True)
    value, gradient = ng.value_and_grad(lambda x: x * x * leaf)(leaf)
    assert value.item() == 8.0 and gradient.item() == 8.0 and gradient.requires_grad


@pytest.mark.parametrize("wrap", [lambda f: f, ng.jit])
def test_a_new_leaf_in_a_transform_is_refused_and_names_array(wrap):
    with pytest.raises(GradientError, match=r"try: ng\.array\(x\)"):
        wrap(ng.grad(lambda x: ng.tensor(x) * 2))(1.5)
    assert wrap(ng.grad(lambda x: ng.array(x) * 2))(1.5) == 2
    assert wrap(ng.grad(lambda x: ng.tensor(x.detach()) * x))(1.5) == 1.5


def test_a_transform_that_fails_leaves_nothing_behind():
    with pytest.raises(ZeroDivisionError):
        ng.grad(lambda x: 1 // 0)(1.0)
    with pytest.raises(ZeroDivisionError):
        ng.autograd.functional.jacobian(lambda x: 1 // 0, ng.ones(1))
    assert not running._transform_of


@pytest.mark.parametrize("convert", [float, complex, math.sin, np.float64])
def test_a_number_of_a_leaf_warns_once_for_a_place(convert, monkeypatch):
    monkeypatch.setattr(tensor_conversions, "_warned", set())
    x = ng.tensor(1.5, requires_grad=True)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            convert(x)
    (warning,) = seen
    assert "tensor with requires_grad=True to a scalar" in str(warning.message)
    assert warning.filename == __file__
    convert(x.detach())
    assert x.item() == x.tolist() == 1.5 and bool(x)  # as in torch, without


# The user's line


def at_line(text, look):
    """What `look` sees of the place where the text, which no file has, asks `x` for a number."""
    found = []

    class Asked:
        __getitem__ = __len__ = None

        def __float__(self):
            found.append(look(calling_lines.Line(sys._getframe(1))))
            return 1.0

        def __array__(self, dtype=None, copy=None):
            found.append(look(calling_lines.Line(sys._getframe(1))))
            return np.array(1.0)

    # Since Python 3.13 "<string>" has a text, that of `python -c`, which is how xdist starts.
    code = compile(text, "<no file>", "exec")
    exec(code, {"np": np, "math": math, "x": Asked(), "b": np.zeros(3)})
    return found[-1]


@pytest.mark.parametrize(
    ("text", "is_store"),
    [
        ("b[0] = x", True),
        ("b[:2] = x", True),
        ("b[b > 0] = x", True),
        ("for k in range(3): b[k] = x", True),
        ("float(x)", False),
        ("b[int(float(x))] = 1", False),
        ("np.float64(x)", False),
    ],
)
def test_the_instruction_tells_stores(text, is_store):
    assert at_line(text, lambda line: line.is_store) == is_store


@pytest.mark.parametrize(
    ("text", "is_formatting"),
    [("'%g' % x", True), ("s = '%g'; s %= x", True), ("float(x) % 2", False)],
)
def test_the_instruction_tells_text_from_other_operators(text, is_formatting):
    assert at_line(text, lambda line: line.is_formatting) == is_formatting


@pytest.mark.parametrize(
    ("text", "is_in_text"),
    [
        ("f'{float(x)}'", True),
        ("f'{float(x):.3f}'", True),
        ("f'size {float(x)!r:>20} m'", True),
        ("raise_ = ValueError(f'{float(x):g} {3}')", True),
        ("str((float(x), f'{3}'))", False),
        ("str((float(x), f'{3:.2f}'))", False),
        ("f'{float(x) * 2}'", False),
        ("float(x)", False),
    ],
)
def test_the_instructions_tell_what_becomes_text(text, is_in_text):
    assert at_line(text, lambda line: line.is_in_text) == is_in_text


def test_numbers_in_text_are_no_constants():
    texts = []

    def f(x):
        texts.append(f"{float(x):.2f}, {x.item()}, {int(x)}, {(x * 2).item()!r}")
        return x**2

    assert ng.grad(f)(2.0).item() == 4.0
    assert texts == ["2.00, 2.0, 2, 4.0"]
    leaf = ng.tensor(2.0, requires_grad=True)
    with warnings.catch_warnings(action="error"):
        f(leaf)

    def refuses(x):
        if x > 1:
            raise ValueError(f"{float(x)} is too large")
        return x

    for gradient in (ng.grad(refuses), ng.jit(ng.grad(refuses), control_flow=True)):
        with pytest.raises(ValueError, match=r"2\.0 is too large"):
            gradient(2.0)


def test_without_source_text_a_message_is_less_precise():
    assert at_line("math.sin(x)", lambda line: (line.expression(), line.is_fill, line.library)) == (
        None,
        False,
        "",
    )
    message = at_line("b[0] = x", calling_lines.instead_of_array)
    assert "b = np.zeros(n, like=x)" in message


def test_specialized_instructions_are_seen_as_they_were_written():
    found = []

    class Asked:
        def __float__(self):
            found.append(calling_lines.Line(sys._getframe(1)).is_store)
            return 1.0

    def f(x):
        b = np.zeros(3)
        values = [0.0]
        for k in range(3):
            values[0] = b[k]  # CPython 3.11 and later specialize what is hot
            b[k] = x

    for _ in range(50):
        f(Asked())
    assert found == [True] * 150


def test_a_line_of_a_library_is_told_from_the_users():
    signal = pytest.importorskip("scipy.signal")
    with pytest.raises(GradientError, match=r"(?s)try: x\.detach\(\)\.numpy\(\).*calls scipy"):
        ng.grad(lambda a: signal.medfilt(a, 3).sum())(np.ones(3))


def test_scalars_are_keys_by_value_and_arrays_by_identity():
    labels = ng.tensor([1, 2, 1, 3])
    assert set(labels) == {1, 2, 3} and collections.Counter(labels)[1] == 2
    assert np.argmax(labels) in {3} and {3: "three"}[labels[3]] == "three"
    ones = [ng.tensor(1.0, requires_grad=True), ng.tensor(1.0)]
    assert len({*ones, ng.tensor([1.0])}) == 3
    kept = ng.grad(lambda x: x * {2.0: 5.0}.get(x, 7.0))
    assert float(kept(2.0)) == 5.0 and float(kept(1.0)) == 7.0


@pytest.mark.parametrize("find", [lambda n: TABLE.get(n, 0), lambda n: n in TABLE, lambda n: {n}])
def test_a_traced_number_is_no_key(find):
    # It has no value, and was another key than any that is there: in silence.
    for n in (2, np.array([2])):
        with pytest.raises(TracingError, match=r"(?s)hash.*\[k\], in place of a dict"):
            ng.jit(lambda n: find(n if n.shape == () else n[0]))(n)


TABLE = {1: 10, 2: 20}


def test_lists_are_repeated_by_numbers_and_multiplied_by_arrays():
    """As of NumPy: `[0] * n`, where n is an element or what a function gives."""
    labels = ng.tensor([0, 2, 1, 2])
    count = labels.max() + 1
    assert [0] * count == [0, 0, 0] == count * [0]
    assert (1, "a") * labels[2] == (1, "a") and [[]] * labels[0] == []
    assert ([1, 2] * ng.tensor(3)).tolist() == [3, 6]  # of an array, in NumPy, too
    assert ([1, 2] * labels[1:3]).tolist() == [2, 2]
    assert ([1, 2] * ng.tensor([0.5])[0]).tolist() == [0.5, 1.0]
    for jitted in (ng.jit(lambda x: [0.0] * x[1]), ng.jit(lambda x: x[1] * (0.0, 1.0))):
        with pytest.raises(TracingError):
            jitted(np.array([1, 2]))
    with pytest.raises(TracingError):
        ng.jit(lambda n: np.sum([1.0] * n))(3)


def test_numbers_in_text_are_those_of_numpy():
    x = ng.tensor([1.5, 2.0], requires_grad=True)
    assert f"{x[0]} {x[1]:.2f} {ng.tensor([7])[0]:03d}" == "1.5 2.00 007"
    assert f"{ng.tensor(np.float32(0.1))}" == f"{np.float32(0.1)}"
    assert f"{x}" == str(x) and str(x[0]) == "tensor(1.5, requires_grad=True)"


def test_bytes_and_whole_numbers():
    x = ng.tensor([1.5, -2.5])
    assert x.tobytes() == np.array([1.5, -2.5]).tobytes()
    assert math.trunc(x[0]) == 1 and math.trunc(x[1]) == -2
    with pytest.raises(GradientError):
        ng.tensor([1.0], requires_grad=True).tobytes()
    parts = np.split(np.arange(6), ng.tensor([3])[0])
    assert [np.asarray(part).tolist() for part in parts] == [[0, 1], [2, 3], [4, 5]]
