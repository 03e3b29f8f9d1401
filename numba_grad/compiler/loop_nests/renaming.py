"""Loop nests with other names, so that several can be written into one kernel."""

from dataclasses import replace

from numba_grad.compiler.loop_nests.iteration_spaces import Index
from numba_grad.compiler.loop_nests.kernel_ir import (
    Apply,
    Body,
    Buffer,
    Expression,
    IndexValue,
    Let,
    Load,
    LoopNest,
    Store,
    Variant,
)


def with_suffix(nest: LoopNest, suffix: str) -> LoopNest:
    """The nest, which does the same at each point and adds nothing up, with this behind all names
    but those of loop variables."""
    return _Renaming(nest, suffix).nest()


class _Renaming:
    def __init__(self, nest: LoopNest, suffix: str) -> None:
        self.old, self.suffix = nest, suffix
        self.loops = {axis.variable for axis in nest.axes}

    def nest(self) -> LoopNest:
        old = self.old
        [variant] = old.variants
        assert not old.accumulators
        return replace(
            old,
            axes=[replace(axis, word=self.name(axis.word)) for axis in old.axes],
            words=[replace(word, name=self.name(word.name)) for word in old.words],
            buffers=[self.buffer(buffer) for buffer in old.buffers],
            variants=[self.variant(variant)],
        )

    def name(self, name: str) -> str:
        return name if name in self.loops or name.isdigit() else name + self.suffix

    def buffer(self, buffer: Buffer) -> Buffer:
        return buffer._replace(name=self.name(buffer.name))

    def variant(self, variant: Variant) -> Variant:
        [piece] = variant.pieces
        body = Body(
            [self.let(let) for let in piece.body.lets],
            [],
            [self.store(store) for store in piece.body.stores],
        )
        lets = [[self.let(let) for let in level] for level in variant.lets]
        return replace(variant, lets=lets, pieces=[replace(piece, body=body)])

    def let(self, let: Let) -> Let:
        return Let(self.name(let.name), self.expression(let.expression))

    def store(self, store: Store) -> Store:
        return Store(self.buffer(store.buffer), self.index(store.position), self.name(store.value))

    def expression(self, expression: Expression) -> Expression:
        match expression:
            case Load(buffer, position):
                return Load(self.buffer(buffer), self.index(position))
            case IndexValue(index):
                return IndexValue(self.index(index))
            case Apply(term, operands, dtype, casts):
                renamed = tuple([(field, self.name(name)) for field, name in operands])
                return Apply(term, renamed, dtype, casts)
        return expression

    def index(self, index: Index) -> Index:
        terms = [
            (" * ".join(map(self.name, text.split(" * "))), factor) for text, factor in index.terms
        ]
        return index._replace(terms=tuple(terms))
