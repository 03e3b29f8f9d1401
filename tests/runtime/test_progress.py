"""Bars for loops: what a run shows of them, and that others pay nothing."""

import sys
import types

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.building.engine_build import native_engine
from numba_grad.frontend.loops_and_branches import progress_bars
from numba_grad.runtime import native_engine as engine_module
from numba_grad.runtime.native_engine import RecordWord
from numba_grad.runtime.plan import LoopWord
from numba_grad.runtime.progress import Bars, ShownLoop, label_in, with_label

X = np.full((40, 40), 0.001)


class Bar:
    """In place of tqdm's."""

    def __init__(self, total, desc, initial, mininterval):
        self.total, self.desc, self.n = total, desc, initial
        self.drawn = [initial]
        self.is_closed = False

    def refresh(self):
        self.drawn.append(self.n)

    def close(self):
        self.is_closed = True


@pytest.fixture
def often():
    """Runs come back to Python after a microsecond."""
    template = native_engine()._template
    before = template[RecordWord.SLICE]
    template[RecordWord.SLICE] = 1000
    yield
    template[RecordWord.SLICE] = before


@pytest.fixture
def bars(monkeypatch, often):
    """The bars that are drawn."""
    drawn = []

    def draw(**options):
        drawn.append(Bar(**options))
        return drawn[-1]

    module = types.ModuleType("tqdm.auto")
    module.tqdm = draw
    monkeypatch.setitem(sys.modules, "tqdm.auto", module)
    monkeypatch.setattr(progress_bars, "is_installed", lambda: True)
    return drawn


def step(c):
    return np.tanh(c @ X)


def assert_went_up_to(bar, label, total):
    assert (bar.desc, bar.total, bar.is_closed) == (label, total, True)
    assert bar.drawn == sorted(bar.drawn)
    assert len(bar.drawn) > 2
    assert bar.drawn[-1] == total


def test_a_bar_shows_how_far_a_loop_is(bars):
    f = ng.jit(lambda x: ng.fori_loop(0, 300, lambda i, c: step(c), x, progress=True))
    f(X)
    (bar,) = bars
    assert_went_up_to(bar, "fori_loop <lambda>", 300)
    f(X)
    assert_went_up_to(bars[1], "fori_loop <lambda>", 300)


@pytest.mark.parametrize(
    "loop",
    [
        lambda x: ng.scan(lambda c, _: (step(c), None), x, length=300, progress="mine")[0],
        lambda x: ng.map(lambda r: step(x)[0] * r, np.arange(300.0), progress="mine"),
        lambda x: ng.map(lambda r: step(x) * r, np.ones(600), batch_size=2, progress="mine"),
    ],
    ids=["scan", "map", "map in batches"],
)
def test_each_loop_has_one_with_the_users_label(loop, bars):
    ng.jit(loop)(X)
    (bar,) = bars
    assert_went_up_to(bar, "mine", 300)


def test_that_of_a_while_loop_counts_steps_whose_number_nobody_knows(bars):
    @ng.jit
    def f(x):
        return ng.while_loop(
            lambda v: v[0] < 300, lambda v: (v[0] + 1, step(v[1])), (0, x), progress="while"
        )[0]

    assert f(X) == 300
    (bar,) = bars
    assert bar.total is None and bar.drawn[-1] == 300 and len(bar.drawn) > 2


def test_bounds_may_be_known_when_it_runs_only(bars):
    def loop(n, x):
        return ng.fori_loop(0, n, lambda i, c: step(c), x, progress="relaxing")

    ng.jit(loop)(300, X)
    (bar,) = bars
    assert bar.desc == "relaxing"
    assert bar.total is None and bar.drawn[-1] == 300 and len(bar.drawn) > 2


def test_a_loop_that_is_one_kernel_is_shown_by_what_that_counts(bars):
    count = 3_000_000
    f = ng.jit(lambda x: ng.fori_loop(0, count, lambda i, c: c * 0.5 + 1, x, progress="kernel"))
    assert f(0.0) == 2
    (bar,) = bars
    assert bar.total == count and bar.drawn[-1] == count


def test_loops_in_loops_have_bars_of_their_own(bars):
    def inner(c):
        return ng.fori_loop(0, 50, lambda i, c: step(c), c, progress="inner")

    ng.jit(lambda x: ng.fori_loop(0, 4, lambda i, c: inner(c), x, progress="outer"))(X)
    labels = {bar.desc: bar for bar in bars}
    assert labels.keys() == {"inner", "outer"}
    assert labels["outer"].drawn[-1] == 4 and labels["inner"].drawn[-1] == 50


def test_the_loop_of_a_gradient_has_a_bar_too(bars):
    def f(x):
        return np.sum(ng.fori_loop(0, 300, lambda i, c: step(c), x, progress="steps"))

    ng.jit(ng.grad(f))(X)
    assert [bar.desc for bar in bars] == ["steps", "steps (gradient)"]
    assert_went_up_to(bars[1], "steps (gradient)", 300)


@pytest.mark.parametrize(
    "loop",
    [
        lambda x: ng.fori_loop(0, 300, lambda i, c: step(c), x, memory="9 states", progress="p"),
        lambda x: ng.while_loop(
            lambda v: v[0] < 300, lambda v: (v[0] + 1, step(v[1])), (0, x), progress="p"
        )[1],
    ],
    ids=["within a budget", "of unknown length"],
)
def test_an_adjoint_that_goes_to_and_fro_shows_the_steps_it_has_gone_back_over(loop, bars):
    ng.jit(ng.grad(lambda x: np.sum(loop(x))))(X)
    gradient = [bar for bar in bars if bar.desc == "p (gradient)"]
    assert len(gradient) == 1
    assert_went_up_to(gradient[0], "p (gradient)", 300)


def test_outside_of_jit_as_well(bars):
    ng.fori_loop(0, 300, lambda i, c: step(c), X, progress="outside").numpy()
    assert bars[-1].desc == "outside" and bars[-1].drawn[-1] == 300


def test_bars_are_closed_where_an_exception_left_the_loop(bars):
    def f(c):
        if calls.append(0) or len(calls) > 50:
            raise ZeroDivisionError
        return c

    calls = []
    like = ng.ShapeDtypeStruct(X.shape, float)
    loop = ng.jit(
        lambda x: ng.fori_loop(0, 100, lambda i, c: ng.callback(f, like, c), x, progress="fails")
    )
    with pytest.raises(ZeroDivisionError):
        loop(X)
    assert bars[0].is_closed and bars[0].n < 100


def test_who_shows_no_progress_never_looks_for_bars(bars, monkeypatch):
    monkeypatch.setattr(engine_module, "Bars", None)
    ng.jit(lambda x: ng.fori_loop(0, 300, lambda i, c: step(c), x))(X)
    assert bars == []


def test_the_values_are_the_same_bits(bars):
    shown = ng.jit(lambda x: ng.fori_loop(0, 30, lambda i, c: step(c), x, progress=True))(X)
    plain = ng.jit(lambda x: ng.fori_loop(0, 30, lambda i, c: step(c), x))(X)
    np.testing.assert_array_equal(shown, plain)


def test_a_bar_is_drawn_for_what_the_run_is_in(bars):
    first, second = ShownLoop(0, 0, "first"), ShownLoop(5, 20, "second")
    words = np.zeros(40, np.int64)
    for loop in (first, second):
        words[loop.words + LoopWord.LENGTH] = 3
        words[loop.words + LoopWord.TRIPS] = 9
        words[loop.words + LoopWord.COUNTER] = 9  # of an earlier run
    words[LoopWord.COUNTER] = 4
    shown = Bars([first, second])
    shown.show(words, 2)
    assert [(bar.desc, bar.n) for bar in bars] == [("first", 4)]
    words[second.words + LoopWord.COUNTER] = 1
    shown.show(words, 7)
    assert [(bar.desc, bar.n) for bar in bars] == [("first", 9), ("second", 1)]


def test_labels_are_part_of_the_names_of_bodies():
    name = with_label("step", "mine of course")
    assert label_in("step") is None
    assert label_in(name) == label_in(f"jvp of {name}") == "mine of course"
    assert label_in(f"batched {name}") == "mine of course"
    assert label_in(f"vjp of batched {name}") == "mine of course (gradient)"
    assert label_in(f"member of {name}") == "mine of course (members of a batch)"


# Mistakes


def test_without_tqdm_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(progress_bars, "is_installed", lambda: False)
    with pytest.raises(ImportError, match=r'pip install "numba_grad\[progress\]"'):
        ng.fori_loop(0, 3, lambda i, c: c, 1.0, progress=True)


def test_progress_is_a_bool_or_a_label():
    with pytest.raises(TypeError, match="True, False or a label"):
        ng.scan(lambda c, _: (c, None), 0.0, length=2, progress=3)


def test_tqdm_draws_it(capfd, often):
    """The real one; the values are those without."""
    pytest.importorskip("tqdm")
    loops = {
        "scan": lambda x, **options: ng.scan(
            lambda c, _: (step(c), None), x, length=300, **options
        )[0],
        "fori": lambda x, **options: ng.fori_loop(0, 300, lambda i, c: step(c), x, **options),
        "while": lambda x, **options: ng.while_loop(
            lambda s: s[0] < 300, lambda s: (s[0] + 1, step(s[1])), (0, x), **options
        )[1],
    }
    for name, loop in loops.items():
        wanted = np.asarray(loop(X))
        for transform in (lambda f: f, ng.jit):
            capfd.readouterr()
            found = np.asarray(transform(lambda x, loop=loop, name=name: loop(x, progress=name))(X))
            drawn = capfd.readouterr().err
            assert f"{name}: " in drawn
            assert ("300it" if name == "while" else "300/300") in drawn
            np.testing.assert_array_equal(found, wanted)
