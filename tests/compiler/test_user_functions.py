"""Users' functions on disk: told from others by all that their code depends on, and loaded by
processes that never import Numba."""

import math

import numba
import numpy as np
import pytest

from numba_grad.compiler.building.function_identity import identity_of
from tests.processes import run_python

TABLE = np.arange(3.0)
FACTOR = 2.0


def defined(body="out[0] = x[0] * FACTOR", arguments="x, out", **scope):
    """A function `f` whose globals are `scope` and `FACTOR`."""
    scope = {"FACTOR": 2.0, "np": np, "math": math, **scope}
    exec(f"def f({arguments}):\n    {body}\n", scope)
    return scope["f"]


def closing_over(value):
    def f(x, out):
        out[0] = value * x[0]

    return f


def test_equal_functions_have_one_identity():
    text = identity_of(defined())
    assert text is not None
    assert text == identity_of(defined())
    assert text == identity_of(defined(UNUSED=object()))
    assert identity_of(closing_over(1.5)) == identity_of(closing_over(1.5))
    assert identity_of(numba.njit(defined())) == identity_of(numba.njit(defined()))


@numba.njit
def helper(a):
    return a + 1


@numba.njit
def other_helper(a):
    return a + 2


def test_functions_that_compute_something_else_have_another():
    functions = [
        defined(),
        defined("out[0] = x[0] + FACTOR"),
        defined("out[0] = x[0] * 3.0"),
        defined("out[0] = x[0] * 3"),
        defined("out[0] = x[0] * True"),
        defined("out[0] = x[0] * 0.0"),
        defined("out[0] = x[0] * -0.0"),
        defined("out[0] = np.sin(x[0])"),
        defined("out[0] = np.cos(x[0])"),
        defined("out[0] = math.sin(x[0])"),
        defined("out[0] = sin(x[0])", sin=np.sin),
        defined("out[0] = sin(x[0])", sin=math.sin),
        defined("out[0] = sin(x[0])", sin=math.cos),
        defined(FACTOR=3.0),
        defined(FACTOR=2),
        defined(FACTOR=np.float32(2)),
        defined(FACTOR=(2.0, 3.0)),
        defined("out[0] = FACTOR[0]", FACTOR=TABLE),
        defined("out[0] = FACTOR[0]", FACTOR=TABLE + 1),
        defined("out[0] = FACTOR[0]", FACTOR=TABLE[:, None]),
        defined("out[0] = FACTOR(x[0])", FACTOR=helper),
        defined("out[0] = FACTOR(x[0])", FACTOR=other_helper),
        defined(arguments="x, out, more=1"),
        defined(arguments="x, out, more=2"),
        closing_over(1.5),
        closing_over(2.5),
        closing_over(helper),
        numba.njit(defined()),
        numba.njit(fastmath=True)(defined()),
        numba.njit(error_model="numpy")(defined()),
    ]
    identities = [identity_of(f) for f in functions]
    assert None not in identities
    assert len(set(identities)) == len(identities)


def test_helpers_are_followed_through_helpers_and_themselves():
    def countdown(limit):
        @numba.njit
        def again(n):
            return 0 if n == limit else again(n - 1)

        return defined("out[0] = FACTOR(3)", FACTOR=again)

    assert identity_of(countdown(0)) == identity_of(countdown(0))
    assert identity_of(countdown(0)) != identity_of(countdown(1))


@pytest.mark.parametrize("checked", [True, False])
def test_checks_of_bounds_are_part_of_it(monkeypatch, checked):
    before = identity_of(defined())
    monkeypatch.setattr(numba.config, "BOUNDSCHECK", checked or None)
    assert (identity_of(defined()) == before) is not checked


@pytest.mark.parametrize(
    "function",
    [
        defined(FACTOR=object()),
        defined(FACTOR=[1.0]),
        defined(FACTOR=np.array([None])),
        defined(FACTOR=np.zeros(1 << 18)),
        defined("out[0] = FACTOR(x[0])", FACTOR=lambda a: a),
        defined("out[0] = UNKNOWN"),
        closing_over(object()),
        numba.njit(parallel=True)(defined()),
        numba.njit("void(float64[:], float64[:])")(defined("out[0] = x[0]")),
        numba.njit(locals={"y": numba.float32})(defined()),
        np.sin,
    ],
    ids=range(11),
)
def test_what_text_does_not_tell_has_none(function):
    assert identity_of(function) is None


PROGRAM = """
import sys
import numpy as np
import numba_grad as ng

FACTOR = {factor}

def kernel(x, out):
    {body}
    for i in range(x.shape[0]):
        if x[i] < 0:
            raise ValueError("negative", "element")
        out[i] = FACTOR * np.sin(x[i])

op = ng.custom_op("kernel", kernel, shape=lambda x: x.shape)
print(op(np.arange(3.0)).tolist())
print("numba" in sys.modules)
try:
    op(np.array([-1.0])).numpy()
except ValueError as error:
    print(error.args, error.__notes__)
"""


def printed(tmp_path, **parts):
    program = PROGRAM.format(**{"factor": 2.0, "body": "pass", **parts})
    cache = tmp_path / "cache"
    return run_python(program, NUMBA_GRAD_CACHE_DIR=cache, PYTHONWARNINGS="error").splitlines()


@pytest.mark.thorough
def test_another_process_needs_no_numba(tmp_path):
    expected = str((2 * np.sin(np.arange(3.0))).tolist())
    raised = "('negative', 'element') ['in the kernel of kernel']"
    assert printed(tmp_path) == [expected, "True", raised]
    assert printed(tmp_path) == [expected, "False", raised]


@pytest.mark.thorough
def test_a_global_that_changed_is_another_function(tmp_path):
    assert printed(tmp_path)[1] == "True"
    raised = "('negative', 'element') ['in the kernel of kernel']"
    changed = printed(tmp_path, factor=3.0)
    assert changed == [str((3 * np.sin(np.arange(3.0))).tolist()), "True", raised]


@pytest.mark.thorough
def test_what_allocates_is_compiled_in_each_process(tmp_path):
    for _ in range(2):
        assert printed(tmp_path, body="x = x + 0.0")[1] == "True"
