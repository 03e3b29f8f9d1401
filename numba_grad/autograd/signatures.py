"""What arguments a user's function takes."""

import inspect
import sys
from collections.abc import Callable
from typing import Any


def signature_of(f: Callable[..., Any]) -> inspect.Signature:
    """As `inspect.signature`, of which Python 3.14 evaluates the annotations: they may name what
    only type checkers import.

    Raises
    ------
    TypeError
        If `f` cannot be called.
    ValueError
        If it does not say.
    """
    if sys.version_info < (3, 14):
        return inspect.signature(f)
    from annotationlib import Format

    return inspect.signature(f, annotation_format=Format.FORWARDREF)
