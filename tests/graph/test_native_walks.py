"""Native walks find what walks in Python find."""

import sys
import weakref

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.building import walk_build
from numba_grad.compiler.building.build import build_requests
from numba_grad.graph import native_walks, walk
from numba_grad.graph.node import NO_PARAMS, NUMBERS, OPS, leaf, new_node, record
from numba_grad.graph.survey import surveyed


@pytest.fixture(scope="module")
def native():
    build_requests(walk_build.walk_requests())
    found = walk_build.native_walks()
    assert found is not None
    return found


class Handle:
    """Something that a node may have as its tensor."""


def random_graph(seed, size):
    """Nodes, and tensors that are in use: some computed, held, held before, released or known."""
    rng = np.random.default_rng(seed)
    nodes = [leaf(np.ones(2), requires_grad=bool(k % 2)) for k in range(6)]
    nodes.append(new_node(NUMBERS, (), NO_PARAMS, nodes[0].type, np.ones(2), False))
    alive = []
    for _ in range(size):
        near = [nodes[-1 - k] for k in rng.integers(0, min(len(nodes), 12), size=2)]
        far = nodes[rng.integers(0, len(nodes))]
        op = [OPS["add"], OPS["multiply"], OPS["sin"], OPS["floor"], OPS["detach"]][rng.integers(5)]
        inputs = (near[0], far if rng.random() < 0.2 else near[1])
        node = record(op, inputs if len(op.input_names) == 2 else inputs[:1])
        what = rng.integers(0, 40)
        handle = Handle()
        if what < 3:
            node.value = np.ones(2)
        if what in (2, 3):
            node.inputs = ()
        if what in (0, 4, 5):
            alive.append(handle)
        if what < 8:
            node.handle = weakref.ref(handle)
        node.released = bool(what == 9)
        node.autograd = Handle() if what == 10 else None
        if what == 11:
            node.serial = nodes[-1].serial  # as copies have
        nodes.append(node)
    return nodes, alive


def same(a, b):
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("with_pending", [False, True])
def test_histories_are_the_same(native, seed, with_pending, monkeypatch):
    monkeypatch.setattr(native, "_most", 1 << 4)  # and grows
    nodes, alive = random_graph(seed, 1500)
    roots = [x for x in (*nodes[-4:], nodes[900]) if with_pending or x.requires_grad]
    ends = (*nodes[200:210], nodes[-2])
    for own, since in [((), 0), (ends, 0), ((), nodes[400].serial), (ends, nodes[150].serial)]:
        expected = walk._walked(roots, own, since, with_pending, sys.maxsize)
        found = native.history(tuple(roots), own, since, with_pending)
        assert all(map(same, found, expected))
    assert alive


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("seed", range(12))
def test_surveys_are_the_same(native, seed):
    nodes, alive = random_graph(seed, 1500)
    wide = record(OPS["concatenate"], tuple(nodes[:400]), {"axis": 0})
    order, fixed = [*nodes[300:1000], *nodes[1200:], wide], [nodes[0], nodes[400], wide, nodes[-1]]
    expected, found = surveyed(order, fixed), native.survey(tuple(order), tuple(fixed))
    for name in expected._fields:
        a, b = getattr(expected, name), getattr(found, name)
        if name == "others":
            assert same(a, b)
        else:
            assert a.dtype == b.dtype, name
            assert np.array_equal(a, b) or name == "fixed", name
    assert np.array_equal(found.fixed.clip(-1), expected.fixed.clip(-1))
    assert alive


@pytest.mark.parametrize("seed", range(6))
def test_the_same_is_released(native, seed, monkeypatch):
    first, alive = random_graph(seed, 1500)
    second, also_alive = random_graph(seed, 1500)
    found = native.release(tuple(first[20:]))
    monkeypatch.setattr(walk, "native_walks", lambda: None)
    expected = walk.released(second[20:])
    assert [x.released for x in first] == [x.released for x in second]
    assert any(x.released for x in first)
    assert [first.index(x) for x in found] == [second.index(x) for x in expected]
    assert expected
    assert len(alive) == len(also_alive)


def test_what_is_not_known_is_left_to_python(native):
    x = leaf(np.ones(2), requires_grad=True)
    y = OPS["sin"](x)
    for part, value in [("requires_grad", 1), ("released", 0), ("inputs", [x]), ("handle", "none")]:
        node = OPS["cos"](y)
        setattr(node, part, value)
        assert native.history((OPS["exp"](node),), (), 0, True) is None or part == "handle"
        assert native.survey((y, node), ()) is None or part == "requires_grad"
    assert native.history((OPS["exp"](y),), (), 0, True) is not None


def test_references_are_counted(native):
    x = leaf(np.ones(2), requires_grad=True)
    y = OPS["sin"](x)
    before = [sys.getrefcount(z) for z in (x, y, True, False, None)]
    for _ in range(50):
        assert native.history((y,), (), 0, True)[0] == [x, y]
        assert native.survey((y,), (x,)).others == [x]
        y.released = False
        assert native.release((y,)) == []
        assert y.released
    after = [sys.getrefcount(z) for z in (x, y, True, False, None)]
    assert after[:2] == before[:2]
    assert all(abs(a - b) < 40 for a, b in zip(after, before, strict=True))


def test_there_are_none_where_python_is_another_one(monkeypatch):
    assert native_walks.layout() is not None
    monkeypatch.setattr(sys.implementation, "name", "another")
    assert native_walks.layout() is None


@pytest.mark.thorough(but="^40$")
@pytest.mark.parametrize("steps", [40, 400])
def test_a_gradient_has_the_same_bits_without_them(native, steps, monkeypatch):
    def gradients():
        p = ng.tensor([1.1, 0.9, 0.8], requires_grad=True)
        y, seen, states = ng.tensor([1.0, 0.5]), 0.0, []
        for k in range(steps):
            y = y + 0.01 * np.stack([p[0] * y[1], -p[1] * np.sin(y[0]) + 0.1 * k * p[2]])
            states.append(y)
            seen = seen + y[0] ** 2
        loss = seen + np.mean(np.stack(states) ** 2)
        loss.backward()
        return p.grad.numpy().tobytes(), loss.detach().numpy().tobytes()

    found = gradients()
    monkeypatch.setattr(walk, "native_walks", lambda: None)
    assert gradients() == found


def test_what_is_long_by_what_was_recorded_is_not_begun_in_python(native, monkeypatch):
    walked = []

    def counted(*arguments):
        found = python_walk(*arguments)
        walked.append(found)
        return found

    python_walk = walk._walked
    monkeypatch.setattr(walk, "_walked", counted)
    monkeypatch.setattr(walk, "native_walks", lambda: native)
    x = ng.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(2 * walk.MANY):
        y = y * 0.5
    assert len(walk.history_of([y._node]).nodes) == 2 * walk.MANY + 1
    assert walked == []
    # Nothing was recorded since, so this is taken for short, and found to be long.
    assert len(walk.history_of([y._node]).nodes) == 2 * walk.MANY + 1
    assert walked == [None]
    assert len(walk.history_of([(x + 1.0)._node]).nodes) == 2
    assert walked[1] is not None
    monkeypatch.setattr(walk, "native_walks", lambda: None)
    z = x
    for _ in range(2 * walk.MANY):
        z = z * 0.5
    assert len(walk.history_of([z._node]).nodes) == 2 * walk.MANY + 1
