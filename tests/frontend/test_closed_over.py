"""What a jitted function finds around itself is as it is at the call, not as it was when traced."""

import array
import collections
import contextvars
import dataclasses
import functools
import importlib
import operator
import sys
import threading
import types
import weakref
from collections.abc import Callable

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import TracingError
from numba_grad.frontend.inputs import guards
from tests.threads import run_in_threads

pytestmark = pytest.mark.usefixtures("numpy_engine")

X = np.array([1.0, 2.0, 3.0])
rate = 2.0
table = np.ones(3)
options = {"scale": 2.0, "shifts": [1.0, 2.0]}


def _helper(x):
    return x * rate


class Model:
    offset = 1.0

    def __init__(self):
        self.weights = np.full(3, 2.0)
        self.scale = 3.0
        self.parts = [Part(1.0), Part(2.0)]
        self.log = []

    def __call__(self, x):
        return self.step(x)

    def step(self, x):
        self.log.append(x.shape)
        for part in self.parts:
            x = part(x)
        return x * self.weights * self.doubled + self.offset

    @property
    def doubled(self):
        return 2 * self.scale


class Part:
    __slots__ = ("factor",)

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return x * self.factor


class Counted:
    """A function, and how often it was called, which `jit` does to trace it."""

    def __init__(self, f):
        self.calls = 0
        self.f = f

    def __call__(self, x):
        self.calls += 1
        return self.f(x)


def _agree_after(f, *changes, x=X):
    """`jit(f)` is `f` before and after each change, and is not traced again without one."""
    counted = Counted(f)
    jitted = ng.jit(counted)
    for change in (lambda: None, *changes):
        change()
        np.testing.assert_array_equal(np.asarray(jitted(x)), np.asarray(f(x)))
        traces = counted.calls
        np.testing.assert_array_equal(np.asarray(jitted(x)), np.asarray(f(x)))
        assert counted.calls == traces
    return counted.calls


def _set(container, key, value):
    return lambda: container.__setitem__(key, value)


def test_arrays_are_read_at_each_call():
    w, large, columns = np.ones(3), np.ones(3000), np.arange(6.0).reshape(3, 2)

    def f(x):
        return x * w + large[1:4] + x @ columns[::-1] @ columns.T

    _agree_after(f, _set(w, 1, 5.0), _set(large, 2, 7.0), _set(columns, (0, 1), -1.0))


def test_large_arrays_that_change_in_place_are_not_traced_again():
    large = np.ones(3000)
    traces = _agree_after(
        lambda x: x * large, _set(large, 2, 7.0), _set(large, slice(None), 3.0), x=np.ones(3000)
    )
    assert traces == 1


def test_globals_and_cells_may_be_rebound(monkeypatch):
    w, number = np.ones(3), 4.0

    def rebind():
        nonlocal w, number
        w, number = np.full(3, 9.0), -0.0

    _agree_after(
        lambda x: x * w * rate + table / number,
        rebind,
        lambda: monkeypatch.setitem(globals(), "rate", 3),
        lambda: monkeypatch.setitem(globals(), "rate", 3.0),
        lambda: monkeypatch.setitem(globals(), "table", np.arange(3.0)),
    )


def test_functions_that_are_called_are_looked_into(monkeypatch):
    _agree_after(
        lambda x: _helper(x) + functools.partial(_helper)(x),
        lambda: monkeypatch.setitem(globals(), "rate", 5.0),
        lambda: monkeypatch.setitem(globals(), "_helper", lambda x: x - rate),
        lambda: monkeypatch.setitem(globals(), "rate", 6.0),
    )


def test_attributes_and_methods_are_looked_into(monkeypatch):
    model = Model()
    changes = (
        lambda: setattr(model, "scale", 7.0),
        _set(model.weights, 0, 11.0),
        lambda: setattr(model, "weights", np.arange(3.0)),
        lambda: setattr(model.parts[1], "factor", 5.0),
        lambda: model.parts.append(Part(13.0)),
        lambda: monkeypatch.setattr(Model, "offset", 17.0),
        lambda: monkeypatch.setattr(Model, "step", lambda self, x: x + self.scale),
    )
    _agree_after(model, *changes)
    assert _agree_after(Model().step, lambda: None) == 1


class Spring:
    def __init__(self, stiffness, length):
        self.stiffness = stiffness
        self.length = length

    def force(self, x):
        return self.stiffness * (x - self.length)

    def __rmul__(self, x):
        return self.length * x

    def __iter__(self):
        return iter([self.stiffness, self.length])

    @functools.cached_property
    def twice(self):
        return 2 * self.stiffness


class StiffSpring(Spring):
    def force(self, x):
        return super().force(x) ** 2


def _of_a_local_name(springs):
    def f(x):
        spring = springs[0]
        return spring.length * x + springs[1].stiffness

    return f


def _of_methods(springs):
    return lambda x: sum(spring.force(x) for spring in springs)


def _of_dicts(springs):
    named = {"first": [springs[0]], "second": collections.deque([springs[1]])}
    return lambda x: sum(spring.force(x) for group in named.values() for spring in group)


def _of_operators(springs):
    first, second = springs
    return lambda x: x * first + sum(second)


def _of_generators(springs):
    def lengths(springs):
        for spring in springs:
            yield spring.length * spring.twice

    return lambda x: x * sum(lengths(springs))


def _of_computed_names(springs):
    return lambda x: sum(getattr(s, part) for s in springs for part in vars(s)) * x


def _of_partial_functions(springs):
    def f(spring, x):
        return spring.length * x * spring.stiffness

    return functools.partial(f, springs[1])


def _of_objects_made_there(springs):
    class Pair:
        def __init__(self, springs):
            self.springs = springs

        def force(self, x):
            first, second = self.springs
            return first.force(x) * second.length

    return lambda x: Pair(springs).force(x)


@pytest.mark.parametrize(
    "reaching",
    [
        _of_a_local_name,
        _of_methods,
        _of_dicts,
        _of_operators,
        _of_generators,
        _of_computed_names,
        _of_partial_functions,
        _of_objects_made_there,
    ],
)
def test_attributes_count_however_their_objects_are_reached(reaching):
    springs = [Spring(2.0, 0.5), StiffSpring(3.0, 0.25)]

    def change():
        springs[1].length, springs[1].stiffness = 4.0, 5.0
        springs[0].length, springs[0].stiffness = 6.0, 7.0
        vars(springs[0]).pop("twice", None)
        vars(springs[1]).pop("twice", None)

    _agree_after(reaching(springs), change)


class _Doubling(Spring):
    def force(self, x):
        return 2 * x


class _Named(type):
    width = 2.0


class _Listed(metaclass=_Named):
    pass


class _WithDefaults:
    def __getattr__(self, name):
        return 2.0


def test_names_that_hide_what_was_found_count():
    spring, other, defaults = Spring(2.0, 0.5), Spring(2.0, 0.5), _WithDefaults()
    names = types.SimpleNamespace(a=1.0)

    def setting(thing, name, value):
        return lambda: setattr(thing, name, value)

    _agree_after(lambda x: spring.force(x), setting(spring, "force", lambda x: 7 * x))
    _agree_after(lambda x: other.force(x), setting(other, "__class__", _Doubling))
    _agree_after(lambda x: x if hasattr(names, "b") else 2 * x, setting(names, "b", 3.0))
    _agree_after(lambda x: x * sum(vars(names).values()), setting(names, "c", 4.0))
    _agree_after(lambda x: x * defaults.rate, setting(defaults, "rate", 5.0))
    _agree_after(
        lambda x: x * _Listed.width,
        setting(_Named, "width", 3.0),
        setting(_Listed, "width", 4.0),
    )


def test_functions_of_a_module_hide_builtin_ones():
    variables = {}
    exec("def f(x):\n    return x * max(1.0, 2.0)", variables)  # as a cell of a notebook does
    _agree_after(variables["f"], lambda: variables.update(max=min))


def test_other_names_of_an_object_do_not_have_it_traced_again():
    spring = Spring(2.0, 0.5)
    assert _agree_after(lambda x: spring.force(x), lambda: setattr(spring, "note", "new")) == 1


def test_views_buffers_and_variables_of_threads_and_contexts_are_looked_into():
    numbers, bytes_, array_ = np.ones(3), bytearray(b"\x01\x02"), array.array("d", [1.0, 2.0])
    shown, table = memoryview(numbers), {"a": 1.0}
    proxy, local = types.MappingProxyType(table), threading.local()
    local.a = 1.0
    context = contextvars.ContextVar("context")
    context.set(1.0)
    attribute = operator.attrgetter("a")
    _agree_after(lambda x: x * shown[0], _set(numbers, 0, 4.0))
    _agree_after(lambda x: x * bytes_[0], _set(bytes_, 0, 4))
    _agree_after(lambda x: x * array_[0], _set(array_, 0, 4.0), lambda: array_.insert(0, 5.0))
    _agree_after(lambda x: x * proxy["a"], _set(table, "a", 4.0))
    _agree_after(lambda x: x * local.a, lambda: setattr(local, "a", 4.0))
    _agree_after(lambda x: x * context.get(), lambda: context.set(4.0))
    _agree_after(lambda x: x * attribute(local), lambda: setattr(local, "a", 5.0))


def test_dicts_have_their_keys_in_the_order_of_the_call():
    def weighted(d):
        return sum(k * x for k, x in enumerate(d.values()))

    f = ng.jit(weighted)
    for given in ({"a": 1.0, "b": X}, {"b": 2.0, "a": X}, {"b": X, "a": 1.0}, {"a": X, "b": 1.0}):
        np.testing.assert_array_equal(f(given), weighted(given))
    both = ng.jit(lambda **d: weighted(d))
    np.testing.assert_array_equal([both(a=1.0, b=2.0), both(b=2.0, a=1.0)], [2.0, 1.0])


def test_what_numpy_computes_of_large_arrays_that_no_tensor_meets_counts():
    data, both = np.ones(3000), np.ones(3000)
    objects = np.array([Spring(1.0, 2.0), Spring(3.0, 4.0)], dtype=object)
    _agree_after(lambda x: x * data.mean(), _set(data, 1, 7.0))
    _agree_after(lambda x: x * 2 if data[1] > 3 else x, _set(data, 1, 0.0))
    _agree_after(
        lambda x: sum(s.force(x) for s in objects), lambda: setattr(objects[1], "length", 0)
    )
    assert _agree_after(lambda x: (x[0] * both).sum(), _set(both, 1, 7.0)) == 1


def test_what_functions_of_libraries_were_made_with_counts():
    limits = {"low": 1.5}
    springs = collections.ChainMap({}, {"first": Spring(1.0, 2.0)})
    clipped = np.vectorize(lambda value: value if value > limits["low"] else 0.0)

    @functools.singledispatch
    def force(of, x):
        return x

    @force.register
    def _(of: Spring, x):
        return of.force(x) * limits["low"]

    _agree_after(lambda x: x * clipped(np.arange(3.0)), _set(limits, "low", 0.5))
    _agree_after(lambda x: force(springs["first"], x), _set(limits, "low", 2.0))
    _agree_after(lambda x: force(springs["first"], x), _set(springs, "first", Spring(5.0, 6.0)))


def test_attributes_of_static_arguments_count():
    spring = Spring(2.0, 0.5)
    for f in (
        ng.jit(lambda x, spring: spring.force(x), static_argnums=1),
        ng.jit(lambda x, spring: spring.force(x), static_argnames="spring"),
    ):
        given = {"spring": spring} if f._static_argnames else {}
        rest = () if given else (spring,)
        for spring.length in (0.5, 1.5):
            np.testing.assert_array_equal(f(X, *rest, **given), spring.force(X))


def test_what_nobody_reads_of_an_object_does_not_count():
    spring = Spring(2.0, 0.5)
    spring.records = []
    changes = [lambda: spring.records.append(1), lambda: setattr(spring, "name", "a")]
    assert _agree_after(spring.force, *changes) == 1


def test_records_that_other_methods_keep_do_not_count():
    class Counting(Spring):
        def __init__(self):
            super().__init__(2.0, 0.5)
            self.calls, self.results = 0, []
            self.jitted = ng.jit(lambda x: traced.append(1) or self.force(x))

        def __call__(self, x):
            self.calls += 1
            result = self.jitted(x)
            self.results.append(result)
            return result

    traced = []
    counting = Counting()
    for counting.length in (0.5, 0.5, 1.5, 1.5):
        np.testing.assert_array_equal(counting(X), counting.force(X))
    assert counting.calls == 4
    assert len(traced) == 2


def test_long_lists_sets_and_the_order_of_dicts_count():
    numbers, springs = [1.0] * 100, [Spring(1.0, 0.1 * k) for k in range(50)]
    powers, named = {1, 2}, {"a": 1.0, "b": 2.0}

    def to_the_end():
        named["a"] = named.pop("a")

    _agree_after(lambda x: x * sum(numbers), _set(numbers, 70, 3.0), _set(numbers, 70, 3))
    _agree_after(lambda x: sum(s.force(x) for s in springs), _set(vars(springs[40]), "length", 9.0))
    _agree_after(lambda x: sum(x**p for p in sorted(powers)), lambda: powers.add(3))
    _agree_after(lambda x: functools.reduce(lambda y, w: x + y**w, named.values(), x), to_the_end)


def test_lists_and_dicts_are_looked_into(monkeypatch):
    def f(x):
        return x * options["scale"] + sum(options["shifts"])

    monkeypatch.setitem(globals(), "options", {"scale": 2.0, "shifts": [1.0, 2.0]})
    _agree_after(
        f,
        lambda: options.__setitem__("scale", 5.0),
        lambda: options["shifts"].__setitem__(1, 9.0),
        lambda: options["shifts"].append(4.0),
    )


def test_what_other_transforms_and_jitted_functions_close_over_counts(monkeypatch):
    w = np.ones(3)
    inner = ng.jit(lambda x: x * w * rate)
    functions = (
        ng.grad(lambda x: (x * x * w * rate).sum()),
        ng.vmap(lambda x: x * rate),
        lambda x: inner(x) + 1,
        lambda x: ng.grad(lambda y: inner(y).sum())(x),
    )
    for f in functions:
        monkeypatch.setitem(globals(), "rate", 2.0)
        _agree_after(f, lambda: monkeypatch.setitem(globals(), "rate", 5.0), _set(w, 0, 8.0))


def test_rules_of_a_function_with_a_derivative_of_its_own_count(monkeypatch):
    class Scaled(ng.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * rate

        @staticmethod
        def backward(ctx, g):
            return g * rate * table[0]

    gradient = ng.grad(lambda x: Scaled.apply(x).sum())
    for f in (Scaled.apply, gradient):
        monkeypatch.setitem(globals(), "rate", 2.0)
        _agree_after(
            lambda x, f=f: f(x),
            lambda: monkeypatch.setitem(globals(), "rate", 5.0),
            lambda: monkeypatch.setitem(globals(), "table", np.full(3, 7.0)),
        )


def test_looking_around_runs_no_code_of_the_user():
    class Missing:
        __slots__ = ()

        def __getattr__(self, name):
            raise RuntimeError(name)

    class Bare(Missing):
        __slots__ = ("rate",)

    class Guarded:
        def __getattribute__(self, name):
            raise RuntimeError(name)

    missing, guarded, bare = Missing(), Guarded(), Bare()

    def f(x):
        if x is None:
            return missing.rate * guarded.rate * [bare][0].rate
        return x + 1

    np.testing.assert_array_equal(ng.jit(f)(X), X + 1)


def test_defaults_and_arguments_of_partial_functions_count():
    w = np.ones(3)

    def f(x, y=w):
        return x * y

    _agree_after(f, _set(w, 0, 3.0), lambda: setattr(f, "__defaults__", (np.arange(3.0),)))
    v = np.ones(3)
    partial = functools.partial(f, y=v)
    _agree_after(partial, _set(v, 2, 3.0), _set(partial.keywords, "y", 2.0))


def test_code_that_is_replaced_counts():
    def f(x):
        return x + 1

    def g(x):
        return x - 1

    _agree_after(f, lambda: setattr(f, "__code__", g.__code__))


def test_values_that_decide_about_the_trace_count():
    index, mask, counts = np.array([0, 1]), np.array([True, False, True]), np.array([1, 2, 1])
    first = ng.tensor([1.0, 2.0])
    _agree_after(lambda x: x[index], _set(index, 1, 2))
    _agree_after(lambda x: x[mask], _set(mask, 1, True))
    _agree_after(lambda x: np.repeat(x, counts), _set(counts, 0, 3))
    _agree_after(lambda x: x * first[0].item(), lambda: first.__setitem__(0, 10.0))
    large = np.ones(3000, int)
    _agree_after(lambda x: x[large], _set(large, 2999, 2))
    rows = np.arange(600).reshape(300, 2) % 3
    _agree_after(lambda x: sum(x[row] for row in rows), _set(rows, (299, 1), 0))
    with pytest.raises(IndexError, match="out of bounds"):
        jitted = ng.jit(lambda x: x[large])
        jitted(X)
        large[0] = 3
        jitted(X)


_INDICES = np.array([[3, 0, 2], [1, 3, 3]])
_LAYOUTS = {
    "rows": _INDICES.copy,
    "columns": lambda: np.asfortranarray(_INDICES),
    "a part": lambda: np.concatenate([_INDICES, _INDICES])[1:3],
    "every other": lambda: np.repeat(_INDICES, 2, axis=1)[:, ::2],
    "backwards": lambda: _INDICES[::-1, ::-1].copy()[::-1, ::-1],
    "one column": lambda: _INDICES.T.copy()[:, 1],
    "short": lambda: _INDICES.astype(np.int16),
    "of the other byte order": lambda: _INDICES.astype(_INDICES.dtype.newbyteorder()),
    "memory of another object": lambda: np.frombuffer(
        bytearray(_INDICES.tobytes()), np.int64
    ).reshape(2, 3),
    "large": lambda: np.tile(_INDICES, (3000, 1)),
}


@pytest.mark.parametrize("layout", _LAYOUTS)
def test_index_arrays_that_change_in_place_are_seen_wherever_they_lie(layout):
    indices, x, traces = _LAYOUTS[layout](), np.arange(4.0), []

    def f(x):
        traces.append(1)
        return x[indices] * 2.0

    jitted = ng.jit(f)
    last = (-1,) * indices.ndim
    for number in (None, None, 1, 2, 2, 0, None):
        if number is not None:
            indices[last] = number
        np.testing.assert_array_equal(jitted(x), x[indices] * 2.0)
    assert len(traces) == 4


def test_arrays_that_a_function_makes_or_writes_to_are_its_own():
    kept = np.zeros(3000)

    def f(x):
        b = np.zeros(3)
        y = x + b
        b[0] = 1.0
        kept[:] = 0
        kept[1] += 2.0
        return y * b + (x + kept[:3])

    f(X)
    assert _agree_after(f) == 1


def test_records_that_a_function_keeps_do_not_have_it_traced_again():
    calls, sizes, count = [], {}, 0

    def f(x):
        nonlocal count
        count += 1
        calls.append(x.shape)
        sizes["x"] = x.shape
        return x * 2.0

    jitted = ng.jit(f)
    for _ in range(3):
        jitted(X)
    assert (calls, sizes, count) == ([(3,)], {"x": (3,)}, 1)


def test_gradients_that_flow_through_calls_are_those_of_the_arrays_now():
    w = np.ones(3)
    f = ng.jit(lambda x: (x * x * w).sum())
    t = ng.tensor(X, requires_grad=True)
    for factor in (1.0, 4.0):
        w[:] = factor
        y = f(t)
        w[:] = -1.0  # what is recorded stays as it was
        t.grad = None
        y.backward()
        np.testing.assert_array_equal(t.grad, 2 * factor * X)
    w[:] = 3.0
    np.testing.assert_array_equal(f(X), 3 * (X**2).sum())


def _in_each_step(x, tensors):
    for w in tensors:
        x = np.sin(x) * w + 0.1 * x
    return np.sum(x)


def _selected_in_each_step(x, tensors):
    y = np.concatenate([x, x])
    masks = np.array([[1, 1, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0]], bool)
    for k, w in enumerate(tensors):
        y = y * 0.99
        mask = masks[k % 2]
        y[mask] = y[mask] * 0.5 * np.sin(y[mask]) + w
    return np.sum(y)


def _of_rows_of_different_lengths(x, tensors):
    z = np.concatenate([x] * 10)
    return sum(np.sum(np.sin(z[k + 1 :] - z[k]) * w) for k, w in enumerate(tensors[:25]))


@pytest.mark.parametrize("transform", [lambda f: f, ng.grad])
@pytest.mark.parametrize(
    ("f", "made"),
    [
        (_in_each_step, lambda k: 1 / (2 + k)),
        (_in_each_step, lambda k: 0.5),
        (_in_each_step, lambda k: [0.5, 0.25, 1 / (2 + k)]),
        (_selected_in_each_step, lambda k: [0.5] * (3 - k % 2)),
        (_of_rows_of_different_lengths, lambda k: 1 / (2 + k)),
    ],
)
def test_tensors_of_steps_that_become_a_loop_are_read_at_each_call(f, made, transform):
    tensors = [ng.tensor(made(k)) for k in range(40)]
    jitted = ng.jit(lambda x: transform(lambda x: f(x, tensors))(x))
    for _ in range(3):
        values = [np.array(w) for w in tensors]
        expected = transform(lambda x, values=values: f(x, values))(ng.tensor(X))
        np.testing.assert_allclose(jitted(X), expected, rtol=1e-12)
        for w in tensors:
            w *= 1.25


def test_what_tensors_were_before_a_function_assigns_to_them():
    index, count = ng.tensor([0, 1, 2]), ng.tensor(2)

    def f(x):
        now, size = index * 1, count + 0
        index[...] = (index + 1) % 5
        count[...] = count + 1
        return np.sum(x[now]) + np.sum(x[: int(size)])

    x = np.arange(10.0) ** 2
    jitted = ng.jit(f)
    for k in range(4):
        places = (np.arange(3) + k) % 5
        assert float(jitted(x)) == x[places].sum() + x[: 2 + k].sum()
    jitted = ng.jit(lambda x: _with_former(x, tensors))
    tensors = [ng.tensor(1 / (2 + k)) for k in range(40)]
    values = np.array(tensors)
    for _ in range(3):
        expected = _in_each_step(X, values + 0.0)
        np.testing.assert_allclose(jitted(X), expected, rtol=1e-12)
        values *= 0.75


DERIVATIVES = {
    "grad": lambda f, p: ng.grad(f)(p),
    "value_and_grad": lambda f, p: ng.value_and_grad(f)(p)[0],
    "jvp": lambda f, p: ng.jvp(f, (p,), (np.ones(len(p)),))[1],
    "vjp": lambda f, p: ng.vjp(f, p)[0],
    "linearize": lambda f, p: ng.linearize(f, p)[0],
    "hessian": lambda f, p: ng.hessian(f)(p),
}


@pytest.mark.parametrize("name", DERIVATIVES)
@pytest.mark.parametrize("made", [np.array, ng.tensor])
def test_derivatives_by_what_is_closed_over_are_those_of_its_values_now(name, made):
    def f(p, x):
        return DERIVATIVES[name](lambda q: np.sum(np.sin(q) * q * x), p)

    parameters = made(np.linspace(0.1, 1.0, 200))
    jitted = ng.jit(lambda x: f(parameters, x))
    for _ in range(3):
        expected = f(ng.tensor(np.array(parameters)), 2.0)
        np.testing.assert_allclose(jitted(2.0), expected, rtol=1e-12)
        parameters *= 1.5


def _by_backward(p):
    p.grad = None
    np.sum(np.sin(p) * p).backward()
    return p.grad


def _by_another_leaf(p):
    leaf = p.detach().requires_grad_()
    return ng.autograd.grad(np.sum(np.sin(leaf) * leaf), leaf)[0]


@pytest.mark.parametrize(
    "derivative",
    [
        lambda p: ng.autograd.grad(np.sum(np.sin(p) * p), p)[0],
        _by_backward,
        _by_another_leaf,
    ],
)
def test_backward_passes_through_what_is_closed_over_alone_are_those_of_its_values(derivative):
    p = ng.tensor(X, requires_grad=True)
    jitted = ng.jit(lambda x: derivative(p) * x)
    for _ in range(3):
        expected = np.sin(p.detach()) + p.detach() * np.cos(p.detach())
        np.testing.assert_allclose(jitted(2.0), 2 * expected, rtol=1e-12)
        with ng.no_grad():
            p *= 1.5


def test_a_tensor_that_was_one_before_a_function_assigns_to_it():
    rate = ng.tensor(1.0)

    def f(x):
        y = rate / x
        rate[...] = rate * 2
        return np.sum(y)

    jitted = ng.jit(ng.grad(f))
    for k in range(3):
        np.testing.assert_allclose(jitted(X), -(2.0**k) / X**2, rtol=1e-12)


def _with_former(x, tensors):
    former = [w + 0.0 for w in tensors]
    for w in tensors:
        w *= 0.75
    return _in_each_step(x, former)


def test_tensors_may_be_rebound():
    w = ng.tensor([1.0, 1.0, 1.0])

    def rebind():
        nonlocal w
        w = w * 4.0

    _agree_after(lambda x: x * w, rebind, lambda: w.__setitem__(0, 9.0))


def test_a_tensor_that_requires_grad_later_has_a_gradient():
    w = ng.tensor([1.0, 2.0, 3.0])
    f = ng.jit(lambda x: np.sum(x * w * w))
    x = np.array([1.0, 2.0, 0.5])
    assert f(x) == f(x) == 13.5  # the second time it is looked up directly
    w.requires_grad_()
    f(x).backward()
    np.testing.assert_array_equal(w.grad.numpy(), [2.0, 8.0, 3.0])
    with ng.no_grad():
        assert f(x) == 13.5
    w.requires_grad_(False)
    assert not f(ng.tensor(x)).requires_grad


def test_what_is_computed_of_tensors_alone_is_computed_of_their_values_now():
    w = ng.tensor([1.0, 1.0, 1.0])
    for f in (
        lambda x: x * w.detach(),
        lambda x: x * w[1:].sum() + w[0],
        lambda x: x * ng.grad(lambda v: (v * v).sum())(w),
    ):
        _agree_after(f, lambda: w.__setitem__(0, w[0] + 3.0), lambda: w.fill(2.0))


def test_what_is_read_in_modules_counts():
    settings = types.ModuleType("settings")
    settings.rate = 2.0
    _agree_after(lambda x: x * settings.rate * np.pi, lambda: setattr(settings, "rate", 3.0))


def test_modules_that_are_imported_inside_count(monkeypatch):
    settings = types.ModuleType("settings_of_a_test")
    settings.rate, settings.unread = 2.0, 1
    monkeypatch.setitem(sys.modules, settings.__name__, settings)

    def f(x):
        import settings_of_a_test as own
        from settings_of_a_test import rate

        return x * rate + own.rate

    assert _agree_after(f, lambda: setattr(settings, "rate", 3.0)) == 2
    assert _agree_after(f, lambda: setattr(settings, "unread", 2)) == 1


def test_things_that_disappear_are_noticed(monkeypatch):
    monkeypatch.setitem(globals(), "passing", 2.0)
    f = ng.jit(lambda x: x * passing)  # noqa: F821
    f(X)
    monkeypatch.delitem(globals(), "passing")
    with pytest.raises(NameError):
        f(X)


def test_a_guard_has_a_bounded_number_of_conditions():
    names = {f"w{k}": np.ones(3) for k in range(4000)}
    source = "def f(x):\n    return x + sum([" + ", ".join(names) + "])"
    exec(source, names)
    guard = guards.guard_of(names["f"])
    assert guard.holds()
    assert len(guard._conditions) == guards.MOST_CONDITIONS
    assert not guard.is_complete
    arrays = [np.ones(3) for _ in range(30)]
    guard = guards.guard_of(lambda x: arrays)
    assert guard.holds()
    assert guard.is_complete


@pytest.mark.thorough(but="^40$")
@pytest.mark.parametrize("count", [40, 600])
def test_many_objects_and_lists_are_looked_into(count):
    springs = [Spring(2.0, 0.5) for _ in range(count)]
    lists = {k: [1.0, k] for k in range(count)}
    numbers = [0.5] * (30 * count)
    _agree_after(
        lambda x: sum(s.force(x[0]) for s in springs), lambda: setattr(springs[-1], "length", 7.0)
    )
    _agree_after(lambda x: sum(v[0] * x[0] for v in lists.values()), _set(lists[count - 1], 0, 9.0))
    _agree_after(lambda x: x * sum(numbers), _set(numbers, -1, 9.0))


def test_more_than_is_compared_is_a_warning():
    rows = [[k, 1.0] for k in range(5000)]
    with pytest.warns(ng.errors.TracingWarning, match="more than is compared at each call"):
        assert ng.jit(lambda x: x * len(rows))(2.0) == 10000.0


def test_functions_of_nothing_but_their_arguments_compare_their_code_only():
    assert len(guards.guard_of(lambda x: np.sin(x) * np.pi)._conditions) == 1
    assert guards.guard_of(np.sin).holds is None


@pytest.mark.parametrize("value", [0.0, float("nan"), 1, True, "a", (1, 2.0), np.float32(1), None])
def test_numbers_and_texts_are_compared_by_type_and_value(value):
    others = (0.0, -0.0, float("nan"), 1, 1.0, True, "a", (1, 2.0), (1, 2), np.float32(1), None)
    same = [x for x in others if guards.is_same(x, value)]
    assert len(same) == 1
    assert repr(same[0]) == repr(value)


def test_threads_that_change_what_is_closed_over_see_their_own_changes():
    """Each thread rebinds a number of its own, and calls a function that reads it."""

    def work(seed):
        number = float(seed)
        f = ng.jit(lambda x: x * number)
        for k in range(20):
            number = float(seed + k)
            np.testing.assert_array_equal(f(X), X * number)

    run_in_threads(work, (1, 100))


def test_what_a_function_assigns_to_is_its_own_and_what_others_assign_to_is_not(monkeypatch):
    model, made = Model(), []

    class Record:
        pass

    def f(x):
        model.seen = x.shape
        model.total += 1
        record = Record()
        record.scale = 1.0  # not that of the model
        made.append(record)
        return x * model.scale

    model.total = 0
    jitted = ng.jit(f)
    for _ in range(2):
        np.testing.assert_array_equal(jitted(X), 3 * X)
    assert model.total == len(made) == 1
    model.scale = 5.0
    np.testing.assert_array_equal(jitted(X), 5 * X)


def test_a_tensor_that_a_jitted_function_has_kept_says_so_where_it_is_used():
    kept = types.SimpleNamespace()

    def f(x):
        kept.weights = x * 2.0
        return x.sum()

    assert ng.jit(f)(np.ones(3)) == 3.0
    uses = [
        lambda: float(kept.weights[0]),
        lambda: np.asarray(ng.jit(lambda x: x + kept.weights)(np.ones(3))),
        lambda: np.asarray(ng.grad(lambda x: (x * kept.weights).sum())(np.ones(3))),
        lambda: kept.weights.numpy(),
    ]
    for use in uses:
        with pytest.raises(TracingError, match=r"(?s)used outside.* f, the .*in place"):
            use()
    with pytest.raises(TracingError, match="needs the value of a tensor while"):
        ng.jit(lambda x: x * float(x[0]))(np.ones(3))


class Diffusion:
    """A simulation whose state and workspace are its own."""

    def __init__(self, np):
        self.u = np.zeros(8)
        self.u[3:5] = 1.0
        self.change = np.zeros(6)

    def step(self, rate):
        self.change[:] = self.u[2:] - 2.0 * self.u[1:-1] + self.u[:-2]
        self.u[1:-1] += rate * self.change
        self.u[0] = rate
        return (self.u**2).sum()


def test_what_a_jitted_function_does_to_tensors_it_closes_over_is_done_at_each_call():
    ours, numpys = Diffusion(ng), Diffusion(np)
    step = ng.jit(ours.step)
    for rate in (0.1, 0.2, 0.3):
        np.testing.assert_allclose(step(rate), numpys.step(rate), rtol=1e-14)
    np.testing.assert_allclose(ours.u.numpy(), numpys.u, rtol=1e-14)
    np.testing.assert_allclose(ours.change.numpy(), numpys.change, rtol=1e-14)
    ours.u[:] = numpys.u[:] = 1.0  # from outside
    np.testing.assert_allclose(step(0.1), numpys.step(0.1), rtol=1e-14)
    # And in another jitted function, which has it done as well.
    twice = ng.jit(lambda rate: step(rate) + step(rate))
    for rate in (0.1, 0.3):
        expected = numpys.step(rate) + numpys.step(rate)
        np.testing.assert_allclose(twice(rate), expected, rtol=1e-14)
    np.testing.assert_allclose(ours.u.numpy(), numpys.u, rtol=1e-14)


@pytest.mark.parametrize("is_view", [False, True])
def test_tensors_that_a_jitted_function_assigns_to_change_with_their_views(is_view):
    buffer = ng.zeros(4)
    view = buffer[1:]
    assigned = view if is_view else buffer

    def f(x):
        assigned[0] = x[0]
        assigned[1:2] += 1.0
        return buffer.sum() + view.sum()

    given = ng.jit(f)
    plain_buffer = np.zeros(4)
    plain = plain_buffer[1:] if is_view else plain_buffer
    for x in (np.array([5.0]), np.array([7.0])):
        plain[0] = x[0]
        plain[1:2] += 1.0
        assert float(given(x)) == plain_buffer.sum() + plain_buffer[1:].sum()
        np.testing.assert_array_equal(buffer.numpy(), plain_buffer)
        np.testing.assert_array_equal(view.numpy(), plain_buffer[1:])


def test_gradients_flow_through_what_a_jitted_function_assigns_to():
    def f(x, buffer):
        buffer[1:] = 3.0 * x
        return (buffer**2).sum()

    buffer, x = ng.zeros(3), np.array([1.0, 2.0])
    expected = ng.grad(lambda x: f(x, ng.zeros(3)))(x).numpy()
    closed = ng.jit(lambda x: f(x, buffer))
    np.testing.assert_array_equal(ng.grad(closed)(x), expected)
    np.testing.assert_array_equal(ng.jit(ng.grad(lambda x: f(x, buffer)))(x), expected)
    np.testing.assert_array_equal(buffer.detach().numpy(), [0.0, 3.0, 6.0])
    # What comes later has the history of what was assigned.
    leaf = ng.tensor(x, requires_grad=True)
    closed(leaf)
    (buffer * 2.0).sum().backward()
    np.testing.assert_array_equal(leaf.grad, [6.0, 6.0])


def test_a_trace_that_fails_leaves_what_it_has_assigned_to_as_it_was():
    buffer = ng.ones(3)

    def f(x):
        buffer[:] = x
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        ng.jit(f)(np.zeros(3))
    np.testing.assert_array_equal(buffer.numpy(), np.ones(3))


def test_an_argument_that_shows_what_is_assigned_to_is_refused():
    buffer = ng.zeros(3)

    def f(x):
        buffer[0] = x[1]
        return x.sum()

    with pytest.raises(TracingError, match="another one shows its elements"):
        ng.jit(f)(buffer[1:])


PACKAGE = {
    "__init__.py": "from . import steps, settings\n",
    "settings.py": "rate = 1.0\n",
    "steps.py": """
from . import settings

scale = 1.0


def scaled(x):
    return x * scale


def by_rate(x):
    from .settings import rate

    return x * rate


class Model:
    def __init__(self, module):
        self.module = module

    def step(self, x):
        module = self.module
        return module.scaled(x)
""",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "package_of_a_user"
    folder.mkdir()
    for name, text in PACKAGE.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("package_of_a_user")
    for name in [x for x in sys.modules if x.startswith("package_of_a_user")]:
        del sys.modules[name]


def _by_another_name(x, steps):
    module = steps
    return module.scaled(x)


BY_MODULES = {
    "its name": lambda p: lambda x: p.steps.scaled(x),
    "another name": lambda p: functools.partial(_by_another_name, steps=p.steps),
    "a closure": lambda p: (lambda steps: lambda x: (lambda m: m.scaled(x))(steps))(p.steps),
    "getattr": lambda p: (lambda steps: lambda x: getattr(steps, "scaled")(x))(p.steps),  # noqa: B009
    "a dict": lambda p: (lambda held: lambda x: held["m"].scaled(x))({"m": p.steps}),
    "an object": lambda p: p.steps.Model(p.steps).step,
    "an import": lambda p: p.steps.by_rate,
}


@pytest.mark.parametrize("way", BY_MODULES)
def test_variables_of_modules_that_are_reached_in_any_way(package, way):
    jitted = ng.jit(BY_MODULES[way](package))
    assert float(jitted(1.0)) == float(jitted(1.0)) == 1.0
    package.steps.scale = package.settings.rate = 2.0
    assert float(jitted(1.0)) == 2.0


@dataclasses.dataclass(slots=True)
class Activation:
    function: Callable = np.tanh
    shift: Callable = dataclasses.field(default=lambda x: x + 1)


def test_functions_in_slots_of_objects():
    activation = Activation()
    _agree_after(
        lambda x: activation.function(activation.shift(x)),
        lambda: setattr(activation, "function", np.cos),
        lambda: setattr(activation, "shift", _helper),
    )
    assert _traces_of(lambda x: activation.function(activation.shift(x))) == 1


def test_functions_of_classes_that_are_replaced():
    class Model:
        @staticmethod
        def scaled(x):
            return x * 2

        @classmethod
        def shifted(cls, x):
            return x + 1

    model = Model()
    _agree_after(
        lambda x: model.scaled(model.shifted(x)),
        lambda: setattr(Model, "scaled", staticmethod(np.exp)),
        lambda: setattr(Model, "shifted", classmethod(lambda cls, x: x - 3)),
    )
    assert _traces_of(lambda x: model.scaled(model.shifted(x))) == 1
    _agree_after(
        lambda x: Model.scaled(Model.shifted(x)),
        lambda: setattr(Model, "scaled", staticmethod(np.sqrt)),
        lambda: setattr(Model, "shifted", classmethod(lambda cls, x: x + 7)),
    )
    assert _traces_of(lambda x: Model.scaled(Model.shifted(x))) == 1


@dataclasses.dataclass
class Wire:
    length: object
    law: Callable = dataclasses.field(metadata={"static": True})
    stiffness = 2.0

    def energy(self):
        return self.law(self.length) * self.stiffness * options["scale"]

    def __neg__(self):
        return self.energy()


class Ends(collections.namedtuple("Ends", "first second")):
    def difference(self):
        return (self.first - self.second) * options["scale"]


def test_classes_and_static_fields_of_arguments_that_are_containers(monkeypatch):
    exponents = [2]

    def law(x):
        return x ** exponents[0]

    def f(given):
        spring, pair = given["spring"], given["pair"]
        return spring.energy() - pair.difference() + (-spring)

    jitted = ng.jit(f)
    given = {"spring": Wire(X, law), "pair": Ends(X, 1.0)}
    changes = [
        lambda: None,
        lambda: monkeypatch.setitem(options, "scale", 3.0),
        lambda: monkeypatch.setattr(Wire, "stiffness", 5.0),
        lambda: exponents.__setitem__(0, 3),
        lambda: monkeypatch.setattr(Ends, "difference", lambda self: self.first),
        lambda: monkeypatch.setattr(Wire, "__neg__", lambda self: self.length),
    ]
    for change in changes:
        change()
        for _ in range(2):
            np.testing.assert_array_equal(jitted(given), f(given))


def test_counts_that_classes_of_arguments_keep(monkeypatch):
    class Counting(collections.namedtuple("Counting", "x")):
        calls = 0

        def scaled(self):
            Counting.calls += 1
            return self.x * Counting.calls

    jitted = ng.jit(lambda given: given.scaled())
    assert [float(jitted(Counting(2.0))) for _ in range(4)] == [2.0, 4.0, 6.0, 8.0]


def test_what_a_weak_reference_shows():
    class Model:
        rate = 2.0

    model = Model()
    reference = weakref.ref(model)
    _agree_after(lambda x: x * reference().rate, lambda: setattr(model, "rate", 3.0))


def _traces_of(f):
    """How often `f` is traced in four calls. A function that counts its own calls has a state, of
    which a trace takes note."""
    jitted = ng.jit(f)
    traces = []
    trace = jitted._trace
    jitted._trace = lambda *arguments: traces.append(1) or trace(*arguments)
    for _ in range(4):
        jitted(X)
    return len(traces)
