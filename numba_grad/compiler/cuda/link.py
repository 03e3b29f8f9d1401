"""PTX to a cubin, by nvJitLink: no driver, no GPU, no process of its own.

A cubin runs on every driver of the same major version of CUDA; PTX only on those that know its
version. So the driver is always given a cubin.
"""

import re
from types import ModuleType

from numba_grad.compiler.cuda import front_end
from numba_grad.errors import KernelError, explain
from numba_grad.fresh_thread import imported
from numba_grad.immutable import immutable

# Of each block, from compute capability 8.0 on.
SYSTEM_SHARED_BYTES = 1 << 10


@immutable
class Usage:
    """What one kernel takes of a multiprocessor, as ptxas reports it.

    `stack_bytes` are local memory of a thread for arrays and calls, `spilled_bytes` what is stored
    and loaded there because registers did not suffice; `shared_bytes` are those of its arrays.
    """

    registers: int
    stack_bytes: int
    spilled_bytes: int
    shared_bytes: int


# With more registers than these times a bound, what it would have to spill costs too much.
MOST_OVER_BOUND = 1.5


def link(ptx: str, architecture: str, most_registers: int = 0) -> tuple[bytes, Usage]:
    """The cubin of the one kernel in `ptx`, for an architecture such as "sm_90"; with at most so
    many registers, where it takes not many more.

    Raises
    ------
    KernelError
        If nvJitLink is missing, older than the compiler that wrote the PTX, or refuses it.
    """
    nvjitlink = _nvjitlink()
    _check_versions(ptx, nvjitlink.version())
    cubin, usage = _linked(nvjitlink, ptx, architecture)
    # Not from the start: ptxas takes a bound as leave to use as many.
    if most_registers < usage.registers <= MOST_OVER_BOUND * most_registers:
        return _linked(nvjitlink, ptx, architecture, f"-maxrregcount={most_registers}")
    return cubin, usage


def _linked(
    nvjitlink: ModuleType, ptx: str, architecture: str, *further: str
) -> tuple[bytes, Usage]:
    options = [f"-arch={architecture}", "-verbose", "-Xptxas=-v", *further]
    text = ptx.encode()
    handle = nvjitlink.create(len(options), options)
    try:
        try:
            nvjitlink.add_data(handle, nvjitlink.InputType.PTX, text, len(text), "kernel.ptx")
            nvjitlink.complete(handle)
        except nvjitlink.nvJitLinkError as error:
            log = _text(nvjitlink.get_error_log, nvjitlink.get_error_log_size(handle), handle)
            raise KernelError(
                explain("link", f"nvJitLink: {error}", got={"log": log.strip()})
            ) from None
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
        log = _text(nvjitlink.get_info_log, nvjitlink.get_info_log_size(handle), handle)
    finally:
        nvjitlink.destroy(handle)
    return bytes(cubin), usage_of(log, architecture)


def _text(read, size: int, handle: int) -> str:
    buffer = bytearray(size)
    read(handle, buffer)
    return buffer.decode(errors="replace").rstrip("\0")


def usage_of(log: str, architecture: str) -> Usage:
    """The figures in nvJitLink's log of one kernel."""
    # The kernel's own: functions of libdevice that it calls may save registers of their caller.
    properties = re.search(r"Function properties for kernel\n.*", log)
    spills = re.findall(r"(\d+) bytes spill", properties.group()) if properties else []
    # The last line, by the linker, counts shared memory too: ptxas does not, where it is all
    # known only to the linker.
    last = log[log.rfind("Function properties for 'kernel'") :]
    found = re.search(r"used (\d+) registers.*?(\d+) stack, (\d+) bytes smem", last)
    if found is None:
        raise KernelError(explain("link", "nvJitLink's report has no figures", got={"log": log}))
    registers, stack, shared = (int(n) for n in found.groups())
    if shared and front_end.capability(architecture) >= (9, 0):
        shared -= SYSTEM_SHARED_BYTES  # which counts as the kernel's there
    return Usage(registers, stack, sum(int(n) for n in spills), shared)


def _check_versions(ptx: str, linker: tuple[int, int]) -> None:
    """nvJitLink reads PTX up to its own version, and says no more than "unsupported" of newer."""
    found = re.search(r"Cuda compilation tools, release (\d+)\.(\d+)", ptx)
    if found is None:
        return
    compiler = int(found.group(1)), int(found.group(2))
    if linker >= compiler:
        return
    toolkit, own = f"{compiler[0]}.{compiler[1]}", f"{linker[0]}.{linker[1]}"
    raise KernelError(
        explain(
            "cuda",
            "nvJitLink is older than the compiler (NVVM) whose PTX it has to read",
            got={"NVVM": toolkit, "nvJitLink": own},
            expected="nvJitLink at least as new as NVVM, both of one major version",
            fix=f'pip install "cuda-toolkit[nvvm]=={own}.*" "nvidia-nvjitlink=={own}.*"',
        )
    )


def _nvjitlink() -> ModuleType:
    try:
        nvjitlink = imported("cuda.bindings.nvjitlink")
        nvjitlink.version()  # loads the library
    except Exception as error:
        raise KernelError(
            explain(
                "cuda",
                f"nvJitLink, which makes GPU code of PTX, is not usable ({error})",
                fix='pip install "numba_grad[cuda]"',
            )
        ) from None
    return nvjitlink
