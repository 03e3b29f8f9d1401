"""What functions of `numba_grad.special` are given, as nodes of the dtype that they compute in."""

from typing import TYPE_CHECKING

from numba_grad.dtypes import COMPLEX64, COMPLEX128, FLOAT32, FLOAT64, finfo, is_inexact, promoted
from numba_grad.errors import DTypeError, explain
from numba_grad.frontend.inputs.arrays import ArrayLike, as_node, number_node, weak_class, wrap
from numba_grad.graph.node import OPS, Node
from numba_grad.ops import bessel, composed_special, special  # noqa: F401 - fills OPS
from numba_grad.ops.families import cast

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor


def apply(op_name: str, *values: ArrayLike) -> "Tensor":
    return wrap(OPS[op_name](*real_operands(op_name, values)))


def apply_analytic(op_name: str, *values: ArrayLike) -> "Tensor":
    return wrap(OPS[op_name](*operands(values)))


def operands_with_real_parameters(op_name: str, *values: ArrayLike) -> tuple[Node, ...]:
    """As `operands`: real parameters, and last an argument that may be complex."""
    nodes = operands(values)
    for name, value, node in zip(OPS[op_name].input_names, values[:-1], nodes, strict=False):
        if is_complex(value):
            raise only_real(op_name, {name: node.type})
    return nodes


def real_operands(name: str, values: tuple[ArrayLike, ...], instead: str = "") -> tuple[Node, ...]:
    """`values` as nodes of one dtype, float32 or float64."""
    if any(map(is_complex, values)):
        got = {f"argument {k}": as_node(value).type for k, value in enumerate(values)}
        raise only_real(name, got, instead)
    return operands(values)


def operands(values: tuple[ArrayLike, ...]) -> tuple[Node, ...]:
    """`values` as nodes of one dtype, of single precision where NumPy's promotion has it."""
    nodes = [as_node(value) if weak_class(value) is None else None for value in values]
    strong = [node.dtype for node in nodes if node is not None]
    common = promoted(*strong) if strong else FLOAT64
    is_single = is_inexact(common) and finfo(common).bits <= 32
    if any(map(is_complex, values)):
        dtype = COMPLEX64 if is_single else COMPLEX128
    else:
        dtype = FLOAT32 if is_single else FLOAT64
    return tuple(
        number_node(value, dtype) if node is None else cast(node, dtype)
        for value, node in zip(values, nodes, strict=True)
    )


def is_complex(value: ArrayLike) -> bool:
    weak = weak_class(value)
    return as_node(value).dtype.kind == "c" if weak is None else weak is complex


def only_real(name: str, got: dict[str, object], instead: str = "") -> DTypeError:
    return DTypeError(
        explain(
            name,
            "defined for real numbers only",
            got=got,
            expected="a real dtype",
            fix=instead or "x.real, if that is meant",
        )
    )
