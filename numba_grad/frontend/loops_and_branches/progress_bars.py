"""What users say about the progress of loops: `progress=True`, or a label."""

from collections.abc import Callable
from typing import Any

from numba_grad.errors import explain
from numba_grad.frontend.loops_and_branches.bodies import name_of
from numba_grad.runtime.progress import is_installed, with_label

Progress = bool | str


def name_of_body(operation: str, f: Callable[..., Any], progress: Progress) -> str:
    """The name of a loop's body, which says by which label it is shown, if at all.

    Raises
    ------
    ImportError
        If it is to be shown, and tqdm is not installed.
    TypeError
        If `progress` is neither a bool nor text.
    """
    name = name_of(f)
    if not isinstance(progress, bool | str):
        raise TypeError(
            explain(
                operation,
                "progress is True, False or a label",
                got={"progress": repr(progress)},
            )
        )
    if not progress:
        return name
    if not is_installed():
        raise ImportError(
            explain(
                operation,
                "progress is drawn by tqdm, which is not installed",
                got={"progress": repr(progress)},
                fix='pip install "numba_grad[progress]"',
            )
        )
    return with_label(name, progress if isinstance(progress, str) else f"{operation} {name}")
