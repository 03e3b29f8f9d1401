"""Programs that keep a state between calls, each in another way: from what makes arrays, a
function, and another one that says what it has left behind."""

import random
from collections import deque
from dataclasses import dataclass

import numpy as np

import numba_grad as ng

INPUTS = [np.array(x) for x in ([1.0, 2.0, 3.0], [2.0, 1.0, 0.5], [0.3, 0.2, 0.1], [1.0, 1.0, 4.0])]
total = None


class Thing:
    """Something with attributes."""

    def __init__(self, **attributes):
        vars(self).update(attributes)


class Slotted:
    __slots__ = ("u",)


class Hidden:
    __slots__ = "__u"

    def __init__(self, u):
        self.__u = u

    def read(self):
        return self.__u

    def __call__(self, x):
        self.__u = 2 * self.__u + x
        return self.__u.sum()


class Wrapped:
    """State behind a property."""

    def __init__(self, u):
        self._u = u

    @property
    def u(self):
        return self._u

    @u.setter
    def u(self, value):
        self._u = value

    def __call__(self, x):
        self.u = self.u + x
        return self.u.sum()


@dataclass
class Pair:
    u: object
    v: object


def attribute(a):
    s = Thing(u=a(np.zeros(3)))

    def f(x):
        s.u = s.u + x
        return (s.u * s.u).sum()

    return f, lambda: s.u


def slot(a):
    s = Slotted()
    s.u = a(np.zeros(3))

    def f(x):
        s.u = 2 * s.u + x
        return s.u.sum()

    return f, lambda: s.u


def slot_of_a_private_name(a):
    hidden = Hidden(a(np.zeros(3)))
    return hidden, hidden.read


def tensor_in_place(a):
    s = Thing(u=ng.tensor(np.zeros(3)))

    def f(x):
        s.u += x
        return (s.u * s.u).sum()

    return f, lambda: s.u


def adam(a):
    class Adam:
        def __init__(self):
            self.m, self.v, self.t = a(np.zeros(3)), a(np.zeros(3)), 0

        def step(self, g):
            self.t += 1
            self.m = 0.9 * self.m + 0.1 * g
            self.v = 0.99 * self.v + 0.01 * g**2
            m = self.m / (1 - 0.9**self.t)
            return (m / (np.sqrt(self.v / (1 - 0.99**self.t)) + 1e-8)).sum()

    s = Adam()
    return s.step, lambda: (s.m, s.v, s.t)


def parameters_in_a_dict(a):
    p = {"w": a(np.ones(3)), "b": a(np.zeros(3))}

    def f(x):
        result = (p["w"] * x + p["b"]).sum()
        for k in p:
            p[k] = p[k] - 0.1 * x
        return result

    return f, lambda: p


def two_in_a_list(a):
    p = [a(np.ones(3)), a(np.zeros(3))]

    def f(x):
        p[0], p[1] = p[1] + x, p[0] * 0.5
        return (p[0] * p[1]).sum()

    return f, lambda: p


def counted_in_a_list(a):
    n = [0]

    def f(x):
        n[0] += 1
        return (x * n[0]).sum()

    return f, lambda: n


def counted_by_a_variable(a):
    n = 0

    def f(x):
        nonlocal n
        n += 1
        return (x * n).sum()

    return f, lambda: n


def variable(a):
    u = a(np.zeros(3))

    def f(x):
        nonlocal u
        u = u * 0.5 + x
        return u.sum()

    return f, lambda: u


def variable_of_the_module(a):
    global total
    total = a(np.zeros(3))

    def f(x):
        global total
        total = total * 0.5 + x
        return total.sum()

    return f, lambda: total


def particles(a):
    ps = [Thing(x=a(np.full(3, k)), v=a(np.ones(3))) for k in (1.0, 2.0)]

    def f(dt):
        for p in ps:
            p.x = p.x + dt * p.v
        return sum((p.x**2).sum() for p in ps)

    return f, lambda: [p.x for p in ps]


def toggled(a):
    s = Thing(flag=False)

    def f(x):
        s.flag = not s.flag
        return (x * x).sum() if s.flag else x.sum()

    return f, lambda: s.flag


def cell(a):
    class Cell:
        def __init__(self):
            self.h, self.W = a(np.zeros(3)), a(np.eye(3) * 0.5)

        def __call__(self, x):
            self.h = np.tanh(self.W @ self.h + x)
            return self.h

    c = Cell()
    return lambda x: c(x).sum(), lambda: c.h


def state_in_a_tuple(a):
    s = Thing(state=(a(np.zeros(3)), a(np.ones(3))))

    def f(x):
        u, v = s.state
        s.state = u + v * x, u - v
        return (s.state[0] * s.state[1]).sum()

    return f, lambda: s.state


def replaced_objects(a):
    s = Thing(pair=Pair(a(np.zeros(3)), a(np.ones(3))))

    def f(x):
        s.pair = Pair(s.pair.v + x, 2 * s.pair.u)
        return (s.pair.u - s.pair.v).sum()

    return f, lambda: (s.pair.u, s.pair.v)


def history(a):
    h = []

    def f(x):
        y = (x * x).sum()
        h.append(y)
        return y

    return f, lambda: h


def sum_of_history(a):
    h = []

    def f(x):
        h.append(x * 2)
        return sum(y.sum() for y in h)

    return f, lambda: h


def the_one_before(a):
    s = Thing(former=None)

    def f(x):
        d = x - s.former if s.former is not None else x
        s.former = x
        return (d * d).sum()

    return f, lambda: s.former


def alias(a):
    s = Thing(u=a(np.zeros(3)), t=1.0)

    def step(m, x):
        m.t = m.t * 2
        m.u = m.u + x * m.t
        return m.u.sum()

    return lambda x: step(s, x), lambda: (s.u, s.t)


def by_name(a):
    s = Thing(u=a(np.zeros(3)))

    def f(x):
        setattr(s, "u", getattr(s, "u") + x)  # noqa: B009, B010
        return s.u.sum()

    return f, lambda: s.u


def behind_a_property(a):
    s = Wrapped(a(np.zeros(3)))
    return s, lambda: s._u


def queue(a):
    d = deque([a(np.zeros(3)), a(np.ones(3))], maxlen=2)

    def f(x):
        d.append(d[0] + d[1] + x)
        return d[-1].sum()

    return f, lambda: list(d)


def swapped(a):
    s = Thing(u=a(np.zeros(3)), v=a(np.ones(3)))

    def f(x):
        s.u, s.v = s.v, s.u + x
        return (s.u * x).sum() + s.v.sum()

    return f, lambda: (s.u, s.v)


def moved(a):
    s = Thing(u=a(np.zeros(3)), former=None)

    def f(x):
        y = x if s.former is None else x * s.former
        s.former = s.u
        s.u = s.u + x
        return y.sum()

    return f, lambda: (s.u, s.former)


def set_to_a_number(a):
    s = Thing(t=3.0, n=0)

    def f(x):
        y = x * s.t * s.n
        s.t = 0.5
        s.n = s.n + 1
        return y.sum()

    return f, lambda: (s.t, s.n)


def memo(a):
    m = {}

    def f(x):
        if "c" not in m:
            m["c"] = x * 2.0
        return (x * m["c"]).sum()

    return f, lambda: m


def iterator(a):
    numbers = iter([1.0, 2.0, 3.0, 4.0])
    return lambda x: (x * next(numbers)).sum(), lambda: ()


def generator_of_random_numbers(a):
    numbers = np.random.default_rng(3)
    return lambda x: (x * numbers.normal(size=3)).sum(), lambda: ()


def pythons_random_numbers(a):
    numbers = random.Random(3)
    return lambda x: (x * numbers.random()).sum(), lambda: ()


def array_that_is_written(a):
    table = np.zeros(4)

    def f(x):
        table[1] += 1.0
        return (x * table[1]).sum()

    return f, lambda: table


def variable_of_a_class(a):
    class Counted:
        n = 0

        def __call__(self, x):
            Counted.n = Counted.n + 1
            return (x * self.n).sum()

    return Counted(), lambda: Counted.n


PROGRAMS = [
    attribute,
    slot,
    slot_of_a_private_name,
    tensor_in_place,
    adam,
    parameters_in_a_dict,
    two_in_a_list,
    counted_in_a_list,
    counted_by_a_variable,
    variable,
    variable_of_the_module,
    particles,
    toggled,
    cell,
    state_in_a_tuple,
    replaced_objects,
    history,
    sum_of_history,
    the_one_before,
    alias,
    by_name,
    behind_a_property,
    queue,
    swapped,
    moved,
    set_to_a_number,
    memo,
    iterator,
    generator_of_random_numbers,
    pythons_random_numbers,
    array_that_is_written,
    variable_of_a_class,
]
