"""Work of several threads at once."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

SECONDS = 300.0  # of which it takes a few: else threads wait for each other


def run_in_threads(work: Callable[[Any], object], given: Iterable[Any]) -> None:
    """`work` of each of these in a thread of its own; what one of them raises is raised here."""
    errors: list[BaseException] = []

    def guarded(x: Any) -> None:
        try:
            work(x)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(x,), daemon=True) for x in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive(), "threads wait for each other"
    if errors:
        raise errors[0]
