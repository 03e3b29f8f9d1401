"""Array code to loops of the tree: slices, views, array expressions, products, reductions."""

from typing import Any


def lowered(translation: Any, what: str, numba_type: Any, request: tuple[Any, ...]) -> Any:
    """What an expression with arrays stands for.

    `what` is "operation" (function, meanings), "inplace" (function, array, variable), "item"
    (array, indices), "set_item" (array, indices, meaning), "attribute" (name, array), or "call"
    (meaning of the function, arguments, keywords); `numba_type` is the type of the result.
    """
    raise translation.refused(f"array code ({what})")
