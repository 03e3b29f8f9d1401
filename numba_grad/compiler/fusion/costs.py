"""What it costs a target to store a value, rather than to compute it again where it is needed."""

from numba_grad.immutable import immutable

# Of what storing a value and loading it once costs. A line of a cache that is written was read
# before: three transfers, one of which is the load.
LOADING = 1 / 3


@immutable
class Costs:
    """In additions for each element, but for the last."""

    load: float  # of what is in a cache
    # Storing, and loading in another kernel over the same points, that is there anyway.
    store: float
    # The same where one kernel would compute a value at several shifted places.
    store_of_shifts: float
    # The same where the value is much larger than all it is made of, so that storing it costs
    # bandwidth (or does not fit).
    store_of_expansion: float
    # Of a sum of more arrays than fit, none would still be in a cache at the end.
    cached_bytes: int
    # Storing and loading in another kernel what is no larger than this: it is in a cache then, and
    # it does not matter how much larger than all it is made of it is.
    store_in_cache: float
    bytes_in_cache: int

    def is_worth_sharing(self, cost: float, kernels: int, nbytes: int) -> bool:
        """Whether a value of this cost is stored by one of several kernels and loaded by the
        others, rather than computed again by each of these."""
        others = kernels - 1
        store = self.store_in_cache if nbytes <= self.bytes_in_cache else self.store
        return cost * others > store * (1 - LOADING + LOADING * others)
