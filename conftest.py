"""Which tests run, what the examples in docstrings take for granted, and Ctrl-C in tests about it.

Tests that are marked `thorough` are long, and find what others miss once in a while: each dtype of
each operation, thousands of generated cases. They run with `--all`, and where they are asked for:
where their file or they themselves are named, or by `-k` or `-m thorough`. Of a test with many
cases

    @pytest.mark.thorough(but="float64")   leaves those that have this (a regular expression) in
                                           their id to every run
    @pytest.mark.thorough(every=4)         leaves each fourth one, with `but` of those

Tests by hypothesis run with a quarter of their examples, and with all of them where thorough tests
run; with `-m thorough`, which leaves out what every run has, they run as well.

CI has no time for all of this. With `--share 4` there is every fourth one only of the thorough
cases of tests that have many, and others with `--turn 1`, so that four turns have all of them;
tests by hypothesis that every run has are not run again; and

    @pytest.mark.thorough(rare=True)       is left out: what takes many seconds, and finds least
"""

import contextlib
import gc
import importlib
import itertools
import re
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

# A shell that starts a job in the background has it, and all its children, ignore interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A run says something about the code alone: the same examples each time. To look for new ones:
# `pytest --hypothesis-profile=search`.
hypothesis.settings.register_profile(
    "repeat", deadline=None, derandomize=True, database=None, print_blob=True
)
hypothesis.settings.register_profile("search", deadline=None, derandomize=False, print_blob=True)
hypothesis.settings.register_profile(
    "few", hypothesis.settings.get_profile("repeat"), max_examples=25
)
hypothesis.settings.load_profile("repeat")

# Nor do examples depend on the code: hypothesis would try the constants of all modules that are
# imported, too, and reading 700 modules for them takes 3 s in each process. No setting says so;
# where a later version has other names for it, tests are slower and nothing else.
with contextlib.suppress(ImportError):
    from hypothesis.internal.conjecture import providers

    if hasattr(providers, "_get_local_constants") and hasattr(providers, "_local_constants"):
        providers._get_local_constants = lambda: providers._local_constants

# Kernel sources, compared as text by tests/compiler/test_golden.py.
collect_ignore_glob = ["tests/golden/*"]


MANY_CASES = 5


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the kernels in tests/golden"
    )
    parser.addoption("--all", action="store_true", help="thorough tests as well")
    parser.addoption(
        "--share",
        type=int,
        default=1,
        metavar="N",
        help=f"of tests with {MANY_CASES} thorough cases and more, each N-th of these; none rare",
    )
    parser.addoption(
        "--turn",
        type=int,
        default=0,
        metavar="K",
        help="which of these: from the K-th on, modulo N",
    )


def pytest_configure(config: pytest.Config) -> None:
    # Before tests are imported, which may ask for a multiple of what the profile has.
    if not _runs_thorough_tests(config) and not config.getoption("--hypothesis-profile", None):
        hypothesis.settings.load_profile("few")


def _runs_thorough_tests(config: pytest.Config) -> bool:
    options = config.option
    if options.all or options.keyword or "thorough" in options.markexpr:
        return True
    return any(path.is_file() for path in _named(config))


def _named(config: pytest.Config) -> set[Path]:
    """The files and directories of the command line."""
    directory = config.invocation_params.dir
    return {(directory / argument.partition("::")[0]).resolve() for argument in config.args}


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Iterator[None]:
    """Examples in docstrings are looked for where there are some.

    To look, pytest imports the module and walks all that is in it, of 700 modules in each process.
    """
    collectors = yield
    if file_path.suffix != ".py" or ">>>" in file_path.read_text(encoding="utf-8"):
        return collectors
    return [collector for collector in collectors if type(collector) is pytest.Module]


def pytest_collection_finish() -> None:
    """Tests and modules stay to the end: no collection of cycles looks at them again, for 0.4 s."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before -m looks at marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    numbers = defaultdict[tuple[Path, str], itertools.count](itertools.count)
    for item in items:
        if _is_in_every_run(item, numbers[item.path, item.name.partition("[")[0]]):
            item.own_markers = [mark for mark in item.own_markers if mark.name != "thorough"]
    options = config.option
    if options.share > 1:
        _leave_out(config, items, _beyond_share(items, options.share, options.turn))
    elif "thorough" in options.markexpr:
        for item in items:
            if isinstance(item, pytest.Function) and hypothesis.is_hypothesis_test(item.obj):
                item.add_marker("thorough")
    if options.all or options.keyword or "thorough" in options.markexpr:
        return
    named = _named(config)
    left_out = [
        item for item in items if item.get_closest_marker("thorough") and item.path not in named
    ]
    _leave_out(config, items, left_out)


def _leave_out(
    config: pytest.Config, items: list[pytest.Item], left_out: list[pytest.Item]
) -> None:
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        chosen = set(items) - set(left_out)
        items[:] = [item for item in items if item in chosen]


def _beyond_share(items: list[pytest.Item], share: int, turn: int) -> list[pytest.Item]:
    """Of each test with many thorough cases all but each `share`-th, and what is rare. One at least
    of each test is left."""
    rare = []
    families = defaultdict[tuple[Path, str], list[pytest.Item]](list)
    for item in items:
        if item.get_closest_marker("thorough") is None:
            continue
        if any(mark.kwargs.get("rare") for mark in item.iter_markers("thorough")):
            rare.append(item)
        else:
            families[item.path, item.name.partition("[")[0]].append(item)
    many = [cases for cases in families.values() if len(cases) >= MANY_CASES]
    return rare + [
        case
        for cases in many
        for k, case in enumerate(cases)
        if (k - turn) % min(share, len(cases))
    ]


def _is_in_every_run(item: pytest.Item, numbers: Iterator[int]) -> bool:
    """Whether a thorough test with many cases leaves this one to every run."""
    mark = item.get_closest_marker("thorough")
    if mark is None:
        return False
    pattern, step = mark.kwargs.get("but"), mark.kwargs.get("every")
    if pattern is None and step is None:
        return False
    case = item.name.partition("[")[2].removesuffix("]")
    is_chosen = pattern is None or re.search(pattern, case) is not None
    return is_chosen and next(numbers) % (step or 1) == 0


@pytest.fixture(scope="session")
def doctest_namespace() -> dict[str, Any]:
    """What examples in docstrings take for granted. Nothing else asks for it, which matters: some
    tests are about what importing the package does."""
    return {"np": np, "ng": importlib.import_module("numba_grad")}
