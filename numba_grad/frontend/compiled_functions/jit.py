"""`jit`: trace a function once per signature, then replay its plan.

    Jitted   the function a user calls; finds or makes the specialization for its arguments

With values at hand and no gradients wanted, a call replays the plan at once. Where gradients flow
through the call, or where the caller is being traced itself, the call becomes one operation of the
caller's graph.
"""

import functools
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.autograd.forward_ad import current_level
from numba_grad.config import config
from numba_grad.errors import PerformanceWarning, TracingError, explain
from numba_grad.fresh_thread import on_fresh_stack
from numba_grad.frontend.compiled_functions.call_arguments import (
    ARRAYS,
    CallArguments,
    directly,
    static_parameters,
)
from numba_grad.frontend.compiled_functions.function_traces import FunctionTrace, rewritten
from numba_grad.frontend.compiled_functions.specialization import Specialization, host_value
from numba_grad.frontend.compiled_functions.state_between_calls import (
    PlaceOfState,
    StateBetweenCalls,
)
from numba_grad.frontend.derived_functions import deep_copied, reduced, wrap_like
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node, own_array, plain, value_of, wrap
from numba_grad.frontend.inputs.calling_lines import warn_at_calling_line
from numba_grad.frontend.inputs.changed_arguments import (
    change,
)
from numba_grad.frontend.inputs.tracing import (
    RaisesForCertain,
    Trace,
    current,
    is_tracing,
    note_raised,
    run_by_python,
)
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.graph import order
from numba_grad.graph.collection import without_collection
from numba_grad.graph.node import Node, grad_mode, leaf
from numba_grad.graph.types import CPU, array_type
from numba_grad.graph.walk import is_traced
from numba_grad.locks import LocksByKey, new_lock

if TYPE_CHECKING:
    from numba_grad.frontend.compiled_functions.lowered import Lowered

__all__ = ["jit"]

_DEEPEST = 20  # traces of functions that call each other, on one stack


def jit(
    f: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    control_flow: bool = False,
) -> Any:
    """A compiled version of `f`, traced once for each signature and then replayed without Python.

    Parameters
    ----------
    f : function of arrays, tensors and numbers, possibly in nested tuples, lists, dicts and
        dataclasses
    static_argnums, static_argnames : arguments that are part of the signature: passed to `f` as
        they are, hashable, by position or by name. Whatever decides about shapes, loops and
        branches in Python must be static. Values of different types differ: 1, 1.0 and True.
    control_flow : whether loops and branches of `f` may depend on values: `while`, `for` over
        `range`, `if`, `and`, `or`, `not`, comparisons in a row, conditional expressions, `break`,
        `continue`, early `return`, `raise` and `assert`; `max`, `min`, `sorted`, `any`, `all`,
        `int`, `float`, `bool` and `round` of values. `f` is then read from its source text, with
        the functions that it calls; those of other packages that are installed may be jitted in
        this way themselves.
        Where a condition is known, as that of a loop over a list, it is Python's own.

    Returns
    -------
    Function of the same arguments, differentiable from outside. Called with tensors it returns
    tensors; called with NumPy arrays and numbers alone, it returns NumPy arrays and scalars (unless
    the result has history, because `f` closes over a tensor that requires grad). `lower(*args)`
    returns what it compiles to.

    Raises
    ------
    TracingError
        If `f` asks for a value (`bool(x)`, `float(x)`, `x.numpy()`), which is not there yet while
        tracing.
    TypeError
        If an argument is neither an array nor a number; for masked arrays, and for classes derived
        from ndarray whose operators are not those of arrays (matrices). Others, as `numpy.memmap`,
        are taken as arrays, and so is what has `__array__`, as the columns of a table.
    ValueError
        If `f` has no parameter that `static_argnums` or `static_argnames` means.

    Notes
    -----
    A signature is the structure of the arguments, the shape and dtype of each array in them, which
    of them require grad, and the static arguments. A new signature runs `f` again in Python; its
    kernels, which do not depend on sizes, are usually there already. Python side effects that no
    result depends on (printing, counting calls) happen while tracing only.
    `ng.config.specializations` signatures are kept, 256 by default; beyond, those that were not
    called for longest are traced again.

    Python numbers passed as arguments are weakly typed, as outside: `x * rate` is float32 if `x`
    is, and so is `x * (a * b)`. Between two of them, operators follow Python (`2 / 3`, `True + 1`),
    with the arithmetic of float64, int64 and complex128; results that are numbers are returned in
    these dtypes. An integer that does not fit the dtype of an array that it meets is an
    OverflowError, as in NumPy, and a negative exponent of an integer a ValueError; what is computed
    of integers first is not known, and wraps around.

    What `f` does to its arguments in place (`u[1:-1] = ...`, `u += v`, `np.add(u, v, out=u)`) is
    done to what the caller gave, arrays and tensors, as without `jit`, and so is what it does to
    tensors that it closes over (`self.u[1:-1] += v`). These must have no elements in common with
    other arguments. What it puts into dicts, lists and objects among the arguments is put into the
    caller's. Such calls cost 30 us. An array without axes counts as a number, which stays as it is.

    What `f` closes over is as it is at the call. Tensors and arrays are read at each call, also
    where they were changed in place. Other things have `f` traced again if they have changed:
    numbers, text and functions in its cells, globals, default and static arguments; items of lists,
    tuples, dicts, sets and deques; tensors and arrays that were replaced; elements of an array of
    up to 1 KiB, and of any index array; and attributes of all objects in there (`model.rate`,
    `self.layers[0].rate`, `model = self.model; model.rate`), whose names are in its code. The same
    goes for functions and methods that `f` calls, and operators of objects, but for those of
    installed packages. Of all this, the nearest 1,024 things are looked at, each of which takes
    some 15 ns, and lists and dicts of up to 512 items, of numbers alone 8,192. What NumPy itself
    computes of an array (`(2 * array).sum()`) is seen to change where no tensor meets the array,
    and it has up to 64 KiB: pass others as arguments, or make tensors of them. An array that
    changes in place and is small is better an argument, too: tracing takes milliseconds.

    What `f` itself changes of all that, and goes on from, changes at each call: attributes,
    variables, items of lists and dicts (`self.u = self.u + v`, `self.t += 1`, `p[k] = p[k] - g`).
    Where these are tensors, arrays and numbers, calls do so without Python; an array or a number is
    one again afterwards. Other changes (a flag that branches depend on, a list that grows and is
    read, an iterator, a generator of random numbers) have Python run `f` at each call, with a
    `PerformanceWarning` that names them. What `f` assigns to and nothing that it runs reads is its
    own record, made while tracing only: `self.calls += 1`, `self.x = x` for later, `log.append(x)`
    of what is no tensor; but where calls carry something on, numbers and tensors among these come
    along. A tensor in a record has no value afterwards, which it says where it is used.

    A jitted function is pickled by its name, as functions are, or with the function it is made of.

    Examples
    --------
    >>> f = ng.jit(lambda x: (x * x).sum())
    >>> f(np.arange(3.0))
    np.float64(5.0)
    >>> f(ng.arange(3.0))
    tensor(5.)
    """
    if f is None:
        return functools.partial(
            jit,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            control_flow=control_flow,
        )
    if not callable(f):
        raise TypeError(explain("jit", "not a function", got={"f": repr(f)}))
    return Jitted(f, static_argnums, static_argnames, control_flow)


class Jitted:
    """A function compiled by `jit`."""

    has_guard = True  # of its own: who calls it need not look into it

    def __init__(
        self,
        f: Callable[..., Any],
        static_argnums: int | Sequence[int],
        static_argnames: str | Sequence[str],
        control_flow: bool = False,
    ) -> None:
        wrap_like(self, f)
        self.__name__: str = getattr(f, "__name__", type(f).__name__)
        self._f = f
        self._static_argnums, self._static_argnames = static_parameters(
            f,
            (static_argnums,) if isinstance(static_argnums, int) else static_argnums,
            (static_argnames,) if isinstance(static_argnames, str) else static_argnames,
        )
        # With as many arguments by position at most none of these is static.
        self._first_static = min(self._static_argnums, default=sys.maxsize)
        self._control_flow = control_flow
        if control_flow:
            rewritten(f)  # so that a mistake is reported here
        self._made_by = Jitted, (f, static_argnums, static_argnames, control_flow)
        self._specializations: dict[Hashable, Specialization] = {}
        self._direct: dict[tuple, Specialization] = {}
        self._making = LocksByKey()
        # The signature that Python has run again last; None once that was said.
        self._rerun: Hashable | None = ()
        self._places_of_state: list[PlaceOfState] = []
        self._keeping = new_lock()

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __reduce__(self) -> str | tuple[Any, ...]:
        return reduced(self, *self._made_by)

    def __copy__(self) -> "Jitted":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "Jitted":
        return deep_copied(self, *self._made_by, memo)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if current.trace is None and len(args) <= self._first_static:
            # The common call, with arrays, computed tensors and numbers, costs 1 us; in containers,
            # or by name, 3; signatures in general cost 30.
            key: list[object] = []
            values: list[Any] = []
            as_tensors = None if kwargs else directly(args, key, values)
            if as_tensors is None and not (self._static_argnames and kwargs):
                leaves, structure = trees.flatten_in_order((args, kwargs))
                key, values = [structure], []
                as_tensors = directly(leaves, key, values)
            if as_tensors is not None:
                found = self._direct.get(tuple(key))
                if (
                    found is not None
                    and (not found.captured or found.reads_captured_values())
                    and (found.outputs is not None or not _needs_graph())
                    and not (found.communicates and order.is_differentiated())
                    and found.holds()
                ):
                    found.is_used = True
                    return found.replay(values, as_tensors)
        try:
            return self._call(args, kwargs)
        except RaisesForCertain:
            if current.trace is not None:
                raise
        with run_by_python():
            result = self._f(*args, **kwargs)
        dynamic, _ = self._split(args, kwargs)
        return _as_arrays(result) if dynamic.is_plain else result

    def lower(self, *args: Any, **kwargs: Any) -> "Lowered":
        """What a call with these arguments compiles to: kernels, graph, memory, a profile. Nothing
        is computed."""
        from numba_grad.frontend.compiled_functions.lowered import Lowered

        dynamic, key = self._split(args, kwargs)
        wants_grad = [False] * len(dynamic.leaves)
        try:
            specialization = self._specialization(dynamic, key, wants_grad, needs_graph=True)
        except RaisesForCertain:
            raise TracingError(
                explain(f"lower of {self.__name__}", "the function raises an exception in any case")
            ) from None
        if specialization.state.is_rerun:
            specialization.state.undo()
        compiled = specialization.compiled()
        return Lowered(
            specialization.name,
            specialization.program_inputs,
            specialization.graph_outputs,
            compiled.program.plan,
            compiled.device,
            specialization.program_with_segments,
            lambda *a, **k: self._values(specialization, len(dynamic.leaves), self._split(a, k)[0]),
        )

    def _values(
        self, specialization: Specialization, arguments: int, given: CallArguments
    ) -> list[np.ndarray]:
        values = [host_value(x) if isinstance(x, Tensor) else own_array(x) for x in given.leaves]
        own = specialization.arguments[:arguments]  # a token may follow
        if [array_type(v.shape, v.dtype, str(v.device)) for v in values] != [
            node.type for node in own
        ]:
            raise TypeError(
                explain(
                    "profile",
                    "arguments of another signature than those that were lowered",
                    got={
                        "lowered for": [node.type for node in own],
                        "got": [array_type(v.shape, v.dtype, str(v.device)) for v in values],
                    },
                    fix="f.lower(*args).profile(*args) with the same shapes and dtypes",
                )
            )
        return specialization.input_values(values)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if current_level() is not None:
            # Tangents belong to operations as they are recorded, not to results of a program.
            return self._f(*args, **kwargs)
        dynamic, key = self._split(args, kwargs)
        nodes = [x._node if isinstance(x, Tensor) else None for x in dynamic.leaves]
        wants_grad = [
            node is not None and node.requires_grad and grad_mode.enabled for node in nodes
        ]
        specialization = self._specialization(dynamic, key, wants_grad, _needs_graph())
        if current.trace is not None:
            _depend_on(specialization, current.trace)
        for limit in specialization.limits:
            limit.check(f"jit of {self.__name__}", dynamic.leaves[limit.number])
        recorded = (
            is_tracing()
            or any(wants_grad)
            or (specialization.communicates and order.is_differentiated())
            or (grad_mode.enabled and any(t._node.requires_grad for t in specialization.captured))
            or any(
                node is not None and node.value is None and is_traced(node)
                for node in [*nodes, *(tensor._node for tensor in specialization.captured)]
            )
        )
        if recorded and specialization.has_hooks:
            return self._with_hooks(specialization, args, kwargs)
        if recorded:
            if specialization.outputs is None:
                specialization = self._specialization(dynamic, key, wants_grad, needs_graph=True)
            given = [as_node(x) for x in dynamic.leaves]
            nodes = specialization.record(given)
            if specialization.has_effects:
                count = specialization.structure.num_leaves
                if specialization.raises:
                    self._check_raised(specialization, nodes.pop())
                self._change(dynamic, specialization, nodes[count:])
                del nodes[count:]
            return specialization.rebuild([wrap(node) for node in nodes])
        values = [host_value(x) for x in dynamic.leaves]
        as_tensors = dynamic.has_tensors
        if specialization.has_effects:
            after: list[Any] = []
            results = None
            try:
                results = specialization.replay(values, as_tensors, after)
            except Exception:
                if not specialization.raises:
                    raise
                after.append(np.ones((), np.bool_))  # or Python will fail as well
            if specialization.raises:
                self._check_raised(specialization, leaf(after.pop()))
            self._change(dynamic, specialization, after)
            return results
        results = specialization.replay(values, as_tensors)
        direct_key = dynamic.direct_key(specialization.limits)
        if direct_key is not None:
            self._direct[direct_key] = specialization
        return results

    def _with_hooks(
        self, specialization: Specialization, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Have Python run the function: its hooks get gradients of operations, of which a call of
        the compiled function would be one.

        Raises
        ------
        TracingError
            If it has done more than to compute results, when it was traced.
        """
        if specialization.has_effects:
            raise TracingError(
                explain(
                    f"jit of {self.__name__}",
                    "a hook inside, for derivatives that are taken outside, of a function that "
                    "changes something else",
                    fix="jit of a function without the hook, or without the changes",
                )
            )
        return self._f(*args, **kwargs)

    def _check_raised(self, specialization: Specialization, is_raised: Node) -> None:
        """Have Python run the function again, if it comes to a `raise`: it raises that, or has the
        result, where a `with` around it catches the exception."""
        if (is_traced(is_raised) and note_raised(is_raised)) or not value_of(is_raised, "raise"):
            return
        if specialization.state.is_rerun:
            specialization.state.undo()  # which Python did
        raise RaisesForCertain

    def _change(
        self, dynamic: CallArguments, specialization: Specialization, after: Sequence[Any]
    ) -> None:
        assigned = specialization.assigned
        now = [x.held if isinstance(x, PlaceOfState) else x for x in assigned]
        leaves = [*dynamic.leaves, *now]
        changed, contents, state = (
            specialization.changed,
            specialization.contents,
            specialization.state,
        )
        keep = specialization.keep_history
        change(f"jit of {self.__name__}", leaves, changed, after[: len(changed)], keep)
        nodes = [x if isinstance(x, Node) else leaf(x) for x in after[len(changed) :]]
        as_tensors = dynamic.has_tensors
        if contents is not None:
            count = len(contents.computed)
            contents.write(dynamic.tree, dynamic.leaves, nodes[:count], as_tensors=as_tensors)
            del nodes[:count]
        if state:
            state.give(nodes, dynamic.leaves, as_tensors=as_tensors)

    # Signatures

    def _split(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> "tuple[CallArguments, Hashable]":
        count = len(args)
        static_numbers = {n % count for n in self._static_argnums if -count <= n < count}
        static_named = tuple(
            (name, kwargs[name]) for name in sorted(kwargs) if name in self._static_argnames
        )
        dynamic_args = tuple(x for k, x in enumerate(args) if k not in static_numbers)
        dynamic_kwargs = {k: v for k, v in kwargs.items() if k not in self._static_argnames}
        leaves, structure = trees.flatten_in_order((dynamic_args, dynamic_kwargs))
        for number, x in enumerate(leaves):
            if isinstance(x, np.ndarray) and x.__class__ is not np.ndarray:
                leaves[number] = plain(x)
            elif isinstance(x, ARRAYS):
                continue
            elif hasattr(type(x), "__array__"):  # pandas' and xarray's, as where nothing is jitted
                leaves[number] = own_array(x)
            else:
                raise _no_argument(f"jit of {self.__name__}", x, args, kwargs)
        tree = dynamic_args, dynamic_kwargs
        dynamic = CallArguments(args, static_numbers, static_named, tree, leaves, structure)
        static = tuple((k, trees.static_key(args[k])) for k in sorted(static_numbers))
        named = tuple((name, trees.static_key(x)) for name, x in static_named)
        key = (dynamic.types, dynamic.numbers, structure, static, named)
        try:
            hash(key)
        except TypeError:
            raise TypeError(
                explain(
                    f"jit of {self.__name__}",
                    "a static argument is not hashable",
                    got={"static": dynamic.static},
                    fix="a tuple in place of a list or an array; or no static argument, for what "
                    "is computed with",
                )
            ) from None
        return dynamic, key

    def _specialization(
        self, dynamic: CallArguments, key: Hashable, wants_grad: list[bool], needs_graph: bool
    ) -> Specialization:
        full_key = (key, tuple(wants_grad), grad_mode.enabled)
        found = self._known(full_key, needs_graph)
        if found is None:
            # Threads with other signatures do not wait for this one.
            with self._making.lock_of(full_key):
                found = self._known(full_key, needs_graph)
                if found is None:
                    make = functools.partial(
                        self._traced_and_compiled, dynamic, wants_grad, needs_graph
                    )
                    depth = 0 if current.trace is None else current.trace.depth
                    is_deep = depth % _DEEPEST == _DEEPEST - 1
                    found = on_fresh_stack(make) if is_deep else make()
                    if found.is_repeated_by_calls:
                        self._keep(full_key, found)
                    elif found.state.is_rerun:
                        self._note_rerun(full_key, found.state)
        return found

    def _known(self, full_key: Hashable, needs_graph: bool) -> Specialization | None:
        found = self._specializations.get(full_key)
        if found is None or (needs_graph and found.outputs is None) or not found.is_current():
            return None
        found.is_used = True
        return found

    def _traced_and_compiled(
        self, dynamic: CallArguments, wants_grad: list[bool], needs_graph: bool
    ) -> Specialization:

        def work() -> Specialization:
            found = self._trace(dynamic, wants_grad)
            if dynamic.is_plain and not needs_graph and not found.captured:
                found.compiled(is_run=True)
                if not found.state:
                    found.let_go_of_long_graph()
            return found

        # Compiled in the same pause: a collection in between would look at every node.
        return without_collection(work)

    def _note_rerun(self, key: Hashable, state: StateBetweenCalls) -> None:
        """Say once that calls take long, and why. The first one may make what later ones find."""
        if self._rerun == key:
            warn_at_calling_line(
                explain(
                    f"jit of {self.__name__}",
                    "Python runs the function at each call, which takes milliseconds, because it "
                    "changes what it goes on from",
                    got=state.described(),
                    fix="arguments and results for what changes; tensors in place of numbers and "
                    "arrays (self.t = ng.tensor(0.0)), which calls read and change; ng.random, "
                    "with a key that is an argument, in place of generators",
                ),
                PerformanceWarning,
            )
            key = None
        if self._rerun is not None:
            self._rerun = key

    def _keep(self, key: Hashable, specialization: Specialization) -> None:
        """In place of those that were not called for longest, if there are too many."""
        with self._keeping:
            kept = self._specializations
            kept.pop(key, None)
            kept[key] = specialization
            while len(kept) > config.specializations:
                oldest = next(iter(kept))
                found = kept.pop(oldest)
                if found.is_used or found is specialization:
                    # It goes to the end of the line: calls themselves do not keep that in order.
                    found.is_used = False
                    kept[oldest] = found
                    continue
                for direct, same in list(self._direct.items()):
                    if same is found:
                        self._direct.pop(direct, None)

    def _trace(self, dynamic: CallArguments, wants_grad: list[bool]) -> Specialization:
        # Its closure and its defaults may be others at each trace.
        function = rewritten(self._f) if self._control_flow else self._f

        def of_trace(places: list[PlaceOfState]) -> Specialization:
            trace = FunctionTrace(self._f, self.__name__, dynamic, places)
            return trace.run(function, wants_grad)

        if self._places_of_state:
            try:
                found = of_trace(self._places_of_state)
            except Exception:
                # As it may be where a tensor stands in for a number.
                found, self._places_of_state = of_trace([]), []
        else:
            found = of_trace([])
        if found.state.is_rerun:
            self._places_of_state = found.state.places_of_values
        return found


def _as_arrays(result: Any) -> Any:
    """What Python's own run has returned, as a compiled call returns it: arrays, if it got some."""
    leaves, structure = trees.flatten(result)
    for number, x in enumerate(leaves):
        if isinstance(x, Tensor) and not x._node.requires_grad and x._node.type.device == CPU:
            leaves[number] = host_value(x)[()]
    return trees.unflatten(structure, leaves)


def _depend_on(specialization: Specialization, trace: Trace) -> None:
    """Have the trace of a function that calls this one depend on what this one does."""
    is_rerun = specialization.state.is_rerun
    trace.inner_checks.append(_never if is_rerun else specialization.holds)
    for tensor in specialization.with_gradients:
        trace.attribute_asked_for(tensor, "grad", tensor.grad)


def _never() -> bool:
    return False


def _needs_graph() -> bool:
    """Whether calls evaluate the graph itself."""
    return config.engine == "reference"


def _no_argument(
    operation: str, x: object, args: Sequence[object], kwargs: Mapping[str, object]
) -> TypeError:
    """What is raised of a leaf of the arguments that no graph can have."""
    static = [f"static_argnums={k}" for k, arg in enumerate(args) if arg is x]
    static += [f"static_argnames={name!r}" for name, arg in kwargs.items() if arg is x]
    if type(x).__hash__ is None:
        fix = "ng.jit(functools.partial(f, x)), or of a function that closes over it"
    elif static:
        fix = f"ng.jit(f, {static[0]}), which traces the function for each value of it"
    else:
        fix = "an argument of its own, named in static_argnums or static_argnames"
    return TypeError(
        explain(
            operation,
            "an argument is neither an array nor a number",
            got={"argument": repr(x), "type": type(x).__name__},
            fix=fix,
        )
    )
