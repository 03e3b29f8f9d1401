"""Just-in-time compiled reverse-mode automatic differentiation for NumPy code.

What is public is said in the modules that have it, by their `__all__`.
"""

# ruff: noqa: E402

import importlib
import types
import typing

from numpy import (
    bool,
    bool_,
    complex64,
    complex128,
    e,
    euler_gamma,
    float16,
    float32,
    float64,
    inf,
    int8,
    int16,
    int32,
    int64,
    nan,
    newaxis,
    pi,
    uint8,
    uint16,
    uint32,
    uint64,
)

from numba_grad.graph.collection import old_at_once as _old_at_once

# Nearly all modules. Else a tenth of the time would go to looking at what they make.
_old_at_once(lambda: importlib.import_module("numba_grad.frontend.compiled_functions.jit"))

from numba_grad import autograd, dtypes, errors
from numba_grad.autograd.modes import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from numba_grad.config import config, configure
from numba_grad.fresh_thread import imported as _imported
from numba_grad.frontend import namespaces
from numba_grad.frontend.compiled_functions.jit import *
from numba_grad.frontend.derivatives.custom_rules import *
from numba_grad.frontend.derivatives.gradients import *
from numba_grad.frontend.functions.along_axes import *
from numba_grad.frontend.functions.assignments import *
from numba_grad.frontend.functions.bits import *
from numba_grad.frontend.functions.calculus import *
from numba_grad.frontend.functions.choosing import *
from numba_grad.frontend.functions.comparisons import *
from numba_grad.frontend.functions.contractions import *
from numba_grad.frontend.functions.counting import *
from numba_grad.frontend.functions.creation import *
from numba_grad.frontend.functions.dtypes import *
from numba_grad.frontend.functions.einsum import *
from numba_grad.frontend.functions.elementwise import *
from numba_grad.frontend.functions.index_arrays import *
from numba_grad.frontend.functions.indexing import *
from numba_grad.frontend.functions.joining import *
from numba_grad.frontend.functions.joining_by_index import *
from numba_grad.frontend.functions.nans import *
from numba_grad.frontend.functions.numbers import *
from numba_grad.frontend.functions.order_statistics import *
from numba_grad.frontend.functions.padding import *
from numba_grad.frontend.functions.powers import *
from numba_grad.frontend.functions.ranges import *
from numba_grad.frontend.functions.reductions import *
from numba_grad.frontend.functions.samples import *
from numba_grad.frontend.functions.scans import *
from numba_grad.frontend.functions.sets import *
from numba_grad.frontend.functions.shapes import *
from numba_grad.frontend.functions.sorting import *
from numba_grad.frontend.functions.statistics import *
from numba_grad.frontend.inputs import devices
from numba_grad.frontend.loops_and_branches.associative_scans import *
from numba_grad.frontend.loops_and_branches.branches import *
from numba_grad.frontend.loops_and_branches.checkpoints import *
from numba_grad.frontend.loops_and_branches.loops import *
from numba_grad.frontend.loops_and_branches.while_loops import *
from numba_grad.frontend.polynomials import *
from numba_grad.frontend.tensors.array_api import *
from numba_grad.frontend.tensors.interchange import *
from numba_grad.frontend.tensors.tensor import *
from numba_grad.frontend.vmap import *
from numba_grad.runtime.threads import get_num_threads, set_num_threads

__version__ = "0.1.0"


def _cuda_devices() -> devices.DeviceKind:
    _imported("numba_grad.frontend.cuda_devices")  # whole, whatever signal comes meanwhile
    from numba_grad.frontend import cuda_devices

    return cuda_devices


devices.register_kind("cuda", _cuda_devices)

if typing.TYPE_CHECKING:
    from ml_dtypes import bfloat16 as bfloat16

    from numba_grad import cuda, emath, fft, linalg, random, signal, special, testing
    from numba_grad import numpy as numpy
    from numba_grad.frontend.own_functions.callbacks import ShapeDtypeStruct, callback
    from numba_grad.frontend.own_functions.custom_op import custom_op
    from numba_grad.frontend.own_functions.differentiable import differentiable

# What takes a while to import and few programs use, by the module of `frontend/` that has it.
_SELDOM = {
    "ShapeDtypeStruct": "own_functions.callbacks",
    "callback": "own_functions.callbacks",
    "custom_op": "own_functions.custom_op",
    "differentiable": "own_functions.differentiable",
}


def __getattr__(name: str) -> typing.Any:
    if name in namespaces.NAMESPACES or name in ("numpy", "testing"):
        return importlib.import_module(f"{__name__}.{name}")
    if name in _SELDOM:
        return getattr(importlib.import_module(f"{__name__}.frontend.{_SELDOM[name]}"), name)
    if name == "bfloat16":
        # Not in `__all__`: `import *` is not to need the package that has it. Nor is `numpy`, which
        # would take the place of NumPy.
        return dtypes.bfloat16_class()
    absent = importlib.import_module(f"{__name__}.frontend.tensors.absent_attributes")
    raise absent.error_of_module(__name__, name)


def __dir__() -> list[str]:
    return sorted((*__all__, "__doc__", "__version__", "bfloat16", "numpy"))


__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    *("__array_api_version__", "__array_namespace_info__", "autograd", "errors", "testing"),
    *(name for name in namespaces.NAMESPACES if name != "mpi"),  # which needs mpi4py
    *_SELDOM,
    *(
        name
        for name, value in globals().items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    ),
]
