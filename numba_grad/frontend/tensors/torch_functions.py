"""PyTorch's functions of our tensors: what to type in place of those that take its own alone."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numba_grad.errors import explain
from numba_grad.frontend.tensors.absent_attributes import instead_of_function


def by_torch(
    function: Callable[..., Any],
    types: Sequence[type],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """What PyTorch makes of the call; called by it, with its names of the arguments.

    Raises
    ------
    TypeError
        Where it takes none of our tensors, as most functions: a size may be one.
    """
    torch: Any = sys.modules["torch"]
    try:
        with torch._C.DisableTorchFunctionSubclass():  # as `torch.Tensor.__torch_function__`
            return function(*args, **(kwargs or {}))
    except (TypeError, AssertionError) as error:  # as of torch.autograd.grad
        name = getattr(function, "__name__", str(function))
        raise TypeError(
            explain(
                f"torch.{name}",
                "PyTorch's functions take PyTorch's tensors",
                fix=f"{instead_of_function(name) or 'a function of NumPy or ng'}; "
                "or torch.from_dlpack(x.detach()), whose results have no gradient here",
            )
        ) from error
