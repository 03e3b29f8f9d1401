"""What it costs a target to store a value, rather than to compute it again where it is needed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
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
