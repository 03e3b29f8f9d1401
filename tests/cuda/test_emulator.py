"""The emulator of kernels computes what a device would, and finds what it may not do."""

import itertools

import numpy as np
import pytest

from tests.cuda.emulator import EmulatedDriver, EmulationError, HostMemory, run_kernel
from tests.cuda.host_driver import installed
from tests.cuda.kernel_names import exact_fma, fma

HEADER = '@cuda.jit("void(int64, CPointer(float32), CPointer(float32))")\ndef kernel(n0, x0, x1):\n'


def run(body, x, y, grid=1, block=64):
    source = HEADER + "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    memory = HostMemory()
    run_kernel(source, grid, block, [x.size, memory.add(x), memory.add(y)], memory)
    return y


def values(n=64):
    return np.linspace(-1, 1, n).astype(np.float32)


BLOCK_SUM = """
shared = cuda.shared.array(64, float32)
lane = int32(cuda.threadIdx.x)
shared[lane] = x0[lane]
cuda.syncthreads()
half = 32
while half > 0:
    if lane < half:
        shared[lane] = shared[lane] + shared[lane + half]
    cuda.syncthreads()
    half >>= 1
if lane == 0:
    x1[0] = shared[0]
"""


def test_blocks_with_barriers():
    y = run(BLOCK_SUM, values() + 1, np.zeros(1, np.float32))
    np.testing.assert_allclose(y[0], 64, rtol=1e-6)


def test_warps_with_shuffles():
    body = """
a = x0[cuda.threadIdx.x]
distance = 16
while distance > 0:
    a = a + cuda.shfl_down_sync(0xffffffff, a, distance)
    distance >>= 1
if cuda.threadIdx.x % 32 == 0:
    x1[cuda.threadIdx.x // 32] = a
"""
    x = values()
    y = run(body, x, np.zeros(2, np.float32))
    np.testing.assert_allclose(y, x.reshape(2, 32).sum(1), rtol=1e-5)


def test_device_functions_may_wait():
    source = (
        "@cuda.jit(device=True)\ndef neighbour(x):\n"
        "    return cuda.shfl_xor_sync(0xffffffff, x, 1)\n\n"
        "@cuda.jit(device=True)\ndef both(x):\n    return x + neighbour(x)\n\n"
        + HEADER
        + "    x1[cuda.threadIdx.x] = both(x0[cuda.threadIdx.x])\n"
    )
    x, y, memory = values(), np.zeros(64, np.float32), HostMemory()
    run_kernel(source, 1, 64, [64, memory.add(x), memory.add(y)], memory)
    pairs = x.reshape(32, 2)
    np.testing.assert_array_equal(y.reshape(32, 2), pairs + pairs[:, ::-1])


def test_scalars_have_the_widths_of_a_device():
    body = """
x1[0] = x0[0] / float32(3.0) + float32(n0)
x1[1] = float32(int32(n0 * 1000000007))
x1[2] = float32(uint8(300) + int8(200))
x1[3] = math.exp(float32(100.0))
"""
    y = run(body, values(), np.zeros(4, np.float32), block=1)
    assert y[0] == np.float32(-1) / np.float32(3) + np.float32(64)
    assert y[1] == np.float32(np.int64(64 * 1000000007).astype(np.int32))
    assert y[2] == 44 - 56
    assert np.isinf(y[3])


def test_products_and_sums_are_rounded_once():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 200)) * 10.0 ** rng.integers(-160, 155, (2, 200))
    z = -x * y * rng.choice([0, 1, 1 + 1e-15, 3], 200)
    special = np.array([0.0, -0.0, np.inf, np.nan, 1e308])
    for triple in [*zip(x, y, z, strict=True), *itertools.product(special, repeat=3)]:
        with np.errstate(all="ignore"):
            found, expected = fma(*triple), exact_fma(*triple)
        np.testing.assert_array_equal(found, expected, strict=True)
        assert np.signbit(found) == np.signbit(expected) or np.isnan(found)
    # As float64 it is 1 + 2**-11 + 2**-24, whose even neighbour is below.
    found = fma(np.float32(1 + 2**-12), np.float32(1 + 2**-12), np.float32(2**-60))
    assert found == np.float32(1 + 2**-11 + 2**-23)
    assert found.dtype == np.float32


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("x1[n0] = x0[0]", r"x1\[64\]"),
        ("x1[0] = x0[-1]", r"x0\[-1\]"),
        ("x1[0] = x0[cuda.threadIdx.x]", "written by two threads"),
        (
            "x1[cuda.threadIdx.x] = x0[0]\nx1[(cuda.threadIdx.x + 1) % 64] = x0[0]",
            "written by two threads",
        ),
        (
            "x1[cuda.threadIdx.x] = x0[0]\nx0[cuda.threadIdx.x] = x1[(cuda.threadIdx.x + 63) % 64]",
            "read while another thread",
        ),
        (BLOCK_SUM.replace("    cuda.syncthreads()\n", ""), "no barrier"),
        (BLOCK_SUM.replace("cuda.syncthreads()\nhalf", "half"), "before it is written|no barrier"),
        (BLOCK_SUM.replace("64, float32", "63, float32"), "shared array of 63"),
        (BLOCK_SUM.replace("64, float32", "13000, float32"), "52000 bytes of shared memory"),
        ("if cuda.threadIdx.x < 5:\n    cuda.syncthreads()", "different barriers"),
        (
            "if cuda.threadIdx.x < 5:\n    x1[cuda.threadIdx.x] = "
            "cuda.shfl_down_sync(0xffffffff, x0[0], 1)",
            "different places",
        ),
        ("x1[0] = x0[0] * 0.1", "has no type"),
        ("x1[0] = float(x0[0])", "float"),
        ("x1[0] = x0[0.5 > float32(0.1)]", "has no type"),
    ],
)
def test_what_a_device_would_not_do_is_an_error(body, message):
    with pytest.raises((EmulationError, NameError), match=message):
        run(body, values(), np.zeros(64, np.float32))


def test_misaligned_pointers_are_errors():
    memory = HostMemory()
    x = values()
    with pytest.raises(EmulationError, match="not aligned"):
        run_kernel(HEADER + "    pass", 1, 1, [0, memory.add(x) + 2, 0], memory)


def test_kernels_run_in_the_memory_of_the_tests_driver():
    with installed(EmulatedDriver()) as driver:
        x, y = values(), np.zeros(1, np.float32)
        source = HEADER + "".join(f"    {line}\n" for line in BLOCK_SUM.strip().split("\n"))
        driver.activate(0)
        function = driver.function(driver.load_module(source.encode()), "kernel")
        addresses = [driver.allocate(0, array.nbytes, 0) for array in (x, y)]
        driver.copy_to_device(addresses[0], x.ctypes.data, x.nbytes, 0)
        words = np.array([64, *addresses])
        driver.launch(function, (1, 1, 1), (64, 1, 1), 0, 0, words.ctypes.data, words.nbytes)
        driver.copy_to_host(y.ctypes.data, addresses[1], y.nbytes, 0)
        driver.synchronize(0)
    np.testing.assert_allclose(y[0], x.sum(), atol=1e-5)
