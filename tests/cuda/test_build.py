"""Source to cubin without a driver: the chain of compilers, its report, its cache, its errors."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.building import cache
from numba_grad.compiler.cuda import build, front_end, link, worker_processes
from numba_grad.config import configure
from numba_grad.errors import KernelError
from numba_grad.frontend.compiled_functions.lowered import LoweredKernel
from numba_grad.runtime.cuda.conditional_nodes import CHOICE_SOURCE, DECISION_SOURCE
from tests.cuda.graph_kernels import GraphRun
from tests.cuda.requirements import needs_compiler
from tests.processes import output_of, run_python, wait_until

SOURCE = """\
@cuda.jit(device=True)
def twice(x):
    return libdevice.fmul_rn(x, float32(2.0))


@cuda.jit(device=True)
def fourfold(x):
    return twice(twice(x))


@cuda.jit("void(int64, CPointer(float32), CPointer(float32))")
def kernel(n0, x0, x1):
    shared = cuda.shared.array(128, float32)
    task = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    shared[cuda.threadIdx.x] = x0[task]
    cuda.syncthreads()
    while task < n0:
        x1[task] = fourfold(x0[task]) + shared[127 - cuda.threadIdx.x]
        task += cuda.gridDim.x * cuda.blockDim.x
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "_kernels", {})
    with configure(cache_directory=tmp_path / "cache"):
        yield


@needs_compiler
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_source_becomes_a_cubin_with_figures(architecture):
    kernel = build.build(SOURCE, architecture)
    assert kernel.code[:4] == b"\x7fELF"
    assert kernel.entry_name == "kernel"
    assert 8 <= kernel.registers <= 40
    assert kernel.spilled_bytes == 0
    assert kernel.usage.stack_bytes == 0
    assert kernel.shared_bytes == 128 * 4


@needs_compiler
def test_ptx_has_plain_names():
    ptx = build.build(SOURCE, "sm_90").ptx
    assert ".visible .entry kernel(" in ptx
    assert "_ZN" not in re.sub(r"_ZN\w*_cudapy_smem\w*", "", ptx)
    assert ".target sm_90" in ptx


@needs_compiler
def test_the_disk_cache_serves_a_process_without_a_compiler():
    kernel = build.build(SOURCE, "sm_90")
    program = (
        "import sys\n"
        "from numba_grad.compiler.cuda import build\n"
        "source = sys.stdin.read()\n"
        "kernel = build.build(source, 'sm_90')\n"
        "loaded = [m for m in ('numba', 'numba_cuda', 'cuda') if m in sys.modules]\n"
        "print(kernel.registers, len(kernel.code), build.statistics().compilations, loaded)\n"
    )
    with configure() as config:
        directory = config.cache_directory
    output = run_python(program, given=SOURCE, NUMBA_GRAD_CACHE_DIR=directory)
    assert output.split(maxsplit=3) == [
        str(kernel.registers),
        str(len(kernel.code)),
        "0",
        "[]\n",
    ]


def path():
    return ":".join(entry for entry in sys.path if entry)


@needs_compiler
def test_a_damaged_cache_entry_is_compiled_again(monkeypatch):
    build.build(SOURCE, "sm_90")
    entry = cache.path_of(build.KernelRequest(SOURCE, "sm_90").key)
    entry.write_bytes(entry.read_bytes()[:-10])
    monkeypatch.setattr(build, "_kernels", {})
    before = build.statistics().compilations
    assert build.build(SOURCE, "sm_90").code[:4] == b"\x7fELF"
    assert build.statistics().compilations == before + 1


@needs_compiler
def test_keys_tell_architectures_and_sources_apart():
    keys = {
        build.KernelRequest(source, architecture).key
        for source in (SOURCE, SOURCE + "\n")
        for architecture in ("sm_80", "sm_90")
    }
    assert len(keys) == 4


# Worker processes.


def sources_from(first, count):
    return [SOURCE.replace("2.0", f"{first + k}.0") for k in range(count)]


@needs_compiler
def test_worker_processes_fill_the_cache_and_stop(monkeypatch):
    monkeypatch.setattr(worker_processes, "KERNELS_PER_WORKER", 2)
    sources = sources_from(3, 4)
    keys = [build.KernelRequest(source, "sm_90").key for source in sources]
    with configure(threads=2):
        with worker_processes.workers_for([(source, "sm_90") for source in sources]) as are_working:
            assert are_working
            wait_until(lambda: all(map(cache.contains, keys)))
        before = build.statistics().compilations
        kernels = build.build_all(sources, "sm_90")
    assert build.statistics().compilations == before
    assert len({kernel.code for kernel in kernels}) == 4


def test_few_kernels_start_no_worker():
    tasks = [(source, "sm_90") for source in sources_from(3, 3)]
    with configure(threads=8), worker_processes.workers_for(tasks) as are_working:
        assert not are_working


@needs_compiler
@pytest.mark.parametrize("failure", ["worker dies", "no Python", "no cache"])
def test_without_workers_the_process_compiles_alone(failure, monkeypatch, tmp_path):
    monkeypatch.setattr(worker_processes, "KERNELS_PER_WORKER", 1)
    directory = tmp_path / "cache"
    monkeypatch.setattr(cache, "_warned", {directory})
    if failure == "worker dies":
        monkeypatch.setattr(worker_processes, "_PROGRAM", "raise SystemExit(1)")
    elif failure == "no Python":
        monkeypatch.setattr(sys, "executable", None)
    else:
        directory.write_text("in the way")
    monkeypatch.setattr(build, "_kernels", {})
    before = build.statistics().compilations
    with configure(threads=2, cache_directory=directory):
        build.build_all(sources_from(20, 2), "sm_90")
    assert build.statistics().compilations == before + 2


PROGRAM = """
from numba_grad.compiler.cuda import build, worker_processes
from numba_grad.config import config
config.threads = 2
worker_processes.KERNELS_PER_WORKER = 2
start = worker_processes._start
def announced():
    process = start()
    print(process.pid, flush=True)
    return process
worker_processes._start = announced
sources = [{source!r}.replace("2.0", f"{{k}}.0") for k in range({count})]
try:
    print(len(build.build_all(sources, "sm_90")))
except KeyboardInterrupt:
    print("interrupted", len(build.build_all([sources[0].replace("fmul_rn", "fadd_rn")], "sm_90")))
"""


def start_process(directory, count, *, from_stdin=False):
    program = PROGRAM.format(source=SOURCE, count=count)
    process = subprocess.Popen(
        [sys.executable] + ([] if from_stdin else ["-c", program]),
        env=os.environ | {"NUMBA_GRAD_CACHE_DIR": str(directory), "PYTHONPATH": path()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if from_stdin:
        process.stdin.write(program)
        process.stdin.close()
        process.stdin = None
    return process


def is_running(process_id):
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process_id}/stat")  # an orphan may stay there after its end
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.mark.thorough
@needs_compiler
def test_workers_do_not_run_the_users_program_again(tmp_path):
    worker, count = output_of(start_process(tmp_path / "cache", 4, from_stdin=True)).split()
    assert count == "4"
    assert not is_running(int(worker))


@pytest.mark.thorough
@needs_compiler
@pytest.mark.skipif(os.name != "posix", reason="POSIX signals")
@pytest.mark.parametrize("ends_by", ["an interrupt", "being killed"])
def test_no_worker_outlives_what_started_it(tmp_path, ends_by):
    directory = tmp_path / "cache"
    process = start_process(directory, 400)
    worker = int(process.stdout.readline())
    wait_until(lambda: directory.exists() and len(list(directory.iterdir())) > 1)
    if ends_by == "an interrupt":
        process.send_signal(signal.SIGINT)
        assert output_of(process).split() == ["interrupted", "1"]
        assert not is_running(worker)
    else:
        process.kill()
        process.communicate()
        wait_until(lambda: not is_running(worker))


LOG = """\
ptxas info    : 128 bytes gmem
ptxas info    : Function properties for __internal_lgamma_pos
ptxas         .     24 bytes stack frame, 24 bytes spill stores, 24 bytes spill loads
ptxas info    : Compiling entry function 'kernel' for 'sm_80'
ptxas info    : Function properties for kernel
ptxas         .     32 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 38 registers, used 0 barriers, 376 bytes cmem[0], 352 bytes cmem[2]
info    : Function properties for 'kernel':
info    : used 44 registers, used 0 barriers, 56 stack, 1280 bytes smem, 376 bytes cmem[0]
"""


def test_the_report_is_of_the_kernel_not_of_what_it_calls():
    assert link.usage_of(LOG, "sm_80") == link.Usage(44, 56, 20, 1280)
    assert link.usage_of(LOG, "sm_90").shared_bytes == 256


def test_the_emulator_gets_the_source_itself():
    kernel = build.build(SOURCE, build.SOURCE_ARCHITECTURE)
    assert kernel.code.decode() == SOURCE


@needs_compiler
def test_source_that_does_not_compile_is_shown():
    wrong = SOURCE.replace("fourfold(x0[task])", "undefined(x0[task])")
    with pytest.raises(KernelError, match=r"undefined[\s\S]*def kernel"):
        build.build(wrong, "sm_90")


def test_a_compiler_without_its_libraries_is_explained(monkeypatch):
    class NvvmSupportError(ImportError):
        pass

    def ptx(*arguments, **options):
        raise NvvmSupportError("libNVVM cannot be found")

    tools = front_end.Toolchain({"cuda": None}, lambda function: function, ptx, lambda *a: None)
    monkeypatch.setattr(front_end, "toolchain", lambda: tools)
    monkeypatch.setattr(front_end, "provider", lambda: front_end.PROVIDERS[-1])
    with pytest.raises(KernelError, match=r"libNVVM[\s\S]*pip install"):
        front_end.compile_to_ptx(SOURCE, "sm_90")


@needs_compiler
def test_an_unknown_architecture_is_refused_by_name():
    with pytest.raises(KernelError, match="hopper"):
        build.build(SOURCE, "hopper")


def test_an_older_nvjitlink_is_refused_with_both_versions_and_a_command():
    ptx = "// Cuda compilation tools, release 13.4, V13.4.92\n.version 9.4\n"
    with pytest.raises(KernelError, match=r"13\.4[\s\S]*13\.0[\s\S]*pip install") as caught:
        link._check_versions(ptx, (13, 0))
    assert "nvidia-nvjitlink==13.0.*" in str(caught.value)
    link._check_versions(ptx, (13, 4))


def test_an_unknown_compiler_is_refused(monkeypatch):
    monkeypatch.setenv(front_end.VARIABLE, "nvcc")
    with pytest.raises(KernelError, match="numba-cuda"):
        front_end.provider()


def test_a_missing_compiler_is_named_with_the_command(monkeypatch):
    monkeypatch.setattr(front_end, "_is_installed", lambda candidate: False)
    with pytest.raises(KernelError, match=r"pip install"):
        front_end.provider()


def test_a_missing_disassembler_is_explained(monkeypatch):
    monkeypatch.setattr(build, "_utility", lambda program: None)
    with pytest.raises(KernelError, match="pip install nvidia-cuda-nvdisasm"):
        _ = build.DeviceKernel("", "sm_90", b"", link.Usage(0, 0, 0, 0)).sass


@needs_compiler
def test_machine_code_as_text():
    if build._utility("nvdisasm") is None:
        pytest.skip("nvdisasm is not installed")
    assert "FFMA" in build.build(SOURCE.replace("+ shared", "* x0[0] + shared"), "sm_90").sass


@needs_compiler
def test_what_a_user_sees_of_a_kernel():
    kernel = LoweredKernel("k0 add", build.build(SOURCE, "sm_90"), count=1, nbytes=0, flops=0)
    assert kernel.source == SOURCE
    assert ".visible .entry kernel(" in kernel.ptx
    assert (kernel.spilled_bytes, kernel.shared_bytes) == (0, 512)
    assert kernel.occupancy(128).blocks == 16
    assert 8 <= kernel.registers <= 40
    with pytest.raises(KernelError, match="a kernel for GPUs has no asm"):
        _ = kernel.asm


# NVIDIA's occupancy calculator gives these.
@pytest.mark.parametrize(
    ("architecture", "registers", "shared", "threads", "expected"),
    [
        ("sm_90", 32, 0, 256, (2048, 8, "threads")),
        ("sm_90", 64, 0, 256, (1024, 4, "registers")),
        ("sm_90", 255, 0, 256, (256, 1, "registers")),
        ("sm_90", 32, 48 << 10, 256, (1024, 4, "shared memory")),
        ("sm_80", 32, 48 << 10, 256, (768, 3, "shared memory")),
        ("sm_80", 32, 0, 32, (1024, 32, "blocks")),
        ("sm_86", 40, 0, 128, (1536, 12, "threads")),
        ("sm_80", 40, 0, 96, (1536, 16, "registers")),
    ],
)
def test_occupancy(architecture, registers, shared, threads, expected):
    usage = link.Usage(registers, 0, 0, shared)
    found = build.occupancy(usage, threads, architecture)
    assert (found.threads, found.blocks, found.limited_by) == expected


@pytest.mark.thorough
@needs_compiler
def test_numba_cuda_compiles_where_numpy_has_no_row_stack():
    """With NumPy 2.5 it fails as it is released."""
    pytest.importorskip("numba_cuda", reason="numba-cuda is not installed")
    program = (
        "import sys, numpy as np\n"
        "if hasattr(np, 'row_stack'): del np.row_stack; np.__all__.remove('row_stack')\n"
        "asked = []\n"
        "own = np.__getattr__\n"
        "np.__getattr__ = lambda name: asked.append(name) or own(name)\n"
        "from numba_grad.compiler.cuda import front_end\n"
        "print('.entry kernel' in front_end.compile_to_ptx(sys.stdin.read(), 'sm_90'))\n"
        "print('row_stack' in vars(np), 'row_stack' in asked)\n"
    )
    environment = {front_end.VARIABLE: "numba-cuda"}
    output = run_python(program, options=("-W", "ignore"), given=SOURCE, **environment)
    assert output.split() == ["True", "False", "False"]


@needs_compiler
@pytest.mark.parametrize("name", ["numba-cuda", "numba-cuda-mlir"])
def test_each_compiler_that_is_installed(name, monkeypatch):
    (provider,) = [p for p in front_end.PROVIDERS if p.name == name]
    if not front_end._is_installed(provider):
        pytest.skip(f"{provider.distribution} is not installed")
    monkeypatch.setenv(front_end.VARIABLE, name)
    cubin, usage = link.link(front_end.compile_to_ptx(SOURCE, "sm_90"), "sm_90")
    assert cubin[:4] == b"\x7fELF"
    assert usage.spilled_bytes == 0
    # By C's convention: Numba's own would have a place for the result first.
    for source in (DECISION_SOURCE, CHOICE_SOURCE):
        ptx = front_end.compile_to_ptx(source, "sm_90")
        (declared,) = re.findall(r"\.extern \.func +cudaGraphSetConditional\s*\((.*?)\)", ptx, re.S)
        assert re.findall(r"\.b\d+", declared) == [".b64", ".b32"]
        link.link(ptx, "sm_90")


@needs_compiler
def test_sums_have_as_many_registers_as_let_blocks_run_beside_each_other():
    def energy(x):
        difference = x[:, None, :] - x[None, :, :]
        inverse = 1.0 / ((difference * difference).sum(-1) + 0.1)
        return (inverse**6 - inverse**3).sum()

    run = GraphRun(is_run=False)
    run.evaluate(ng.grad(energy), np.broadcast_to(np.zeros(()), (20_000, 3)))
    bounds = {front_end.most_registers(emitted.source) for emitted in run.emitted}
    assert bounds == {0, 64}
    ptx = front_end.compile_to_ptx(run.emitted[0].source, "sm_90")
    as_it_is = link.link(ptx, "sm_90")[1].registers
    assert as_it_is > 48
    assert link.link(ptx, "sm_90", as_it_is - 8)[1].registers <= as_it_is - 8
    # Neither where it has fewer, nor where it would have to do with far fewer.
    for bound in (as_it_is, 128, as_it_is // 2):
        assert link.link(ptx, "sm_90", bound)[1].registers == as_it_is


@needs_compiler
def test_other_threads_find_their_own_device_meanwhile(monkeypatch):
    dispatcher = pytest.importorskip("numba.cuda.dispatcher")
    monkeypatch.setattr(dispatcher, "get_current_device", lambda: "their own")
    found = []
    thread = threading.Thread(target=lambda: found.append(dispatcher.get_current_device()))
    with front_end._device_of((9, 0)):
        assert dispatcher.get_current_device().compute_capability == (9, 0)
        thread.start()
        thread.join()
    assert found == ["their own"] and dispatcher.get_current_device() == "their own"
