"""Products in the steps of a loop that share a factor, and whose other factors are the same in all
steps, are one product.

    i = x @ w; f = x @ v        z = x @ concatenate([w, v], axis=1); i = z[:, :m]; f = z[:, m:]

So the gates of a recurrent cell are written by many. A small product takes as long as the call of a
library, and its derivative has two more of them.

A transposed matrix in front of a vector, `w.T @ x`, is `x @ w`: that goes through `w` row by row,
in vector code, where the other has a sum for each row of a copy that lies the other way round.
"""

from collections.abc import Collection, Hashable, Iterable, Sequence

from numba_grad.graph.node import OPS, Node, argument, recording
from numba_grad.graph.walk import lets_gradients_through, rebuilt, substitute, toposort
from numba_grad.immutable import NamedTuple
from numba_grad.ops.contraction import matrix_transpose
from numba_grad.ops.families import reshape
from numba_grad.transforms.call_target import CallTarget, once_for_each_graph

# Multiplications of a joined product. Larger ones gain nothing, and to join their factors takes
# longer.
_MOST = 1 << 15
# Rows of a matrix that is turned: of fewer, turned rows are no vectors of a processor.
_FEWEST_TURNED = 8


class _Group(NamedTuple):
    """Products `x @ w` with the same `x`; along the axis 0, `w @ x`."""

    axis: int
    products: list[Node]
    transposes: Collection[Node]  # factors that are

    @property
    def shared(self) -> Node:
        return self.products[0].inputs[1 - self.axis]

    @property
    def factors(self) -> list[Node]:
        return [product.inputs[self.axis] for product in self.products]

    @property
    def width(self) -> int:
        return sum([w.shape[self.axis] for w in self.factors])

    @property
    def is_turned(self) -> bool:
        """Whether these are products with a vector, which is to come first."""
        is_with_vector = self.axis == 0 and self.shared.shape[1] == 1
        is_wide = self.width >= _FEWEST_TURNED
        return is_with_vector and is_wide and all(w in self.transposes for w in self.factors)

    def is_joined(self) -> bool:
        is_small = self.shared.type.size * self.width <= _MOST
        return is_small and (len(self.products) > 1 or self.is_turned)

    def joined(self, factors: Sequence[Node]) -> Node:
        [*others, last] = factors
        whole = OPS["concatenate"](*factors, axis=self.axis) if others else last
        return matrix_transpose(whole) if self.is_turned else whole

    def product(self, x: Node, joined: Node) -> Node:
        if self.is_turned:
            row = OPS["matmul"](reshape(x, x.shape[::-1]), joined)
            return reshape(row, (self.width, 1))
        return OPS["matmul"](*((x, joined) if self.axis else (joined, x)))

    def parts(self, product: Node) -> Iterable[Node]:
        """Its products, of the joined one."""
        if len(self.products) == 1:
            yield product
            return
        start = [0, 0]
        for own in self.products:
            yield OPS["slice"](product, starts=tuple(start), sizes=own.shape, steps=(1, 1))
            start[self.axis] += own.shape[self.axis]


class JoinedProducts(NamedTuple):
    """A body with joined products, which gets some of what the original does, and joined factors.

    own_sequences, own_constants : the numbers of what it gets
    stand_ins : for the constants of the original
    groups : of products of the original
    """

    body: CallTarget
    own_sequences: list[int]
    own_constants: list[int]
    stand_ins: Sequence[Node]
    groups: list[_Group]

    def given(
        self, sequences: Sequence[Node], constants: Sequence[Node]
    ) -> tuple[list[Node], list[Node]]:
        """What its sequences and constants are, of those of the original."""
        outside = dict(zip(self.stand_ins, constants, strict=True))
        joined = [group.joined(substitute(group.factors, outside)) for group in self.groups]
        own = [*[constants[k] for k in self.own_constants], *joined]
        return [sequences[k] for k in self.own_sequences], own


def with_joined_products(
    body: CallTarget, carried: int, sequences: Sequence[Node], constants: Sequence[Node]
) -> JoinedProducts | None:
    """The body of a loop with joined products, if there are any to be joined."""
    # Steps that were recorded one by one may read the same rows several times.
    first = tuple([sequences.index(x) for x in sequences])
    are_transposes = tuple([x.op.name == "transpose" for x in constants])
    return _made(body, carried, first, are_transposes)


@once_for_each_graph
def _made(
    body: CallTarget, carried: int, first: Sequence[int], are_transposes: Sequence[bool]
) -> JoinedProducts | None:
    order = toposort(body.outputs)
    rows, constants = body.arguments[carried:][: len(first)], body.arguments[carried + len(first) :]
    equal = dict(zip(rows, [rows[k] for k in first], strict=True))
    transposes = {x for x, is_one in zip(constants, are_transposes, strict=True) if is_one}
    transposes.update([x for x in order if x.op.name == "transpose"])
    groups = list(filter(_Group.is_joined, _groups(order, constants, equal, transposes)))
    if not groups:
        return None
    with recording(True):
        own = [group.joined(group.factors) for group in groups]
        joined = [argument(x.type, x.requires_grad) for x in own]
        outputs = _with_products(body.outputs, order, groups, joined)
    read = set(toposort(outputs))
    own_rows = [k for k, x in enumerate(rows) if x in read]
    own_constants = [k for k, x in enumerate(constants) if x in read]
    arguments = [
        *body.arguments[:carried],
        *[rows[k] for k in own_rows],
        *[constants[k] for k in own_constants],
        *joined,
    ]
    target = CallTarget(body.name, arguments, outputs)
    return JoinedProducts(target, own_rows, own_constants, constants, groups)


def _groups(
    order: Sequence[Node],
    constants: Sequence[Node],
    equal: dict[Node, Node],
    transposes: Collection[Node],
) -> list[_Group]:
    """Products of the same factor. `equal`: what has the same value as an argument has."""
    first: dict[Hashable, Node] = {}
    found: dict[Hashable, _Group] = {}
    fixed = set(constants)  # and what is made of them alone
    for node in order:
        if not node.inputs:
            equal.setdefault(node, node)
            continue
        if fixed.issuperset(node.inputs):
            fixed.add(node)
        inputs = tuple([equal[x] for x in node.inputs])
        key: Hashable = node
        if node.op.family == "movement" and lets_gradients_through(node):
            key = (node.op, *node.params.items(), *inputs)
        equal[node] = first.setdefault(key, node)
        if node.op.name != "matmul" or {2} != {len(x.shape) for x in node.inputs}:
            continue
        if not lets_gradients_through(node):
            continue
        is_fixed = [x in fixed for x in node.inputs]
        if any(is_fixed) and not all(is_fixed):
            axis = is_fixed.index(True)
            group = found.setdefault((axis, inputs[1 - axis]), _Group(axis, [], transposes))
            group.products.append(node)
    return list(found.values())


def _with_products(
    outputs: Sequence[Node],
    order: Sequence[Node],
    groups: Sequence[_Group],
    joined: Sequence[Node],
) -> list[Node]:
    """`outputs`, of products with these factors."""
    number = {product: k for k, group in enumerate(groups) for product in group.products}
    new: dict[Node, Node] = {}
    for node in order:
        if node in new:
            continue
        given = tuple([new[x] for x in node.inputs])
        if node in number:
            group = groups[number[node]]
            product = group.product(given[1 - group.axis], joined[number[node]])
            new.update(zip(group.products, group.parts(product), strict=True))
        else:
            is_same = all(a is b for a, b in zip(given, node.inputs, strict=True))
            new[node] = node if is_same else rebuilt(node, given, new)
    return [new[x] for x in outputs]
