"""`differentiable`, construct by construct: values as Python's, derivatives as differences."""

import inspect
import math

import numba
import numpy as np
import pytest

import numba_grad as ng
from numba_grad.config import configure
from numba_grad.errors import KernelError
from tests.processes import output_of, start

RNG = np.random.default_rng(15)
X, Y = RNG.uniform(-1, 1, 6), RNG.uniform(-1, 1, 6)


@numba.njit
def bent(x):
    if x > 0.2:
        return x * x
    return 2 * x


def early_exits(a, n):
    s = 0.0
    for i in range(a.shape[0]):
        if a[i] < -0.5:
            continue
        y = bent(a[i]) if i % 2 else a[i]
        for k in range(n):
            y = y * np.sin(y) + a[(i * k) % a.shape[0]]
            if y > 3:
                break
        else:
            s += 1.5 * y
        s += y
        a[i] *= y
    if s > 100:
        return s, 0.0
    return s, a[0] * s


def scattered(a, b, index):
    for i, x in enumerate(a):
        b[index[i]] += x * x
    for x, y in zip(a, b):  # noqa: B905
        b[0] += x * y
    m = 0
    for k in range(5, 0, -2):
        m += k
        b[k] = b[k - 1] * a[k]
    while m > 0:
        m -= 3
        b[1] = np.exp(-b[1]) + m * a[2]


def arrays_of_branches(x, out):
    if x[0] < 2.0:
        squares = np.empty(x.shape[0])
        for i in range(x.shape[0]):
            squares[i] = x[i] * x[i]
        for i in range(x.shape[0]):
            out[i] = squares[i] * squares[-1 - i]
    else:
        cubes = x**3
        for i in range(x.shape[0]):
            out[i] = cubes[i] * cubes[i]


def overwritten(x, out):
    a = 1
    for i in range(x.shape[0]):
        a = a * x[i]
        low, high = min(a, x[i]), max(a, x[i], 0.3)
        out[i] = low * high**2 + abs(a) ** 1.5


def swapped(u, v, steps):
    total = 0.0
    for t in range(steps):
        for i in range(1, u.shape[0] - 1):
            v[i] = u[i] + 0.3 * u[i] * (u[i - 1] - 2 * u[i] + u[i + 1])
        u, v = v, u
        if t == 3:
            break
        total += u[2] * u[2]
    return total


def iterated(e, m):
    for i in range(m.shape[0]):
        x = m[i]
        while True:
            step = (x - e * math.sin(x) - m[i]) / (1 - e * math.cos(x))
            x -= step
            if abs(step) < 1e-12:
                break
        m[i] = x


def sliced(u, v):
    w = np.zeros_like(u)
    w[1:-1] = 0.5 * (u[:-2] * v[2:] + u[2:] ** 2)
    u[::2] += w[::2]
    u[:-1] = u[1:]
    return np.sum(w * v) + np.dot(u, v), np.outer(u, w) @ v


KERNELS = [
    (early_exits, (X,), (3,)),
    (scattered, (X, Y), (np.array([0, 3, 3, 1, 5, 2]),)),
    (arrays_of_branches, (X, np.zeros(6)), ()),
    (overwritten, (X, np.zeros(6)), ()),
    (swapped, (X, Y), (3,)),
    (swapped, (X, Y), (6,)),
    (iterated, (np.array(0.4), X), ()),
    (sliced, (X, Y), ()),
]


def as_python(function, *args):
    own = [x.copy() if isinstance(x, np.ndarray) else x for x in args]
    returned = function(*own)
    given = (
        [] if returned is None else list(returned) if isinstance(returned, tuple) else [returned]
    )
    changed = zip(own, args, strict=True)
    return given + [x for x, old in changed if np.ndim(x) and not np.array_equal(x, old)]


@pytest.mark.thorough(but="^(?!sliced)", every=3)
@pytest.mark.parametrize(("function", "arrays", "rest"), KERNELS)
def test_values_are_those_of_python_and_derivatives_those_of_differences(function, arrays, rest):
    operation = ng.differentiable(function)
    results = operation(*arrays, *rest)
    results = results if isinstance(results, tuple) else (results,)
    expected = as_python(function, *arrays, *rest)
    assert len(results) == len(expected)
    for result, value in zip(results, expected, strict=True):
        np.testing.assert_allclose(np.asarray(result), value, rtol=1e-13, atol=1e-15)
    with configure(engine="reference"):  # kernels of second order, without compiling them
        ng.testing.check_gradients(lambda *args: operation(*args, *rest), *arrays)


def test_arrays_of_branches_end_with_them():
    f = ng.differentiable(arrays_of_branches)
    for x in (X, X + 4.0):  # In compiled code their memory is given back.
        gradient = ng.grad(lambda x: f(x, np.zeros(6)).sum())(x)
        expected = 4 * x * x[::-1] ** 2 if x[0] < 2.0 else 6 * x**5
        np.testing.assert_allclose(gradient, expected, rtol=1e-13)


def test_arguments_stay_what_they_are():
    u, v = X.copy(), Y.copy()
    float(ng.differentiable(swapped)(u, v, 3)[0])
    assert np.array_equal(u, X) and np.array_equal(v, Y)


def test_it_works_in_jit_in_vmap_and_in_forward_mode():
    operation = ng.differentiable(iterated)
    slope = ng.grad(lambda e, m: np.sum(operation(e, m)))
    assert float(ng.jit(slope)(0.4, X)) == float(slope(0.4, X))
    rows = np.stack([X, Y])
    each = np.stack([np.asarray(operation(0.4, row)) for row in rows])
    assert np.array_equal(np.asarray(ng.vmap(lambda m: operation(0.4, m))(rows)), each)
    _, tangent = ng.jvp(lambda e: np.sum(operation(e, X)), (np.array(0.4),), (np.array(1.0),))
    np.testing.assert_allclose(float(tangent), float(slope(0.4, X)), rtol=1e-12)


def test_float32_stays_float32():
    operation = ng.differentiable(swapped)
    _, u, v = operation(X.astype(np.float32), Y.astype(np.float32), 2)
    assert u.dtype == v.dtype == np.float32
    gradient = ng.grad(lambda u: operation(u, Y.astype(np.float32), 2)[0])(X.astype(np.float32))
    assert gradient.dtype == np.float32
    exact = ng.grad(lambda u: operation(u, Y, 2)[0])(X)
    np.testing.assert_allclose(np.asarray(gradient), np.asarray(exact), rtol=1e-4, atol=1e-5)


def test_results_are_shown_and_source_and_tape_can_be_looked_at():
    operation = ng.differentiable(swapped)
    operation(X, Y, 3)
    assert repr(operation) == "<differentiable swapped(u, v, steps) -> returned, u, v>"
    assert str(inspect.signature(operation)) == "(u, v, steps) -> 'returned, u, v'"
    assert "def swapped_adjoint(" in operation.adjoint_source
    lowered = ng.jit(ng.grad(lambda u: operation(u, Y, 3)[0])).lower(X)
    assert lowered.functions["swapped_adjoint"].count("def swapped_adjoint(") == 1
    compile(operation.adjoint_source, "adjoint", "exec")
    assert operation.tape_bytes(X, Y, 6) > operation.tape_bytes(X, Y, 3) > 0


def _raises(x):
    for i in range(x.shape[0]):
        if x[i] < 0:
            raise ValueError("negative", i)
        x[i] = math.sqrt(x[i])


def _second_names(x, y):
    for i in range(3):
        x[i] = x[i] * x[i]
        x = y


@pytest.mark.parametrize("function", [_raises, _second_names])
def test_what_is_not_differentiated_is_refused_with_its_line(function):
    args = (X, Y)[: function.__code__.co_argcount]
    with pytest.raises(KernelError) as raised:
        ng.differentiable(function)(*args)
    assert "test_core.py:" in str(raised.value) and "custom_op" in str(raised.value)


def test_arrays_that_overlap_are_found():
    u = np.zeros(8)
    with pytest.raises(KernelError, match="shares memory with"):
        ng.differentiable(swapped)(u[:6], u[2:], 3)


def test_a_bare_function_of_numba_says_what_to_type():
    with pytest.raises(TypeError, match=r"ng\.differentiable"):
        bent(ng.tensor(1.0))


_SCRIPT = """
import sys
import numpy as np
import numba_grad as ng
def squared(x, out):
    for i in range(x.shape[0]):
        y = x[i]
        while y > 1:
            y = np.sin(y) * y * y / 2
        out[i] = y * y
f = ng.differentiable(squared)
x = np.array([0.5, 1.5])
print(ng.grad(lambda x: np.sum(f(x, np.zeros(2))))(x), "numba" in sys.modules)
"""


def _started(folder):
    """A process that runs the script, with a cache in a folder."""
    script = folder / "script.py"
    if not script.exists():  # another process may be reading it
        script.write_text(_SCRIPT)
    return start(script, NUMBA_GRAD_CACHE_DIR=folder / "cache")


def _printed(process):
    return output_of(process).rpartition(" ")


@pytest.mark.thorough
def test_a_warm_start_imports_no_numba(tmp_path):
    first = _printed(_started(tmp_path))
    assert first[2] == "True\n"
    assert _printed(_started(tmp_path)) == (first[0], " ", "False\n")


@pytest.mark.thorough
@pytest.mark.parametrize("count", [3, pytest.param(8, marks=pytest.mark.thorough(rare=True))])
def test_processes_share_one_cold_directory(tmp_path, count):
    found = {_printed(process)[0] for process in [_started(tmp_path) for _ in range(count)]}
    assert len(found) == 1
    assert _printed(_started(tmp_path)) == (*found, " ", "False\n")
