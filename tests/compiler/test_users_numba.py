"""What this library does with Numba, NumPy and Python is seen by nobody else in the process."""

import textwrap
from pathlib import Path

import numba
import pytest

import numba_grad as ng
from tests.processes import run_python


def run(before: str, after: str, tmp_path: Path) -> None:
    """In a new process that finds no compiled kernels."""
    code = textwrap.dedent(before) + USE + textwrap.dedent(after)
    run_python(code, NUMBA_GRAD_CACHE_DIR=tmp_path / "cache")


USE = """
def use():
    import ml_dtypes
    import numba_grad as ng
    x = ng.tensor([2 + 1j, 1 - 1j, 1j], requires_grad=True)
    np.sort(x), np.max(x), x.real < x.imag  # orders complex numbers
    (np.exp(x) * x).sum().real.backward()
    for dtype in (ng.bfloat16, np.float16, np.float32, np.bool_, np.int8):
        assert (ng.ones(3, dtype=dtype) * 2).sum() == 6
    ng.jit(lambda x: np.linalg.solve(x, x[0]))(np.eye(3))
    fails = ng.jit(lambda x: x[np.array([5])])
    try:
        fails(np.ones(2))
    except IndexError:
        pass
    np.fft.fft(x).detach().numpy()
"""


@pytest.mark.thorough
def test_numba_types_the_same_before_and_after(tmp_path: Path):
    run(
        """
        import math, operator
        import numba
        import numpy as np
        from numba import types
        from numba.core.registry import cpu_target

        TYPES = [types.boolean, types.int64, types.float16, types.float64, types.complex64,
                 types.complex128, types.Opaque("bfloat16")]
        TWO = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.getitem]
        ONE = [abs, math.exp, math.erf]

        def answer(function, arguments):
            try:
                found = cpu_target.typing_context.resolve_function_type(function, arguments, {})
                return str(found)
            except Exception as error:
                return type(error).__name__

        def answers():
            cpu_target.typing_context.refresh()
            cpu_target.target_context.refresh()
            found = {}
            for a in TYPES:
                found |= {(f, a): answer(f, (a,)) for f in ONE}
                found |= {(f, a, b): answer(f, (a, b)) for f in TWO for b in TYPES}
            return found

        def refusal():
            try:
                numba.njit(lambda a, b: a < b)(1j, 2j)
            except numba.TypingError as error:
                return "\\n".join(line for line in str(error).split("\\n") if "lambda" not in line)

        def registered():
            from numba.core import datamodel, imputils, registry, typing
            target, typing_context = cpu_target.target_context, cpu_target.typing_context
            return (
                len(typing.templates.builtin_registry.functions),
                len(typing.templates.builtin_registry.globals),
                len(imputils.builtin_registry.functions),
                len(imputils.builtin_registry.casts),
                len(datamodel.default_manager._handlers),
                dict(vars(numba.core.config)),
            )

        numba.njit(lambda x: np.sort(x) + x[0] < 1)(np.ones(3))  # loads what Numba loads late
        before = answers(), refusal(), registered()
        """,
        """
        use()
        assert "numba_grad.compiler.kernel_language.front_end" in __import__("sys").modules
        after = answers(), refusal(), registered()
        for x, y in zip(before, after):
            assert x == y, (x, y)
        assert "complex" in before[1]
        """,
        tmp_path,
    )


@pytest.mark.thorough
def test_numpy_and_python_are_left_as_they_were(tmp_path: Path):
    run(
        """
        import contextlib, decimal, gc, locale, logging, os, random, signal, sys, threading
        import warnings
        import numpy as np

        def state():
            modules = (np, np.linalg, np.fft, np.random)
            handlers = {}
            for number in signal.valid_signals():
                with contextlib.suppress(ValueError):
                    handlers[number] = signal.getsignal(number)
            return {
                "numpy": [{k: id(v) for k, v in vars(m).items() if callable(v)} for m in modules],
                "errors": (np.geterr(), np.geterrcall()),
                "printing": np.get_printoptions(),
                "random": (str(np.random.get_state()), random.getstate()),
                "warnings": (list(warnings.filters), id(warnings.showwarning)),
                "recursion": sys.getrecursionlimit(),
                "switching": sys.getswitchinterval(),
                "collector": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()),
                # One of them is ours, which puts off full collections while a graph is recorded.
                "collector calls": [
                    call for call in gc.callbacks if type(call).__name__ != "_GrowingGraph"
                ],
                "signals": (handlers, signal.pthread_sigmask(signal.SIG_BLOCK, [])),
                "environment": dict(os.environ),
                "locale": locale.setlocale(locale.LC_ALL),
                "logging": (logging.root.level, list(logging.root.handlers), logging.root.disabled),
                "hooks": (sys.excepthook, sys.unraisablehook, threading.excepthook,
                          sys.displayhook, sys.gettrace(), sys.getprofile(), sys.breakpointhook),
                "decimal": str(decimal.getcontext()),
                "stack": threading.stack_size(),
                "path": list(sys.path),
                "directory": os.getcwd(),
            }

        import numba, scipy.special  # whose own filters and names of NumPy are not ours
        """,
        """
        before = state()
        use()
        after = state()
        for name in before:
            assert before[name] == after[name], (name, before[name], after[name])
        """,
        tmp_path,
    )


def test_what_a_users_function_was_compiled_for_stays_what_it_was():
    @numba.njit
    def twice(x, out):
        for i in range(x.size):
            out[i] = 2 * x[i]

    op = ng.custom_op("twice", twice, shape=lambda x: x.shape)
    assert op(ng.ones(3)).tolist() == [2, 2, 2]
    assert twice.signatures == []
