"""What kernels found wrong: recorded on the device, raised when the host asks for values.

A run that may find something has a record of its own. Whoever waits for the device anyway, to read
a value or to synchronize, looks at the records that are still open.
"""

import threading
from collections.abc import Sequence

import numpy as np

from numba_grad.runtime.cuda.devices import active
from numba_grad.runtime.cuda.driver import current_driver
from numba_grad.runtime.cuda.memory import Allocation, allocate
from numba_grad.runtime.cuda.streams import Stream
from numba_grad.runtime.native_engine import raise_error
from numba_grad.runtime.plan import ErrorSite

_RECORD_BYTES = 64
# So many open records at most: a loop that never asks for a value is checked now and then.
_MOST_OPEN = 256

_lock = threading.Lock()


def new_record(stream: Stream) -> Allocation:
    """A record without an error, for a run on `stream`."""
    record = allocate(_RECORD_BYTES, stream)
    current_driver().fill(record.address, 0, _RECORD_BYTES, stream.handle)
    return record


def add(record: Allocation, sites: Sequence[ErrorSite]) -> None:
    """Look at the record later."""
    records = _open_records(record.stream.device.index)
    with _lock:
        records.append((record, sites))
    if len(records) > _MOST_OPEN:
        check(record.stream.device.index)


def check(device: int) -> None:
    """Wait for the runs that may have found something, and raise what the first of them found.

    Raises
    ------
    IndexError, numpy.linalg.LinAlgError
    """
    records = _open_records(device)
    if not records:
        return
    with _lock:
        taken = list(records)
        records.clear()
    driver = current_driver()
    found = np.zeros((len(taken), _RECORD_BYTES // 8), np.int64)
    with active(device):
        for row, (record, _) in zip(found, taken, strict=True):
            driver.copy_to_host(
                row.ctypes.data, record.address, _RECORD_BYTES, record.stream.handle
            )
        for stream in dict.fromkeys(record.stream for record, _ in taken):
            driver.synchronize_stream(stream.handle)
    for row, (_, sites) in zip(found, taken, strict=True):
        if row[0]:
            raise_error(row, sites)


def _open_records(device: int) -> list[tuple[Allocation, Sequence[ErrorSite]]]:
    return current_driver().kept.setdefault(("open records", device), [])
