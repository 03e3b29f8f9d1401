"""The code of one function with its types: blocks of statements, and what they say of names."""

# Numba's annotations are few, and wrong where they come from class attributes set at run time.
# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

from collections.abc import Sequence
from typing import Any

from numba.core import ir, types
from numba.core.analysis import compute_cfg_from_blocks

# Expressions that write nothing.
_HARMLESS = {
    *("binop", "unary", "getattr", "getitem", "static_getitem", "typed_getitem", "cast"),
    *("build_tuple", "build_list", "exhaust_iter"),
}


class TypedCode:
    """Of a function, for arguments of some types."""

    def __init__(self, function: Any, state: Any) -> None:
        self.function = function
        self.location: Any = state.func_ir.loc
        self.return_type: Any = state.return_type
        self.blocks: dict[int, Any] = with_whole_headers(state.func_ir.blocks)
        self.typemap: dict[str, Any] = state.typemap
        self._forget_undefined()

    def _forget_undefined(self) -> None:
        """Leave out variables without a value: since Python 3.12 a comprehension keeps what the
        function has under the names of its own, and gives it back."""

        def is_undefined(variable: Any) -> bool:
            name = getattr(variable, "name", "")
            return isinstance(self.typemap.get(name), types.UndefVar)

        for block in self.blocks.values():
            for phi in block.find_exprs("phi"):
                phi.incoming_values[:] = [
                    ir.UNDEFINED if is_undefined(x) else x for x in phi.incoming_values
                ]
            block.body = [x for x in block.body if not is_undefined(getattr(x, "target", None))]

    def type_of(self, variable: Any) -> Any:
        return types.unliteral(self.typemap[variable.name])

    def location_of(self, name: str) -> Any:
        for block in self.blocks.values():
            for assignment in block.find_insts(ir.Assign):
                if assignment.target.name == name:
                    return assignment.loc
        return self.location

    def is_numpy(self, function: Any) -> bool:
        kind = self.typemap[function.name]
        key = getattr(kind, "typing_key", None)
        return (getattr(key, "__module__", None) or "").split(".")[0] in (
            "numpy",
            "builtins",
            "math",
        )

    def makes_array(self, function: ir.Var) -> bool:
        """Whether a called function of NumPy's, or method, has a new array as its result."""
        is_method = isinstance(self.typemap[function.name], types.BoundFunction)
        return is_method or self.is_numpy(function)

    def is_same_type(self, a: Any, b: Any) -> bool:
        """Of arrays, dtype and number of axes."""
        first, second = self.type_of(a), self.type_of(b)
        if isinstance(first, types.Array) and isinstance(second, types.Array):
            return (first.dtype, first.ndim) == (second.dtype, second.ndim)
        return first == second

    def is_used_at_once(self, target: Any, around: Sequence[Any]) -> bool:
        """Whether a value is used once, in its block, before anything is written;
        `around` is that block."""
        if target is None or not target.name.startswith("$"):
            return False
        uses = 0
        for block in self.blocks.values():
            for statement in block.body:
                names = [v.name for v in statement.list_vars()]
                is_own = isinstance(statement, ir.Assign) and statement.target.name == target.name
                uses += target.name in names and not is_own
        if uses != 1:
            return False
        following = iter(around)
        for statement in following:
            if isinstance(statement, ir.Assign) and statement.target.name == target.name:
                break
        for statement in following:
            if any(v.name == target.name for v in statement.list_vars()):
                return not (
                    isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Var)
                ) and not isinstance(statement, ir.Return)
            if not isinstance(statement, ir.Assign):
                return False
            value = statement.value
            if not isinstance(value, ir.Expr) or value.op in _HARMLESS:
                continue
            if value.op != "call" or not self.is_numpy(value.func):
                return False
        return False


def with_whole_headers(blocks: dict[int, Any]) -> dict[int, Any]:
    """With the block that asks an iterator joined to the one before it, if there is but one.

    Python's compiler writes a jump of more than 255 instructions out of a `for` loop as two, and
    Numba then begins a block between them: a header of the loop that does nothing.
    """
    graph = compute_cfg_from_blocks(blocks)
    for label in list(blocks):
        values = [a.value for a in blocks[label].find_insts(ir.Assign)]
        before = [block for block, _ in graph.predecessors(label)]
        if len(before) != 1 or not any(is_expression(value, "iternext") for value in values):
            continue
        blocks[before[0]].body[-1:] = blocks.pop(label).body
        for block in blocks.values():
            for phi in block.find_exprs("phi"):
                others = [before[0] if b == label else b for b in phi.incoming_blocks]
                phi.incoming_blocks[:] = others
    return blocks


def is_expression(value: Any, operation: str) -> bool:
    return isinstance(value, ir.Expr) and value.op == operation
