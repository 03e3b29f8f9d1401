"""SciPy's C functions by address, for the object code that refers to them."""

import ctypes

import pytest
import scipy.special

from numba_grad.errors import KernelError
from numba_grad.runtime import special_functions


def test_every_function_that_kernels_call_is_exported_as_expected():
    for name in special_functions._SIGNATURES:
        assert special_functions._address(name) != 0


def test_what_an_object_file_refers_to_is_found_and_is_the_function():
    code = b"\0kernel\0scipy_special_gammainc\0_scipy_special_j0\0numba_grad.scipy.j0.f64\0"
    found = special_functions.needed_by(code)
    assert list(found) == ["scipy_special_gammainc", "scipy_special_j0"]
    signature = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_int)
    assert signature(found["scipy_special_j0"])(1.5, 0) == scipy.special.j0(1.5)


def test_nothing_is_imported_for_other_code(monkeypatch):
    monkeypatch.setattr(special_functions, "_capsules", None)
    assert special_functions.needed_by(b"\0kernel\0exp\0") == {}


def test_another_signature_is_refused(monkeypatch):
    monkeypatch.setattr(special_functions, "_SIGNATURES", {"j0": "float (float)"})
    monkeypatch.setattr(special_functions, "_address", special_functions._address.__wrapped__)
    with pytest.raises(KernelError, match=r"scipy\.special\.j0: .*\n.*\n  expected: float \(float"):
        special_functions.needed_by(b"scipy_special_j0\0")
