"""How many passes loops inside of a loop have, computed before it."""

from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.regions import (
    Define,
    For,
    Scalar,
    Size,
    Value,
    defined,
    operands,
    walk,
)


class TripCounts:
    """Of the loops in one loop; what they are computed with is written where the builder is."""

    def __init__(self, loop: For, builder: Builder) -> None:
        self.builder = builder
        self._inside = {t: s for s in walk([loop]) if (t := defined(s)) is not None}
        self._made: dict[Scalar, Value] = {}

    def of(self, loop: For) -> Value:
        """LookupError where it depends on the pass of the outer loop, or on values."""
        if loop.leave is not None or loop.step not in (1, -1):
            raise LookupError
        start, stop = self.before(loop.start), self.before(loop.stop)
        ends = (stop, start) if loop.step == 1 else (start, stop)
        return self.builder.define("most", self.builder.define("subtract", *ends), 0)

    def before(self, value: Value) -> Value:
        """A value of the loop, where it is known before it; LookupError where it is not."""
        if not isinstance(value, Scalar) or value not in self._inside:
            return value
        if value not in self._made:
            s = self._inside[value]
            if isinstance(s, Size):
                self._made[value] = target = self.builder.scalar("int64")
                self.builder.body.append(Size(target, s.memory, s.axis))
            elif isinstance(s, Define):
                arguments = [self.before(x) for x in operands(s)]
                self._made[value] = self.builder.define(
                    s.operation, *arguments, dtype=s.target.dtype
                )
            else:
                raise LookupError
        return self._made[value]
