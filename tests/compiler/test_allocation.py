"""Places in the arena, and how long values live."""

import gc
import weakref

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import numba_grad as ng
from numba_grad.compiler.steps.allocation import ALIGNMENT, Lifetimes


@given(
    st.lists(
        st.tuples(st.integers(0, 400), st.integers(0, 20), st.integers(0, 8)),
        min_size=1,
        max_size=40,
    )
)
def test_values_that_live_at_a_time_never_overlap(values):
    lives = {k: (size, first, first + more) for k, (size, first, more) in enumerate(values)}
    sizes = {k: size for k, (size, _, _) in lives.items()}
    lifetimes = Lifetimes()
    for step in range(30):
        for k, (_, first, last) in lives.items():
            if step in (first, last):
                lifetimes.use(k, step, sizes)
    offsets, total = lifetimes.allocate()
    assert offsets.keys() == lives.keys()
    for k, (size, first, last) in lives.items():
        assert offsets[k] % ALIGNMENT == 0
        assert offsets[k] + max(size, 1) <= total
        for other in range(k):
            other_size, other_first, other_last = lives[other]
            if first <= other_last and other_first <= last:
                assert (
                    offsets[k] + max(size, 1) <= offsets[other]
                    or offsets[other] + max(other_size, 1) <= offsets[k]
                )


def test_a_chain_needs_two_places():
    lifetimes = Lifetimes()
    sizes = dict.fromkeys(range(100), 4096 - 64)
    for step in range(100):
        if step:
            lifetimes.use(step - 1, step, sizes)
        lifetimes.use(step, step, sizes)
    _, total = lifetimes.allocate()
    assert total == 2 * (4096 - 64)


def test_arrays_read_together_do_not_share_sets_of_the_cache():
    lifetimes = Lifetimes()
    sizes = dict.fromkeys(range(16), 1 << 15)
    for key in sizes:
        lifetimes.use(key, 0, sizes)
    offsets, _ = lifetimes.allocate()
    sets = [offset // 64 % 64 for offset in offsets.values()]
    assert len(set(sets)) == len(sets)


def test_history_is_freed_after_backward():
    x = ng.tensor(np.linspace(0.0, 1.0, 50), requires_grad=True)
    y = ng.exp(x)
    z = (y * y).sum()
    intermediate = weakref.ref(y._node)
    z.backward()
    del y
    gc.collect()
    assert intermediate() is None
    np.testing.assert_allclose(x.grad, 2 * np.exp(2 * np.linspace(0.0, 1.0, 50)))
    assert z.item() > 0


def test_history_is_kept_as_long_as_the_user_says():
    x = ng.tensor(np.ones(50), requires_grad=True)
    y = ng.exp(x)
    z = (y * y).sum()
    intermediate = weakref.ref(y._node)
    z.backward(retain_graph=True)
    del y
    gc.collect()
    assert intermediate() is not None
    z.backward()
    del z
    gc.collect()
    assert intermediate() is None
