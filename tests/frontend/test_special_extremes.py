"""Special functions at extreme operands: each ends, with its limit, or NaN where nobody can say.

Native code that does not come back cannot be stopped, so all of it runs in a process of its own.
"""

import mpmath as mp
import numpy as np

from tests.processes import run_python

INF, NAN = np.inf, np.nan

EVERY_FUNCTION = """
import itertools, warnings
import numpy as np
import numba_grad as ng
from numba_grad import special

warnings.simplefilter("ignore")
EXTREMES = [0.0, 1.0, -2.5, 1e-310, 1e5, -1e10, 1e17, 1e300, -1e300, np.inf, -np.inf, np.nan]
POSSIBLE = {  # the number of operands, and of the first one with a derivative
    special.hyp1f1: (3, 0),
    special.betainc: (3, 0),
    special.kv: (2, 0),
    special.kve: (2, 0),
    special.jv: (2, 1),
    special.yv: (2, 1),
    special.iv: (2, 1),
    special.gammainc: (2, 0),
    special.zeta: (2, 0),
    special.lambertw: (1, 0),
    special.ellipe: (1, 0),
}
for function, (count, first) in POSSIBLE.items():
    print(function.__name__, flush=True)  # a failure shows which one does not end
    operands = [
        ng.tensor(np.array(values), requires_grad=k >= first)
        for k, values in enumerate(zip(*itertools.product(EXTREMES, repeat=count)))
    ]
    function(*operands).sum().backward()
    for x in operands[first:]:
        x.grad.numpy()
z = np.array([complex(x, y) for x, y in itertools.product(EXTREMES, repeat=2)])
print("complex", flush=True)
special.hyp1f1(*np.meshgrid(EXTREMES, EXTREMES, z))
for function in (special.jv, special.polygamma):
    function(2, z) if function is special.polygamma else function(2.5, z)
print("ended")
"""


def test_every_function_ends():
    output = run_python(EVERY_FUNCTION, seconds=120, NUMBA_GRAD_ENGINE="native")
    assert output.endswith("ended\n")


# hyp1f1, whose SciPy's never ends at many of these


def kummer(a, b, x):
    """In a process that ends: what it takes is compiled code's."""
    program = f"""
import numpy as np, numba_grad as ng
from numpy import inf, nan
a, b, x = np.array({[list(map(float, column)) for column in (a, b, x)]}).reshape(3, -1)
print(*ng.special.hyp1f1(ng.tensor(a), b, x).numpy().tolist())
"""
    output = run_python(program, seconds=60, NUMBA_GRAD_ENGINE="native")
    return np.array(output.split(), float)


def test_limits_of_kummers_function():
    limits = {
        (1, 0.5, INF): INF,
        (-0.5, 0.5, INF): -INF,
        (1, -2.5, INF): -INF,
        (1, 0.5, -INF): -0.0,
        (0.5, 1.5, -INF): 0,
        (-0.5, 1.5, -INF): INF,
        (1, 1, INF): INF,
        (3, 3, -INF): 0,
        (0, 0.5, INF): 1,
        (0, 1e300, NAN): NAN,
        (1, INF, 2): 1,
        (1, INF, INF): NAN,
        (INF, 0.5, 0): 1,
        (INF, 0.5, 1): NAN,
        (1, -1e300, 1): INF,  # a pole, as every whole number below
        (1, -INF, 1): INF,
        (-2, -1e10, 1e10): mp.hyp1f1(-2, -1e10, 1e10),
        (NAN, 1, 1e300): NAN,
        (1e10, NAN, 1): NAN,
        (1e10, 1, -1): NAN,  # its terms cancel
        (0.5, 1.5, 1e10): INF,
        (0.3, 0.3, -1e17): 0,
        (1.080797487210932, 0.08079748721093201, -1e10): NAN,  # b - a has no digit next to -1
        (2876447899322.2993, 2876447899323.2993, -51.4): mp.exp(-51.4),
        (1, 1e300, 1e300): NAN,
    }
    found = kummer(*zip(*limits, strict=True))
    np.testing.assert_allclose(found, np.array(list(limits.values()), float), rtol=1e-9)


def test_kummers_function_of_large_numbers():
    points = [
        *((a, b, x) for a in (0.3, -0.7, 7.5) for b in (0.4, -2.3) for x in (1e7, -1e7, -1e15)),
        *((a, 1e8 + 0.5, x) for a in (0.3, -7.5) for x in (-900, -20, 3)),
        *((1e7, b, x) for b in (0.4, 1e9) for x in (1e-5, 5e-4)),
        (-3, 0.5, 1e7),
        (0.3, -1e7 - 0.5, 500),
    ]
    found = kummer(*zip(*points, strict=True))
    for y, (a, b, x) in zip(found, points, strict=True):
        expected = float(mp.hyp1f1(a, b, x, maxprec=10**5, maxterms=10**6))
        assert y == expected or abs(y - expected) <= 1e-10 * abs(expected), (a, b, x, y, expected)
