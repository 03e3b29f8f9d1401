"""`jit`: trace a function once per signature, then replay its plan.

    Jitted   the function a user calls; finds or makes the specialization for its arguments

With values at hand and no gradients wanted, a call replays the plan at once. Where gradients flow
through the call, or where the caller is being traced itself, the call becomes one operation of the
caller's graph.
"""

import functools
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from operator import is_
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.autograd.forward_ad import current_level
from numba_grad.compiler.evaluate import evaluate
from numba_grad.compiler.known_bodies import known_body
from numba_grad.config import config
from numba_grad.dtypes import is_inexact, kind_of
from numba_grad.errors import PerformanceWarning, TracingError, explain
from numba_grad.fresh_thread import imported, on_fresh_stack
from numba_grad.frontend.compiled_functions.specialization import Specialization, host_value
from numba_grad.frontend.compiled_functions.state_between_calls import (
    PlaceOfState,
    StandIns,
    StateBetweenCalls,
    forget_tensors_of,
)
from numba_grad.frontend.derived_functions import deep_copied, reduced, wrap_like
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node, own_array, plain, shared_copy, wrap
from numba_grad.frontend.inputs.changed_arguments import (
    NewContents,
    as_before,
    assigned_arrays,
    change,
    numbers_of_changed,
)
from numba_grad.frontend.inputs.guards import Guard, guard_of
from numba_grad.frontend.inputs.selections import Selection
from numba_grad.frontend.inputs.surroundings import Surroundings
from numba_grad.frontend.inputs.tracing import Trace, current, is_tracing
from numba_grad.frontend.tensors.python_numbers import Limit, handle_like, is_number, limits_on
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.graph import order
from numba_grad.graph.collection import without_collection
from numba_grad.graph.node import ARGUMENT, OPS, Node, argument, grad_mode, leaf
from numba_grad.graph.traced_bodies import tracing_compiled
from numba_grad.graph.types import Type, array_type
from numba_grad.graph.walk import in_order_of_recording, is_traced, value_inputs
from numba_grad.locks import LocksByKey, new_lock
from numba_grad.ops.control import item
from numba_grad.transforms.python_loops import loop_in

if TYPE_CHECKING:
    from numba_grad.frontend.compiled_functions.lowered import Lowered

__all__ = ["jit"]

ARRAYS = (Tensor, np.ndarray, np.generic, bool, int, float, complex)


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
        they are, hashable. Whatever decides about shapes, loops and branches in Python must be
        static.
    control_flow : whether loops and branches of `f` may depend on values: `while`, `for` over
        `range`, `if`, `and`, `or`, `not`, comparisons in a row, conditional expressions, `break`,
        `continue` and early `return`. `f` is then read from its source text, with the functions
        of its package that it calls; others may be jitted in this way themselves. Where a condition
        is known, as that of a loop over a list, it is Python's own.

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
        are taken as arrays.

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
        self._static_argnums = frozenset(
            (static_argnums,) if isinstance(static_argnums, int) else static_argnums
        )
        self._static_argnames = frozenset(
            (static_argnames,) if isinstance(static_argnames, str) else static_argnames
        )
        self._control_flow = control_flow
        if control_flow:
            _rewritten(f)  # so that a mistake is reported here
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
        if current.trace is None and not self._static_argnums:
            # The common call, with arrays, computed tensors and numbers, costs 1 us; in containers,
            # or by name, 3; signatures in general cost 30.
            key: list[object] = []
            values: list[Any] = []
            as_tensors = None if kwargs else _directly(args, key, values)
            if as_tensors is None and not (self._static_argnames and kwargs):
                leaves, structure = trees.flatten((args, kwargs))
                key, values = [structure], []
                as_tensors = _directly(leaves, key, values)
            if as_tensors is not None:
                found = self._direct.get(tuple(key))
                if (
                    found is not None
                    and not found.captured
                    and (found.outputs is not None or not _needs_graph())
                    and not (found.communicates and order.is_differentiated())
                    and found.holds()
                ):
                    found.is_used = True
                    return found.replay(values, as_tensors)
        return self._call(args, kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> "Lowered":
        """What a call with these arguments compiles to: kernels, graph, memory, a profile. Nothing
        is computed."""
        from numba_grad.frontend.compiled_functions.lowered import Lowered

        dynamic, key = self._split(args, kwargs)
        wants_grad = [False] * len(dynamic.leaves)
        specialization = self._specialization(dynamic, key, wants_grad, needs_graph=True)
        if specialization.state.is_rerun:
            specialization.state.undo()
        compiled = specialization.compiled()
        return Lowered(
            specialization.name,
            specialization.inputs,
            specialization.graph_outputs,
            compiled.program.plan,
            compiled.device,
            specialization.program_with_segments,
            lambda *a, **k: self._values(specialization, len(dynamic.leaves), self._split(a, k)[0]),
        )

    def _values(
        self, specialization: Specialization, arguments: int, given: "_Arguments"
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
            is_rerun = specialization.state.is_rerun
            current.trace.inner_checks.append(_never if is_rerun else specialization.holds)
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
        if recorded:
            if specialization.outputs is None:
                specialization = self._specialization(dynamic, key, wants_grad, needs_graph=True)
            given = [as_node(x) for x in dynamic.leaves]
            nodes = specialization.record(given)
            if specialization.has_effects:
                count = specialization.structure.num_leaves
                self._change(dynamic, specialization, nodes[count:])
                del nodes[count:]
            return specialization.rebuild([wrap(node) for node in nodes])
        values = [host_value(x) for x in dynamic.leaves]
        as_tensors = dynamic.has_tensors
        if specialization.has_effects:
            after: list[Any] = []
            results = specialization.replay(values, as_tensors, after)
            self._change(dynamic, specialization, after)
            return results
        results = specialization.replay(values, as_tensors)
        direct_key = dynamic.direct_key(specialization.limits)
        if direct_key is not None:
            self._direct[direct_key] = specialization
        return results

    def _change(
        self, dynamic: "_Arguments", specialization: Specialization, after: Sequence[Any]
    ) -> None:
        assigned = specialization.assigned
        now = [x.held if isinstance(x, PlaceOfState) else x for x in assigned]
        leaves = [*dynamic.leaves, *now]
        changed, contents, state = (
            specialization.changed,
            specialization.contents,
            specialization.state,
        )
        change(f"jit of {self.__name__}", leaves, changed, after[: len(changed)])
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
    ) -> "tuple[_Arguments, Hashable]":
        count = len(args)
        static_numbers = {n % count for n in self._static_argnums if -count <= n < count}
        static = tuple((k, args[k]) for k in sorted(static_numbers))
        static_named = tuple(
            (name, kwargs[name]) for name in sorted(kwargs) if name in self._static_argnames
        )
        dynamic_args = tuple(x for k, x in enumerate(args) if k not in static_numbers)
        dynamic_kwargs = {k: v for k, v in kwargs.items() if k not in self._static_argnames}
        leaves, structure = trees.flatten((dynamic_args, dynamic_kwargs))
        for number, x in enumerate(leaves):
            if isinstance(x, np.ndarray) and x.__class__ is not np.ndarray:
                leaves[number] = plain(x)
            elif not isinstance(x, ARRAYS):
                raise TypeError(
                    explain(
                        f"jit of {self.__name__}",
                        "an argument is neither an array nor a number",
                        got={"argument": repr(x), "type": type(x).__name__},
                        fix="name it in static_argnums or static_argnames",
                    )
                )
        tree = dynamic_args, dynamic_kwargs
        dynamic = _Arguments(args, static_numbers, static_named, tree, leaves, structure)
        key = (dynamic.types, dynamic.numbers, structure, static, static_named)
        try:
            hash(key)
        except TypeError:
            raise TypeError(
                explain(
                    f"jit of {self.__name__}",
                    "a static argument is not hashable",
                    got={"static": [x for _, x in (*static, *static_named)]},
                    fix="pass a tuple instead of a list, or make the argument an array",
                )
            ) from None
        return dynamic, key

    def _specialization(
        self, dynamic: "_Arguments", key: Hashable, wants_grad: list[bool], needs_graph: bool
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
        self, dynamic: "_Arguments", wants_grad: list[bool], needs_graph: bool
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
            warnings.warn(
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
                stacklevel=5,
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

    def _trace(self, dynamic: "_Arguments", wants_grad: list[bool]) -> Specialization:
        stand_ins = StandIns(self._places_of_state)
        guard = guard_of(self._f, dynamic.static)
        around = Surroundings.of(self._f, dynamic.static)
        try:
            found = self._traced(dynamic, wants_grad, guard, around, stand_ins)
        except Exception:
            if not stand_ins:
                raise
            # As it may be where a number was expected.
            around.put_back()
            found = None
        finally:
            stand_ins.leave()
        if found is None:
            self._places_of_state = []
            guard = guard_of(self._f, dynamic.static)
            around = Surroundings.of(self._f, dynamic.static)
            return self._traced(dynamic, wants_grad, guard, around, StandIns([]))
        if found.state.is_rerun:
            self._places_of_state = found.state.places_of_values
        return found

    def _traced(
        self,
        dynamic: "_Arguments",
        wants_grad: list[bool],
        guard: Guard,
        around: Surroundings,
        stand_ins: StandIns,
    ) -> Specialization:
        arguments = [
            argument(type, requires_grad=wanted and is_inexact(type.dtype))
            for type, wanted in zip(dynamic.node_types, wants_grad, strict=True)
        ]
        first = arguments[0].serial if arguments else leaf(np.zeros(())).serial
        # An identity, since a leaf that requires grad would refuse `x[i] = v`.
        tensors = [
            handle_like(x, OPS["identity"](node) if node.requires_grad else node)
            for x, node in zip(dynamic.leaves, arguments, strict=True)
        ]
        given = [x._node for x in tensors]
        tree = trees.unflatten(dynamic.structure, tensors)
        args, kwargs = dynamic.with_static(tree)
        # Its closure and its defaults may be others at each trace.
        function = _rewritten(self._f) if self._control_flow else self._f
        outer, trace = current.trace, Trace(shared_copy, first)
        current.trace = trace
        is_done = False
        try:
            with (
                tracing_compiled(self.__name__, arguments, first) as traced,
                as_before(traced.assigned),
                order.scope(order.new_argument) as scope,
            ):
                leaves, structure = trees.flatten(function(*args, **kwargs))
                outputs = self._outputs(leaves)
                assigned, before = assigned_arrays(traced.assigned)
                held = [*tensors, *assigned]
                changed = numbers_of_changed(held, [*given, *before])
                outputs += [held[k]._node for k in changed]
            is_done = True
        finally:
            current.trace = outer
            if not is_done:
                forget_tensors_of(around, first)
        state = StateBetweenCalls(around, stand_ins, tensors, first)
        contents = NewContents.of(tree, tensors)
        if contents is not None:
            outputs += [x._node for x in contents.computed]
        number_of_results = len(outputs)
        outputs += [x._node for x in state.tensors]
        if scope.communicates:
            token, last_token = scope.ends()
            arguments.append(token)
            outputs.append(last_token)
        del leaves  # arrays among them are not closed over
        own = set(arguments)
        asked = trace.tensors_asked_for()
        if state:
            captured, _, reached, _ = _before_trace(outputs, own, first)
            state.forget_unread({*captured, *asked})
            others = {x for x in reached - own if x.op is ARGUMENT and x.serial >= first}
            if state and others:
                self._forget_tensors_of(others, state)
            outputs[number_of_results : len(outputs) - scope.communicates] = [
                x._node for x in state.tensors
            ]
        captured, constants, reached, count = _before_trace(outputs, own, first)
        while not scope.communicates and _has_rerolled(outputs, own, reached, first, trace):
            captured, constants, reached, count = _before_trace(outputs, own, first)
        met = {x.node: x for x in trace.closed_over()}
        # A change that the state knows nothing of has the function traced again.
        if state.has_changed:
            guard = guard.without_own_changes().and_still(state.left_behind())
        is_assigning = bool(assigned or changed)
        now = state.tensors_read_at_calls(asked, assigned, is_assigning=is_assigning)
        assigned = [stand_ins.assigned_to(x) for x in assigned]
        if stand_ins:
            stand_ins.leave()
            guard = guard.without_own_changes()
        return Specialization(
            self.__name__,
            arguments,
            outputs,
            changed,
            assigned,
            contents,
            state,
            structure,
            [now.get(node) or node.handle() for node in captured],  # type: ignore[misc]
            captured,
            [met[node] for node in constants if node in met],
            [node for node in constants if node not in met],
            trace.check(guard.without_arrays(trace.owners_met()).holds),
            reached,
            count,
            limits_on(arguments, reached),
            scope.communicates,
            scope.said,
        )

    def _forget_tensors_of(self, arguments: set[Node], state: StateBetweenCalls) -> None:
        """Tensors of functions that were traced inside, with these arguments, have no value for
        calls to carry on.

        Raises
        ------
        TracingError
            If the trace has read what is there instead.
        """
        if state.forget_tensors_of(arguments):
            return
        state.undo()
        raise TracingError(
            explain(
                f"jit of {self.__name__}",
                "a function of vmap, or of a loop or branch, gives a tensor of its own to what is "
                "outside of it, where it has no value",
                got=state.described(),
                expected="what such a function changes among its arguments and results",
                fix="return it, and assign it outside",
            )
        )

    def _outputs(self, leaves: list[Any]) -> list[Node]:
        for x in leaves:
            if not isinstance(x, (*ARRAYS, Selection)):  # which says why it is none
                raise TypeError(
                    explain(
                        f"jit of {self.__name__}",
                        "a result is neither an array nor a number",
                        got={"result": repr(x), "type": type(x).__name__},
                        fix="return tensors, arrays and numbers, in tuples, lists and dicts",
                    )
                )
        return [as_node(x) for x in leaves]


def _rewritten(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f`, whose loops and branches may depend on values."""
    # Most programs do without, and import nothing for it.
    return imported("numba_grad.frontend.python_control_flow.rewriting").with_control_flow(f)


@dataclass(slots=True, eq=False)
class _Arguments:
    """The arguments of one call, static ones apart."""

    args: tuple[Any, ...]
    static_numbers: set[int]
    static_named: tuple[tuple[str, Any], ...]
    tree: tuple[tuple[Any, ...], dict[str, Any]]  # the others
    leaves: list[Any]
    structure: trees.Structure

    @property
    def is_plain(self) -> bool:
        """Whether a call with these only computes, and records nothing."""
        return not is_tracing() and not self.has_tensors

    @property
    def has_tensors(self) -> bool:
        return any(isinstance(x, Tensor) for x in self.leaves)

    @property
    def static(self) -> list[Any]:
        """The static arguments."""
        return [*[self.args[k] for k in self.static_numbers], *[x for _, x in self.static_named]]

    @property
    def node_types(self) -> list[Type]:
        return [_type_of(x) for x in self.leaves]

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(self.node_types)

    @property
    def numbers(self) -> tuple[bool, ...]:
        """Which of the leaves are Python numbers, or stand for some: these are weakly typed."""
        return tuple([is_number(x) for x in self.leaves])

    def direct_key(self, limits: Sequence[Limit]) -> tuple[object, ...] | None:
        """What `Jitted.__call__` looks arguments of this signature up by, if it can: their types,
        and before these their structure, if they are not positional arguments only."""
        key: list[object] = []
        if self.static_numbers or self.static_named or _directly(self.leaves, key, []) is None:
            return None
        if any(self.leaves[limit.number].__class__ is int for limit in limits):
            return None  # which are checked at each call
        is_flat = len(self.args) == len(self.leaves) and all(map(is_, self.args, self.leaves))
        return tuple(key) if is_flat else (self.structure, *key)

    def with_static(self, tree: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """args and kwargs, of a tree that is like that of the others."""
        dynamic_args, kwargs = tree
        rest = iter(dynamic_args)
        args = tuple(x if k in self.static_numbers else next(rest) for k, x in enumerate(self.args))
        return args, {**kwargs, **dict(self.static_named)}


def _directly(leaves: Sequence[Any], key: list[object], values: list[Any]) -> bool | None:
    """Whether results are tensors, of arguments that are looked up as they are; None for others.

    Their types are added to `key`, and what a plan reads to `values`.
    """
    as_tensors = False
    for x in leaves:
        cls = x.__class__
        if cls is Tensor:
            node = x._node
            if node.value is None or node.requires_grad or node.autograd is not None:
                return None
            key.append(node.type)
            values.append(node.value)
            as_tensors = True
        elif cls is np.ndarray:
            dtype = x.dtype
            if not dtype.isnative:
                return None
            key += (x.shape, dtype)
            values.append(x if x.flags.c_contiguous else np.array(x, order="C"))
        elif cls is float:
            key.append(float)
            values.append(np.array(x))
        elif cls is int and -(1 << 63) <= x < 1 << 63:
            key.append(int)
            values.append(np.array(x))
        elif cls is np.float64:
            key += ((), x.dtype)
            values.append(np.array(x))
        else:
            return None
    return as_tensors


def _type_of(x: Any) -> Type:
    if isinstance(x, Tensor):
        return x._node.type
    array = x if isinstance(x, np.ndarray) else np.asarray(x)
    if array.dtype.isnative and kind_of(array.dtype) in "biufc":
        return array_type(array.shape, array.dtype)
    return as_node(x).type


def _never() -> bool:
    return False


def _needs_graph() -> bool:
    """Whether calls evaluate the graph itself."""
    return config.engine == "reference"


def _has_rerolled(
    outputs: Sequence[Node], arguments: set[Node], reached: set[Node], first: int, trace: Trace
) -> bool:
    """Make a loop of steps that the function has recorded one by one, if there are such steps."""
    pending = {x for x in reached if x.value is None and x.serial >= first}
    # Between an item and its value, which steps may have computed, is what it is an item of.
    pending.update([x.inputs[0] for x in pending if x.op is item])
    nodes = in_order_of_recording(pending)
    fixed = {*outputs, *arguments}
    found = loop_in(nodes, fixed, known_body, trace, is_compiled=True)
    if found is not None:
        found.rewire(nodes, outputs)
    return found is not None


def _before_trace(
    outputs: Sequence[Node], arguments: set[Node], first: int
) -> tuple[list[Node], list[Node], set[Node], int]:
    """Tensors from before the trace that `outputs` depend on, constants, all nodes, and the number
    of operations."""
    captured: list[Node] = []
    constants: list[Node] = []
    pending: list[Node] = []
    seen = set(arguments)
    stack = list(outputs)
    count = 0
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        is_older = node.serial < first
        if not is_older and node.value is None:
            count += 1
            stack += node.inputs if node.op is not item else value_inputs(node)
        elif node.handle is not None and is_older and node.handle() is not None:
            captured.append(node)
        elif node.value is not None:
            constants.append(node)
        elif not is_traced(node):
            pending.append(node)
        else:
            count += 1
            stack += value_inputs(node)
    evaluate(pending)
    return captured, [*constants, *pending], seen, count
