"""The transforms whose function is running: what must not become a number there.

A transform (`grad`, `jacobian`, `functional.hvp`, ...) runs the user's function on variables of its
own. A number made of them would silently count as a constant. What depends on leaves that the user
made for `backward()` is another matter: there, PyTorch's rules hold.
"""

import contextlib
from collections.abc import Iterator, Sequence

from numba_grad.graph.node import Node
from numba_grad.ops.families import is_flat

# Of all threads, since the function may hand its tensors to others.
_transform_of: dict[Node, str] = {}


@contextlib.contextmanager
def running(transform: str, variables: Sequence[Node]) -> Iterator[None]:
    """While the function of `transform` runs on `variables`, which no other call has."""
    try:
        for variable in variables:
            _transform_of[variable] = transform
        yield
    finally:
        for variable in variables:
            _transform_of.pop(variable, None)


def transform_behind(node: Node) -> str | None:
    """The running transform by whose variables `node` has derivatives; None if there is none.

    Step functions have none that is not 0: `int(np.floor(x))` loses nothing.
    """
    if not _transform_of or not node.requires_grad:
        return None
    transform_of = _transform_of.copy()  # other threads begin and end theirs
    first = min([variable.serial for variable in transform_of], default=node.serial)
    seen, stack = {node}, [node]
    while stack:
        x = stack.pop()
        if x in transform_of:
            return transform_of[x]
        if x.serial > first and not is_flat(x):
            sources = [s for s in x.inputs if s.requires_grad and s not in seen]
            seen.update(sources)
            stack += sources
    return None
