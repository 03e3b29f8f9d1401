"""The architecture: imports go down only, and a warm start never imports Numba."""

import ast
import functools
import re
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import numba_grad
from numba_grad.frontend.namespaces import NAMESPACES
from tests.processes import run_python
from tests.statements import inner_statements

PACKAGE = Path(numba_grad.__file__).parent
BASE = {
    *("errors", "config", "dtypes", "forks", "fresh_thread", "immutable", "locks"),
    "syntax_trees",
}
MAY_IMPORT = {
    "errors": set(),
    "immutable": set(),
    "locks": set(),
    "syntax_trees": set(),
    "forks": {"locks"},
    "fresh_thread": {"forks", "locks"},
    "config": {"errors", "immutable"},
    "dtypes": {"errors", "fresh_thread"},
    "graph": BASE,
    "ops": BASE | {"graph"},
    "transforms": BASE | {"graph", "ops"},
    "runtime": BASE,
    "compiler": BASE | {"graph", "ops", "runtime"},
    "autograd": BASE | {"graph", "ops", "transforms", "runtime", "compiler"},
    "frontend": BASE | {"graph", "ops", "transforms", "runtime", "compiler", "autograd"},
}
# What a process that finds all plans on disk does without.
LOWERING = {
    f"numba_grad.compiler.{name}" for name in ("pipeline", "first_tier.plans", "cpu_target")
}
# What most programs do without.
SELDOM = {
    "numba_grad.autograd.finite_differences",
    "numba_grad.autograd.functional",
    "numba_grad.autograd.gradient_checks",
    "numba_grad.compiler.control_flow.communications",
    "numba_grad.compiler.control_flow.joinable_steps",
    "numba_grad.compiler.first_tier.loop_work",
    "numba_grad.compiler.passes.diagonals_of_products",
    "numba_grad.compiler.passes.known_places",
    "numba_grad.compiler.passes.pairs_on_grids",
    "numba_grad.compiler.passes.row_and_column_sums",
    "numba_grad.compiler.passes.windows_in_a_row",
    "numba_grad.compiler.passes.written_out_diagonals",
    "numba_grad.compiler.steps.custom_kernel_steps",
    "numba_grad.frontend.compiled_functions.lowered",
    "numba_grad.frontend.derivatives.calls_with_rules",
    "numba_grad.frontend.derivatives.jacobians",
    "numba_grad.frontend.derivatives.returned_by_rules",
    "numba_grad.frontend.derivatives.rules_of_calls",
    "numba_grad.frontend.inputs.instead_of_scipy",
    "numba_grad.frontend.python_control_flow.rewriting",
    "numba_grad.frontend.tensors.associative_folds",
    "numba_grad.frontend.tensors.sparse_products",
    "numba_grad.frontend.tensors.torch_functions",
    "numba_grad.graph.native_walks",
    "numba_grad.runtime.pocketfft",
    "numba_grad.transforms.control_flow.carried_parts",
    "numba_grad.transforms.control_flow.elements_of_branches",
    "numba_grad.transforms.control_flow.former_values",
    "numba_grad.transforms.control_flow.joined_products",
    "numba_grad.transforms.control_flow.rows_by_index",
    "numba_grad.transforms.control_flow.short_loops",
    "numba_grad.transforms.control_flow.sums_of_points",
    "numba_grad.transforms.rerolling.ragged_steps",
    "numba_grad.transforms.rerolling.repeated_steps",
    "numba_grad.transforms.rerolling.known_loops",
    "numba_grad.transforms.rerolling.known_selections",
    "numba_grad.transforms.rerolling.rerolled",
    "numba_grad.transforms.rerolling.rerolling",
    "numba_grad.transforms.rerolling.results_of_steps",
    "numba_grad.transforms.rerolling.rows_as_values",
    "numba_grad.transforms.rerolling.rows_by_data",
    "numba_grad.transforms.rerolling.rows_of_steps",
    "numba_grad.transforms.rerolling.steps_of_loop",
    "numba_grad.transforms.rerolling.written_parts",
    "numba_grad.transforms.rewrites.joined_parts",
    "numba_grad.transforms.rewrites.kept_ends",
    "numba_grad.transforms.stored_graphs",
    "numba_grad.transforms.rewrites.replaced_nodes",
    "numba_grad.transforms.rewrites.shared_with_neighbours",
    "numba_grad.transforms.rewrites.shifts_without_effect",
    *(f"numba_grad.frontend.{name}" for name in NAMESPACES),
}
# What `import numba_grad` leaves to who needs it, of what takes long to import.
LEFT = SELDOM | {
    *("asyncio", "concurrent.futures", "hashlib", "llvmlite.binding", "multiprocessing"),
    *("subprocess", "sysconfig", "urllib.request", "zipfile"),
    *("numba_grad.compiler.code_generation", "numba_grad.frontend.own_functions.custom_op"),
    *("numba_grad.ops.custom_kernels", "numba_grad.testing"),
}
# Above all layers.
PUBLIC = {"__init__", "__main__", "testing", "numpy", *NAMESPACES}
FACES = {"numba_grad.autograd.functional"}
# Importing, imported, line, and when: "now", "late", in a function, or "never", for annotations.
Import = tuple[str, str, int, str]


def modules(start: str = "") -> Iterator[tuple[str, str]]:
    """Those whose name begins so, with their text: to parse all takes 2 s."""
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(("numba_grad", *path.relative_to(PACKAGE).with_suffix("").parts))
        if module.startswith(start):
            yield module, path.read_text()


def has_public_names(text: str) -> bool:
    return re.search(r"^__all__\b", text, re.MULTILINE) is not None


LATE_IMPORT = re.compile(r"\b(imported|import_module|namespace)\(")


@functools.cache
def imports() -> list[Import]:
    found: list[Import] = []
    for module, text in modules():
        for node, when in nodes(ast.parse(text), calls=LATE_IMPORT.search(text) is not None):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.Call):
                names = late_imports(module, node)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{module}:{node.lineno}: imports are absolute"
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            found += [(module, name, node.lineno, when) for name in names]
    return found


def is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def nodes(tree: ast.AST, *, calls: bool) -> Iterator[tuple[ast.AST, str]]:
    """The statements of a tree, or all nodes, for `calls`, and when each is run."""
    inner = ast.iter_child_nodes if calls else inner_statements
    left = [(tree, "now")]
    while left:
        node, when = left.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            when = "late"
        elif isinstance(node, ast.If) and is_name(node.test, "TYPE_CHECKING"):
            when = "never"
        yield node, when
        left += [(child, when) for child in inner(node)]


def late_imports(module: str, call: ast.Call) -> list[str]:
    """The module of the package that a call names and imports: `imported("numba_grad.x")`.

    None where it is computed: by who imports what a registry or a user names.
    """
    match call:
        case ast.Call(
            func=ast.Name("imported" | "import_module") | ast.Attribute(attr="import_module"),
            args=[argument],
        ):
            name = ast.unparse(argument).strip("f'\"").replace("{__name__}", module)
            return [name] if name.startswith("numba_grad.") and "{" not in name else []
        case ast.Call(func=ast.Name("namespace"), args=[ast.Constant(str(name))]):
            return [f"numba_grad.frontend.{name}"]
    return []


def layer(name: str) -> str:
    return name.split(".")[1]


@functools.cache
def imported_module(name: str) -> str:
    """`name` without what is not a module: the function of "numba_grad.graph.walk.toposort"."""
    path = PACKAGE.parent.joinpath(*name.split("."))
    if path.with_suffix(".py").exists() or path.is_dir():
        return name
    return name.rpartition(".")[0]


@functools.cache
def compiling_modules(*compilers: str) -> set[str]:
    """Those that import one of these as soon as they are imported, directly or not."""
    now = [(module, name) for module, name, _, when in imports() if when == "now"]
    result = {module for module, name in now if name.startswith(compilers)}
    size = -1
    while size < len(result):
        size = len(result)
        result |= {module for module, name in now if imported_module(name) in result}
    return result


def test_imports_go_down_only():
    wrong = []
    for module, name, line, _ in imports():
        is_above = layer(module) in PUBLIC or module in FACES
        if is_above or not name.startswith("numba_grad."):
            continue
        own, other = layer(module), layer(name)
        if own != other and other not in MAY_IMPORT[own]:
            allowed = ", ".join(sorted(MAY_IMPORT[own]))
            wrong.append(f"{module}:{line} imports {name}; {own} may import {allowed}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "layer_name", ["compiler", "ops", "graph", "transforms", "runtime", "autograd", "frontend"]
)
def test_what_a_layer_is_made_of_has_no_circles(layer_name):
    parts: dict[str, set[str]] = {}  # its folders, and modules beside them, by who needs them
    start = f"numba_grad.{layer_name}."
    for module, name, _, when in imports():
        if when != "never" and module.startswith(start) and imported_module(name).startswith(start):
            own, other = (
                x.removeprefix(start).split(".")[0] for x in (module, imported_module(name))
            )
            if own != other and "__init__" not in (own, other):
                parts.setdefault(own, set()).add(other)
    TopologicalSorter(parts).prepare()  # CycleError names one


def test_the_modules_that_know_numbas_intermediate_representation_have_no_circles():
    parts: dict[str, set[str]] = {}
    start = "numba_grad.compiler.numba_functions.numba_ir."
    for module, name, _, when in imports():
        if when != "never" and module.startswith(start) and imported_module(name).startswith(start):
            parts.setdefault(module, set()).add(imported_module(name))
    assert len(parts) > 5
    TopologicalSorter(parts).prepare()  # CycleError names one


def test_one_folder_knows_numbas_intermediate_representation():
    private = ("ir", "ir_utils", "analysis", "compiler", "compiler_machinery", "untyped_passes")
    names = tuple(f"numba.core.{name}." for name in (*private, "typed_passes", "bytecode"))
    know = {module for module, name, *_ in imports() if f"{name}.".startswith(names)}
    folder = "numba_grad.compiler.numba_functions.numba_ir."
    others = {module for module in know if not module.startswith(folder)}
    assert know and not others, sorted(others)


def test_modules_are_imported_late_only_to_compile_or_where_few_programs_need_them():
    compiling = compiling_modules("numba.", "llvmlite.") | LOWERING | SELDOM
    wrong = [
        f"{module}:{line} imports {name} inside a function"
        for module, name, line, when in imports()
        if when == "late"
        and name.startswith("numba_grad.")
        and layer(module) not in PUBLIC
        and imported_module(name) not in compiling
    ]
    assert not wrong, "\n".join(wrong)


def test_only_the_compiler_imports_numba():
    wrong = [m for m in compiling_modules("numba.") if layer(m) != "compiler"]
    assert not wrong, f"import numba_grad would import Numba through {', '.join(sorted(wrong))}"


def test_importing_the_package_imports_what_every_program_needs_and_no_more():
    code = """
import sys
import numpy
before = set(sys.modules)
import numba_grad
print(*sorted(set(sys.modules) - before))
"""
    imported = run_python(code).split()
    # Each of them is a part of the 0.1 s that the import may take: LLVM 20 ms, `subprocess` 3.
    assert not (LOWERING | LEFT) & set(imported)
    packages = {name.split(".")[0] for name in imported if not name.startswith("_")}
    others = packages - sys.stdlib_module_names - {"numba_grad"}
    assert others <= {"llvmlite", "optree", "typing_extensions"}
    own = [name for name in imported if name.startswith("numba_grad.")]
    assert len(own) <= 196, own


def test_namespaces_are_imported_when_they_are_asked_for():
    code = """
import sys
import numpy as np
import numba_grad as ng
def loaded():
    names = ("cuda", "emath", "fft", "linalg", "random", "signal", "special")
    return [name for name in names if f"numba_grad.frontend.{name}" in sys.modules]
assert not loaded(), loaded()
assert not {"numba", "scipy", "opt_einsum", "ml_dtypes"} & set(sys.modules)
assert "numba_grad.frontend.linear_algebra.decompositions" not in sys.modules  # its parts
x = ng.tensor(np.eye(2), requires_grad=True)
np.linalg.det(x).backward()
assert loaded() == ["linalg"], loaded()
ng.cuda, ng.emath, ng.fft, ng.random, ng.signal, ng.special
assert len(loaded()) == 7 and set(loaded()) <= set(dir(ng))
assert "cuda.bindings" not in sys.modules  # before somebody asks for a GPU
"""
    run_python(code)


def test_compiling_a_kernel_imports_nothing_of_numbas_arrays():
    code = """
import sys
from numba_grad.compiler.building import engine_build
from numba_grad.compiler.kernel_language import front_end
worker = engine_build.engine_requests()[1]
front_end.module_for(worker.source, "worker", "int64(int64)", "worker")
# 0.4 s, most of it for SciPy, which Numba imports for the sake of arrays.
assert not {"numba.np.arraymath", "scipy.linalg"} & set(sys.modules)
"""
    run_python(code)


@pytest.mark.parametrize("package", ["numba_grad", "numba_grad.compiler.library_kernels"])
def test_a_package_has_the_public_names_of_all_modules(package):
    """By lines that type checkers read: of each module with an `__all__`, and of no other."""
    [(_, face)] = modules(f"{package}.__init__")
    lines = [x for x in ast.parse(face).body if isinstance(x, ast.ImportFrom)]
    found = {x.module for x in lines if x.names[0].name == "*"}
    inside = "numba_grad.frontend." if package == "numba_grad" else f"{package}."
    expected = {
        module
        for module, text in modules(inside)
        if module.removeprefix(inside) not in NAMESPACES and has_public_names(text)
    }
    missing = [f"from {module} import *" for module in sorted(expected - found)]
    assert (missing, found - expected) == ([], set())


def test_names_that_are_imported_when_they_are_asked_for_are_those_that_type_checkers_see():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    [block] = [x for x in tree.body if isinstance(x, ast.If) and "TYPE_CHECKING" in ast.unparse(x)]
    lines = [x for x in block.body if isinstance(x, ast.ImportFrom)]
    start = "numba_grad.frontend."
    seen = {a.name: x.module for x in lines for a in x.names if (x.module or "").startswith(start)}
    assert seen == {name: start + module for name, module in numba_grad._SELDOM.items()}


def test_a_class_name_has_one_meaning():
    """Names that begin with an underscore are their module's own."""
    named: dict[str, list[str]] = {}
    for module, text in modules():
        for name in re.findall(r"^class ([A-Za-z]\w*)", text, re.MULTILINE):
            named.setdefault(name, []).append(module)
    assert {name for name, found in named.items() if len(found) > 1} == {
        # The same for processors and for GPUs.
        *("Activation", "BuildStatistics", "HostCall", "KernelRequest", "Program"),
        # What kernels and users' Numba functions have in common: each has an IR of its own.
        *("Axis", "Load", "Store"),
        # The region tree is one: a function, an array and a part of it there are not what users'
        # `Function`, the memory of a library kernel and the first tier's view are.
        *("Function", "Memory", "View"),
        # A word of a step, and the type of what the kernel gets by it.
        "Pointer",
    }
