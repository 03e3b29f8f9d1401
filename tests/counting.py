"""What Python does, counted: the cost of short work, told without a clock."""

import sys
from collections.abc import Callable
from typing import Any


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
