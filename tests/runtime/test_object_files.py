"""Object files placed in memory, and what is left to LLVM."""

import ctypes
import platform
import sys

import llvmlite.binding as llvm
import numpy as np
import pytest

from numba_grad.compiler import code_generation
from numba_grad.errors import KernelError
from numba_grad.runtime import loader, object_files

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="files of another format"
)

# Constants of two sizes, a table of jumps, a call inside the file and one of the process.
PLACEABLE = """
declare double @cos(double) nounwind
define internal double @own(double %x) noinline nounwind section ".text.own" {
  %y = fmul double %x, 0x3FF3333333333333
  ret double %y
}
define double @f(double %x, i32 %k) nounwind {
  switch i32 %k, label %z [i32 0, label %a  i32 1, label %b  i32 2, label %c  i32 3, label %d
                           i32 4, label %e]
a: %ya = call double @own(double %x)
   ret double %ya
b: %yb = call double @cos(double %x)
   ret double %yb
c: %yc = fdiv double 0x400921FB54442D18, %x
   ret double %yc
d: %xd = fptrunc double %x to float
   %fd = fmul float %xd, 0x3FD5555560000000
   %yd = fpext float %fd to double
   ret double %yd
e: %xe = call double @own(double %x)
   %ye = call double @cos(double %xe)
   ret double %ye
z: ret double 0.0
}
define double @g(double %x) nounwind {
  %y = fadd double %x, 0x40091EB851EB851F
  ret double %y
}
"""
EXPECTED = [
    lambda x: x * 1.2,
    np.cos,
    lambda x: np.pi / x,
    lambda x: float(np.float32(x) * np.float32(1 / 3)),
    lambda x: np.cos(x * 1.2),
]


def object_code(text):
    module = llvm.parse_assembly(text)
    module.triple = llvm.get_process_triple()
    return code_generation.object_code(module)


def function(address, *types):
    return ctypes.CFUNCTYPE(ctypes.c_double, *types)(address)


def place(code, *names):
    return object_files.placed([(names, code)], loader._resolved)


def test_code_with_constants_and_calls_needs_no_linker():
    addresses = place(object_code(PLACEABLE), "g", "f")
    f = function(addresses["f"], ctypes.c_double, ctypes.c_int)
    for k, expected in enumerate(EXPECTED):
        assert f(0.7, k) == expected(0.7)
    assert function(addresses["g"], ctypes.c_double)(1.0) == 1.0 + 3.14


def test_several_files_are_placed_at_once():
    texts = [PLACEABLE.replace("@f", f"@f{k}").replace("0x4009", f"0x40{k}9") for k in range(3)]
    objects = [((f"f{k}", "g"), object_code(text)) for k, text in enumerate(texts)]
    addresses = object_files.placed(objects, loader._resolved)
    assert {*addresses} == {"f0", "f1", "f2", "g"}
    found = [function(addresses[f"f{k}"], ctypes.c_double, ctypes.c_int)(1.0, 2) for k in range(3)]
    expected = [np.array([int(f"0x40{k}921FB54442D18", 16)]).view(float)[0] for k in range(3)]
    assert found == expected


VARIABLE = """
@count = internal global double 1.0
define double @f() nounwind {
  %x = load double, ptr @count
  %y = fadd double %x, %x
  store double %y, ptr @count
  ret double %y
}
"""
ADDRESSES = """
@table = internal constant [2 x ptr] [ptr @a, ptr @f]
define double @a() nounwind { ret double 5.0 }
define double @f(i64 %k) nounwind {
  %p = getelementptr [2 x ptr], ptr @table, i64 0, i64 %k
  %g = load ptr, ptr %p
  %y = call double %g()
  ret double %y
}
"""


@pytest.mark.parametrize("text", [VARIABLE, ADDRESSES], ids=["variable", "addresses"])
def test_what_else_there_is_goes_to_llvm(text):
    code = object_code(text)
    assert place(code, "f") == {}
    addresses = loader.load([(["f"], code), (["g"], object_code(PLACEABLE))])
    assert function(addresses["g"], ctypes.c_double)(0.0) == 3.14
    f = function(addresses["f"], *([ctypes.c_int64] if text == ADDRESSES else []))
    assert (f(0) if text == ADDRESSES else f() + f() - 1.0) == 5.0


def test_a_function_that_the_process_does_not_have():
    code = object_code(PLACEABLE.replace("cos", "there_is_none"))
    assert place(code, "g") == {}
    with pytest.raises(KernelError, match="cannot link f"):
        loader.load([(["f"], code)])


def test_names_that_are_not_there():
    code = object_code(PLACEABLE)
    assert place(code, "h") == place(code, "f", "h") == place(code, "cos") == {}


def test_parts_of_files_are_refused():
    code = object_code(PLACEABLE)
    for length in range(len(code)):
        assert place(code[:length], "f") == {}


def test_damaged_files_are_refused_or_placed():
    code = object_code(PLACEABLE)
    for position in range(len(code)):
        damaged = bytearray(code)
        damaged[position] ^= 0xFF
        place(bytes(damaged), "f")  # nothing is raised


def test_no_thread_is_waited_for(monkeypatch):
    monkeypatch.setattr(loader, "unbroken", None)
    assert {*loader.load([(["f", "g"], object_code(PLACEABLE))])} == {"f", "g"}


def test_where_no_memory_can_be_run_llvm_says_so(monkeypatch):
    monkeypatch.setattr(object_files, "in_memory", lambda content: 0)
    assert place(object_code(PLACEABLE), "f") == {}


def test_nothing_is_placed_on_other_systems(monkeypatch):
    monkeypatch.setattr(object_files, "can_place", lambda: False)
    assert place(object_code(PLACEABLE), "f") == {}
    addresses = loader.load([(["f"], object_code(PLACEABLE))])
    assert function(addresses["f"], ctypes.c_double, ctypes.c_int)(0.7, 1) == np.cos(0.7)
