"""The cost of short work in functions of Python, told without a clock; and what passes found."""

import sys
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def found_by(
    patch: pytest.MonkeyPatch, owner: object, name: str, said: Callable[[Any], Iterable[int]]
) -> list[int]:
    """What is `said` of all that the function of that name returns from now on, but None."""
    found: list[int] = []
    function = getattr(owner, name)

    def noted(*arguments: Any) -> Any:
        result = function(*arguments)
        if result is not None:
            found.extend(said(result))
        return result

    patch.setattr(owner, name, noted)
    return found


def functions_entered(work: Callable[[], object], within: str = "") -> int:
    """How many functions of Python's run in `work`, itself not counted, when it runs again; or only
    those of files with `within` in their path, where `work` is none of them."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call" and within in frame.f_code.co_filename

    work()
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count if within else count - 1
