"""What the Python array API standard asks of a namespace beside its functions."""

import sys
from types import ModuleType

import numpy as np

from numba_grad.errors import explain
from numba_grad.frontend.functions.dtypes import isdtype
from numba_grad.frontend.inputs.devices import all_devices, device_name
from numba_grad.graph.types import DTYPES

__all__ = ["__array_api_version__", "__array_namespace_info__"]

__array_api_version__ = "2024.12"

# Each revision contains the ones before it.
_VERSIONS = ("2021.12", "2022.12", "2023.12", __array_api_version__)


def namespace(api_version: str | None = None) -> ModuleType:
    """The module with the functions of the standard's names: `x.__array_namespace__()`.

    Raises
    ------
    ValueError
        For a revision of the standard that this is not.
    """
    if api_version is not None and api_version not in _VERSIONS:
        raise ValueError(
            explain(
                "__array_namespace__",
                "not a supported revision of the array API standard",
                got={"api_version": repr(api_version)},
                expected=", ".join(_VERSIONS),
            )
        )
    return sys.modules[__name__.partition(".")[0]]


class NamespaceInfo:
    """What this namespace can do, in the standard's words."""

    __slots__ = ()

    def capabilities(self) -> dict[str, bool | int]:
        """Boolean indexing, shapes that depend on data, and how many axes there may be.

        Both kinds of shape are computed at once where they are asked for, so they are refused
        inside jit and vmap, where there are no values.
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Where tensors are made unless `device=` says otherwise."""
        return "cpu"

    def devices(self) -> list[str]:
        """All devices that can be used."""
        return all_devices()

    def default_dtypes(self, *, device: object = None) -> dict[str, np.dtype]:
        """The dtypes of what is made without `dtype=`, and of indices."""
        device_name(device)
        return {
            "real floating": np.dtype(np.float64),
            "complex floating": np.dtype(np.complex128),
            "integral": np.dtype(np.int64),
            "indexing": np.dtype(np.int64),
        }

    def dtypes(
        self, *, device: object = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, np.dtype]:
        """The standard's dtypes by name, all or those of a kind that `isdtype` knows.

        Tensors may also be of float16 and bfloat16, which the standard does not have.
        """
        device_name(device)
        return {
            dtype.name: dtype
            for dtype in DTYPES
            if dtype != np.float16 and (kind is None or isdtype(dtype, kind))
        }


def __array_namespace_info__() -> NamespaceInfo:
    """What this namespace can do: its dtypes, devices and defaults, as the array API asks."""
    return NamespaceInfo()
