"""What Python has since 3.12: syntax, as text that older ones need not read, and classes whose
annotations nobody evaluates."""

import runpy
import sys

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.frontend.inputs import guards

X = np.array([1.0, 2.0, 3.0])
PROGRAMS = {
    "parameters of functions": (
        (3, 12),
        """
def f[T: (int, float)](x: T, limit: float = 20.0) -> T:
    type Own[U] = list[U]
    def doubled[V](z: V) -> V:
        if np.sum(z) > 0:
            return z * rate
        return z
    while np.sum(x) < limit:
        x = doubled(x) + 1
    return np.sum(x)
""",
    ),
    "parameters of classes": (
        (3, 12),
        """
class Scaled[T]:
    least: T
    def __init__(self, least: T):
        self.least = least
    def step[U](self, x: U) -> U:
        return x * rate if np.sum(x) > self.least else x
class Twice[T](Scaled[T]):
    def step(self, x: T) -> T:
        x = super().step(x)
        if np.sum(x) > 1:
            x = super().step(x)
        return x
scaled = Twice(1.0)
def f(x):
    return np.sum(scaled.step(x))
""",
    ),
    "quotes in quotes": (
        (3, 12),
        """
def f(x):
    names = {"a": rate}
    return np.sum(x * float(f"{names["a"]:.{1 + 1}f}") if np.sum(x) > 2 else x)
""",
    ),
    "templates": (
        (3, 14),
        """
def f(x):
    text = t"{rate} of {x.shape}"
    return np.sum(x * text.interpolations[0].value if np.sum(x) > 2 else x)
""",
    ),
    "annotations that nobody can evaluate": (
        (3, 14),
        """
import numba_grad as ng
class Twice(ng.autograd.Function):
    @staticmethod
    def forward(x: Missing) -> Missing:
        return x * 2
    @staticmethod
    def setup_context(ctx: Missing, inputs: Missing, output: Missing) -> None:
        pass
    @staticmethod
    def backward(ctx, gradient: Missing) -> Missing:
        return gradient * 2
@ng.custom_vjp
def squared(x: Missing) -> Missing:
    return x * x
squared.defvjp(lambda x: (x * x, x), lambda x, g: (2 * x * g,))
def f(x: Missing) -> Missing:
    total: Missing = np.sum(squared(Twice.apply(x)) * rate)
    return total if total > 2 else -total
""",
    ),
    "exceptions without parentheses": (
        (3, 14),
        """
def f(x):
    try:
        x = x * rate
    except KeyError, IndexError:
        x = x + 1
    return np.sum(x if np.sum(x) > 2 else -x)
""",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_newer_syntax(name, tmp_path, numpy_engine):
    since, text = PROGRAMS[name]
    if sys.version_info < since:
        pytest.skip("older Python")
    path = tmp_path / "newer.py"
    path.write_text(f"import numpy as np\nrate = 2.0\n{text}")
    f = runpy.run_path(str(path))["f"]
    jitted, gradient = ng.jit(f, control_flow=True), ng.jit(ng.grad(f), control_flow=True)
    results = []
    for f.__globals__["rate"] in (2.0, 1.5, 2.0):
        results.append(f(X))
        np.testing.assert_allclose(jitted(X), results[-1], rtol=1e-14)
        np.testing.assert_allclose(gradient(X), ng.grad(f)(X), rtol=1e-14)
    assert results[0] != results[1]


Kind = float
started = 0


def test_annotations_and_classes_that_super_is_called_in_do_not_count(monkeypatch):
    class Spring:
        stiffness: Kind = 2.0

        def __init__(self):
            self.began = started

        def force(self, x: Kind) -> Kind:
            return x * self.stiffness

    class Damped(Spring):
        damping: Kind

        def force(self, x: Kind) -> Kind:
            return super().force(x)

    spring = Damped()
    guard = guards.guard_of(lambda x: spring.force(x))
    monkeypatch.setitem(globals(), "Kind", int)
    monkeypatch.setitem(globals(), "started", 1)
    assert Spring.__annotations__["stiffness"] in (int, float)
    assert guard.holds()
    Spring.stiffness = 3.0
    assert not guard.holds()
