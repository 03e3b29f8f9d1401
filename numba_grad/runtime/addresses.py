"""Where C functions are, for those who call them by address."""

import ctypes


def address_of(function: object) -> int:
    """The address of a function of ctypes; 0 if it has none."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]
