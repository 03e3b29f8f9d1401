"""Python in processes of its own: for what a program imports, compiles or finds on disk."""

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def start(
    code: str | Path, *arguments: object, options: Sequence[str] = (), **environment: object
) -> "subprocess.Popen[str]":
    """A process that runs `code`, or a script, with more variables in its environment."""
    program = [code] if isinstance(code, Path) else ["-c", textwrap.dedent(code)]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, *options, *program, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, **{k: str(v) for k, v in environment.items()}},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output_of(
    process: "subprocess.Popen[str]",
    *,
    given: str = "",
    seconds: float = 300,
    quietly: bool = False,
) -> str:
    """What it writes to its output, given that input; with `quietly`, nothing else."""
    try:
        output, errors = process.communicate(given, timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == 0, errors
    assert not (quietly and errors), errors
    return output


def run_python(
    code: str | Path,
    *arguments: object,
    options: Sequence[str] = (),
    given: str = "",
    seconds: float = 300,
    quietly: bool = False,
    **environment: object,
) -> str:
    """The output of a process that `start` starts."""
    process = start(code, *arguments, options=options, **environment)
    return output_of(process, given=given, seconds=seconds, quietly=quietly)


def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    """For what another process does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
