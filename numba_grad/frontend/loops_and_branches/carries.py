"""What is carried from step to step: the same structure, shapes and dtypes before and after."""

from collections.abc import Callable, Sequence
from typing import Any

from numba_grad.errors import ShapeError, called, explain
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node, is_weak, wrap
from numba_grad.frontend.loops_and_branches.bodies import Traced, check_function, name_of
from numba_grad.graph.node import Node
from numba_grad.ops.families import cast


def checked_step(
    operation: str, f: Callable[[Any, Any], Any], structure: trees.Structure
) -> Callable[[Any, Any], Any]:
    """`f`, whose result is looked at: a pair, of which the first is as the carry."""
    check_function(operation, f)

    def step(carry: Any, x: Any) -> Any:
        out = called(operation, f, carry, x)
        if not isinstance(out, tuple | list) or len(out) != 2:
            raise TypeError(
                explain(
                    operation,
                    f"{name_of(f)} must return two things",
                    got={"result": type(out).__name__},
                    expected="(new carry, y), where y may be None",
                )
            )
        returned = trees.flatten(out[0])[1]
        if returned != structure:
            raise TypeError(
                trees.structure_mismatch(operation, "the carry after a step", returned, structure)
            )
        return like_carry(carry, out[0]), out[1]

    step.__name__ = name_of(f)
    return step


def like_carry(carry: Any, returned: Any) -> Any:
    """What a step returns; Python numbers in it with the dtypes of what they are to replace."""
    leaves, structure = trees.flatten(returned)
    pairs = zip(leaves, trees.flatten(carry)[0], strict=True)
    typed = [wrap(as_node(x, like=as_node(y))) if is_weak(x) else x for x, y in pairs]
    return trees.unflatten(structure, typed)


def numbered(
    operation: str, body_fun: Callable[[Any, Any], Any], init_val: Any
) -> tuple[Callable[[tuple[Any, Any]], tuple[Any, Any]], trees.Structure]:
    """A step that counts: of (i, val), to (i + 1, new val); and the structure of val."""
    structure = trees.flatten(init_val)[1]

    def step(numbered: tuple[Any, Any]) -> tuple[Any, Any]:
        i, val = numbered
        new = called(operation, body_fun, i, val)
        returned = trees.flatten(new)[1]
        if returned != structure:
            raise TypeError(
                trees.structure_mismatch(operation, "the carry after a step", returned, structure)
            )
        return i + 1, new

    step.__name__ = name_of(body_fun)
    return step, structure


def promote(given: list[Any], carried: list[Node], body: Traced) -> bool:
    """Give Python numbers that are carried the dtypes that a step makes of them; whether any had
    another one."""
    outputs = body.target.outputs[: len(carried)]
    changed = False
    for k, (x, node, out) in enumerate(zip(given, carried, outputs, strict=True)):
        if is_weak(x) and node.dtype != out.dtype:
            carried[k] = cast(as_node(x), out.dtype)
            given[k] = None  # no longer weak
            changed = True
    return changed


def check_carried(
    operation: str,
    names: Sequence[str],
    before: Sequence[Node],
    after: Sequence[Node],
) -> None:
    for name, a, b in zip(names, before, after, strict=True):
        if a.type is b.type:
            continue
        same_shape = a.shape == b.shape
        raise (TypeError if same_shape else ShapeError)(
            explain(
                operation,
                f"a step changes the {'dtype' if same_shape else 'shape'} of what is carried",
                got={f"{name} before a step": a.type, f"{name} after it": b.type},
                expected="the same shape and dtype",
                fix=f"init with {b.dtype.name}, or .astype({a.dtype.name}) in the step"
                if same_shape
                else "an init of the shape that steps return",
            )
        )
