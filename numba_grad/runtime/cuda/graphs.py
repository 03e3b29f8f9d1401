"""Graphs of launches: captured on streams that nobody else uses, and made ready to be launched."""

import contextlib
from collections.abc import Callable

from numba_grad.runtime.cuda.branches import STREAMS
from numba_grad.runtime.cuda.interface import Driver
from numba_grad.runtime.cuda.streams import Stream


def executable(
    driver: Driver,
    device: int,
    launch: Callable[[list[Stream]], None],
    take_old: Callable[[], int | None],
) -> int:
    """What `launch` gives to the streams that it is handed, as a graph that can be launched.

    It begins on the first of them, and what it gives to others is joined to that. `take_old` gives
    an executable that is not needed any more, if there is one: it is changed to the new one, or
    destroyed.
    """
    graph = _captured(driver, device, launch)
    try:
        old = take_old()
        if old is None:
            return driver.instantiate(graph)
        # Other addresses in the same kernels: changed in place, which costs a fraction of making.
        if driver.update(old, graph):
            return old
        driver.destroy_executable(old)
        return driver.instantiate(graph)
    finally:
        driver.destroy_graph(graph)


def _captured(driver: Driver, device: int, launch: Callable[[list[Stream]], None]) -> int:
    # Work may not be captured on the default stream, so it is on some that nobody else uses.
    key = ("capturing streams", device)
    with driver.capturing:
        streams = driver.kept.pop(key, None)
        if streams is None:
            streams = [Stream(device) for _ in range(STREAMS)]
        try:
            driver.begin_capture(streams[0].handle)
            launch(streams)
            graph = driver.end_capture(streams[0].handle)
        except BaseException:
            # No stream may stay captured: what then waits for it would be, too. This fails where
            # the capture had not begun, or ended, or its branches are not joined yet.
            with contextlib.suppress(Exception):
                driver.destroy_graph(driver.end_capture(streams[0].handle))
            raise
        driver.kept[key] = streams  # those of a capture that failed are dropped
    return graph
