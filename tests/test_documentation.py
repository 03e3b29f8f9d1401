"""The code in README and docs/ runs, and prints what is printed there."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

from numba_grad.graph.node import OPS
from numba_grad.ops import all_ops

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(page: Path, language: str) -> list[str]:
    return [text for found, text in FENCE.findall(page.read_text()) if found == language]


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", FENCE.sub("", page.read_text())):
        assert (page.parent / target).exists(), target


def test_the_table_of_operations_is_that_of_the_records():
    # In a process of its own: tests add operations.
    command = [sys.executable, ROOT / "docs" / "operations.py", "--check"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
