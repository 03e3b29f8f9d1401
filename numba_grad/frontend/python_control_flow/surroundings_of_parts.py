"""What the parts of a loop or a branch can reach besides its variables.

An operation leaves it as it is: parts are traced once, whether they will run or not, so what they
do to other things would be done once as well.
"""

import dataclasses
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from numba_grad.errors import TracingError
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.code_names import UNASSIGNED, contents_of
from numba_grad.frontend.inputs.surroundings import (
    GlobalVariable,
    Reached,
    Surroundings,
    draws_numbers,
)
from numba_grad.frontend.python_control_flow.flattened_values import (
    Part,
    is_container,
    never_changes,
)
from numba_grad.frontend.python_control_flow.sites import Site
from numba_grad.frontend.tensors.python_numbers import is_number
from numba_grad.frontend.tensors.tensor import Tensor


class SurroundingsOfParts(Surroundings):
    """What they can reach, as it is now."""

    def __init__(
        self,
        site: Site,
        cells: Mapping[str, types.CellType],
        own: Sequence[str],
        parts: Iterable[Part],
    ) -> None:
        """`cells`: the variables that the parts share with the function; `own` names those that
        are theirs to change."""
        super().__init__()
        self._site = site
        self.first_changed: Any = UNASSIGNED  # of `check`: might be a variable instead
        held = {name: contents_of(cell) for name, cell in cells.items()}
        # What its own variables hold is theirs to change, also where functions close over it.
        kept = [held[x] for x in own if isinstance(held[x], Tensor) or is_container(held[x])]
        self._seen = {id(cells[name]) for name in own} | {id(x) for x in kept}
        for name, cell in cells.items():
            if name not in own:
                self.look_at_variable(name, cell)
        for part in parts:
            self.look_at_globals(part, is_called=False)
        self.follow()
        self._seen.clear()
        for name in own:
            self._look_into_own(name, held[name])

    def check(self) -> None:
        """After tracing: raise an error if something has changed."""
        for reached in self.changed():
            # A list of the same length after either side of a branch is a variable of it.
            if not reached.has_grown() or self._site.kind not in ("while", "for"):
                self.first_changed = reached.thing
            raise TracingError(self._site.refusal(reached.name, *_change_of(reached, self._site)))

    def put_back(self) -> None:
        """Have containers hold what they did."""
        for reached in self.reached:
            thing = reached.thing
            is_dict = isinstance(thing, dict) and not reached.is_memo
            is_record = dataclasses.is_dataclass(thing) and not isinstance(thing, type)
            if isinstance(thing, list) or is_dict or is_record:
                reached.put_back()

    def _look_into_own(self, name: str, held: Any) -> None:
        """What is in one may be a stand-in later, but a list stays a list, and an object itself."""
        if not is_container(held):
            self.look_at(name, held, name)
            return
        leaves, structure = trees.flatten(held)
        if any(map(_may_be_changed, leaves)):
            for path, leaf in zip(trees.leaf_names(structure, name), leaves, strict=True):
                if _may_be_changed(leaf):
                    self.look_at(path, leaf, None)


def _change_of(reached: Reached, site: Site) -> tuple[str, str]:
    """What has been done to it, and what to do instead."""
    name, thing = reached.name, reached.thing
    if isinstance(thing, (types.CellType, GlobalVariable)):
        return "is assigned to by a function that is called", "return it"
    if reached.has_grown():
        return "is a list that grows", site.instead_of_growing(name)
    fix = "variables of the function's own, for what changes"
    if draws_numbers(thing):
        fix = "ng.random, with a key for each step"
    return f"(of type {type(thing).__name__}) is changed", fix


def _may_be_changed(leaf: Any) -> bool:
    """Whether it is an object of which others see what a part does to it."""
    return isinstance(leaf, np.ndarray) or not (
        isinstance(leaf, Tensor) or is_number(leaf) or never_changes(leaf)
    )
