import re
import time
from pathlib import Path

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler import evaluate, pipeline, plan_cache, programs
from numba_grad.compiler.building import build, cache
from numba_grad.compiler.compiled_program import CompiledProgram
from numba_grad.compiler.first_tier import plans
from numba_grad.compiler.partition.flat_graph import Signatures, flatten
from numba_grad.config import configure
from numba_grad.graph.node import OPS, argument, leaf
from numba_grad.graph.types import array_type
from numba_grad.ops import movement, reductions
from numba_grad.runtime.plan import Control, ErrorSite, Plan
from tests.processes import output_of, run_python, start

pytestmark = pytest.mark.usefixtures("directory")

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)

# Prints the bits of results, kernels compiled, and which modules that lower graphs were imported.
PROGRAM = """
import sys
import numpy as np
import numba_grad as ng
from numba_grad.compiler.building import build
x, w = np.linspace(0.1, 2, 30).reshape(6, 5), np.linspace(-1, 1, 25).reshape(5, 5)
def loss(x, w):
    return np.sum(np.sin(x @ w))
if BY_JIT:
    results = ng.jit(ng.grad(loss, (0, 1)))(x, w)
else:
    tensors = [ng.tensor(v, requires_grad=True) for v in (x, w)]
    loss(*tensors).backward()
    results = [t.grad for t in tensors]
print(*[np.asarray(r).tobytes().hex() for r in results])
print(build.statistics().compilations)
modules = [f"numba_grad.compiler.{name}" for name in ("pipeline", "first_tier.plans", "cpu_target")]
print(*[name for name in modules if name in sys.modules])
print("numba" in sys.modules)
"""


@pytest.fixture
def lowered(monkeypatch):
    """A list that grows with each graph that is lowered."""
    found = []

    def counting(real):
        def lowered(graph, *target, **options):
            found.append(graph)
            return real(graph, *target, **options)

        return lowered

    for module in (pipeline, plans):
        monkeypatch.setattr(module, "lowered", counting(module.lowered))
    return found


def start_process(directory, *, by_jit=True, engine="native"):
    code = PROGRAM.replace("BY_JIT", str(by_jit))
    return start(code, NUMBA_GRAD_CACHE_DIR=directory, NUMBA_GRAD_ENGINE=engine)


def found_by(process):
    output = output_of(process, quietly=True)
    bits, compilations, modules, has_numba = output.split("\n")[:4]
    return bits, int(compilations), modules.split(), has_numba == "True"


def graph_of(function, *types):
    inputs = [argument(type) for type in types]
    outputs = function(*inputs)
    return flatten(outputs if isinstance(outputs, list) else [outputs], inputs)


def key_of(function, *types):
    return plan_cache.key_of(graph_of(function, *types), "cpu")


VECTOR = array_type((20,), F64)


# Between processes


@pytest.mark.thorough(but="^define by run$")
@pytest.mark.parametrize(
    ("by_jit", "engine"),
    [
        pytest.param(True, "native", id="jit"),
        pytest.param(False, "native", id="define by run"),
        pytest.param(False, "fused", id="define by run, fused"),
    ],
)
def test_a_second_process_lowers_nothing_and_has_the_same_bits(directory, by_jit, engine):
    first, second = (
        found_by(start_process(directory, by_jit=by_jit, engine=engine)) for _ in range(2)
    )
    bits, compilations, modules, _ = first
    assert compilations > 0
    assert modules
    assert second == (bits, 0, [], False)


@pytest.mark.thorough
def test_two_processes_may_write_the_same_plan(directory):
    processes = [start_process(directory) for _ in range(2)]
    (first, *_), (second, *_) = map(found_by, processes)
    assert first == second
    assert found_by(start_process(directory))[1:] == (0, [], False)


# Within one


def damped(x):
    return ng.sum(ng.exp(-x) * ng.sin(x))


def gradient_by_new_function(x):
    return ng.jit(ng.grad(lambda x: damped(x)))(x)


def test_a_plan_is_found_by_the_structure_of_its_graph(lowered):
    first, second = np.linspace(0, 1, 30), np.linspace(3, 7, 30)
    gradient_by_new_function(first)
    assert len(lowered) == 1
    found = gradient_by_new_function(second)
    assert len(lowered) == 1
    np.testing.assert_allclose(found, np.exp(-second) * (np.cos(second) - np.sin(second)))
    gradient_by_new_function(second[:-1])
    assert len(lowered) == 2


@pytest.mark.parametrize("engine", ["fused", "native"])
def test_what_is_defined_by_run_finds_plans_of_its_own(lowered, monkeypatch, engine):
    results = []
    for _ in range(2):
        monkeypatch.setattr(evaluate, "_programs", type(evaluate._programs)())
        x = ng.tensor(np.linspace(0, 1, 33), requires_grad=True)
        with configure(engine=engine):
            damped(x).backward()
        results.append(x.grad.numpy().tobytes())
    assert results[0] == results[1]
    assert len(lowered) == 1


def test_kernels_are_shown_where_the_plan_was_on_disk(lowered):
    x = np.linspace(0, 1, 31)
    expected = [kernel.source for kernel in ng.jit(damped).lower(x).kernels]
    assert len(lowered) == 1
    again = ng.jit(damped).lower(x)
    assert again.peak_memory > 0
    assert len(lowered) == 1
    assert [kernel.source for kernel in again.kernels] == expected
    assert len(again.profile(x)) == len(expected)
    assert len(lowered) == 2


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda content: b"", id="empty"),
        pytest.param(lambda content: content[:-1], id="cut"),
        pytest.param(lambda content: content[:-1] + bytes([content[-1] ^ 1]), id="one bit"),
    ],
)
def test_a_damaged_plan_counts_as_absent(lowered, damage):
    x = np.linspace(0, 1, 32)
    expected = gradient_by_new_function(x)
    (key,) = [plan_cache.key_of(graph, "cpu") for graph in lowered]
    cache.write_waiting()
    path = cache.path_of(key)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert gradient_by_new_function(x).tobytes() == expected.tobytes()
    assert len(lowered) == 2
    cache.write_waiting()
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "kernel", [5, 0, Control.LOOP, Control.LEAVE, Control.SWITCH, Control.SKIP, -9]
)
def test_a_plan_is_checked_when_it_is_read(kernel):
    steps = np.array([[kernel, 0, 1, 1]], np.int64)
    plan = Plan(steps, np.full(1, 7), np.zeros((0, 3), np.int64), (), 1, (((2,), F64),))
    plan_cache.write("ab" * 32, CompiledProgram(plan))
    assert cache.read("ab" * 32) is not None
    assert plan_cache.read("ab" * 32, build.stored) is None


def test_other_content_under_a_plans_name_counts_as_absent():
    cache.write("ab" * 32, b"no plan")
    assert plan_cache.read("ab" * 32, build.stored) is None


def test_a_plan_without_one_of_its_kernels_counts_as_absent(lowered, monkeypatch):
    def forget_kernels():  # as in another process
        monkeypatch.setattr(build, "_addresses", {})
        monkeypatch.setattr(build, "_kernels", {})

    forget_kernels()
    x = np.linspace(0, 1, 34)
    expected = gradient_by_new_function(x)
    key = plan_cache.key_of(lowered[0], "cpu")
    plan = plan_cache.read(key, build.stored).plan
    cache.path_of(plan.kernels[0].key).unlink()
    forget_kernels()
    assert plan_cache.read(key, build.stored) is None
    assert gradient_by_new_function(x).tobytes() == expected.tobytes()
    assert len(lowered) == 2
    assert cache.contains(plan.kernels[0].key)


def test_a_directory_that_cannot_be_written_leaves_plans_in_memory(tmp_path, lowered):
    (tmp_path / "file").touch()
    x = np.linspace(0, 1, 35)
    with configure(cache_directory=tmp_path / "file" / "cache"):
        with pytest.warns(RuntimeWarning, match="cannot be written"):
            gradient_by_new_function(x)
        gradient_by_new_function(x)
    assert len(lowered) == 2


def test_plans_count_for_the_bound_of_the_cache(directory):
    with configure(cache_bytes=1 << 12):
        for n in range(40, 60):
            ng.jit(lambda x: ng.cumsum(x) * 2)(np.ones(n))
        cache.write_waiting()
        assert sum(path.stat().st_size for path in directory.iterdir()) <= 1 << 12


def test_a_plan_that_would_push_out_everything_else_is_not_written():
    words = np.random.default_rng(0).integers(0, 1 << 62, 1 << 12)
    plan = Plan(np.zeros((0, 4), np.int64), words, np.zeros((0, 3), np.int64), (), 0, ())
    with configure(cache_bytes=1 << 16):
        plan_cache.write("ab" * 32, CompiledProgram(plan))
        cache.write_waiting()
    assert not cache.contains("ab" * 32)


def test_what_waits_is_written_by_whoever_asks_by_itself_or_at_the_end(directory):
    read, left = "ab" * 32, "cd" * 32
    with cache._writing:  # what waited before may be written at any moment, and this with it
        cache.write_later(read, lambda: b"content")
        assert cache.contains(read) and not cache.path_of(read).exists()
    assert cache.read(read) == b"content"
    assert cache.path_of(read).exists()
    cache.write_later(left, lambda: b"content")
    while not cache.path_of(left).exists():
        time.sleep(0.01)
    code = "from numba_grad.compiler.building import cache; cache.write_later('ef' * 32, bytes)"
    run_python(code, NUMBA_GRAD_CACHE_DIR=directory)
    assert cache.read("ef" * 32) == b""


def test_what_waits_for_another_directory_is_left(tmp_path):
    cache.write_later("ab" * 32, lambda: b"content")
    with configure(cache_directory=tmp_path / "other"):
        cache.write_waiting()
        assert cache.read("ab" * 32) is None


def test_all_of_a_plan_comes_back():
    sites = (ErrorSite("index", "take", 1), ErrorSite("singular", "solve"))
    plan = Plan(
        steps=np.zeros((0, 4), np.int64),
        words=np.array([1, -(1 << 63), (1 << 63) - 1]),
        relocations=np.array([[0, 1, -8], [2, 5, 16]]),
        kernels=(),
        input_count=1,
        outputs=(((3, 0), F32), ((), np.dtype(np.bool_))),
        arena_bytes=1 << 40,
        symbols=("blas.dgemm", "pocketfft.fft.complex128"),
        sites=sites,
    )
    plan_cache.write("ab" * 32, CompiledProgram(plan, joined_elements=1 << 40))
    program = plan_cache.read("ab" * 32, build.stored)
    assert program.joined_elements == 1 << 40
    found = program.plan
    for name in ("steps", "words", "relocations"):
        np.testing.assert_array_equal(getattr(found, name), getattr(plan, name), strict=True)
    for name in ("kernels", "input_count", "outputs", "arena_bytes", "symbols", "sites"):
        assert getattr(found, name) == getattr(plan, name), name


# Keys


def test_keys_do_not_depend_on_what_a_process_met_before(monkeypatch):
    from numba_grad.compiler.partition import flat_graph

    def function(x):
        return OPS["sin"](OPS["cos"](x))

    before = key_of(function, VECTOR)
    monkeypatch.setattr(flat_graph, "_table", Signatures())
    graph_of(lambda x: OPS["exp"](OPS["sin"](x)), VECTOR)  # which takes the first numbers
    assert key_of(function, VECTOR) == before


def test_keys_do_not_depend_on_when_a_number_was_recorded():
    def key(number, x):
        return plan_cache.key_of(flatten([OPS["sin"](x * number) + x]), "cpu")

    shared = leaf(np.array(2.0))
    x = leaf(np.zeros(20))
    later = leaf(np.array(2.0))
    assert key(shared, x) == key(later, x)


def test_keys_tell_graphs_apart():
    x = VECTOR
    matrix = array_type((4, 5), F64)
    keys = [
        key_of(lambda x: x + x, x),
        key_of(lambda x: x * x, x),
        key_of(lambda x: x + x, array_type((20,), F32)),
        key_of(lambda x: x + x, array_type((21,), F64)),
        key_of(lambda x: x + x, matrix),
        key_of(lambda x: reductions.sum(x, axes=(0,)), matrix),
        key_of(lambda x: reductions.sum(x, axes=(1,)), matrix),
        key_of(lambda x: movement.transpose(x, axes=(1, 0)), matrix),
        key_of(lambda x, y: x - y, x, x),
        key_of(lambda x, y: y - x, x, x),
        key_of(lambda x, y: [x - y, y - x], x, x),
        key_of(lambda x, y: [y - x, x - y], x, x),
    ]
    assert None not in keys
    assert len(set(keys)) == len(keys)


def test_keys_depend_on_settings_and_targets():
    graph = graph_of(lambda x: x + x, VECTOR)
    with configure(unroll_extent=3):
        other_extent = plan_cache.key_of(graph, "cpu")
    keys = {plan_cache.key_of(graph, "cpu"), plan_cache.key_of(graph, "another"), other_extent}
    assert len(keys) == 3
    with configure(threads=1):
        assert plan_cache.key_of(graph, "cpu") in keys


def test_passes_are_run_where_they_are_to_be_checked(lowered):
    x = np.linspace(0, 1, 36)
    with configure(check_passes=True):
        gradient_by_new_function(x)
        gradient_by_new_function(x)
    assert len(lowered) == 2


VALUES = [
    *(None, True, False, 0, 1, -1, 1 << 70, 0.0, -0.0, 1.0, np.nan, -np.nan, np.inf),
    *("", "1", "None", b"", b"1", (), (1,), ((1,),), (1, 1), ("1",), (1.0,), (True,), [1]),
    *(("a", "b"), ("ab",), ("a", "b", ""), F32, F64, "float32", np.dtype(np.int64)),
]


def test_canonical_text_tells_values_apart():
    texts = [plan_cache.canonical(value) for value in VALUES]
    assert len(set(texts)) == len(texts)
    assert plan_cache.canonical(float("nan")) == plan_cache.canonical(np.nan)


def test_meanings_of_plain_params_are_told_apart_in_the_same_way():
    meanings = [(OPS["add"], ("param", value)) for value in VALUES]
    texts = [plan_cache._plain(meaning) for meaning in meanings]
    plain = [text for text in texts if text is not None]
    assert len({*plain}) == len(plain) > 20
    for value, text in zip(VALUES, texts, strict=True):
        is_nested = value.__class__ is tuple and any(x.__class__ is tuple for x in value)
        assert (text is None) == (is_nested or value.__class__ not in PLAIN)
        text_of_other = plan_cache._plain((OPS["multiply"], ("param", value)))
        assert text is None or text != text_of_other
    for other in (OPS["add"], "input", (OPS["add"], ("param", 1), 3), (1, ("param", 1))):
        assert plan_cache._plain(other) is None
    for value in (np.int64(1), np.float64(1), (np.int64(1),), (True, np.bool_(1)), [1], object()):
        assert plan_cache._plain((OPS["add"], ("param", value))) is None


PLAIN = {int, bool, float, str, bytes, type(None), tuple}


@pytest.mark.parametrize("value", [object(), print, {1}, np.float64(1.0), np.int64(1), np.ones(2)])
def test_what_has_no_canonical_text_is_refused(value):
    with pytest.raises(plan_cache._NotStorableError):
        plan_cache.canonical((1, value))


def test_calls_of_jitted_functions_count_by_what_these_compute(lowered):
    def outer(inner):
        jitted = ng.jit(inner)
        return ng.jit(ng.grad(lambda x: ng.sum(jitted(x) * jitted(x + 1))))

    x = np.linspace(0, 1, 37)

    def inner(x):
        return ng.sin(x) * 2

    expected = outer(inner)(x)
    assert len(lowered) == 1
    assert outer(inner)(x).tobytes() == expected.tobytes()
    assert len(lowered) == 1

    def other(x):
        return ng.cos(x) * 2

    other.__name__ = other.__qualname__ = "inner"
    found = outer(other)(x)
    assert len(lowered) == 2
    f = 2 * np.sin(x) * 2 * np.cos(x)
    assert not np.allclose(found, f)


def test_users_kernels_are_known_by_identity_and_so_lowered_by_each_process(lowered):
    def doubled(x, out):
        for k in range(x.size):
            out[k] = 2 * x[k]

    def tripled(x, out):
        for k in range(x.size):
            out[k] = 3 * x[k]

    x = np.linspace(0, 1, 38)
    for number, (function, factor) in enumerate([(doubled, 2), (tripled, 3)], start=1):
        scaled = ng.custom_op("scaled", function, shape=lambda x: x.shape)
        np.testing.assert_array_equal(ng.jit(lambda x, f=scaled: f(x) + 1)(x), factor * x + 1)
        assert len(lowered) == number
        assert plan_cache.key_of(lowered[-1], "cpu") is None


# The compiler itself


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of three files, in the place of numba_grad."""
    for folder in ("compiler", "frontend/tensors"):
        (tmp_path / "package" / folder).mkdir(parents=True)
    for name in ("compiler/plan_cache.py", "compiler/rules.py", "frontend/tensors/tensor.py"):
        (tmp_path / "package" / name).write_text("x = 1\n")
    monkeypatch.setattr(plan_cache, "__file__", str(tmp_path / "package/compiler/plan_cache.py"))
    monkeypatch.setattr(plan_cache, "_imported_ns", 1 << 62)
    return tmp_path / "package"


def environment(directory):
    return plan_cache._environment.__wrapped__(directory)


def test_a_plan_depends_on_the_text_of_the_compiler(package, directory):
    before = environment(directory)
    assert environment(directory) == before
    (package / "compiler/rules.py").write_text("x = 2\n")
    edited = environment(directory)
    assert edited != before
    (package / "compiler/rules.py").write_text("x = 1\n")  # a new file, with the old text
    assert environment(directory) == before
    (package / "frontend/tensors/tensor.py").write_text("x = 2\n")  # which only makes graphs
    assert environment(directory) == before


def test_what_was_edited_since_it_was_imported_names_no_plan(package, directory, monkeypatch):
    monkeypatch.setattr(plan_cache, "_imported_ns", 0)
    with pytest.raises(plan_cache._NotStorableError):
        environment(directory)


def test_a_package_without_files_names_no_plan(directory, monkeypatch, tmp_path):
    monkeypatch.setattr(plan_cache, "__file__", str(tmp_path / "a.zip/compiler/plan_cache.py"))
    with pytest.raises(plan_cache._NotStorableError):
        environment(directory)


def test_all_that_the_compiler_may_import_counts():
    names = {name for name, _ in plan_cache._files(str(Path(ng.__file__).parent))}
    for name in ("compiler/fusion/fuse.py", "compiler/elementary/formulas.py", "ops/families.py"):
        assert name in names
    for module in (pipeline, programs, build):
        imported = re.findall(r"from numba_grad\.(\w+)", Path(module.__file__).read_text())
        assert not set(imported) & set(plan_cache._ABOVE)


def test_a_writer_that_is_ended_as_it_begins_to_write(monkeypatch):
    """By a fork, which waited for ever: what wakes the writer for its end was what it took back."""
    monkeypatch.setattr(cache, "_SECONDS_LATER", 0.0)
    writer = cache._Writer()
    clear = writer.is_wanted.clear

    def end_first():
        writer.is_ended.set()
        writer.is_wanted.set()
        clear()

    monkeypatch.setattr(writer.is_wanted, "clear", end_first)
    writer.start()
    writer.is_wanted.set()
    writer.join(10)
    assert not writer.is_alive()
