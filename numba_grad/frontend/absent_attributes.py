"""What others have and we do not: attributes of arrays, and functions. What to type instead."""

import importlib

import numpy as np

from numba_grad.errors import explain
from numba_grad.frontend.numpy_functions import of_function, of_ufunc

# In terms of a tensor x.
INSTEAD = {
    # NumPy's, of memory that a recorded array does not have
    **{
        name: f"x.detach().numpy().{name}"
        for name in (
            "base",
            "ctypes",
            "data",
            "flags",
            "strides",
            "byteswap",
            "getfield",
            "setflags",
        )
    },
    **{name: f"x.detach().numpy().{name}(...)" for name in ("dump", "dumps", "tobytes", "tofile")},
    "resize": "np.resize(x, shape), or x[:n], a view",
    "view": "x.reshape(shape) for PyTorch's view; x[...] for NumPy's, which shares elements; "
    "x.astype(dtype) for values of another dtype",
    # PyTorch's
    "add_": "x += y",
    "addmm": "x + y @ z",
    "bfloat16": "x.astype(ng.bfloat16)",
    "bmm": "x @ y",
    "bool": "x.astype(bool)",
    "chunk": "np.array_split(x, count)",
    "clamp": "np.clip(x, lowest, highest)",
    "clamp_": "x[...] = np.clip(x, lowest, highest)",
    "contiguous": "x itself: order in memory is no part of what a tensor is",
    "copy_": "x[...] = y",
    "data_ptr": "x.detach().numpy().ctypes.data",
    "detach_": "x = x.detach()",
    "dim": "x.ndim",
    "div": "x / y",
    "div_": "x /= y",
    "double": "x.astype(float)",
    "eq": "x == y",
    "expand": "np.broadcast_to(x, shape)",
    "expand_as": "np.broadcast_to(x, y.shape)",
    "fill_": "x.fill(value)",
    "float": "x.astype('float32')",
    "gather": "np.take_along_axis(x, indices, axis)",
    "half": "x.astype('float16')",
    "index_add_": "np.add.at(x, indices, values)",
    "index_select": "np.take(x, indices, axis)",
    "int": "x.astype('int32')",
    "long": "x.astype('int64')",
    "masked_fill": "np.where(mask, value, x)",
    "masked_fill_": "x[mask] = value",
    "mm": "x @ y",
    "mul": "x * y",
    "mul_": "x *= y",
    "mv": "x @ y",
    "neg": "-x",
    "new_zeros": "ng.zeros(shape, dtype=x.dtype)",
    "norm": "np.linalg.norm(x)",
    "numel": "x.size",
    "permute": "x.transpose(axes)",
    "pow": "x**y",
    "rsqrt": "1 / np.sqrt(x)",
    "scatter_add_": "np.add.at(x, indices, values)",
    "sub": "x - y",
    "sub_": "x -= y",
    "t": "x.T",
    "topk": "ng.top_k(x, k)",
    "type": "x.astype(dtype)",
    "unsqueeze": "x[:, None], or np.expand_dims(x, axis)",
    "view_as": "x.reshape(y.shape)",
    "zero_": "x.fill(0)",
    **{
        name: f"ng.{name}(x)"
        for name in ("log_softmax", "logsumexp", "relu", "sigmoid", "softmax", "softplus")
    },
    # pandas' and JAX's
    "at": "x[index] = value, and x[index] += value: in place, with gradients",
    "values": "x itself",
}


def error_for(tensor: object, name: str) -> AttributeError:
    """What `tensor` raises when it is asked for an attribute it does not have."""
    own = getattr(type(tensor), name, None)
    if isinstance(own, property):
        try:
            own.__get__(tensor)
        except AttributeError as error:  # which says itself why it is not there
            return error
    problem = f"has no attribute {name!r}"
    if name.startswith("_"):  # which protocols ask for; nobody reads it
        return AttributeError(f"Tensor {problem}", name=name, obj=tensor)
    fix = INSTEAD.get(name) or _function_of_that_name(name)
    message = explain("Tensor", problem, fix=fix)
    return AttributeError(message) if fix else AttributeError(message, name=name, obj=tensor)


def _function_of_that_name(name: str) -> str:
    theirs = getattr(np, name, None)
    if callable(theirs) and (theirs in of_ufunc or theirs in of_function):
        return f"np.{name}(x)"
    return f"np.linalg.{name}(x)" if name in np.linalg.__all__ else ""


def error_of_module(module: str, name: str) -> AttributeError:
    """What `numba_grad`, or a namespace of it, raises that is asked for a name it does not have."""
    _, _, own = module.partition(".")
    theirs = f"scipy.{own}" if own else "numpy"
    problem = f"module {module!r} has no attribute {name!r}"
    try:
        is_theirs = not name.startswith("_") and hasattr(importlib.import_module(theirs), name)
    except ImportError:
        is_theirs = False
    if not is_theirs:
        return AttributeError(problem, name=name)
    if own:
        fix = f"{theirs}.{name} of x.detach().numpy(), which has no gradient; ng.callback, or "
        fix += "ng.custom_op, with a derivative of yours"
    else:
        fix = f"np.{name}; numba_grad.numpy has every name of NumPy"
    return AttributeError(explain(module, f"has no attribute {name!r}; {theirs} has it", fix=fix))
