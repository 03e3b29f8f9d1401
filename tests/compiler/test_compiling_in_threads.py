"""While one thread compiles, the others go on with what is compiled; what is new is made once."""

import threading

import llvmlite.binding as llvm
import numpy as np
import pytest
from numba.core.compiler_lock import global_compiler_lock

import numba_grad as ng
from numba_grad.compiler import evaluate, pipeline, plan_cache
from numba_grad.compiler.building import build
from numba_grad.compiler.partition import flat_graph
from numba_grad.frontend.compiled_functions.specialization import Specialization
from tests.interleaving import stopped_at

LONG = 60  # seconds, for what does not take long
X = np.array([0.5, 1.5, 2.5])


def new(x):
    """Of operations that no other test has in one kernel."""
    return np.arctan2(np.expm1(np.cbrt(x)), np.log1p(np.sinh(x)))


by_name = ng.jit(lambda x, *, is_new: new(x) if is_new else np.exp(x), static_argnames="is_new")
known_to_jit = ng.jit(lambda x: np.exp(x) * 3)


def _plus_seven(x, out):
    for i in range(x.size):
        out[i] = x[i] + 7


plus_seven = ng.custom_op("plus_seven", _plus_seven, shape=lambda x: x.shape)


def known_work():
    """Every way to a value, with what was computed before."""
    x = ng.tensor(X, requires_grad=True)
    y = (np.exp(x) * x).sum()
    y.backward()
    return [
        y.item(),
        x.grad.numpy(),
        known_to_jit(X),
        by_name(X, is_new=False),
        by_name(ng.tensor(X, requires_grad=True), is_new=False).detach().numpy(),
        ng.grad(lambda x: (x**3).sum())(X).numpy(),
        plus_seven(X).numpy(),
    ]


def forget(monkeypatch, *, all_kernels=False):
    """As a new process that finds kernels on disk, but for those of `new`, or all of them, and no
    plans."""
    monkeypatch.setattr(plan_cache, "key_of", lambda graph, target: None)
    kernels = {
        request: kernel
        for request, kernel in build._kernels.items()
        if not (all_kernels or "expm1" in request.source)
    }
    monkeypatch.setattr(build, "_kernels", kernels)
    loaded = {kernel.key: kernel.address for kernel in kernels.values()}
    monkeypatch.setattr(build, "_addresses", loaded)
    monkeypatch.setattr(evaluate, "_programs", type(evaluate._programs)())
    table = flat_graph.signature_table()
    segments = {
        key: program
        for key, program in table.programs.items()
        if not any("expm1" in source for step in program.steps for source in step.sources)
    }
    monkeypatch.setattr(table, "programs", segments)
    by_name._specializations.clear()


def define_by_run():
    return new(ng.tensor(X)).numpy()


def long_graph():
    return new(ng.tensor(X)).numpy()


def jitted():
    return by_name(X, is_new=True)


def check_known_work_beside(first, is_there, may_go_on, expected):
    """Another thread does what is known while the `first` one is held up."""
    found = []
    second = threading.Thread(target=lambda: found.append(known_work()), daemon=True)
    first.start()
    assert is_there.wait(LONG)
    second.start()
    second.join(LONG)
    was_done = bool(found)
    may_go_on.set()
    first.join(LONG)
    assert was_done
    for x, y in zip(found[0], expected, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("place", ["segment", "kernel", "kernel, all others on disk"])
@pytest.mark.parametrize("compiling", [define_by_run, long_graph, jitted])
def test_what_is_known_does_not_wait_for_what_is_compiled(compiling, place, monkeypatch):
    expected = known_work()
    if compiling is long_graph:
        monkeypatch.setattr(evaluate, "_LONGEST_KEPT", 0)
    forget(monkeypatch, all_kernels="disk" in place)
    is_there, may_go_on = threading.Event(), threading.Event()
    module, name = (pipeline, "compile_segment") if place == "segment" else (build, "_object_codes")
    own = getattr(module, name)

    def held_up(*arguments):
        if threading.current_thread() is first:
            is_there.set()
            assert may_go_on.wait(2 * LONG)
        return own(*arguments)

    monkeypatch.setattr(module, name, held_up)
    made = []
    first = threading.Thread(target=lambda: made.append(compiling()), daemon=True)
    check_known_work_beside(first, is_there, may_go_on, expected)
    np.testing.assert_allclose(made[0], new(X), rtol=1e-12)


@pytest.mark.parametrize(
    "lock", [global_compiler_lock, llvm.ffi.lib._lock], ids=["Numba's", "llvmlite's"]
)
def test_what_is_known_does_not_wait_for_compilers_of_the_user(lock):
    expected = known_work()
    is_there, may_go_on = threading.Event(), threading.Event()

    def hold():
        with lock:
            is_there.set()
            may_go_on.wait(2 * LONG)

    first = threading.Thread(target=hold, daemon=True)
    check_known_work_beside(first, is_there, may_go_on, expected)


def test_a_thread_inside_of_numba_may_compute_with_us(monkeypatch):
    """As the code of a user's `@overload` does, which may make constants."""
    forget(monkeypatch)
    with global_compiler_lock:
        np.testing.assert_allclose(define_by_run(), new(X), rtol=1e-12)


@pytest.mark.parametrize("compiling", [define_by_run, jitted])
def test_two_threads_that_want_the_same_compile_it_once(compiling, monkeypatch):
    forget(monkeypatch)
    built, compiled = [], []
    own_build, own_compile = build._object_codes, Specialization._compile

    def object_codes(requests):
        built.extend(requests)
        return own_build(requests)

    monkeypatch.setattr(build, "_object_codes", object_codes)
    monkeypatch.setattr(
        Specialization,
        "_compile",
        lambda self, **kw: compiled.append(self) or own_compile(self, **kw),
    )
    code = own_build.__code__
    lines = [line for *_, line in code.co_lines() if line and line > code.co_firstlineno]
    found = stopped_at((code.co_filename, min(lines)), compiling, compiling)
    for y in found:
        np.testing.assert_allclose(y, new(X), rtol=1e-12)
    assert len(built) == len(set(built)) > 0
    assert len(compiled) == (compiling is jitted)


def test_who_fails_to_compile_leaves_it_to_the_next(monkeypatch):
    forget(monkeypatch)

    def fail(requests):
        raise OSError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(build, "_object_codes", fail)
        with pytest.raises(OSError, match="no room"):
            define_by_run()
    np.testing.assert_allclose(define_by_run(), new(X), rtol=1e-12)
