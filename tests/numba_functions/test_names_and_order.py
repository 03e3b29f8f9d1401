"""Arrays with several names, and values that are read late: what Python's order of things gives."""

# ruff: noqa: B007, SIM108 Forms that users write.

import numpy as np
import pytest
from numba import njit

from tests.numba_functions.derivatives import Cases, check

pytestmark = pytest.mark.usefixtures("reference_engine")

X = np.array([0.3, 0.5, 0.7, 0.9, 1.1])
Y = np.array([0.2, 0.1, 0.4, 0.3, 0.6])
M = np.random.default_rng(0).uniform(0.2, 1, (4, 4))

CASES = Cases()
case = CASES.case


@case(X, w=(0,))
def lazy_write(x):
    y = x[1:] * 2.0
    x[1:] = 0.5
    return y + x[1:]


@case(X, w=(0,))
def lazy_in_call(x):
    return bump(x * 2.0, x)


@njit
def bump(y, x):
    x[0] = 5.0
    return y.sum()


@case(X, w=(0,))
def lazy_where(x):
    a = np.where(x > 0.6, x, 0.0)
    x[:] = 1.0
    return a


@case(X)
def scalars_in_loop(x):
    s = 0.0
    p = 1.0
    i = 0
    while i < 5:
        if x[i] > 0.6:
            old = s
            s = p
            p = old + x[i]
        else:
            s, p = p * x[i], s
        i += 1
    return s, p, i


@case(X)
def names_of_generated_code(x):
    k0, thread = x[0], 0
    for i in range(x.shape[0]):
        place = np.zeros(2)
        place[i % 2] = x[i] * k0
        k0 += place[0] * x[-1]
        thread += i
    return k0, thread


@case(M, w=(0,))
def views_alias(m):
    r = m[0]
    c = m[:, 0]
    d = m.T
    r[0] = 2.0 * c[1]
    c[1] += d[1, 2]
    d[2, 3] *= r[3]
    for row in m:
        row[1] = row[0] * row[2]
    return r.sum() + c.sum()


@case(M)
def nested_callee_alias(m):
    a = m.copy()
    fill_diag(a, a[0])
    return a


@njit
def fill_diag(a, r):
    for i in range(a.shape[0]):
        a[i, i] = r[i] * 2


@case(X, Y)
def overwritten_scalar_arg(x, y):
    t = x[0]
    x0 = t
    for i in range(3):
        t = t * y[i] + x0
        x0 = t
    return t * x0


@case(X)
def multi_break(x):
    t = 0.0
    for i in range(5):
        for j in range(5):
            if x[i] + x[j] > 1.7:
                break
            t += x[i] * x[j]
        else:
            t *= 2.0
            continue
        if i > 3:
            break
    else:
        t += 100
    return t


@case(X)
def rebind_in_nested(x):
    out = np.zeros_like(x)
    for i in range(3):
        y = x
        for j in range(i + 1):
            if j % 2 == 0:
                y = y * x
            else:
                y = np.sin(y)
        out += y
    return out


@case(X)
def rebind_in_branches(x):
    y = x
    z = x
    for i in range(4):
        if i == 1:
            y, z = z * 2, y
        elif i == 2:
            z = y + z
        else:
            y = y * 0.5
    return y, z


@case(X)
def rows_rebind(x):
    m = np.outer(x, x)
    v = m[0]
    for i in range(1, 4):
        v = v + m[i] * 0.5
    return v, m


@case(X)
def while_rebind(x):
    y = x.copy()
    k = 0
    while True:
        z = np.cos(y)
        k += 1
        if np.abs(z - y).max() < 0.2 or k > 6:
            break
        y = z
    return y * z, k


@case(X)
def ternary(x):
    a = x if x[0] > 0 else -x
    b = a if x[1] > 9 else a * 2
    return a * b


@case(X, Y)
def tuple_state_arrays(x, y):
    s = (x, y)
    hist = np.zeros((4, 5))
    for k in range(4):
        u, v = s
        w = u * v
        hist[k] = w
        s = (v, u + 0.1 * w)
    return s[0], hist


@case(X)
def reuse_name_types(x):
    y = x[1:] * 2
    s = y.sum()
    y = x[:2].copy()
    for i in range(2):
        y = y * s
    return y


@case(X)
def cond_alloc(x):
    t = 0.0
    for i in range(5):
        if x[i] > 0.55:
            b = np.zeros(3)
            b[0] = x[i]
            b[1] = b[0] ** 2
            t += b[:2].sum()
    return t


@case(X)
def neg_steps(x):
    y = np.zeros(5)
    for i in range(4, 0, -2):
        y[i] = x[-i] * x[i - 1]
    y[::-2] += x[:3]
    y[-1] -= x[-2]
    return y[::-1]


@case(X, np.array([2, 0, 1]))
def int_arrays(x, idx):
    p = idx.copy()
    t = 0.0
    for k in range(3):
        p[k] = (p[k] + 1) % 5
        t += x[p[k]] * x[idx[k]]
    p = p + 1
    t += x[p[0]]
    for k in range(2):
        p = p - 1
        t *= x[p[1]]
    return t


@case(X)
def default_args(x):
    return scaled(x) + scaled(x, 3.0) + scaled(x, k=2.0)


@njit
def scaled(x, f=2.0, k=1.0):
    if k > 1.5:
        return x * k
    return x * f * k


@case(X)
def early_in_loop_array(x):
    y = x.copy()
    for i in range(5):
        y = y * x[i]
        if y.sum() < 0.2:
            return y
    return y * 100


@case(X)
def mixing(x):
    n = x.size
    m = np.zeros((n, n))
    for i in range(n):
        m[i, : i + 1] = x[: i + 1]
        m[i, i:] += x[i]
    return (m @ m.T)[1:, ::2]


@pytest.mark.thorough(but="lazy_write|views_alias|scalars|rebind_in_nested|while_rebind")
@pytest.mark.parametrize("name", CASES)
def test_order_and_names(name):
    check(*CASES[name])
