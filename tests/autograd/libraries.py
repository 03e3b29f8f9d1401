"""This library and torch by the same names, and what scenarios written in these names come to."""

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import numba_grad as ng

Library = types.SimpleNamespace


def ours(device: str = "cpu") -> Library:
    def tensor(values: Any, requires_grad: bool = False, dtype: str = "float64") -> Any:
        return ng.tensor(values, dtype=dtype, device=device, requires_grad=requires_grad)

    def array(t: Any) -> np.ndarray:
        assert t.device == device
        return t.detach().cpu().numpy()

    return Library(
        name="numba_grad",
        tensor=tensor,
        autograd=ng.autograd,
        Function=ng.autograd.Function,
        once_differentiable=ng.autograd.function.once_differentiable,
        no_grad=ng.no_grad,
        enable_grad=ng.enable_grad,
        set_grad_enabled=ng.set_grad_enabled,
        is_grad_enabled=ng.is_grad_enabled,
        exp=np.exp,
        sqrt=np.sqrt,
        is_tensor=lambda value: isinstance(value, ng.Tensor),
        array=array,
    )


def theirs() -> Library:
    torch = pytest.importorskip("torch", reason="torch is not installed: not compared with it")

    def tensor(values: Any, requires_grad: bool = False, dtype: str = "float64") -> Any:
        return torch.tensor(values, dtype=getattr(torch, dtype), requires_grad=requires_grad)

    return Library(
        name="torch",
        tensor=tensor,
        autograd=torch.autograd,
        Function=torch.autograd.Function,
        once_differentiable=torch.autograd.function.once_differentiable,
        no_grad=torch.no_grad,
        enable_grad=torch.enable_grad,
        set_grad_enabled=torch.set_grad_enabled,
        is_grad_enabled=torch.is_grad_enabled,
        exp=torch.exp,
        sqrt=torch.sqrt,
        is_tensor=torch.is_tensor,
        array=lambda t: t.detach().numpy(),
    )


def plain(value: Any, library: Library) -> Any:
    """Results as nested lists of arrays and plain values."""
    if library.is_tensor(value):
        return library.array(value)
    if isinstance(value, dict):
        return {key: plain(v, library) for key, v in value.items()}
    if isinstance(value, tuple | list):
        return [plain(v, library) for v in value]
    return value


_BUILTINS = (NotImplementedError, RuntimeError, TypeError, ValueError, AttributeError)


def outcome(scenario: Callable[[Library], Any], library: Library) -> Any:
    """What a scenario returns, or the kind of error it raises."""
    try:
        return plain(scenario(library), library)
    except _BUILTINS as error:
        # NotImplementedError is a RuntimeError: the order of the list matters.
        return next(kind.__name__ for kind in _BUILTINS if isinstance(error, kind))


def assert_same(own: Any, reference: Any) -> None:
    if isinstance(reference, list):
        assert isinstance(own, list), (own, reference)
        assert len(own) == len(reference), (own, reference)
        for a, b in zip(own, reference, strict=True):
            assert_same(a, b)
    elif isinstance(reference, dict):
        assert own.keys() == reference.keys()
        for key in reference:
            assert_same(own[key], reference[key])
    elif isinstance(reference, np.ndarray):
        assert isinstance(own, np.ndarray), (own, reference)
        assert own.dtype == reference.dtype
        assert own.shape == reference.shape
        np.testing.assert_allclose(own, reference, rtol=1e-12, atol=1e-14)
    else:
        assert own == reference, (own, reference)
