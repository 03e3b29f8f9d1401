"""Which kernels for GPUs stand for which of the CPU's: said beside each, by `stands_for`."""

from collections.abc import Callable, Mapping

from numba_grad.compiler.library_kernels.registry import LibraryKernel
from numba_grad.immutable import immutable


@immutable
class Options:
    """What kernels are chosen by, besides sizes and dtypes."""

    # Whether those of the host may be used, if they are installed; which is found when one is
    # wanted, as it takes some 0.3 s.
    libraries: bool = False
    tf32: bool = False
    deterministic: bool = True


DEFAULT = Options()


@immutable
class StandIn:
    """A kernel for GPUs, of the parameters and results of one of the CPU's."""

    kernel: LibraryKernel
    takes: Callable[..., bool]  # of the positional parameters: whether it does such sizes
    given: Callable[[Options], Mapping[str, object]]  # further parameters


STAND_INS: dict[LibraryKernel, list[StandIn]] = {}  # by the CPU's
BY_CUPY: dict[LibraryKernel, LibraryKernel] = {}  # the last resort


def stands_for(
    of_cpu: LibraryKernel,
    *,
    takes: Callable[..., bool] = lambda *sizes: True,
    given: Callable[[Options], Mapping[str, object]] = lambda options: {},
) -> Callable[[LibraryKernel], LibraryKernel]:
    """A decorator for a kernel in place of the CPU's.

    Parameters
    ----------
    takes : of the positional parameters, whether it does such sizes
    given : parameters that the CPU's has not, of the options
    """

    def register(kernel: LibraryKernel) -> LibraryKernel:
        STAND_INS.setdefault(of_cpu, []).append(StandIn(kernel, takes, given))
        return kernel

    return register


def by_cupy(of_cpu: LibraryKernel) -> Callable[[LibraryKernel], LibraryKernel]:
    """A decorator for a call of CuPy in place of a kernel, where there is nothing else."""

    def register(kernel: LibraryKernel) -> LibraryKernel:
        BY_CUPY[of_cpu] = kernel
        return kernel

    return register
