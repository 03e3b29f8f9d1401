"""The image of kernels of single operations: what it has needs no files, and it is never needed."""

import ctypes
import platform
import sys

import numpy as np
import pytest

from numba_grad.compiler.building import build, cache, kernel_image
from numba_grad.config import config
from numba_grad.runtime import object_files
from tests.processes import run_python

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="files of another format"
)

PROGRAM = """
import sys
import numpy as np
import numba_grad as ng
from numba_grad.compiler.building import build
from numba_grad.config import config

x = ng.tensor(np.linspace(0.1, 1.0, 5), requires_grad=True)
np.sum(FUNCTION).backward()
image = build.image_in(config.cache_directory)
print(x.grad.numpy().tobytes().hex())
print(build.statistics().compilations, len(image), *[key for key, _ in image.values()])
"""
SINES = "np.sin(x) * x"


def run(directory, function=SINES):
    """Bits of the gradient, how many kernels were compiled, and the keys that the image had."""
    code = PROGRAM.replace("FUNCTION", function)
    output = run_python(code, NUMBA_GRAD_CACHE_DIR=directory, NUMBA_GRAD_ENGINE="native")
    bits, (compilations, count, *keys) = map(str.split, output.splitlines())
    assert int(count) == len(keys)
    return bits, int(compilations), keys


def test_a_process_needs_no_file_of_a_kernel_that_the_image_has(directory):
    bits, compilations, keys = run(directory)
    assert compilations > 0
    assert keys == []
    _, _, keys = run(directory)
    assert len(keys) >= 4  # sin, cos, products, the walk
    for path in directory.iterdir():
        if path.stem in keys:
            path.unlink()
    assert run(directory, f"({SINES}) * 1.0")[1:] == (0, keys)
    assert run(directory) == (bits, 0, keys)


@pytest.mark.thorough
def test_processes_add_to_the_image_and_one_that_is_damaged_counts_as_absent(directory):
    run(directory)
    run(directory, "np.exp(x) + x")
    _, compilations, keys = run(directory)
    assert compilations == 0
    paths = [path for path in directory.iterdir() if b"def kernel(args" in path.read_bytes()]
    assert len(paths) == 1
    whole = paths[0].read_bytes()
    for damaged in (whole[:-1], whole[:200] + bytes(3) + whole[203:], b""):
        paths[0].write_bytes(damaged)
        assert run(directory)[1:] == (0, [])
    assert {*run(directory)[2]} < {*keys}  # of what was asked for meanwhile


def read():
    """As another process does."""
    build.image_in.cache_clear()
    return build.image_in(config.cache_directory)


def loaded(text):
    source = f"def kernel(args, lo, hi):\n    x = buffer(args, 0, float64)\n    x[0] = {text}\n"
    return build.build_requests([build.KernelRequest(source, is_quick=True)])


def called(address, x):
    values = np.array([x])
    args = np.array([values.ctypes.data])
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(address)(args.ctypes.data, 0, 1)
    return values[0]


def test_code_that_calls_the_c_library_is_given_its_addresses(directory):
    # Beyond what the kernel reduces itself, the sine is that of the C library.
    kernels = loaded("sin(x[0]) + 0.25")
    kernel_image.add(kernels)
    cache.write_waiting()
    image = read()
    [(key, address)] = [image[tuple(kernel.request)] for kernel in kernels]
    assert key == kernels[0].key
    assert address != kernels[0].address
    for x in (0.5, 1e300):
        assert called(address, x) == called(kernels[0].address, x)


def test_an_image_whose_functions_the_process_lacks_is_left(directory, monkeypatch):
    kernel_image.add(loaded("sin(x[0]) + 0.5"))
    cache.write_waiting()
    monkeypatch.setattr(object_files, "address_in_process", lambda name: 0)
    assert read() == {}


def test_content_of_something_else_is_no_image(directory):
    cache.write(build.key_of_image(), b"no image")
    assert read() == {}


def test_an_image_that_is_too_large_is_begun_anew(directory, monkeypatch):
    kernel_image.add(loaded("x[0] + 0.75"))
    cache.write_waiting()
    assert len(read()) == 1
    monkeypatch.setattr(kernel_image, "_MOST_BYTES", 10)
    kernels = loaded("x[0] + 1.75")
    kernel_image.add(kernels)
    cache.write_waiting()
    assert [*read()] == [tuple(kernel.request) for kernel in kernels]


def test_of_a_kernel_that_is_no_longer_on_disk_nothing_is_added(directory):
    kernels = loaded("x[0] + 2.75")
    cache.path_of(kernels[0].key).unlink()
    kernel_image.add(kernels)
    cache.write_waiting()
    assert read() == {}
    assert config.cache_directory == directory
