"""Calls: of the user's other functions, of Python's and of NumPy's."""

# Numba's annotations are few, and wrong where they come from class attributes set at run time.
# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

import inspect
import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
from numba import typeof
from numba.core import types
from numba.core.dispatcher import Dispatcher
from numba.core.inline_closurecall import length_of_iterator
from numba.core.unsafe.eh import mark_try_block
from numba.np.numpy_support import from_dtype
from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc
from numba.np.unsafe.ndarray import empty_inferred

from numba_grad.compiler.numba_functions import kernel_names, numpy_in_loops
from numba_grad.compiler.numba_functions.array_expressions.expressions import (
    Expression,
    Listed,
    Method,
    is_complex,
)
from numba_grad.compiler.numba_functions.named_operations import FUNCTIONS, is_of_numpy
from numba_grad.compiler.numba_functions.numba_ir.lists import Lists
from numba_grad.compiler.numba_functions.numba_ir.meanings import (
    Elements,
    Known,
    Meaning,
    NumberList,
)
from numba_grad.compiler.numba_functions.numba_ir.type_inference import dtype_name
from numba_grad.compiler.numba_functions.regions import Memory, Scalar, Value, View
from numba_grad.compiler.numba_functions.scalar_operations import OPERATIONS, dtype_of
from numba_grad.compiler.numba_functions.ufunc_signatures import core_axes


class Calls(Lists):
    """What users have written, and `numpy_in_loops`, is translated in place."""

    def _on_call(self, target: Any, expression: Any) -> Meaning:
        function = self.meaning(expression.func)
        given = [self.meaning(a) for a in expression.args]
        if expression.vararg is not None:
            given += self.meaning(expression.vararg)
        keywords = {name: self.meaning(a) for name, a in expression.kws}
        is_method = isinstance(function, Method)
        if is_method and self._is_list(function.array):
            return self._called_of_list(function.name, function.array, given)
        called = function.value if isinstance(function, Known) else function
        found = self._gone_through(called, given, keywords)
        if found is not None:
            return found
        arguments = list(map(self._argument_of_call, given))
        found = self._in_loops(called, target, arguments, keywords)
        if found is not None:
            return found
        if is_method:
            return self.array("call", target, (function, arguments, keywords))
        if not isinstance(function, Known):
            raise self.refused("a call of this")
        if inspect.isfunction(called) and called in kernel_names.CALLS:
            return kernel_names.CALLS[called](self, arguments)
        plain = self._written_in_python(called, expression)
        if plain is not None:
            return self._inlined(plain, expression, arguments, keywords)
        if called is mark_try_block:
            raise self.refused("`try`", instead="a test for what would fail; or ")
        if isinstance(getattr(called, "__self__", None), np.random.RandomState | Random):
            what = f"a random number, by `{called.__name__}`,"
            raise self.refused(what, instead="random numbers as an argument; or ")
        if called is type and isinstance(arguments[0], Scalar | bool | int | float):
            return Known(np.dtype(dtype_of(arguments[0])).type)
        if isinstance(called, DUFunc):
            return self._of_elements(called, target, arguments)
        if isinstance(called, GUFunc):
            return self._of_core(called, expression, arguments)
        if isinstance(called, type):
            found = self._made(called, arguments, keywords)
            if found is not None:
                return found
        if called in (sum, min, max) and len(arguments) == 1:
            (parts,) = arguments
            parts = parts.items if isinstance(parts, Listed) else parts
            if isinstance(parts, tuple) and called is sum:
                return self._sum_of_parts(target, parts)
            arguments = list(parts) if isinstance(parts, tuple) else arguments
        if called is empty_inferred:
            # What Numba makes of a comprehension in `np.array`, and of an array that is filled by
            # `append` in one loop.
            return self.array("call", target, (Known(np.empty), arguments, {}))
        return self._called_with(called, target, arguments, keywords)

    def _called_with(
        self, called: Any, target: Any, arguments: list[Meaning], keywords: dict[str, Meaning]
    ) -> Meaning:
        """Of numbers, or an array expression."""
        if called is len and isinstance(arguments[0], tuple):
            return len(arguments[0])
        if isinstance(arguments[0] if arguments else None, Memory | View | Expression):
            if called is len:
                return self.shape(arguments[0])[0]
            if called in (np.shape, np.size) and len(arguments) == 1:
                return self._attribute_of_array(target, called.__name__, arguments[0])
        is_scalar = all(isinstance(a, Scalar | bool | int | float) for a in arguments)
        if is_scalar and not keywords:
            found = self._scalar_call(called, target, arguments)
            if found is not None:
                return found
        if not is_scalar or is_of_numpy(called):
            return self.array("call", target, (Known(called), arguments, keywords))
        raise self.refused(f"a call of `{getattr(called, '__name__', str(called))}`")

    def _made(
        self, kind: type, arguments: list[Meaning], keywords: dict[str, Meaning]
    ) -> Meaning | None:
        """What is made of a type's arguments, of types that are neither numbers nor arrays."""
        if issubclass(kind, BaseException):
            return Known(kind)  # What is raised has it, too.
        if hasattr(kind, "_fields"):
            return inspect.signature(kind).bind(*arguments, **keywords).args  # of a named tuple
        if kind is tuple and arguments and isinstance(arguments[0], tuple):
            return arguments[0]
        if kind is slice or kind is types.SliceType:
            return slice(*arguments)
        return None

    def _gone_through(
        self, called: Any, arguments: list[Meaning], keywords: dict[str, Meaning]
    ) -> Meaning | None:
        """What a loop goes through, and its length."""
        if called in (enumerate, zip) and not (called is zip and keywords):
            start = keywords.get(
                "start", arguments[1] if called is enumerate and arguments[1:] else 0
            )
            parts = arguments[:1] if called is enumerate else arguments
            return Elements(called.__name__, tuple(map(self._elements, parts)), start)
        is_parallel = getattr(called, "__name__", "") == "prange"
        if called is range or is_parallel:
            return replace(self._range(arguments), is_parallel=is_parallel)
        if called is np.ndindex:
            return self._places(arguments)
        if called is np.ndenumerate:
            return Elements("ndenumerate", (self._stored(arguments[0]),))
        if called is length_of_iterator:
            return self._length(arguments[0])
        return None

    def _sum_of_parts(self, target: Any, parts: tuple[Meaning, ...]) -> Meaning:
        if not all(isinstance(a, Scalar | bool | int | float) for a in parts):
            raise self.refused("`sum` of this")
        result: Value = 0
        for part in parts:
            result = self.scalar_operation("add", [result, part], self.code.type_of(target))
        return result

    def _argument_of_call(self, meaning: Meaning) -> Meaning:
        """A list of numbers as the array that it is made of: who is called only reads it."""
        return self.as_array(meaning) if self._is_list(meaning) else meaning

    def _called_of_list(self, name: str, found: NumberList, arguments: list[Meaning]) -> Meaning:
        if name == "sort" and not arguments:
            array = self.as_array(found)
            self.inline(numpy_in_loops.FUNCTIONS[numpy_in_loops.METHODS["sort"]], (1,), array)
            return Known(None)
        return self.list_method(name, found, arguments)

    def _scalar_call(self, called: Any, target: Any, arguments: list[Value]) -> Meaning | None:
        numba_type = self.code.type_of(target)
        try:
            name = FUNCTIONS.get(called)
        except TypeError:
            return None
        if name is not None and len(arguments) == len(OPERATIONS[name].operands):
            return self.scalar_operation(name, arguments, numba_type)
        if called in (max, min):
            # Python's max is the first of equals; the second is taken only if it is larger.
            result = arguments[0]
            for argument in arguments[1:]:
                dtype = dtype_name(numba_type)
                larger = (argument, result) if called is max else (result, argument)
                condition = self.builder.define("greater", *larger)
                result = self.builder.define("select", condition, argument, result, dtype=dtype)
            return result
        if called is complex and len(arguments) == 2:
            return self.scalar_operation("complex", arguments, numba_type)
        is_type = called in (float, int, complex) or (
            isinstance(called, type) and issubclass(called, np.generic)
        )
        if is_type and len(arguments) == 1:
            return self.builder.define("cast", arguments[0], dtype=dtype_name(numba_type))
        if called is divmod:
            dtypes = [dtype_name(part) for part in numba_type]  # pyright: ignore
            names = zip(("floor_divide", "mod"), dtypes, strict=True)
            return tuple([self.builder.define(n, *arguments, dtype=d) for n, d in names])
        if called in (round, np.round, np.around) and len(arguments) == 2:
            return self._rounded(arguments[0], arguments[1], dtype_name(numba_type))
        if called is math.ldexp:
            define = self.builder.define
            return define("multiply", arguments[0], define("power", 2.0, arguments[1]))
        return None

    def _rounded(self, number: Value, digits: Value, dtype: str) -> Value:
        """To so many decimal digits, which are constants."""
        if not isinstance(digits, int) or not dtype.startswith("float"):
            raise self.refused("`round` to a number of digits that is not a constant")
        define, power = self.builder.define, 10.0 ** abs(digits)
        there, back = ("multiply", "divide") if digits >= 0 else ("divide", "multiply")
        whole = define("rint", define(there, number, power, dtype=dtype), dtype=dtype)
        return define(back, whole, power, dtype=dtype)

    def _of_elements(self, called: Any, target: Any, arguments: list[Meaning]) -> Meaning:
        """A call of what `numba.vectorize` has made; the last argument may be the result's."""
        plain = called._dispatcher.py_func

        def element(values: Sequence[Value]) -> Value:
            given = tuple([from_dtype(np.dtype(dtype_of(value))) for value in values])
            declared, _ = called.find_ewise_function(given)
            declared = getattr(declared, "args", declared)
            numba_types = declared or given
            pairs = zip(values, numba_types, strict=True)
            casts = [self.builder.define("cast", x, dtype=dtype_name(kind)) for x, kind in pairs]
            return self._inline(plain, casts, numba_types)

        if all(isinstance(x, Scalar | bool | int | float) for x in arguments):
            dtype = dtype_name(self.code.type_of(target))
            return self.builder.define("cast", element(arguments), dtype=dtype)
        into = arguments[called.nin :]
        return self.array("of_elements", target, (element, arguments[: called.nin], into))

    def _of_core(self, called: Any, expression: Any, arguments: list[Meaning]) -> Meaning:
        """A call of what `numba.guvectorize` has made, of arrays with the axes in its signature."""
        ranks = [getattr(argument, "rank", 0) for argument in arguments]
        if ranks != [len(axes) for axes in core_axes(called.signature)]:
            what = "a generalized ufunc of arrays with more axes than its signature has"
            raise self.refused(what, instead="a loop over these axes; or ")
        plain = called.gufunc_builder.py_func
        kinds = [self.code.type_of(v) for v in expression.args]
        self._inline(plain, list(map(self._stored, arguments)), kinds)
        return Known(None)

    def _written_in_python(self, called: Any, expression: Any) -> Any:
        """The user's function that is called, or what `numba.extending.overload` puts there."""
        if isinstance(called, Dispatcher) or inspect.isfunction(getattr(called, "py_func", None)):
            return called.py_func
        if not inspect.isfunction(called) or is_of_numpy(called):
            return None
        kinds = [self.code.type_of(v) for v in expression.args]
        if expression.vararg is not None:
            kinds += self.code.type_of(expression.vararg)
        named = {name: self.code.type_of(v) for name, v in expression.kws}
        for template in getattr(self.code.typemap[expression.func.name], "templates", ()):
            found = getattr(template, "_overload_func", lambda *_, **__: None)(*kinds, **named)
            if inspect.isfunction(found):
                return found
        return None

    def _inlined(
        self, plain: Any, expression: Any, arguments: list[Meaning], keywords: dict[str, Meaning]
    ) -> Meaning:
        kinds = [self.code.type_of(v) for v in expression.args]
        if any(isinstance(kind, types.List) for kind in kinds):
            instead = "np.array of it; or "
            raise self.refused("a list as the argument of another function", instead=instead)
        if expression.vararg is not None:
            kinds += self.code.type_of(expression.vararg)
        given = list(zip(arguments, kinds, strict=True))
        named = {name: (keywords[name], self.code.type_of(v)) for name, v in expression.kws}
        signature = inspect.signature(plain)
        bound = signature.bind(*given, **named).arguments
        values: list[Meaning] = []
        numba_types: list[Any] = []
        for name, parameter in signature.parameters.items():
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                rest = bound.get(name, ())
                value = tuple([self._stored(part) for part, _ in rest])
                numba_type = types.StarArgTuple.from_types([kind for _, kind in rest])
            elif name in bound:
                value, numba_type = bound[name]
            else:
                value = self._constant(parameter.default)
                numba_type = types.unliteral(typeof(parameter.default))
            values.append(self._stored(value))
            numba_types.append(numba_type)
        if (plain, *numba_types) in self.callers:
            raise self.refused(f"recursion: `{plain.__name__}` calls itself")
        return self._inline(plain, values, numba_types)

    def _inline(
        self, plain: Any, values: Sequence[Meaning], numba_types: Sequence[types.Type]
    ) -> Meaning:
        inner = type(self)(self.builder, plain, numba_types, self.findings, self.callers)
        return inner.run(values)

    def inline(self, functions: Any, key: tuple[int | str, ...], *values: Meaning) -> Meaning:
        """One of `numpy_in_loops`, by numbers of axes."""
        if key not in functions:
            return None
        function = functions[key]
        given = list(map(self._stored, values))
        rest = list(inspect.signature(function).parameters.values())[len(given) :]
        given += [parameter.default for parameter in rest]
        return self._inline(function, given, list(map(self._type_of_meaning, given)))

    def _type_of_meaning(self, meaning: Meaning) -> types.Type:
        if isinstance(meaning, Memory | View):
            layout = "C" if isinstance(meaning, Memory) else "A"
            return types.Array(from_dtype(np.dtype(meaning.dtype)), meaning.rank, layout)
        if not isinstance(meaning, Scalar | bool | int | float):
            raise self.refused("an argument like this")
        return from_dtype(np.dtype(dtype_of(meaning)))

    def _in_loops(
        self, called: Any, target: Any, arguments: list[Meaning], keywords: dict[str, Meaning]
    ) -> Meaning | None:
        """A call of a function of NumPy that `numpy_in_loops` has; None of another."""
        if isinstance(called, Method):
            arguments = [called.array, *arguments]
            called = numpy_in_loops.METHODS.get(called.name)
        try:
            functions = numpy_in_loops.FUNCTIONS.get(called)
        except TypeError:
            return None
        if functions is None:
            return None
        if called not in (sum, min, max):
            arguments = list(map(self._array_of_listed, arguments))
        values = _in_order_of_parameters(called, arguments, keywords)
        strings = [v.value for v in values if isinstance(v, Known) and isinstance(v.value, str)]
        values = [v for v in values if not isinstance(v, Known)]
        ranks = [0 if isinstance(v, bool | int | float) else getattr(v, "rank", 0) for v in values]
        key = *ranks, *strings
        if key not in functions:
            return None
        has_complex = any(map(is_complex, values))
        if has_complex and called not in numpy_in_loops.OF_COMPLEX:
            raise self.refused(f"`{called.__name__}` of complex numbers")
        result = self.inline(functions, key, *values)
        expected = self.code.type_of(target)
        if isinstance(result, tuple | Known):
            return result
        if isinstance(result, Scalar | bool | int | float):
            return self.builder.define("cast", result, dtype=dtype_name(expected))
        is_array = isinstance(expected, types.Array | types.List)
        if not is_array or not isinstance(result, Memory | View):
            raise self.refused(f"a call of `{called.__name__}` with these arguments")
        if result.dtype != str(expected.dtype):
            result = self._stored(
                self.array("call", target, (Method("astype", result), [None], {}))
            )
        return result

    def _array_of_listed(self, meaning: Meaning) -> Meaning:
        """A list in the text of a call as an array, if it is one of numbers."""
        items = meaning.items if isinstance(meaning, Listed) else ()
        if not items or not all(isinstance(x, Scalar | bool | int | float) for x in items):
            return meaning
        dtype = str(np.result_type(*map(dtype_of, items)))
        memory = self.builder.allocate("listed", dtype, (len(items),))
        for k, item in enumerate(items):
            self.builder.store(memory, (k,), self.builder.define("cast", item, dtype=dtype))
        return memory


def _in_order_of_parameters(
    called: Any, arguments: list[Meaning], keywords: dict[str, Meaning]
) -> list[Meaning]:
    if not keywords:
        return arguments  # `min` has no signature
    return list(inspect.signature(called).bind(*arguments, **keywords).arguments.values())
