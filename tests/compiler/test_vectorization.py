"""The machine code of kernels that must not be scalar: it works on several elements at a time."""

import platform
import re

import numpy as np
import pytest
import scipy.special

import numba_grad as ng

pytestmark = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"),
    reason="looks for the names of x86 instructions",
)

ARITHMETIC = r"\bv?(?:add|sub|mul|div|max|fn?m(?:add|sub)\d+)p"


def packed(f, *args):
    """How many packed instructions for double and for single precision the kernels of `f` have."""
    asm = "\n".join(kernel.asm for kernel in ng.jit(f).lower(*args).kernels)
    return tuple(len(re.findall(rf"{ARITHMETIC}{suffix}\b", asm)) for suffix in "ds")


SPECIAL = [ng.special.gammaln, ng.special.digamma, ng.special.ndtri, ng.special.lambertw]


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("f", [ng.exp, ng.sin, *SPECIAL], ids=lambda f: f.__name__)
def test_elementary_functions(f):
    double, _ = packed(lambda x: f(x), np.ones(100))
    _, single = packed(lambda x: f(x), np.ones(100, np.float32))
    assert double >= 5
    assert single >= 5 or f is ng.special.lambertw  # in float64 throughout


def test_a_sum():
    assert packed(lambda x: (x * x).sum(), np.ones(100))[0] >= 2


def test_sums_over_rows_and_columns():
    x = np.ones((100, 90))
    assert packed(lambda x: (x * x).sum(axis=1), x)[0] >= 2
    # In memory, one vector after the other: no sum waits for another one.
    assert packed(lambda x: (x * x).sum(axis=0), x)[0] >= 1


def test_the_interior_of_a_stencil():
    def laplacian(x):
        return x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - 4 * x[1:-1, 1:-1]

    assert packed(laplacian, np.ones((50, 60)))[0] >= 4


def test_rows_of_several_numbers():
    def unit(x):
        return x / np.sqrt((x * x).sum(axis=1, keepdims=True))

    def with_functions(x):
        return np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)

    assert packed(unit, np.ones((1000, 8)))[0] >= 9
    assert packed(with_functions, np.ones((1000, 8)))[0] >= 80


def test_eleven_buffers():
    """No run-time checks of which arrays overlap: there would be too many of them to vectorize."""

    def total(*arrays):
        result = arrays[0]
        for x in arrays[1:]:
            result = result * 0.5 + x
        return result

    assert packed(total, *[np.ones(100)] * 10)[0] >= 9


def test_what_is_only_read_has_one_scope():
    """Lists of scopes that do not overlap are what LLVM goes through for each pair of accesses."""
    rows = np.random.default_rng(0).normal(size=(5, 100))
    f = ng.jit(lambda a, b, c, d, e: (scipy.special.i0(a) * b + c * d * e, scipy.special.i0(b) - a))
    [kernel] = f.lower(*rows).kernels
    own = set(re.findall(r"!alias\.scope !(\d+)", kernel.llvm))
    assert len(own) == 3  # of two results, and of what is read
    value, other = f(*rows)
    a, b, c, d, e = rows
    np.testing.assert_allclose(value, scipy.special.i0(a) * b + c * d * e)
    np.testing.assert_allclose(other, scipy.special.i0(b) - a)
