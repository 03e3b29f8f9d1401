"""`memory=` of loops, and `checkpoint`: the same gradient from less memory."""

import errno
import os

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.config import configure
from numba_grad.frontend.loops_and_branches.memory_budgets import states_within
from numba_grad.graph.node import argument
from numba_grad.graph.types import array_type
from numba_grad.runtime import buffers
from numba_grad.runtime.buffers import pool_statistics, release_pool
from tests.frontend.test_loops import counted
from tests.processes import run_python

RNG = np.random.default_rng(11)
STATE = argument(array_type((100,), np.dtype(np.float64)))
BUDGETS = ["1 states", "2 states", "5 states", "22 states", "23 states", "1 GB", None]


def by_scan(a, xs, memory=None, reverse=False):
    final, ys = ng.scan(
        lambda c, x: (np.sin(c) * x * a[0] + a[1] * c * c, c * x * a[0]),
        a[2],
        xs,
        reverse=reverse,
        memory=memory,
    )
    return final * final + (ys * ys).sum()


def bits(tree):
    return [np.asarray(x).tobytes() for x in tree]


@pytest.mark.thorough(but="^(define by run-(0|23)|jit-7)$")
@pytest.mark.parametrize("length", [0, 1, 2, 3, 7, 23])
@pytest.mark.parametrize("transform", [lambda f: f, ng.jit], ids=["define by run", "jit"])
def test_the_gradient_has_the_same_bits_for_any_budget(transform, length):
    a, xs = np.array([0.9, 0.2, 0.3]), np.linspace(0.5, 1.5, length)
    found = set()
    for memory in BUDGETS:
        gradient = transform(ng.grad(lambda a, xs, m=memory: by_scan(a, xs, m), (0, 1)))
        found.add(tuple(bits(gradient(a, xs))))
    assert len(found) == 1
    found = set()
    for memory in BUDGETS:
        gradient = transform(ng.grad(lambda a, n, m=memory: counted(a, n, m)))
        found.add(tuple(bits([gradient(0.7, length)])))
    assert len(found) == 1


def test_vectors_keep_their_bits_too_and_in_reverse():
    a = [RNG.standard_normal(40) for _ in range(3)]
    for xs in (np.linspace(0.5, 1, 13), RNG.standard_normal((13, 40))):
        found = set()
        for memory in ("1 states", "4 states", None):
            gradient = ng.grad(
                lambda a, xs, m=memory: by_scan(a, xs, m, reverse=True).sum(), (0, 1)
            )
            (of_a, of_xs) = gradient(a, xs)
            found.add(tuple(bits([*of_a, of_xs])))
        assert len(found) == 1


@pytest.mark.thorough(but="3 states")
@pytest.mark.parametrize("memory", ["1 states", "3 states"])
def test_higher_derivatives_and_forward_mode_within_a_budget(memory):
    a, xs = np.array([0.9, 0.2, 0.3]), np.linspace(0.5, 1.5, 7)
    expected = ng.hessian(by_scan)(a, xs)
    np.testing.assert_allclose(ng.hessian(lambda a: by_scan(a, xs, memory))(a), expected, 1e-11)
    _, column = ng.jvp(ng.grad(lambda a: by_scan(a, xs, memory)), (a,), (np.eye(3)[1],))
    np.testing.assert_allclose(column, expected[1], rtol=1e-11)
    third = ng.grad(ng.grad(ng.grad(lambda a: counted(a, 9, memory))))(0.7)
    of_all = ng.grad(ng.grad(ng.grad(lambda a: counted(a, 9))))(0.7)
    np.testing.assert_allclose(third, of_all, rtol=1e-10)


def test_batches_within_a_budget():
    a, xs = RNG.uniform(0.2, 0.9, (4, 3)), np.linspace(0.5, 1.5, 7)
    expected = ng.vmap(ng.grad(lambda a: by_scan(a, xs)))(a)
    result = ng.vmap(ng.grad(lambda a: by_scan(a, xs, "2 states")))(a)
    np.testing.assert_allclose(result, expected, rtol=1e-13)
    counts = np.array([0, 3, 9])
    result = ng.vmap(ng.grad(lambda a, n: counted(a, n, "2 states")))(a[0], counts)
    np.testing.assert_allclose(
        result, [ng.grad(counted)(x, n) for x, n in zip(a[0], counts, strict=True)], rtol=1e-12
    )


def test_loops_within_loops_each_with_a_budget():
    def f(a, memory):
        def outer(c, x):
            return ng.fori_loop(0, 5, lambda i, c: np.tanh(c * a + x), c, memory=memory), None

        return ng.scan(outer, 1.0, np.linspace(0, 1, 6), memory=memory)[0]

    assert bits([ng.grad(f)(0.8, "2 states")]) == bits([ng.grad(f)(0.8, None)])


@pytest.mark.thorough
def test_random_numbers_are_the_same_when_steps_are_done_again():
    def f(a, memory):
        def step(c, k):
            noise = ng.random.normal(ng.random.fold_in(ng.random.key(0), k), (5,))
            return np.tanh(c * a + noise), None

        return ng.scan(step, np.zeros(5), np.arange(30), memory=memory)[0].sum()

    found = {tuple(bits(ng.value_and_grad(f)(0.9, m))) for m in ("1 states", "4 states", None)}
    assert len(found) == 1


def test_the_reference_engine_says_the_same():
    def both():
        a, xs = np.array([0.9, 0.2, 0.3]), np.linspace(0.5, 1.5, 7)
        return ng.grad(by_scan)(a, xs, "2 states"), ng.grad(counted)(0.7, 9, "2 states")

    expected = [x.numpy() for x in both()]
    with configure(engine="reference"):
        for x, y in zip(both(), expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-13)


@pytest.mark.thorough
def test_the_peak_of_memory_is_within_the_budget():
    # States of 1 MiB, of which 200 take 200 MiB.
    state = np.full(1 << 17, 0.5)

    def peak(memory):
        gradient = ng.jit(
            ng.grad(
                lambda a: ng.fori_loop(
                    0, 200, lambda i, c: np.sin(c * a) + c, state, memory=memory
                ).sum()
            )
        )
        gradient(0.9)
        release_pool()
        before = pool_statistics().lent_bytes
        value = float(gradient(0.9))
        return pool_statistics().peak_lent_bytes - before, value

    (whole, expected), (part, value) = peak(None), peak("20 MiB")
    assert value == expected
    assert whole > 200 << 20
    # Besides: the state that is next, and what a step reads and writes.
    assert part < 32 << 20


# What `memory` may be


@pytest.mark.parametrize(
    ("memory", "states"),
    [
        (800, 1),
        (8_000, 10),
        (8e3, 10),
        (np.int64(1700), 2),
        ("7 states", 7),
        ("1 state", 1),
        ("8kB", 10),
        ("8 KB", 10),
        ("8 KiB", 10),
        ("0.5 MB", 625),
        ("1e-3 GB", 1250),
        ("2 gb", 2_500_000),
        (" 800 B ", 1),
    ],
)
def test_budgets_are_bytes_or_states(memory, states):
    assert states_within("scan", memory, [STATE]) == (states, "")
    assert states_within("scan", memory, [STATE], states) == (None, "")
    assert states_within("scan", memory, [STATE], states + 1) == (states, "")


@pytest.mark.parametrize(
    ("test", "step", "states"),
    [
        (lambda c: c[0] < 300, lambda c: (c[0] + 1, np.sin(c[1])), 512),
        (lambda c: np.logical_and(c[1] > 0.1, c[0] <= 63), lambda c: (c[0] + 1, np.sin(c[1])), 128),
        (lambda c: np.greater(62, c[0]), lambda c: (2 + c[0], np.sin(c[1])), 32),
        (lambda c: c[0] < -5, lambda c: (c[0] + 1, np.sin(c[1])), 1),
        (lambda c: c[0] < 300, lambda c: (c[0] - 1, np.sin(c[1])), 1 << 20),
        (lambda c: c[0] < 300, lambda c: (c[0] * 2, np.sin(c[1])), 1 << 20),
        (
            lambda c: np.logical_or(c[0] < 300, c[1] > 0.1),
            lambda c: (c[0] + 1, np.sin(c[1])),
            1 << 20,
        ),
        (lambda c: c[1] > 0.1, lambda c: (c[0] + 1, np.sin(c[1])), 1 << 20),
    ],
)
def test_a_counter_says_how_many_states_there_can_be(test, step, states):
    """In a power of two: so that programs of other limits are the same."""
    loop = ng.jit(ng.grad(lambda a: ng.while_loop(test, step, (0, a))[1]))
    assert f"slots={states}," in str(loop.lower(0.5).graph)


def test_the_states_of_a_loop_that_a_break_ends_take_no_more_memory_than_its_steps():
    """Memory for as many as would fit was asked for, and made, or not kept from call to call."""

    def cooled(rate, field):
        for _ in range(300):
            field = field + rate * (np.roll(field, 1) - 2 * field + np.roll(field, -1))
            if field[0] < 0.5:
                break
        return np.sum(field**2)

    gradient = ng.jit(ng.grad(cooled), control_flow=True)
    field = np.zeros(1000)
    field[0] = 1.0
    release_pool()
    found = gradient(0.01, field)
    assert pool_statistics().peak_lent_bytes < 600 * field.nbytes
    bend = 1e-6
    plain = [cooled(0.01 + sign * bend, field.copy()) for sign in (1, -1)]
    np.testing.assert_allclose(found, (plain[0] - plain[1]) / (2 * bend), rtol=1e-5)


def test_states_whose_number_nobody_knows_are_in_memory_that_is_kept_and_not_touched(monkeypatch):
    touched = []
    monkeypatch.setattr(buffers.Pool, "prepare", lambda _, nbytes: touched.append(nbytes))

    def settled(rate, field):
        def step(carried):
            field, _ = carried
            new = field + rate * (np.roll(field, 1) - 2 * field + np.roll(field, -1))
            return new, np.max(np.abs(new - field))

        return np.sum(ng.while_loop(lambda c: c[1] > 1e-2, step, (field, 1.0))[0] ** 2)

    gradient = ng.jit(ng.grad(settled))
    field = np.zeros(1000)
    field[0] = 1.0
    gradient(0.2, field)
    assert not touched
    before = pool_statistics()
    gradient(0.2, field)
    after = pool_statistics()
    assert (after.mapped, after.reused) == (before.mapped, before.reused + 1)


@pytest.mark.parametrize(
    "memory",
    ["lots", "", "5", "5 parsecs", "-5 MB", True, float("nan"), float("inf"), [1], "states", 1j],
    ids=repr,
)
def test_what_is_no_budget_is_refused(memory):
    with pytest.raises(ValueError, match=r"(?s)memory is a number of bytes.*500 MB.*40 states"):
        ng.scan(lambda c, x: (c + x, None), np.ones(100), np.arange(9.0), memory=memory)


@pytest.mark.parametrize("memory", [100, 0, -5, "0 states", "799 B"])
def test_a_budget_below_one_state_is_refused(memory):
    for loop in (
        lambda: ng.scan(lambda c, x: (c + x, None), np.ones(100), np.arange(9.0), memory=memory),
        lambda: ng.while_loop(lambda c: c[0] < 2, lambda c: c * 2, np.ones(100), memory=memory),
    ):
        with pytest.raises(ValueError, match=r"(?s)no memory for a single state.*at least 800"):
            loop()


# States in a file


@pytest.mark.parametrize("transform", [lambda f: f, ng.jit], ids=["define by run", "jit"])
def test_states_in_a_file_give_the_same_bits(transform, tmp_path):
    a, xs = np.array([0.9, 0.2, 0.3]), np.linspace(0.5, 1.5, 23)
    expected = bits(ng.grad(by_scan, (0, 1))(a, xs)), bits([ng.grad(counted)(0.7, 23)])
    for amount in ("1 GB", "5 states"):
        memory = f"disk:{tmp_path}:{amount}"
        found = transform(ng.grad(lambda a, xs: by_scan(a, xs, memory), (0, 1)))(a, xs)  # noqa: B023
        assert bits(found) == expected[0]
        found = transform(ng.grad(lambda a, n: counted(a, n, memory)))(0.7, 23)  # noqa: B023
        assert bits([found]) == expected[1]
    assert not list(tmp_path.iterdir())


@pytest.mark.thorough
def test_states_of_vectors_in_files_of_loops_in_loops(tmp_path):
    def f(a, memory):
        def inner(c, _):
            return np.sin(c * a) + 0.5 * c, None

        def outer(i, c):
            return ng.scan(inner, c, length=4, memory=memory)[0]

        final = ng.fori_loop(0, 5, outer, np.linspace(0.1, 1, 30), memory=memory)
        return (final * final).sum()

    memory = f"disk:{tmp_path}:3 states"
    assert bits([ng.grad(f)(0.7, memory)]) == bits([ng.grad(f)(0.7, None)])
    second = ng.grad(ng.grad(f))
    np.testing.assert_allclose(second(0.7, memory), second(0.7, None), rtol=1e-11)
    batched = ng.vmap(ng.grad(f), (0, None))(np.array([0.7, 0.2]), memory)
    assert bits([batched[0]]) == bits([ng.grad(f)(0.7, None)])


def test_states_in_a_file_take_no_memory(tmp_path):
    state = np.full(1 << 17, 0.5)
    gradient = ng.jit(
        ng.grad(
            lambda a: ng.fori_loop(
                0, 20, lambda i, c: np.sin(c * a) + c, state, memory=f"disk:{tmp_path}:1 GB"
            ).sum()
        )
    )
    gradient(0.9)
    release_pool()
    before = pool_statistics().lent_bytes
    gradient(0.9)
    assert pool_statistics().peak_lent_bytes - before < 12 << 20


def test_directories_that_are_not_there_and_full_disks(tmp_path, monkeypatch):
    missing, file = tmp_path / "none", tmp_path / "file"
    file.write_text("")
    with pytest.raises(FileNotFoundError, match=r"(?s)scan: there is no such directory.*makedirs"):
        by_scan(np.ones(3), np.ones(4), f"disk:{missing}:1 MB")
    with pytest.raises(NotADirectoryError, match="while_loop: there is no such directory"):
        counted(0.7, 4, f"disk:{file}:1 MB")
    with pytest.raises(ValueError, match=r"(?s)memory is a number of bytes.*disk:PATH:4 GB"):
        counted(0.7, 4, f"disk:{tmp_path}:much")
    gradient = ng.jit(ng.grad(lambda a: counted(a, 4, f"disk:{tmp_path}:1 MB")))
    expected = gradient(0.7)

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match=r"(?s)no room on the disk.*bytes *: \d+.*another path"):
        gradient(0.7)
    monkeypatch.delattr(os, "posix_fallocate")  # a system that cannot reserve space
    assert gradient(0.7) == expected
    monkeypatch.undo()
    assert gradient(0.7) == expected
    tmp = tmp_path / "gone"
    tmp.mkdir()
    gradient = ng.jit(ng.grad(lambda a: counted(a, 4, f"disk:{tmp}:1 MB")))
    gradient(0.7)
    tmp.rmdir()
    with pytest.raises(FileNotFoundError, match="no file can be made"):
        gradient(0.7)


# Between processes

PROGRAM = """
import sys
import numpy as np
import numba_grad as ng
def f(a, x, n):
    def body(c):
        y = ng.scan(lambda c, x: (np.tanh(c * a + x), c), c[1], x, memory="2 states")[0]
        return c[0] + 1, ng.cond(y > 0, lambda y: y * a, lambda y: y, y)
    return ng.while_loop(lambda c: c[0] < n, body, (0, 1.0))[1]
print(np.asarray(ng.jit(ng.grad(f))(0.7, np.linspace(0, 1, 5), 3)).tobytes().hex())
print("numba" in sys.modules, "numba_grad.compiler.pipeline" in sys.modules)
"""


@pytest.mark.thorough
def test_a_second_process_finds_the_plan_on_disk(tmp_path):
    def run():
        environment = {"NUMBA_GRAD_CACHE_DIR": tmp_path, "NUMBA_GRAD_ENGINE": "native"}
        return run_python(PROGRAM, **environment).splitlines()

    tmp_path.chmod(0o700)
    first, second = run(), run()
    assert first[1] == "True True"
    assert second == [first[0], "False False"]


# checkpoint


@pytest.mark.parametrize("transform", [lambda f: f, ng.jit], ids=["define by run", "jit"])
def test_checkpoint_changes_no_derivative(transform):
    def f(x, p):
        return {"y": np.sin(np.exp(x["x"]) * p), "n": None}, p * 2

    x, p = {"x": RNG.standard_normal(5)}, 1.5

    def weighed(f):
        return lambda x, p: (f(x, p)[0]["y"] ** 2).sum() + f(x, p)[1]

    recomputing = weighed(ng.checkpoint(f))
    value, (of_x, of_p) = transform(ng.value_and_grad(recomputing, (0, 1)))(x, p)
    expected, (x_of_f, p_of_f) = ng.value_and_grad(weighed(f), (0, 1))(x, p)
    np.testing.assert_allclose(value, expected, rtol=1e-14)
    np.testing.assert_allclose(of_x["x"], x_of_f["x"], rtol=1e-13)
    np.testing.assert_allclose(of_p, p_of_f, rtol=1e-13)
    second = transform(ng.hessian(lambda p: recomputing(x, p)))(p)
    np.testing.assert_allclose(second, ng.hessian(lambda p: weighed(f)(x, p))(p), rtol=1e-12)
    batch = ng.vmap(ng.grad(lambda p: recomputing(x, p)))(np.array([1.5, 0.5]))
    np.testing.assert_allclose(batch[0], p_of_f, rtol=1e-13)
    tangent = ng.jvp(lambda p: recomputing(x, p), (p,), (2.0,))[1]
    np.testing.assert_allclose(tangent, 2 * p_of_f, rtol=1e-13)


def test_checkpoint_closes_over_tensors_and_passes_keywords_on():
    w = ng.tensor(2.0, requires_grad=True)

    @ng.checkpoint
    def scaled(x, *, power):
        """Docs."""
        return (w * x) ** power

    assert (scaled.__name__, scaled.__doc__) == ("scaled", "Docs.")
    scaled(3.0, power=2).backward()
    assert float(w.grad) == 36.0


def test_checkpoint_keeps_python_numbers_weak():
    assert ng.checkpoint(lambda x, y: x * y)(2.0, np.float32(3)).dtype == np.float32


@pytest.mark.parametrize("numbers", [0, -2, (0, 5), [0]])
def test_checkpoint_passes_static_arguments_as_they_are(numbers):
    def f(name, x):
        return np.sin(x) if name == "sine" else np.cos(x)

    recomputing = ng.checkpoint(f, static_argnums=numbers)
    assert ng.grad(lambda x: recomputing("sine", x))(0.0).item() == 1.0
    assert ng.grad(lambda x: recomputing("cosine", x))(0.0).item() == 0.0


def test_checkpoint_takes_functions():
    with pytest.raises(TypeError, match="checkpoint: not a function"):
        ng.checkpoint(3)


def layered(x, w, v):
    hidden = ng.checkpoint_name(np.tanh(x @ w), "hidden")
    return np.sin(hidden @ v) * np.exp(hidden @ w)


POLICIES = {
    "none": (None, {"matmul": 3, "tanh": 1}),
    "nothing": (ng.checkpoint_policies.nothing_saveable, {"matmul": 3, "tanh": 1}),
    "everything": (ng.checkpoint_policies.everything_saveable, {"matmul": 0, "tanh": 0}),
    "dots": (ng.checkpoint_policies.dots_saveable, {"matmul": 0, "tanh": 1}),
    "no batch": (ng.checkpoint_policies.dots_with_no_batch_dims_saveable, {"matmul": 0, "tanh": 1}),
    "name": (ng.checkpoint_policies.save_only_these_names("hidden"), {"matmul": 2, "tanh": 0}),
    "other": (ng.checkpoint_policies.save_only_these_names("other"), {"matmul": 3, "tanh": 1}),
    "any but": (ng.checkpoint_policies.save_any_names_but_these("hidden"), {"matmul": 3}),
    "any": (ng.checkpoint_policies.save_any_names_but_these("other"), {"matmul": 2, "tanh": 0}),
    "except": (
        ng.checkpoint_policies.save_anything_except_these_names("hidden"),
        {"matmul": 0, "tanh": 1},
    ),
    "both": (
        ng.checkpoint_policies.save_from_both_policies(
            ng.checkpoint_policies.save_only_these_names("hidden"),
            ng.checkpoint_policies.dots_saveable,
        ),
        {"matmul": 0, "tanh": 0},
    ),
    "own": (lambda operation, *types, **params: operation == "tanh", {"matmul": 2, "tanh": 0}),
}


WEIGHTS = [RNG.standard_normal((5, 5)) for _ in range(3)]


def done_again(f, *args):
    """Products of matrices and tanh that the derivative of `f` with a checkpoint computes again."""
    text = str(ng.jit(ng.grad(lambda *args: f(*args).sum(), (0, 1, 2))).lower(*args).graph)
    derivative = text[text.index("\nvjp of ") :]
    return {"matmul": derivative.count("matmul(") - 6, "tanh": derivative.count("tanh(")}


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("name", POLICIES)
def test_policies_say_what_checkpoint_keeps(name):
    policy, counts = POLICIES[name]
    layer = ng.checkpoint(layered, policy=policy)
    assert done_again(layer, *WEIGHTS).items() >= counts.items()
    expected = ng.grad(lambda *args: layered(*args).sum(), (0, 1, 2))(*WEIGHTS)
    for transform in (ng.jit, lambda f: f):
        found = transform(ng.grad(lambda *args: layer(*args).sum(), (0, 1, 2)))(*WEIGHTS)
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12)


def test_policies_see_dimensions_and_names_in_batches():
    policy = ng.checkpoint_policies.dots_with_no_batch_dims_saveable
    layer = ng.checkpoint(layered, policy=policy)
    assert done_again(layer, *[np.stack([x, x]) for x in WEIGHTS])["matmul"] == 3
    policy = ng.checkpoint_policies.save_only_these_names("hidden")
    layer = ng.checkpoint(lambda *args: ng.vmap(layered)(*args), policy=policy)
    assert done_again(layer, *[np.stack([x, x]) for x in WEIGHTS]) == {"matmul": 2, "tanh": 0}
    x, w, v = WEIGHTS
    kept = ng.checkpoint(layered, policy=policy)
    second = ng.hessian(lambda a: kept(a * x, w, v).sum())(0.7)
    np.testing.assert_allclose(second, ng.hessian(lambda a: layered(a * x, w, v).sum())(0.7), 1e-9)
    tangent = ng.jvp(lambda a: kept(a * x, w, v).sum(), (0.7,), (1.0,))[1]
    slope = ng.grad(lambda a: layered(a * x, w, v).sum())(0.7)
    np.testing.assert_allclose(tangent, slope, rtol=1e-12)


def test_with_loops_inside_all_is_computed_again():
    def f(a):
        return ng.fori_loop(0, 3, lambda i, x: ng.checkpoint_name(np.tanh(a * x), "x"), a)

    policy = ng.checkpoint_policies.save_only_these_names("x")
    assert bits([ng.grad(ng.checkpoint(f, policy=policy))(0.7)]) == bits([ng.grad(f)(0.7)])


def test_names_of_containers_and_bad_policies():
    named = ng.checkpoint_name({"x": ng.tensor([1.0]), "n": 3, "none": None}, "state")
    assert (named["x"].tolist(), named["n"], named["none"]) == ([1.0], 3, None)
    with pytest.raises(TypeError, match="checkpoint: the policy is not a function"):
        ng.checkpoint(np.sin, policy="dots_saveable")
    with pytest.raises(TypeError, match="checkpoint_name: a name is a text"):
        ng.checkpoint_name(ng.tensor(1.0), 3)
