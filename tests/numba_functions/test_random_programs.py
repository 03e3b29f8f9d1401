"""Random loop programs: values as Python's, gradients as finite differences, tangents as gradients.

    python tests/numba_functions/test_random_programs.py 1000 [first seed] [--compiled] [--wide]

checks so many and prints the ones that fail, made smaller. Kernels are run as Python there, which
is faster than compiling each for one run, unless they are to be compiled.
"""

import collections
import linecache
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numba_grad as ng
from numba_grad.config import configure
from numba_grad.errors import KernelError
from tests.numba_functions.derivatives import (
    AtAKinkError,
    Case,
    check_gradient,
    check_second_derivatives,
    check_tangent,
    check_values,
    run_as_python,
)
from tests.numba_functions.generator import RandomProgram, random_program, reduced

LARGEST = 1e3
WRITES = (0, 1, 2)  # a, b, m


def compiled(program: RandomProgram) -> Any:
    """The function as Numba has it, with lines to be named in messages."""
    source = program.source
    path = f"<random program {hash(source)}>"
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    names: dict[str, Any] = {"__name__": f"random_program_{program.seed}"}
    exec(compile(source, path, "exec"), names)
    return names["program"]


def case_of(program: RandomProgram) -> Case:
    function = compiled(program)
    operation = ng.differentiable(function)
    return Case(operation, function.py_func, program.arguments(), WRITES, program.seed)


def is_tame(program: RandomProgram) -> bool:
    """Whether Python runs it, and values stay so small that differences say something."""
    try:
        python = compiled(program).py_func
        results = run_as_python(python, program.arguments(), WRITES)
    except (NameError, SyntaxError):  # a name given a value in a branch only; parts left out
        return False
    return all(np.max(np.abs(x), initial=0.0) < LARGEST for x in results)


def check(program: RandomProgram, second: bool) -> None:
    case = case_of(program)
    check_values(case)
    check_gradient(case)
    check_tangent(case)
    if second:
        check_second_derivatives(case)


def outcome(program: RandomProgram, second: bool = False) -> str:
    """ "agrees", or how it does not: two of one cause have the same words."""
    if not is_tame(program):
        return "not tame"
    try:
        check(program, second)
    except AtAKinkError:
        return "at a kink"
    except KernelError as error:
        if "custom_op" not in str(error):
            raise
        return "refused"
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        text = str(error).partition("\n")[0]
        words = [word for word in text.split() if word.isalpha()][:6]
        return f"{type(error).__name__} in {frame.name}: {' '.join(words)}"
    return "agrees"


SKIPPED = ("not tame", "at a kink", "refused")
FEW, MANY, AT_ONCE = 4, 64, 4


def seeds() -> Iterator[Any]:
    for first in range(0, MANY, AT_ONCE):
        marks = [pytest.mark.thorough] if first >= FEW else []
        yield pytest.param(range(first, first + AT_ONCE), marks=marks, id=str(first))


def program_of(seed: int) -> RandomProgram:
    """Every second one as users write, too."""
    return random_program(seed, is_wide=seed % 2 == 1)


@pytest.mark.parametrize("numbers", list(seeds()))
def test_random_programs_have_the_derivatives_that_differences_have(numbers):
    with configure(engine="reference"):
        outcomes = {seed: outcome(program_of(seed), second=seed % 4 == 0) for seed in numbers}
    wrong = {seed: text for seed, text in outcomes.items() if text not in ("agrees", *SKIPPED)}
    assert not wrong, "\n".join(
        f"{seed}: {text}\n{program_of(seed).source}" for seed, text in wrong.items()
    )
    assert sum(text in SKIPPED for text in outcomes.values()) <= AT_ONCE / 2


@pytest.mark.thorough(but="^1004$")
@pytest.mark.parametrize("seed", range(1000, 1005))
def test_random_programs_compiled(seed):
    with configure(engine="native"):
        assert outcome(random_program(seed)) in ("agrees", *SKIPPED)


def main(count: int, first: int = 0, *, is_compiled: bool = False, is_wide: bool = False) -> None:
    start = time.perf_counter()
    outcomes = collections.Counter[str]()
    with configure(engine="native" if is_compiled else "reference"):
        for seed in range(first, first + count):
            program = random_program(seed, is_wide=is_wide)
            found = outcome(program, second=seed % 4 == 0)
            outcomes[found] += 1
            if found in ("agrees", *SKIPPED) or outcomes[found] > 1:
                continue

            def fails(candidate: RandomProgram, found: str = found) -> bool:
                return outcome(candidate, second=candidate.seed % 4 == 0) == found

            print(f"seed {seed}: {found}\n{reduced(program, fails).source}", flush=True)
    for text, times in outcomes.most_common():
        print(f"{times:6} {text}")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:] if not argument.startswith("-")]
    main(*numbers, is_compiled="--compiled" in sys.argv, is_wide="--wide" in sys.argv)
