"""What the nodes of a long graph are, in arrays: what is said of all at once."""

import itertools
from collections.abc import Collection, Sequence
from operator import attrgetter

import numpy as np

from numba_grad.graph import walk
from numba_grad.graph.node import Node
from numba_grad.immutable import NamedTuple

_inputs_of, _kind_of = attrgetter("inputs"), attrgetter("kind")
_requires_grad_of = attrgetter("requires_grad")
_OUTSIDE = -(1 << 62)


class NodeSurvey(NamedTuple):
    """What some nodes are, in arrays."""

    kinds: np.ndarray
    arities: np.ndarray
    require_grad: np.ndarray  # of bool, as the next one
    are_free: np.ndarray  # known to nobody but those that read them
    inputs: np.ndarray  # of all nodes, one after the other: by number, below 0 those of `others`
    others: list[Node]  # the first one is -1
    fixed: np.ndarray  # numbers of nodes that were asked for, below 0 of those that are not there


def survey_of(nodes: Sequence[Node], fixed: Collection[Node]) -> NodeSurvey:
    """What `nodes`, each there once, are; and where among them `fixed` are."""
    # To make native code ready takes a process as long as a look at so many nodes.
    native = walk.native_walks() if len(nodes) >= walk.MANY else None
    found = None if native is None else native.survey(tuple(nodes), tuple(fixed))
    return surveyed(nodes, fixed) if found is None else found


def surveyed(nodes: Sequence[Node], fixed: Collection[Node]) -> NodeSurvey:
    """Without native code. As `survey` in `walk_functions.py`."""
    count = len(nodes)
    numbers = dict(zip(nodes, range(count), strict=True))
    fixed_numbers = np.array([numbers.get(x, -1) for x in fixed], np.int64)
    read = list(map(_inputs_of, nodes))
    arities = np.fromiter(map(len, read), np.int64, count)
    inputs = list(itertools.chain.from_iterable(read))
    found = np.fromiter(map(numbers.get, inputs, itertools.repeat(_OUTSIDE)), np.int64, len(inputs))
    others: list[Node] = []
    for k in np.flatnonzero(found == _OUTSIDE).tolist():
        number = numbers.setdefault(inputs[k], -1 - len(others))
        if number == -1 - len(others):
            others.append(inputs[k])
        found[k] = number
    return NodeSurvey(
        np.fromiter(map(_kind_of, nodes), np.int64, count),
        arities,
        np.fromiter(map(_requires_grad_of, nodes), np.bool_, count),
        np.fromiter(are_free(nodes), np.bool_, count),
        found,
        others,
        fixed_numbers,
    )


def are_free(nodes: Sequence[Node]) -> list[bool]:
    """Whether nobody knows a node but those that read it."""
    return [x.value is None and not x.released and walk.is_nobodys(x) for x in nodes]
