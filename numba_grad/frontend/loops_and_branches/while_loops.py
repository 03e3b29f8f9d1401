"""`while_loop`: a loop as an operation that goes on as long as a condition holds."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from numba_grad.errors import ShapeError, called, explain
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node, wrap
from numba_grad.frontend.inputs.surroundings import drawing_nothing
from numba_grad.frontend.loops_and_branches.bodies import (
    Traced,
    check_function,
    communicated,
    device_of,
    first_token,
    name_of,
    on_device_of_body,
    traced,
    with_token,
)
from numba_grad.frontend.loops_and_branches.carries import check_carried, like_carry, promote
from numba_grad.frontend.loops_and_branches.memory_budgets import (
    Memory,
    memory_on_all_ranks,
    states_within,
)
from numba_grad.frontend.loops_and_branches.progress_bars import Progress, name_of_body
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.immutable import immutable
from numba_grad.transforms.control_flow.while_loops import most_steps
from numba_grad.transforms.control_flow.while_loops import while_loop as while_loop_of_nodes

__all__ = ["while_loop"]


def while_loop(
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: Any,
    *,
    memory: Memory = None,
    progress: Progress = False,
) -> Any:
    """`while cond_fun(val): val = body_fun(val)`; the last `val`.

    Parameters
    ----------
    cond_fun : function of val that returns a boolean, 0-d
    body_fun : function of val that returns the new one, of the same structure, shapes and dtypes
    init_val : the first val: arrays and numbers, possibly in nested containers. A Python number
        takes the dtype of what follows it.
    memory, progress : as for `scan`; of how many steps is not known

    Raises
    ------
    TypeError
        If val changes structure or dtype, or the condition is no boolean.
    ShapeError
        If val changes shape, or the condition has one.

    Notes
    -----
    Both functions are traced once. Of a batch (`vmap`) each member goes on as long as its own
    condition holds, one after the other.

    Examples
    --------
    >>> ng.while_loop(lambda x: x < 100, lambda x: 2 * x, 1)
    tensor(128)
    """
    check_function("while_loop", cond_fun)
    check_function("while_loop", body_fun)
    label = name_of_body("while_loop", body_fun, progress)
    with drawing_nothing("while_loop", cond_fun, body_fun):
        return WhileLoop("while_loop", cond_fun, body_fun, init_val, memory, label=label).record()


@immutable
class WhileLoop:
    """`while test(val): val = body(val)`, begun with `initial`."""

    operation: str  # that the user has asked for
    test: Callable[[Any], Any]
    body: Callable[[Any], Any]
    initial: Any
    memory: Memory
    names: Sequence[str] | None = None  # of the leaves of val
    label: str = ""  # of its progress

    def record(self) -> Any:
        """Record the loop: the last val."""
        operation, memory = self.operation, self.memory
        given, structure = trees.flatten(self.initial)
        carried = [as_node(x) for x in given]

        def step(val: Any) -> Any:
            return _like_before(val, called(operation, self.body, val))

        step.__name__ = name_of(self.body)
        arguments = trees.flatten((trees.unflatten(structure, [0] * len(carried)),))[1]
        device = device_of(carried)
        while True:
            carried = on_device_of_body(operation, carried, device)
            types = [x.type for x in carried]
            trace = partial(traced, operation, device=device, nodes=carried)
            body = trace(step, types, arguments, given, self.label)
            if not body.communicates:
                if body.structure != structure:
                    what = "val after a step", body.structure, structure
                    raise TypeError(trees.structure_mismatch(operation, *what))
                if promote(given, carried, body):
                    continue
            test = trace(self.test, types, arguments, given)
            if test.communicates:
                return self._carrying_condition()
            if body.communicates:
                memory = memory_on_all_ranks(
                    operation, memory, carried, body.communicators, is_bounded=False
                )
                return replace(self, memory=memory)._carrying_token()
            before, device = device, device_of([*carried, *body.captured, *test.captured])
            if device == before:
                break
        check_carried(operation, self._names(structure), carried, body.target.outputs)
        _check_condition(operation, test)
        of_test, of_body = [on_device_of_body(operation, x.captured, device) for x in (test, body)]
        most = most_steps(test.target, body.target, carried, of_test, of_body)
        slots, directory = states_within(operation, memory, carried, most=most)
        finals, _ = while_loop_of_nodes(
            test.target, body.target, carried, of_test, of_body, slots or 1, directory
        )
        return trees.unflatten(structure, map(wrap, finals))

    def _names(self, structure: trees.Structure) -> Sequence[str]:
        return trees.leaf_names(structure, "val") if self.names is None else self.names

    def _carrying_token(self) -> Any:
        """Of steps that communicate: the token is carried along."""
        threaded = with_token(self.body)

        def step(val: tuple[Any, Tensor]) -> tuple[Any, Tensor]:
            new, token = threaded((val[0],), val[1])
            return _like_before(val[0], new), token

        step.__name__ = name_of(self.body)
        final, token = replace(
            self,
            test=lambda val: self.test(val[0]),
            body=step,
            initial=(self.initial, first_token()),
            names=[*self._names(trees.flatten(self.initial)[1]), "token"],
        ).record()
        communicated(final, token)
        return final

    def _carrying_condition(self) -> Any:
        """Where the condition communicates: what it gives is carried along. A condition is a graph
        without results of its own, from which no token could go on."""

        def step(val: tuple[Any, Tensor]) -> tuple[Any, Any]:
            new = _like_before(val[0], self.body(val[0]))
            return new, self.test(new)

        step.__name__ = name_of(self.body)
        leaves, structure = trees.flatten(self.initial)
        start = trees.unflatten(structure, [wrap(as_node(x)) for x in leaves])
        final, _ = replace(
            self,
            test=lambda val: val[1],
            body=step,
            initial=(self.initial, self.test(start)),
            names=[*self._names(structure), "condition"],
        ).record()
        return final


def _like_before(val: Any, new: Any) -> Any:
    """What a step gives, as it is carried on, where it has the structure of `val`."""
    return like_carry(val, new) if trees.flatten(new)[1] == trees.flatten(val)[1] else new


def _check_condition(operation: str, test: Traced) -> None:
    outputs = test.target.outputs
    if len(outputs) == 1 and outputs[0].shape == () and outputs[0].dtype == np.bool_:
        return
    raise (TypeError if len(outputs) != 1 or outputs[0].shape == () else ShapeError)(
        explain(
            operation,
            "the condition must be one boolean",
            got={"result of the condition": [x.type for x in outputs]},
            expected="bool[]",
            fix="a comparison; np.any(...) or np.all(...) of several",
        )
    )
