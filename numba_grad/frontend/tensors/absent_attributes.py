"""What others have and we do not: attributes of arrays, and functions. What to type instead."""

import importlib
from collections.abc import Container
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from numba_grad.errors import explain
from numba_grad.frontend.tensors.callers import own_function_in_place_of_caller

# In terms of a tensor x.
INSTEAD = {
    # NumPy's, of memory that a recorded array does not have
    **{
        name: f"x.detach().numpy().{name}"
        for name in (
            "base",
            "ctypes",
            "byteswap",
            "getfield",
            "setflags",
        )
    },
    **{name: f"x.detach().numpy().{name}(...)" for name in ("dump", "dumps", "tofile")},
    "resize": "np.resize(x, shape), or x[:n], a view",
    "view": "x.reshape(shape) for PyTorch's view; x[...] for NumPy's, which shares elements; "
    "x.astype(dtype) for values of another dtype",
    # PyTorch's
    "data": "with ng.no_grad(): x -= step, or x[...] = y, to change it; x.detach() for its values "
    "without history; x.detach().numpy().data for NumPy's",
    "H": "x.mT.conj()",
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
    "masked_select": "x[mask]",
    "mm": "x @ y",
    "mul": "x * y",
    "mul_": "x *= y",
    "mv": "x @ y",
    "narrow": "x[start : start + length]",
    "ndimension": "x.ndim",
    "neg": "-x",
    "new_zeros": "ng.zeros(shape, dtype=x.dtype)",
    "norm": "np.linalg.norm(x)",
    "numel": "x.size",
    "permute": "x.transpose(axes)",
    "pow": "x**y",
    "rsqrt": "1 / np.sqrt(x)",
    "scatter_": "np.put_along_axis(x, indices, values, axis)",
    "scatter_add_": "np.add.at(x, indices, values)",
    "squeeze_": "x = x.squeeze()",
    "stride": "x.strides, in bytes",
    "sub": "x - y",
    "sub_": "x -= y",
    "t": "x.T",
    "topk": "ng.top_k(x, k)",
    "type": "x.astype(dtype)",
    "type_as": "x.astype(y.dtype)",
    "unbind": "list(x)",
    "unsqueeze": "x[:, None], or np.expand_dims(x, axis)",
    "unsqueeze_": "x = x[:, None], or np.expand_dims(x, axis)",
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

# Names of functions and modules that other libraries have.
FUNCTIONS_INSTEAD = {
    # PyTorch's
    "bmm": "ng.matmul(x, y)",
    "cat": "ng.concatenate(arrays, axis)",
    "clamp": "ng.clip(x, lowest, highest)",
    "from_numpy": "ng.tensor(array, copy=False)",
    "func": "ng.vmap, ng.grad, ng.vjp, ng.jvp, ng.jacobian and ng.hessian",
    "inference_mode": "ng.no_grad()",
    "manual_seed": "key = ng.random.key(seed), and ng.random.normal(key, shape)",
    "mm": "ng.matmul(x, y)",
    "nn": "functions of arrays and dicts of them; examples/digits.py is a network",
    "optim": "scipy.optimize.minimize(ng.jit(ng.value_and_grad(f)), x, jac=True), or, with "
    "ng.no_grad(), x -= rate * x.grad",
    "rand": "ng.random.uniform(key, shape), with key = ng.random.key(seed)",
    "randn": "ng.random.normal(key, shape), with key = ng.random.key(seed)",
    "unsqueeze": "ng.expand_dims(x, axis)",
    # JAX's
    "lax": "ng.scan, ng.fori_loop, ng.while_loop, ng.cond, ng.switch and ng.map",
    "tree_map": "optree.tree_map",
    # HIPS autograd's
    "deriv": "ng.jvp(f, (x,), (1.0,))",
    "elementwise_grad": "ng.grad(lambda x: np.sum(f(x)))",
    "grad_and_aux": "ng.grad(f, has_aux=True)",
    "hessian_vector_product": "ng.hvp(f, (x,), (v,))",
    "make_jvp": "ng.jvp(f, (x,), (v,))",
    "make_vjp": "ng.vjp(f, x)",
    "primitive": "ng.custom_vjp, ng.custom_op, or ng.callback for functions of NumPy and SciPy",
}


class _Absent:
    """An attribute that is not there, and says so: `hasattr` is False."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, tensor: object, kind: type) -> NoReturn:
        name = self._name
        problem = f"has no attribute {name!r}"
        fix = INSTEAD.get(name) or _function_of_that_name(name)
        if tensor is None or not fix:
            raise AttributeError(
                f"{kind.__name__} {problem}", name=name, obj=kind if tensor is None else tensor
            )
        ours = own_function_in_place_of_caller()
        raise AttributeError(explain("Tensor", problem, fix=f"{ours}; {fix}" if ours else fix))

    def __set__(self, tensor: object, value: object) -> NoReturn:
        self.__get__(tensor, type(tensor))


_functions: list[Container[object]] = []  # of NumPy, that have counterparts


def register(functions: Container[object]) -> None:
    """Called with NumPy's functions that take tensors, which are none of their attributes."""
    _functions.append(functions)


def instead_of_function(name: str) -> str:
    """What to type in place of a function of PyTorch; nothing, if that is not known."""
    known = FUNCTIONS_INSTEAD.get(name) or INSTEAD.get(name)
    if known or name.startswith("__"):
        return known or ""
    return _function_of_that_name(name).replace("(x)", "(...)")


def _function_of_that_name(name: str) -> str:
    if name.endswith("_"):  # PyTorch's, in place
        function = _function_of_that_name(name[:-1])
        return f"x[...] = {function}" if function else ""
    theirs = getattr(np, name, None)
    if callable(theirs) and any(theirs in functions for functions in _functions):
        return f"np.{name}(x)"
    return f"np.linalg.{name}(x)" if name in np.linalg.__all__ else ""


# No `__getattr__` of Tensor: with one, Python takes five times as long to read any attribute, also
# those that are there. That was a tenth of the time of recording.
# NumPy's that are there by now: to ask for others would import modules.
_NAMES = {*INSTEAD, *np.linalg.__all__} | {
    name
    for name, x in vars(np).items()
    if callable(x) and not isinstance(x, type) and not name.startswith("_")
}
_NAMES |= {f"{name}_" for name in _NAMES if isinstance(getattr(np, name, None), np.ufunc)}


if TYPE_CHECKING:  # for type checkers, what is not there stays a mistake

    class AbsentAttributes:
        """Abstract: the part of Tensor that says what to type in place of what it does not have."""

        __slots__ = ()

else:

    def _names_of(self: object) -> list[str]:
        return [x for x in object.__dir__(self) if x not in _NAMES or hasattr(type(self), x)]

    AbsentAttributes = type(
        "AbsentAttributes",
        (),
        {"__slots__": (), "__module__": __name__, "__dir__": _names_of}
        | {name: _Absent(name) for name in _NAMES},
    )


def error_of_module(module: str, name: str) -> AttributeError:
    """What `numba_grad`, or a namespace of it, raises that is asked for a name it does not have."""
    _, _, own = module.partition(".")
    theirs = f"scipy.{own}" if own else "numpy"
    problem = f"module {module!r} has no attribute {name!r}"
    try:
        is_theirs = not name.startswith("_") and hasattr(importlib.import_module(theirs), name)
    except ImportError:
        is_theirs = False
    if not own and name in FUNCTIONS_INSTEAD:
        fix = FUNCTIONS_INSTEAD[name]
        return AttributeError(explain(module, f"has no attribute {name!r}", fix=fix))
    if not is_theirs:
        return AttributeError(problem, name=name)
    if own:
        fix = f"{theirs}.{name} of x.detach().numpy(), which has no gradient; ng.callback, or "
        fix += "ng.custom_op, with a derivative of yours"
    else:
        fix = f"np.{name}; numba_grad.numpy has every name of NumPy"
    return AttributeError(explain(module, f"has no attribute {name!r}; {theirs} has it", fix=fix))
