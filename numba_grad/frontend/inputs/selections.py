"""Where functions meet `x[mask]` of a mask that is traced: `tensors/masked_selections.py`."""

from collections.abc import Callable, Sequence
from typing import Any

Function = Callable[..., Any]


class Selection:
    """Abstract: elements of which nobody knows how many there are. A function leaves it to the one
    among its arguments what it makes of them."""

    __slots__ = ()

    def called(self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What `function` makes of these arguments."""
        raise NotImplementedError

    def reduced(self, function: Function, axis: Any, *args: Any, **kwargs: Any) -> Any:
        """What `function` makes of this one along axes."""
        raise NotImplementedError

    def as_mask(self, index: Sequence[Any], sizes: tuple[int, ...]) -> tuple[Any, int]:
        """What an index of axes of these sizes begins with that begins with this one, and in place
        of how many entries."""
        raise NotImplementedError
