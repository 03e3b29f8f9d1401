"""Addresses of SciPy's special functions, which object code names `scipy_special_...`, those of
complex numbers `scipy_special_complex_...`.

`scipy.special.cython_special` exports them for use from C: as capsules, whose names are signatures.
SciPy is imported when a kernel that calls one of them is loaded, and not before.
"""

import functools
import re
from typing import Any

from numba_grad.errors import KernelError, explain
from numba_grad.fresh_thread import imported
from numba_grad.runtime.library import capsule_address, capsule_name

# In the symbol table of an object file, with an underscore before it on some platforms.
_SYMBOL = re.compile(rb"scipy_special_(\w+)")

_ONE = "double (double, int __pyx_skip_dispatch)"
_TWO = "double (double, double, int __pyx_skip_dispatch)"
_THREE = "double (double, double, double, int __pyx_skip_dispatch)"
# Of complex numbers. On the platforms of ours with a 64-bit System V or ARM interface these travel
# as two doubles, in registers of their own, and so they are declared in kernels.
_COMPLEX = "__pyx_t_double_complex"
_ONE_COMPLEX = f"{_COMPLEX} ({_COMPLEX}, int __pyx_skip_dispatch)"
_SIGNATURES = {
    **dict.fromkeys(("rgamma", "zetac", "exp1", "expi"), _ONE),
    **dict.fromkeys(("i0", "i0e", "i1", "i1e", "j0", "j1", "y0", "y1"), _ONE),
    **dict.fromkeys(("k0", "k0e", "k1", "k1e"), _ONE),
    **dict.fromkeys(("beta", "betaln", "gammainc", "gammaincc"), _TWO),
    **dict.fromkeys(("jv", "iv", "ive", "kv", "kve", "yv"), _TWO),
    **dict.fromkeys(("betainc", "hyp1f1"), _THREE),
    "sici": "void (double, double *, double *)",
    **dict.fromkeys(
        [
            f"complex_{name}"
            for name in (
                *("erf", "erfc", "erfcx", "ndtr", "log_ndtr", "exp1", "expi"),
                *("gamma", "rgamma", "loggamma", "psi"),
            )
        ],
        _ONE_COMPLEX,
    ),
    "complex_jv": f"{_COMPLEX} (double, {_COMPLEX}, int __pyx_skip_dispatch)",
    "complex_hyp1f1": f"{_COMPLEX} (double, double, {_COMPLEX}, int __pyx_skip_dispatch)",
    "complex_sici": f"void ({_COMPLEX}, {_COMPLEX} *, {_COMPLEX} *)",
}


def are_needed_by(code: bytes) -> bool:
    """Whether an object file refers to any of SciPy's functions."""
    return _SYMBOL.search(code) is not None


def needed_by(code: bytes) -> dict[str, int]:
    """Symbol -> address of SciPy's functions that an object file refers to."""
    names = {name.decode() for name in _SYMBOL.findall(code)}
    return {f"scipy_special_{name}": _address(name) for name in sorted(names)}


@functools.cache
def _address(name: str) -> int:
    capsules = _capsules()
    # Functions of several types are exported once for each, under numbered names.
    own_name = name.removeprefix("complex_")
    for number in ("", "__pyx_fuse_0", "__pyx_fuse_1"):
        capsule = capsules.get(number + own_name)
        if capsule is not None and capsule_name(capsule) == _SIGNATURES[name]:
            return capsule_address(capsule)
    import scipy

    raise KernelError(
        explain(
            f"scipy.special.{own_name}",
            "this version of SciPy does not export it for kernels as expected",
            got={"scipy": scipy.__version__},
            expected=_SIGNATURES[name],
            fix="pip install 'scipy>=1.17,<2'",
        )
    )


@functools.cache
def _capsules() -> dict[str, Any]:
    return imported("scipy.special.cython_special").__pyx_capi__
