"""What kernels found wrong: recorded on the device, raised when the host asks for values.

What is run again and again has one record, at the address that its captured graphs know, and the
first error stays in it. Whoever waits for the device anyway, to read a value or to synchronize,
looks at the records of all runs since the last look.
"""

from collections.abc import Sequence

import numpy as np

from numba_grad.locks import new_lock
from numba_grad.runtime.cuda.devices import active
from numba_grad.runtime.cuda.driver import current_driver
from numba_grad.runtime.cuda.memory import Allocation, allocate
from numba_grad.runtime.cuda.streams import Stream
from numba_grad.runtime.native_engine import raise_error
from numba_grad.runtime.plan import ERROR_WORDS, ErrorSite

_RECORD_BYTES = 8 * ERROR_WORDS
# So many open records at most: programs that come and go without a value are checked now and then.
_MOST_OPEN = 256

_lock = new_lock()


def new_record(stream: Stream) -> Allocation:
    """A record without an error, for runs on `stream`."""
    record = allocate(_RECORD_BYTES, stream)
    _clear(record)
    return record


def _clear(record: Allocation) -> None:
    current_driver().fill(record.address, 0, _RECORD_BYTES, record.stream.handle)


def add(record: Allocation, sites: Sequence[ErrorSite]) -> None:
    """Look at the record later: a run that may write to it is on its way."""
    records = _open_records(record.stream.device.index)
    with _lock:
        records[record] = sites
    if len(records) > _MOST_OPEN:
        check(record.stream.device.index)


def check(device: int) -> None:
    """Wait for the runs that may have found something, and raise what one of them found: of those
    with one record the first.

    Raises
    ------
    IndexError, numpy.linalg.LinAlgError
    """
    records = _open_records(device)
    if not records:
        return
    with _lock:
        taken = list(records.items())
        records.clear()
    driver = current_driver()
    found = np.zeros((len(taken), ERROR_WORDS), np.int64)
    with active(device):
        for row, (record, _) in zip(found, taken, strict=True):
            driver.copy_to_host(
                row.ctypes.data, record.address, _RECORD_BYTES, record.stream.handle
            )
        for stream in dict.fromkeys(record.stream for record, _ in taken):
            driver.synchronize_stream(stream.handle)
        for row, (record, _) in zip(found, taken, strict=True):
            if row[0]:
                _clear(record)
    for row, (_, sites) in zip(found, taken, strict=True):
        if row[0]:
            raise_error(row, sites)


def _open_records(device: int) -> dict[Allocation, Sequence[ErrorSite]]:
    return current_driver().kept.setdefault(("open records", device), {})
