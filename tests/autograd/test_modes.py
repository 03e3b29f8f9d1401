"""Recording on and off: contexts, decorators, generators, threads."""

import threading

import pytest

import numba_grad as ng


def states(lib):
    """The mode at many points of one program."""
    seen = [lib.is_grad_enabled()]
    with lib.no_grad():
        seen.append(lib.is_grad_enabled())
        with lib.enable_grad():
            seen.append(lib.is_grad_enabled())
            with lib.no_grad(), lib.set_grad_enabled(True):
                seen.append(lib.is_grad_enabled())
            seen.append(lib.is_grad_enabled())
        seen.append(lib.is_grad_enabled())
    seen.append(lib.is_grad_enabled())
    return seen


def setting(lib):
    seen = []
    try:
        lib.set_grad_enabled(False)
        seen.append(lib.is_grad_enabled())
        with lib.set_grad_enabled(True):
            seen.append(lib.is_grad_enabled())
        seen.append(lib.is_grad_enabled())
    finally:
        lib.set_grad_enabled(True)
    mode = lib.set_grad_enabled(False)
    with mode:
        seen.append(lib.is_grad_enabled())
    seen.append(lib.is_grad_enabled())
    with mode:
        seen.append(lib.is_grad_enabled())
    seen.append(lib.is_grad_enabled())
    return seen


def one_object_again(lib):
    mode, seen = lib.no_grad(), []
    for _ in range(2):
        with mode:
            seen.append(lib.is_grad_enabled())
        seen.append(lib.is_grad_enabled())
    return seen


def errors_restore(lib):
    try:
        with lib.no_grad():
            raise KeyError
    except KeyError:
        return lib.is_grad_enabled()


def decorators(lib):
    seen = []

    @lib.no_grad()
    def off():
        seen.append(lib.is_grad_enabled())
        inner()

    @lib.no_grad
    def off_without_call():
        seen.append(lib.is_grad_enabled())

    @lib.enable_grad()
    def inner():
        seen.append(lib.is_grad_enabled())

    @lib.set_grad_enabled(False)
    def setting_off():
        """Documented."""
        seen.append(lib.is_grad_enabled())

    seen.append(lib.is_grad_enabled())
    for function in (off, off_without_call, inner, setting_off):
        function()
        seen.append(lib.is_grad_enabled())
    return seen, setting_off.__name__, setting_off.__doc__


def generators(lib):
    seen = []

    @lib.no_grad()
    def steps():
        received = []
        try:
            for k in range(3):
                seen.append(("inside", lib.is_grad_enabled()))
                try:
                    received.append((yield k))
                except ValueError:
                    seen.append(("caught", lib.is_grad_enabled()))
                    received.append("error")
        finally:
            seen.append(("closed", lib.is_grad_enabled()))
        return received

    generator = steps()
    seen += [next(generator), lib.is_grad_enabled()]
    seen += [generator.send("sent"), lib.is_grad_enabled()]
    seen += [generator.throw(ValueError()), lib.is_grad_enabled()]
    try:
        next(generator)
    except StopIteration as stop:
        seen.append(stop.value)
    closed = steps()
    next(closed)
    closed.close()
    seen.append(lib.is_grad_enabled())
    return seen


def results(lib):
    x = lib.tensor([1.0], requires_grad=True)
    with lib.no_grad():
        y = x * 2
        z = lib.tensor([1.0], requires_grad=True)
        with lib.enable_grad():
            w = x * 2
    return [t.requires_grad for t in (x, y, z, w)]


@pytest.mark.parametrize(
    "run",
    [states, setting, one_object_again, errors_restore, decorators, generators, results],
    ids=lambda function: function.__name__,
)
def test_as_torch(same_as_torch, run):
    assert not isinstance(same_as_torch(run), str)


def test_one_object_within_itself():
    mode = ng.no_grad()
    with mode:
        with mode:
            assert not ng.is_grad_enabled()
        assert not ng.is_grad_enabled()
    assert ng.is_grad_enabled()


def test_a_thread_that_ends_without_history_leaves_the_others_alone():
    x = ng.ones(3, requires_grad=True)
    found = []

    def other():
        ng.set_grad_enabled(False)
        found.append((x * 2.0).requires_grad)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found == [False]
    assert (x * 2.0).requires_grad
    with ng.no_grad():
        with ng.enable_grad():
            assert (x * 2.0).requires_grad
        assert not (x * 2.0).requires_grad
        assert not x[0].requires_grad
    assert x[0].requires_grad


def test_each_thread_has_its_own_mode():
    seen = []

    def other():
        seen.append(ng.is_grad_enabled())
        ng.set_grad_enabled(False)

    with ng.no_grad():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert not ng.is_grad_enabled()
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [True, True]
    assert ng.is_grad_enabled()


def test_modes_print():
    assert repr(ng.no_grad()) == "no_grad()"
    mode = ng.set_grad_enabled(True)
    assert repr(mode) == "set_grad_enabled(mode=True)"
