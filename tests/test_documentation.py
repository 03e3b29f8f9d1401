"""The code in README and docs/ runs, and prints what is printed there."""

import contextlib
import doctest
import functools
import importlib
import re
from pathlib import Path

import pytest

from numba_grad.config import configure
from numba_grad.graph.node import OPS
from numba_grad.ops import all_ops
from tests.processes import run_python

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(page: Path, language: str) -> list[str]:
    return [text for found, text in FENCE.findall(page.read_text()) if found == language]


@pytest.fixture(autouse=True)
def _as_users_run_it(monkeypatch):
    monkeypatch.delenv("NUMBA_GRAD_ENGINE")
    with configure(engine="native"):
        yield


@pytest.fixture
def own_operations():
    """What a page adds to the registry goes when it ends."""
    before = dict(all_ops())
    yield
    OPS.clear()
    OPS.update(before)


@pytest.mark.usefixtures("own_operations")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_sessions_print_what_they_show(page):
    session = "\n".join(blocks(page, "pycon"))
    test = doctest.DocTestParser().get_doctest(session, {}, page.name, str(page), 0)
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append)
    assert result.failed == 0, "".join(report)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_quoted_source_is_in_the_file_it_names(page):
    for text in blocks(page, "python"):
        comment, _, quoted = text.partition("\n")
        path = ROOT / comment.removeprefix("# ")
        assert comment.startswith("# "), f"a quotation starts with its file's name: {text}"
        for part in quoted.split("...\n"):
            assert part.strip() in path.read_text(), f"{comment} has no {part}"


@functools.cache
def files() -> list[str]:
    """Of the repository, or of its archive."""
    found = [path.relative_to(ROOT) for path in ROOT.rglob("*")]
    return [f"/{path}" for path in found if not path.parts[0].startswith((".", "build"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_that_are_named_exist(page):
    """Those of ours: a name with a folder, or of a module of the package."""
    named = re.findall(r"`((?:[\w.-]+/)+[\w.-]*|\w+\.py)`", page.read_text())
    known = {*files(), *[f"{path}/" for path in files()]}
    missing = {name for name in named if not any(path.endswith(f"/{name}") for path in known)}
    assert missing <= {"script.py"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", FENCE.sub("", page.read_text())):
        assert (page.parent / target).exists(), target


def test_what_was_learned_is_in_the_table_of_its_page():
    table, *subjects = (ROOT / "docs" / "lessons.md").read_text().split("\n## ")
    for subject in subjects:
        for heading in (subject.partition("\n")[0], *re.findall(r"(?m)^### (.+)$", subject)):
            assert f"[{heading}](#" in table, heading


COMING_FROM = ("from_hips_autograd", "from_jax", "from_pytorch")


def rows_of_names(page: str) -> list[list[str]]:
    """Their names, ours, and what differs, of the tables on a page."""
    rows = []
    for line in (ROOT / "docs" / f"{page}.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if line.startswith("| `"):
            assert len(cells) == 3, line
            rows.append(cells)
    return rows


def found(name: str) -> object:
    """What a dotted name stands for: a module, or something in one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        with contextlib.suppress(ModuleNotFoundError):
            result = importlib.import_module(".".join(parts[:length]))
            return functools.reduce(getattr, parts[length:], result)
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("page", COMING_FROM)
def test_every_name_of_ours_on_the_pages_for_newcomers_exists(page):
    rows = rows_of_names(page)
    assert len(rows) > 20
    for row in rows:
        assert all(re.fullmatch(r"(`ng(\.\w+)+`(, )?)*", cell) for cell in row[1:2]), row
        for name in re.findall(r"`ng((?:\.\w+)+)", " ".join(row[1:])):
            found(f"numba_grad{name}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", COMING_FROM)
def test_every_name_of_theirs_exists(page):
    pytest.importorskip({"hips_autograd": "autograd", "pytorch": "torch"}.get(page[5:], page[5:]))
    for row in rows_of_names(page):
        for name in re.findall(r"`([\w.]+)`", row[0]):
            found(name)


@pytest.mark.parametrize("page", ["operations", "modules"])
def test_the_page_is_what_the_package_says(page):
    # In a process of its own: tests add operations.
    run_python(ROOT / "docs" / f"{page}.py", "--check")
