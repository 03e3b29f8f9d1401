"""Views: tensors that show elements of another one, as NumPy's slices, transposes and reshapes do.

The value of a node never changes, so views are a matter of handles. Each tensor that was made as a
view of another one, and each that views were made of, has a `TensorView`: how to come to it from
the array at the bottom, and who else shows elements of that. To write to one of them is to write to
the array, and to read the others anew:

    row = a[0]        row shows [slice] of a, without its first axis
    row += 1          a becomes update_slice(a, reshape(add(row, 1)))
                      row, and the other views of a that show elements of it, are read from a again

As in torch, where `a` has history, all its views are read from it again: its gradient is what comes
through them too, that of a view what comes through itself alone.

All of these are ordinary operations, so gradients, `jit` and `vmap` need to know nothing of views.
Who does not write pays for noting the view alone, 0.2 us, and 0.5 for the first view of an array.
"""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numba_grad.autograd import state
from numba_grad.autograd.tensor_class import is_tensor, new_tensor
from numba_grad.errors import GradientError, explain
from numba_grad.graph.node import NO_PARAMS, OPS, Node, Op, grad_mode, record, recording
from numba_grad.graph.types import Type
from numba_grad.graph.walk import rebuilt
from numba_grad.locks import new_lock
from numba_grad.ops.elementwise import detach
from numba_grad.ops.families import full

# One operation on the way from an array to a view of it: op, further inputs, params.
Step = tuple[Op, tuple[Node, ...], dict[str, Any]]

# How `x.detach()` shows x.
DETACHING: Sequence[Step] = ((detach, (), NO_PARAMS),)

_creation_lock = new_lock()
_NOT_FOUND = object()  # a layout that nobody needed


class TensorView:
    """How a tensor shows elements of an array."""

    __slots__ = ("is_copy", "layout", "members", "parent", "steps", "type")

    # All tensors that show elements of this array, by their address. The dead stay until the next
    # tensor of their address, or a write: to note a view has to be cheap.
    members: dict[int, weakref.ref[Any]]
    parent: "TensorView | None"  # what it was made of; None for the array itself
    steps: Sequence[Step]  # how
    type: Type
    # Whether its elements have memory of their own: of an array, and where NumPy's reshape copies.
    # None as long as nobody needed to know.
    is_copy: bool | None
    layout: Any  # where its elements are, an array without values; None where nobody can say


def view_of(x: Any, node: Node) -> Any:
    """A new tensor of `node`, which movements made of `x`: a view of `x`, if that is a tensor."""
    if node.handle is not None:
        node = record(OPS["identity"], (node,))
    if not is_tensor(x):
        return new_tensor(node)
    # Before there is a tensor: one in so many is computed at once, and forgets what made it.
    origin, inputs = x._node, node.inputs
    if inputs and inputs[0] is origin:
        steps: Sequence[Step] = ((node.op, inputs[1:], node.params),)
    else:
        steps = _steps_between(origin, node)
    result = new_tensor(node)
    note_view(x, result, steps, is_copy=None)
    return result


def note_view(x: Any, result: Any, steps: Sequence[Step], is_copy: bool | None = False) -> None:
    """Remember that the tensor `result`, just made of `x` by `steps`, shows elements of it.

    `is_copy` is None where NumPy may have to copy: a reshape of what was transposed.
    """
    parent = x._view
    if parent is None:
        with _creation_lock:  # two threads may make the first view of one tensor
            parent = x._view
            if parent is None:
                parent = x._view = _view_of_array(x)
    # Written out, and `TensorView` has no `__init__`: to call one takes longer than all this.
    view = TensorView()
    members, node = parent.members, result._node
    members[id(result)] = node.handle
    view.members = members
    view.parent = parent
    view.steps = steps
    view.type = node.type
    view.is_copy = is_copy
    view.layout = _NOT_FOUND
    result._view = view


def _view_of_array(x: Any) -> TensorView:
    """What `x` has that is no view, but of which there are some."""
    view, node = TensorView(), x._node
    view.members = {id(x): node.handle}
    view.parent = None
    view.steps = ()
    view.type = node.type
    view.is_copy = True
    view.layout = _NOT_FOUND
    return view


def note_array(tensor: Any) -> None:
    """Remember that a tensor without axes was made as an array, and is no number: see `is_number`.

    Others are arrays by having axes.
    """
    if not tensor._node.type.shape:
        tensor._view = _view_of_array(tensor)


def is_number(tensor: Any) -> bool:
    """Whether this is what NumPy has scalars for, which nothing changes: `n += 1` gives another.

    That is what functions, operators and integer indices give; not what was made as an array, nor
    what gradients are kept of, or hooks.
    """
    node = tensor._node
    if node.type.shape or tensor._view is not None or node.autograd is not None:
        return False
    return not node.requires_grad or node.op.vjp is not None


def is_view(tensor: Any) -> bool:
    """Whether it was made as a view of another tensor, which may be gone."""
    view = tensor._view
    return view is not None and view.parent is not None


def is_view_of(tensor: Any, x: Any) -> bool:
    """Whether `tensor` was made as a view of `x`, which is none itself, or of a view of it."""
    if not is_view(tensor) or x._view is None or is_view(x):
        return False
    return tensor._view.members is x._view.members


def shows_same(tensor: Any, x: Any, steps: Sequence[Step]) -> bool:
    """Whether `tensor` is that view of `x`. Then to assign one to the other changes nothing."""
    view = tensor._view
    return (
        view is not None
        and view.parent is not None
        and view.parent is x._view
        and (view.steps is steps or view.steps == steps)
    )


def shares_memory(x: Any) -> bool:
    """Whether NumPy would have made the view `x` without copying."""
    view = x._view
    if view is None or view.parent is None:
        return False
    return not (_layout_of(view) is not None and view.is_copy)


def overlap(x: Any, y: Any) -> bool:
    """Whether two arrays, or two tensors, show the same elements."""
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        return _arrays_overlap(x, y)
    if x is y:
        return True
    first, second = getattr(x, "_view", None), getattr(y, "_view", None)
    if first is None or second is None or first.members is not second.members:
        return False
    return _overlap(first, second)


def is_contiguous(x: Any, order: str) -> bool:
    """Whether the elements of `x` follow one another in row-major or, for order="F", column-major
    order where NumPy would have them."""
    view = x._view
    if view is None or view.parent is None:
        return order == "C" or sum(n != 1 for n in x.shape) < 2
    layout = _layout_of(view)
    if layout is None:
        return False
    return layout.flags.c_contiguous if order == "C" else layout.flags.f_contiguous


def assign(
    tensor: Any, node: Node, region: Callable[[], Sequence[Step] | None] | None = None
) -> None:
    """Make `node` the value of `tensor`, and write it through to what shows the same elements.

    `region` gives the steps from the tensor to the only part of it that is another now, if these
    are movements.

    Raises
    ------
    GradientError
        If that is a leaf that requires grad, or a view of one, and history is recorded.
    ValueError
        If elements of the array come several times in the view, or are no elements of it.
    """
    view = tensor._view
    if view is None:
        state.replace(tensor, node, keeps_history=not grad_mode.enabled)
        return
    _refuse_read_only(view)
    if node.requires_grad:
        _refuse_part_of_leaf(tensor)
        node = _past_hooks(tensor, node)
    others = [x for x in _live(view.members) if x is not tensor and x._view is not None]
    if not others:
        tensor._view = None
        state.replace(tensor, node, keeps_history=not grad_mode.enabled)
        note_array(tensor)
        return
    _assign_through(tensor, node, others, None if region is None else region())


def _live(members: dict[int, weakref.ref[Any]]) -> list[Any]:
    """The tensors that are still there, of which another view is not: its address was used again.

    Forgets the others.
    """
    found = []
    for key, reference in list(members.items()):
        tensor = reference()
        if tensor is None or tensor._view is None or tensor._view.members is not members:
            del members[key]
        else:
            found.append(tensor)
    return found


def _assign_through(
    tensor: Any, node: Node, others: list[Any], region: Sequence[Step] | None
) -> None:
    """What is written to a detached view is history of that and of its views. What it was detached
    from gets the value, and keeps the history that it has."""
    view = tensor._view
    changed = view if region is None else _part_of(view, region)
    array = _array_of(view)
    bottom = _detached_at(view, array)
    within, beyond = [], []
    for other in others:
        if _array_of(other._view) is array:
            (within if bottom is array or _is_part(other._view, bottom) else beyond).append(other)
    # All that can be refused is refused before the first handle moves on.
    moves = _moves(tensor, node, within, changed, bottom)
    if beyond:
        value = OPS["detach"](node) if node.requires_grad else node
        moves += [
            move for move in _moves(tensor, value, beyond, changed, array) if move[0] is not tensor
        ]
    for moved, new in moves:
        state.move_on(moved, new)


def _moves(
    tensor: Any, node: Node, others: list[Any], changed: TensorView, array: TensorView
) -> list[tuple[Any, Node]]:
    """Which tensors get another node, and which, where `tensor` gets this one: itself, `array`,
    and of the others those that show what has changed."""
    view = tensor._view
    path = _path(view, array)
    # What is written to a detached view is no history of others: they keep what they have.
    is_detached = _detached_at(view, array) is not array
    is_recorded = grad_mode.enabled and not is_detached
    base = tensor if view is array else None
    apart, overlapping = [], []
    for other in others:
        if other._view is array:
            base = other
        else:
            (overlapping if _overlap(changed, other._view) else apart).append(other)
    new_base = node
    if base is not None:
        if base is not tensor:
            source = base._node
            if is_detached and source.requires_grad:
                source = OPS["detach"](source)
            new_base = _written(source, path, node)
        new_base = state.successor(base, new_base, not is_recorded)
    own = node
    if base is None:
        own = OPS["identity"](node) if node.requires_grad and overlapping else node
    elif _is_history(new_base):
        overlapping += apart
        with recording(grad_mode.enabled or _has_history(tensor)):
            own = _read(new_base, path)
    moves = [] if base is None else [(base, new_base)]
    if base is not tensor:
        moves.append((tensor, state.successor(tensor, own, not is_recorded)))
    for other in overlapping:
        # A view that has history keeps it, also where none is recorded now: that of the array, or
        # its own.
        with recording(is_recorded or (base is not None and _has_history(other))):
            own_path = _path(other._view, array)
            if base is not None:
                new = _read(new_base, own_path)
            elif _is_part(other._view, view):
                new = _read(own, _path(other._view, view))
            else:
                # Nobody knows the rest of the array any more.
                before = _read_past_hooks(other)
                new = _read(_written(_blank(array, node.type.dtype), path, node), own_path)
                is_new = full(True, node.type.shape, np.dtype(np.bool_), node.type.device)
                mask = _written(_blank(array, is_new.type.dtype), path, is_new)
                new = OPS["where"](_read(mask, own_path), new, before)
            keeps = not is_recorded or _detached_at(other._view, array) is not array
            moves.append((other, state.successor(other, new, keeps)))
    return moves


def _blank(array: TensorView, dtype: np.dtype) -> Node:
    return full(0, array.type.shape, dtype, array.type.device)


def _detached_at(view: TensorView, array: TensorView) -> TensorView:
    """The nearest one on the way from a view to its array that was made by `detach`, or that."""
    while view is not array and view.steps is not DETACHING:
        assert view.parent is not None, "the array is on the way"
        view = view.parent
    return view


def _is_part(view: TensorView | None, other: TensorView) -> bool:
    """Whether a view is another one, or was made of it."""
    while view is not None and view is not other:
        view = view.parent
    return view is not None


def _past_hooks(tensor: Any, node: Node) -> Node:
    """As in torch, `node`, the next value of a view, goes on from the array itself: not through
    hooks of the view, or of one that it was made of, which are of former values."""
    former = tensor._node
    x = _read_past_hooks(tensor)
    if x is former:
        return node
    made = []  # of the former value
    while node is not former:
        made.append(node)
        node = node.inputs[0]
        if not node.inputs:
            return made[0]
    for y in reversed(made):
        x = rebuilt(y, (x, *y.inputs[1:]), {})
    return x


def _read_past_hooks(tensor: Any) -> Node:
    """The node of a tensor, or where views on the way to it have hooks, one that is read anew."""
    x, view = tensor._node, tensor._view
    if not any(y.autograd is not None and y.autograd.hooks for y in _reading(x, view, None)):
        return x
    read = _reading(x, view, _array_of(view))  # the array's own hooks stay
    if not read:
        return x
    x = read[-1].inputs[0]
    for y in reversed(read):
        x = rebuilt(y, (x, *y.inputs[1:]), {})
        x.value = y.value  # what it was computed of may be freed
    return x


def _reading(x: Node, view: TensorView, array: TensorView | None) -> list[Node]:
    """The nodes by which a view is read from an array, or from the first one, the last one first:
    as far down as the view was not written to since."""
    moves, current = 0, view
    while current is not array and current.parent is not None:
        moves += len(current.steps)
        current = current.parent
    read = []
    while moves and x.inputs:
        read.append(x)
        moves -= x.op.name != "identity"
        x = x.inputs[0]
    return read


def _part_of(parent: TensorView, steps: Sequence[Step]) -> TensorView:
    """A view that no tensor has."""
    view = TensorView()
    view.members = {}
    view.parent = parent
    view.steps = steps
    view.type = parent.type
    view.is_copy = None
    view.layout = _NOT_FOUND
    return view


def _has_history(tensor: Any) -> bool:
    return _is_history(tensor._node)


def _is_history(node: Node) -> bool:
    return node.requires_grad and not state.is_leaf(node)


# Movements, there and back


def _steps_between(x: Node, result: Node) -> Sequence[Step]:
    """The operations that made `result` of `x`, each of the first input of the next."""
    steps: list[Step] = []
    while result is not x:
        steps.append((result.op, result.inputs[1:], result.params))
        result = result.inputs[0]
    steps.reverse()
    return steps


def _path(view: TensorView, array: TensorView) -> Sequence[Step]:
    """All steps from `array` to `view`."""
    if view.parent is array:
        return view.steps
    parts: list[Sequence[Step]] = []
    current: TensorView | None = view
    while current is not array and current is not None:
        parts.append(current.steps)
        current = current.parent
    return [step for steps in reversed(parts) for step in steps]


def _read(x: Node, path: Sequence[Step]) -> Node:
    for op, further, params in path:
        x = record(op, (x, *further), params)
    return x


def _written(x: Node, path: Sequence[Step], v: Node) -> Node:
    """`x` after `v` was written to the view of it at the end of the path."""
    on_the_way = [x]
    for op, further, params in path[:-1]:
        on_the_way.append(record(op, (on_the_way[-1], *further), params))
    for (op, _, params), shown in zip(reversed(path), reversed(on_the_way), strict=True):
        v = op.extras["write_back"](shown, v, **params)
    return v


def _refuse_read_only(view: TensorView) -> None:
    current: TensorView | None = view
    while current is not None:
        for op, _, _ in current.steps:
            if "write_back" not in op.extras:
                raise ValueError(
                    explain(
                        "assignment",
                        "assignment destination is read-only, as NumPy's views of this kind are",
                        got={"x": view.type, "made by": op.name},
                        fix="x = x.copy() before, or np.fill_diagonal(a, v) for a diagonal",
                    )
                )
        current = current.parent


def _refuse_part_of_leaf(tensor: Any) -> None:
    """As torch: also where nobody holds the leaf any more."""
    view, node = tensor._view, tensor._node
    while view.parent is not None:
        for _ in view.steps:
            if not node.inputs:
                return
            node = node.inputs[0]
            if node.requires_grad and node.op.vjp is None:
                raise GradientError(
                    explain(
                        "in-place assignment",
                        "a view of a leaf Variable that requires grad is being used in an in-place "
                        "operation",
                        got={"leaf": node, "view": tensor._node},
                        fix="with ng.no_grad(): ..., or x = x.copy() before",
                    )
                )
        view = view.parent


# What shows what: asked of NumPy, by arrays that have the layout and no values.


def _array_of(view: TensorView) -> TensorView:
    """What `view` shows elements of: the nearest one on the way here that NumPy has memory for."""
    while not view.is_copy:
        if view.is_copy is None:
            _layout_of(view)
        else:
            assert view.parent is not None, "the first one is no view"
            view = view.parent
    return view


def _layout_of(view: TensorView) -> np.ndarray | None:
    unknown = []
    current: TensorView | None = view
    while current is not None and current.layout is _NOT_FOUND:
        unknown.append(current)
        current = current.parent
    for known in reversed(unknown):
        if known.parent is None:
            # Pages of it that nobody looks at take no memory.
            dtype = np.complex64 if known.type.dtype.kind == "c" else np.bool_
            known.layout = np.empty(known.type.shape, dtype)
        else:
            known.layout, known.is_copy = _layout_after(known.parent.layout, known.steps)
    return view.layout


def _layout_after(
    layout: np.ndarray | None, steps: Sequence[Step]
) -> tuple[np.ndarray | None, bool]:
    """The layout after these steps, and whether NumPy copies on the way."""
    is_copy = False
    for op, _, params in steps:
        if layout is None:
            break
        if op.name == "gather":  # a diagonal
            layout = None
        elif op.name == "reshape":
            try:
                layout = np.reshape(layout, params["shape"], copy=False)
            except ValueError:
                layout, is_copy = np.empty(params["shape"], layout.dtype), True
        else:
            assert op.reference is not None, "movements have references, which give views"
            layout = op.reference(layout, **params)
    return layout, is_copy


_MOST_WORK: Any = (
    1000  # that NumPy is asked to do to find out; what is too hard counts as overlapping
)


def _overlap(first: TensorView, second: TensorView) -> bool:
    one, other = _layout_of(first), _layout_of(second)
    return one is None or other is None or _arrays_overlap(one, other)


def _arrays_overlap(one: np.ndarray, other: np.ndarray) -> bool:
    if not np.may_share_memory(one, other):  # their ends tell, at a tenth of the price
        return False
    try:
        return np.shares_memory(one, other, max_work=_MOST_WORK)
    except np.exceptions.TooHardError:
        return True
