"""Mistakes that people make, and what the message must say: the table that docs/debugging.md is of.

Each row is code, the error, and texts that its message has: what went wrong, and what to type.
"""

import bisect
import itertools
import linecache
import math
import pickle
import re
import warnings

import numpy as np
import pytest
import scipy.optimize
import scipy.special

import numba_grad as ng
from numba_grad.errors import (
    AxisError,
    DeviceError,
    DTypeError,
    GradientError,
    ShapeError,
    TracingError,
)

IN_A_TRANSFORM = [
    ("ng.grad(lambda x: math.exp(x))(1.0)", GradientError, "np.exp(x) in place of math.exp(x)"),
    ("ng.grad(lambda x: float(x) ** 2)(1.0)", GradientError, "x itself", "float(x.detach())"),
    (
        "ng.grad(lambda x: np.float64(x) ** 2)(1.0)",
        GradientError,
        "x itself in place of np.float64",
    ),
    (
        "ng.grad(lambda k: scipy.optimize.fsolve(lambda t: t * t - k, 1.0)[0])(2.0)",
        GradientError,
        "for a solution that is a constant; for its gradient, ng.custom_vjp around the solver",
    ),
    ("ng.grad(lambda x: x.item() ** 2)(1.0)", GradientError, "arguments of grad", "x.detach()"),
    ("ng.grad(lambda x: ng.tensor(x) ** 2)(1.0)", GradientError, "ng.array(x)"),
    ("ng.grad(lambda v: np.array([v, v]).sum())(1.0)", GradientError, "np.stack([x, y])"),
    ("ng.grad(lambda v: np.asarray(v, float))(1.0)", GradientError, "x.astype(float)"),
    ("ng.grad(lambda v: np.r_[v, 1.0].sum())(1.0)", GradientError, "ng.r_[x, y] in place of np.r_"),
    ("ng.grad(lambda x: pickle.dumps(x))(1.0)", GradientError, "x.detach()"),
    (
        "def f(x):\n    b = np.zeros(3)\n    b[0] = x[0]\n    return b.sum()\nng.grad(f)(x)",
        GradientError,
        "an array cannot hold a tensor that requires grad",
        "b = np.zeros(3, like=x), or ng.zeros(3)",
    ),
    (
        "def f(x):\n    b = np.empty((3, 2))\n    b[:, 0] = x**2\nng.grad(f)(x)",
        GradientError,
        "b = np.zeros((3, 2), like=x)",
    ),
    (
        "def f(x):\n    L = np.zeros((2, 2))\n    L[np.tril_indices(2)] = x\nng.grad(f)(x)",
        GradientError,
        "L = np.zeros((2, 2), like=x)",
        "L = ng.tensor(L)",
    ),
    (
        "p = {'w': np.zeros(3)}\np['w'] -= x",
        TypeError,
        "p['w'] = np.zeros(",
        "p['w'] = ng.tensor(p['w']) before this line",
    ),
    (
        "class P: pass\np = P()\np.w = [np.ones(3)]\np.w[0] -= x",
        TypeError,
        "p.w[0] = ng.tensor(p.w[0]) before this line",
    ),
    (
        "p = np.polynomial.Chebyshev([1.0, 2.0, 3.0])\nng.grad(lambda x: p(x).sum())(x)",
        GradientError,
        "np.poly1d(p.convert(kind=Polynomial).coef[::-1])(x) in place of p(x)",
    ),
    ("ng.jit(lambda x: any(y > 1 for y in x))(x)", TracingError, "np.any(x) in place of any(...)"),
    ("ng.jit(lambda x: x * bool(x[0] > 0))(x)", TracingError, "x itself, or x.astype(bool), in"),
    (
        "ng.jit(lambda x: bisect.bisect_left([1.0, 2.0], x[0]))(x)",
        TracingError,
        "np.searchsorted(x, y) in place of bisect.bisect_left(...)",
    ),
    (
        "b = np.eye(3)\nb[0] = x",
        GradientError,
        "try: b = ng.tensor(b) before this line; or, where it is made in order to be filled, b = ",
    ),
    ("b = np.zeros(3)\nb.fill(x[0])", GradientError, "b = np.zeros(3, like=x)"),
    ("b = np.eye(3)\nnp.fill_diagonal(b, x)", GradientError, "b = ng.tensor(b)"),
    ("b = np.zeros(3)\nb += x", TypeError, "in place", "b = b + x, a new tensor", "like=x"),
    (
        "t = np.zeros(3)\nt[t == 0] += x",
        TypeError,
        "in place",
        "t = np.zeros(3, like=x)",
        "t = ng.tensor(t)",
    ),
    ("np.add(x, 1, out=np.zeros(3))", TypeError, "out= is not supported", "y = numpy.add(...)"),
    ("np.sum(x, out=np.zeros(()))", TypeError, "out= is not supported", "y = numpy.sum(...)"),
]
GRADIENTS = [
    (
        "x.numpy()",
        GradientError,
        # Here and below in torch's own words, which programs match on.
        "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
        "x.detach().numpy()",
    ),
    ("x += 1", GradientError, "a leaf Variable that requires grad", "with ng.no_grad()"),
    ("x[0] = 1", GradientError, "a leaf Variable that requires grad", "with ng.no_grad()"),
    (
        "(x * 2).backward()",
        GradientError,
        "grad can be implicitly created only for scalar outputs",
        "x.sum().backward()",
    ),
    (
        "y = (x**2).sum()\ny.backward()\ny.backward()",
        GradientError,
        "Trying to backward through the graph a second time",
        "Specify retain_graph=True",
    ),
    (
        "ng.autograd.grad(x.sum(), ng.ones(2, requires_grad=True))",
        GradientError,
        "One of the differentiated Tensors appears to not have been used in the graph",
        "Set allow_unused=True",
    ),
    ("y = x[:1]\ny += 1", GradientError, "a view of a leaf Variable that requires grad is being"),
    ("(x * 2).backward(np.ones(3))", TypeError, "but got ndarray", "ng.tensor(gradient)"),
    (
        "ng.ones(3).sum().backward()",
        GradientError,
        "element 0 of tensors does not require grad and does not have a grad_fn",
        "requires_grad=True",
    ),
    ("ng.tensor([1, 2], requires_grad=True)", GradientError, "astype(numpy.float64)"),
    ("ng.grad(lambda n: n**2)(3)", DTypeError, "2.0 instead of 2", "at argument 0"),
    ("ng.grad(lambda x: np.argmax(x))(x)", DTypeError, "real, floating number", "have no slope"),
    ("ng.grad(lambda x: x * 2)(x)", ShapeError, "a 0-d result", "f(x).sum()", "ng.jacobian(f)"),
    ("ng.grad(lambda x: (x.sum(), x))(x)", TypeError, "tuple of length 2", "has_aux=True"),
    ("ng.grad(lambda x: (1j * x).sum())(x)", DTypeError, "return result.real"),
    ("ng.grad(lambda x: None)(x)", TypeError, "returned None", "return a number"),
    (
        "ng.grad(lambda x: 'a')(x)",
        DTypeError,
        "not an array of numbers",
        "function of grad returned",
    ),
    ("ng.grad(lambda x: x.sum)(x)", DTypeError, "a function, where", "x.sum(), not x.sum"),
    ("ng.grad(np.sum, argnums=1)(x)", TypeError, "argnums names an argument", "by position"),
    ("ng.grad(lambda x: x.sum())(x=x)", TypeError, "by position, not by keyword"),
    ("ng.grad(lambda x, y: x, argnums=2)(1.0, 2.0)", TypeError, "-2 <= argnums < 2"),
    ("ng.jacobian(lambda x: [x, 'a'])(x)", DTypeError, "what the function of jacobian returned"),
    (
        "g, = ng.autograd.grad((x**2).sum(), x)\ng.sum().backward()",
        GradientError,
        "create_graph=True",
    ),
    ("x.grad = np.ones(3)", TypeError, "of type ndarray", "x.grad = ng.tensor(value"),
    (
        "class F(ng.autograd.Function):\n    forward = staticmethod(lambda x: x)\nF.apply(x)",
        TypeError,
        "F.apply, which passes ctx first, calls <lambda> with 2 arguments",
    ),
    ("ng.grad(np.sum, argnums='x')", TypeError, "argnums are the positions", "an integer"),
    ("x.register_hook(3)", TypeError, "register_hook: not a function"),
    (
        "x.register_hook(lambda: 1)\nx.sum().backward()",
        TypeError,
        "a backward pass calls <lambda> with 1 argument",
    ),
    ("ng.grad(np.sum, x)", TypeError, "argnums are the positions", "ng.grad(f)(x)"),
    ("ng.grad(x.sum())", TypeError, "needs a function", "ng.grad(f)(x)"),
    ("ng.grad(lambda p: p)(object())", DTypeError, "tuple, list, dict or dataclass", "argument 0"),
]
UNDER_JIT = [
    ("ng.jit(lambda x: math.sin(x))(1.0)", TracingError, "np.sin(x) in place of math.sin(x)"),
    ("ng.jit(lambda x: x if x > 0 else -x)(1.0)", TracingError, "ng.where(condition, x, y)"),
    ("ng.vmap(lambda x: x if x > 0 else -x)(x)", TracingError, "ng.where(condition, x, y)"),
    ("ng.jit(lambda i: [1.0, 2.0][i])(1)", TracingError, "ng.asarray([1.0, 2.0])[i]"),
    (
        "table = np.ones(3)\nng.jit(lambda i: table[i])(1)",
        TracingError,
        "ng.asarray(table)[i]",
    ),
    ("ng.jit(lambda n: list(range(n)))(3)", TracingError, "static_argnums", "range"),
    ("ng.fori_loop(0, 3, lambda i, c: c + sum(range(i)), 0)", TracingError, "try: ng.fori_loop"),
    ("ng.jit(lambda n: ng.zeros(n))(3)", TracingError, "static_argnums"),
    ("ng.jit(lambda n: np.zeros(n))(3)", TypeError, "index: needs the value", "static_argnums"),
    ("ng.jit(lambda n: np.zeros((n, 2)))(3)", TracingError, "try: static_argnums"),
    ("ng.jit(lambda x, n: x.reshape(n, -1))(np.ones(4), 2)", TracingError, "try: static_argnums"),
    ("ng.jit(lambda c: np.roots(c))(x)", TracingError, "ng.linalg.eigvals of the companion matrix"),
    (
        "ng.jit(lambda c: (np.poly1d(c) * np.poly1d([1, 2]))(0.5))(x)",
        TracingError,
        "np.polyval in place of np.poly1d",
    ),
    ("ng.jit(lambda x, n: x[:n])(np.ones(4), 3)", TracingError, "x[i + np.arange(n)]"),
    ("ng.jit(lambda x: np.array([x, x]))(1.0)", TracingError, "np.stack([x, y])"),
    ("ng.jit(lambda x: np.asarray(x, float))(1.0)", TracingError, "x.astype(float)"),
    ("ng.jit(lambda x: x.item())(1.0)", TracingError, "convert the result"),
    ("ng.jit(lambda x: print('%g' % x))(1.0)", TracingError, "f'{x}'", "return x, and print"),
    ("ng.jit(lambda x: x[x > 0])(np.ones(3))", TracingError, "ng.where(mask, x, 0)"),
    (
        "def f(t, d):\n    t[t > 0] += d\n    return t\nng.jit(f)(np.ones(3), np.ones(3))",
        TracingError,
        "v[mask] in place of an array v of the shape of x",
    ),
    ("ng.jit(lambda x: len(x[x > 0]))(np.ones(3))", TracingError, "np.count_nonzero(mask)"),
    ("ng.jit(lambda x: x[x > 0] + x[x < 0])(np.ones(3))", TracingError, "with the same mask"),
    ("ng.jit(lambda x: x[np.nonzero(x)])(np.ones(3))", TracingError, "ng.where(mask, x, 0)"),
    ("ng.jit(np.bincount)(np.arange(3))", TracingError, "np.bincount(x, weights, minlength=n)"),
    ("ng.jit(lambda x, mode: x)(1.0, 'a')", TypeError, "ng.jit(f, static_argnums=1)"),
    ("ng.jit(lambda x, n: x, static_argnames=1)", TypeError, "static_argnames: text"),
    ("ng.jit(lambda x, mode: x)(1.0, mode='a')", TypeError, "ng.jit(f, static_argnames='mode')"),
    ("ng.jit(lambda x, mode: x)(1.0, ['a'])", TypeError, "an argument of its own"),
    ("ng.jit(lambda x, s: x, static_argnums=1)(1.0, [1])", TypeError, "not hashable", "a tuple"),
    ("ng.jit(lambda x: 'abc')(1.0)", TypeError, "a result is neither", "return tensors"),
]
LOOPS = [
    ("ng.scan(lambda c: (c, c), 0.0, x)", TypeError, "scan calls <lambda> with 2 arguments"),
    ("ng.scan(lambda c, t: (c, 'a'), 0.0, x)", DTypeError, "what the function of scan returned"),
    ("ng.fori_loop(0, 3, lambda v: v, x)", TypeError, "fori_loop calls <lambda> with 2 arguments"),
    (
        "ng.while_loop(lambda v: v[0] < 3, lambda i, v: (i + 1, v), (0, 1.0))",
        TypeError,
        "while_loop calls <lambda> with 1 argument",
    ),
    ("ng.map(lambda a, b: a, x)", TypeError, "map calls <lambda> with 1 argument"),
    ("ng.associative_scan(lambda a: a, x)", TypeError, "associative_scan calls <lambda> with 2"),
    ("ng.cond(True, lambda: 1.0, lambda: 2.0, x)", TypeError, "cond calls <lambda> with 1"),
    ("ng.switch(0, np.sin, x)", TypeError, "a list of functions", "ng.switch(index, [f, g]"),
    ("ng.vmap(lambda x: 'a')(x)", DTypeError, "what the function of vmap returned"),
]
ARRAYS = [
    ("np.ones(4) + x", ShapeError, "do not broadcast", "float64[4]", "float64[3]", "x[:, None]"),
    ("ng.ones((3, 4)) @ ng.ones((3, 4))", ShapeError, "x1 @ x2.mT"),
    ("np.stack([x, x[:2]])", ShapeError, "different shapes", "concatenate"),
    ("x.reshape(2, 2)", ShapeError, "3 elements do not fill", "-1"),
    ("np.sum(x, axis=1)", AxisError, "-1 <= axis < 1"),
    ("x[1.0]", IndexError, "not an index", "index.astype(int)"),
    ("x['a']", IndexError, "not an index", "a dict of tensors"),
    ("x[5]", IndexError, "out of bounds", "size 3"),
    ("[1, 2][x[0]]", TypeError, "0-d integer tensor", "x.astype(int)"),
    ("if x > 0: pass", ValueError, "ambiguous", "x.any() or x.all()"),
    ("y = ng.zeros(3)\ny[0] = 1j", DTypeError, "imaginary parts", "values.real"),
    ("y = ng.zeros(3)\ny += 1j", DTypeError, "astype('complex128')"),
    ("ng.zeros(2, 3)", DTypeError, "not a dtype", "ng.zeros((2, 3))"),
    ("ng.zeros(3, dtype='float46')", DTypeError, "'float46'", "float64"),
    ("ng.zeros(3, device='gpu')", DeviceError, "'gpu'", "'cuda'"),
    ("ng.tensor([[1], [2, 3]])", ShapeError, "different lengths", "pad the rows"),
    ("ng.tensor(np.array([1, None]))", DTypeError, "not an array of numbers", "dtype=float"),
    ("x + foreign", TypeError, "another library", "ng.from_dlpack(y)"),
    ("foreign + x", TypeError, "another library", "ng.from_dlpack(y)"),
    ("f'{x:.3f}'", TypeError, "one number", "np.array2string(x, precision=3)"),
    ("x.unsqueeze(0)", AttributeError, "no attribute 'unsqueeze'", "x[:, None]"),
    ("x.view(3, 1)", AttributeError, "x.reshape(shape)"),
    ("x.exp()", AttributeError, "np.exp(x)"),
    ("ng.signal.convolve(x, x, axes=(0, 0))", TypeError, "two sequences of axes", "[1, 2]"),
    ("ng.special.yn(1.5, x)", TypeError, "one integer", "yv"),
    ("x.exp_()", AttributeError, "x[...] = np.exp(x)"),
    ("ng.optim", AttributeError, "scipy.optimize.minimize"),
    ("ng.tensor(scipy.sparse.eye(3))", DTypeError, "value @ x", "value.toarray()"),
    ("ng.tensor(None)", DTypeError, "a value in place of None"),
    ("ng.ShapeDtypeStruct((3, -1), float)", ShapeError, "negative sizes"),
    ("v, i = x.detach().ctypes", AttributeError, "x.detach().numpy().ctypes"),
    ("y = ng.arange(3)\ny[0] = np.nan", ValueError, "cannot convert float NaN to integer"),
    ("np.add(x, 1, out=ng.zeros(3, dtype=int))", DTypeError, "cannot assign float64", "int64"),
    ("np.add(x, 1, out=x[0])", TypeError, "a number", "x[0, ...]"),
    ("np.concatenate([x, x], dtype=int)", DTypeError, "same_kind", "casting='unsafe'"),
    ("ng.special.fresnel(x)", AttributeError, "scipy.special has it", "ng.callback"),
    ("ng.poly1d([1, 2])", AttributeError, "numpy has it", "numba_grad.numpy"),
    ("scipy.special.binom(x, 2)", TypeError, "not supported on tensors", "x0.detach().numpy()"),
    ("np.busday_count(x, x)", TypeError, "not supported on tensors", "detach().numpy()"),
    ("np.frompyfunc(abs, 1, 1)(x)", TypeError, "no derivative here", "ng.custom_op"),
]
TABLE = IN_A_TRANSFORM + GRADIENTS + UNDER_JIT + LOOPS + ARRAYS
numbers = itertools.count()


class Foreign:
    """An array of another library."""

    def __dlpack__(self, **arguments):
        raise NotImplementedError


def run(code):
    """As a user's file would, whose text can be looked up."""
    name = f"<mistake {next(numbers)}>"
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    x = ng.tensor([1.0, 2.0, 3.0], requires_grad=True)
    names = {"np": np, "ng": ng, "math": math, "pickle": pickle, "x": x, "foreign": Foreign()}
    names |= {"scipy": scipy, "bisect": bisect}
    try:
        exec(compile(code, name, "exec"), names)
    finally:
        del linecache.cache[name]


def message(error):
    """With its notes; without NumPy's "setting an array element with a sequence" in front."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error, "\n".join([str(error), *getattr(error, "__notes__", ())])


@pytest.mark.parametrize("row", TABLE, ids=[row[0].splitlines()[-1] for row in TABLE])
def test_the_message_says_what_to_type(row):
    code, kind, *texts = row
    with pytest.raises(Exception) as caught:
        run(code)
    error, text = message(caught.value)
    assert isinstance(error, kind), text
    assert not [expected for expected in texts if expected not in text], text
    assert all(len(line) < 240 for line in text.splitlines()), text


ADVICE = {
    "ng.grad(lambda x: np.exp(x))(0.0)": 1,
    "ng.grad(lambda x: x**2)(1.0)": 2,
    "ng.grad(lambda x: x.detach().item() * x)(3.0)": 3,
    "ng.grad(lambda x: ng.array(x) ** 2)(1.0)": 2,
    "ng.grad(lambda v: np.stack([v, v]).sum())(1.0)": 2,
    "ng.grad(lambda v: v.astype(float))(1.0)": 1,
    "ng.jit(lambda i: ng.asarray([1.0, 2.0])[i])(1)": 2,
    "ng.jit(lambda i: ng.asarray(np.eye(3))[i])(1)": [0, 1, 0],
    "ng.jit(lambda x, i: x[i + np.arange(2)])(np.arange(4.0), 1)": [1, 2],
    "ng.jit(lambda x, n: x[:n], static_argnums=1)(np.ones(4), 2)": [1, 1],
    "ng.jit(lambda x: np.where(x > 0, x, -x))(-1.0)": 1,
    "ng.jit(lambda x: np.where(x > 1, x + 1, x))(np.arange(4.0))": [0, 1, 3, 4],
    "[1, 2][ng.tensor(1.0).astype(int)]": 2,
    "np.zeros(2, like=x)": [0, 0],
    "x.detach().numpy()": [1, 2, 3],
    "x.detach() + ng.from_dlpack(np.ones(3))": [2, 3, 4],
}


@pytest.mark.parametrize("code", ADVICE)
def test_what_the_messages_say_to_type_works(code):
    x = ng.tensor([1.0, 2.0, 3.0], requires_grad=True)
    np.testing.assert_array_equal(eval(code, {"np": np, "ng": ng, "x": x}), ADVICE[code])


def test_a_function_that_numba_compiled_names_differentiable():
    numba = pytest.importorskip("numba")
    double = numba.njit(lambda x: 2 * x)
    for call in (double, numba.typeof, lambda x: double((x, 1.0))):
        with pytest.raises(TypeError, match=r"(?s)numba\.njit: .*try: ng\.differentiable"):
            call(ng.ones(3))
    assert not hasattr(ng.ones(3), "_numba_type_")  # it is there for Numba alone


def test_a_function_of_pytorch_names_ours():
    torch = pytest.importorskip("torch")
    x = ng.ones(3, requires_grad=True)
    for call, ours in ((torch.sin, "np.sin(...)"), (torch.nn.functional.relu, "ng.relu(x)")):
        with pytest.raises(TypeError, match=f"PyTorch's tensors\n  try: {re.escape(ours)}; or"):
            call(x)
    assert torch.as_tensor(x.detach()).tolist() == [1, 1, 1]
    assert torch.Tensor(x.detach()).tolist() == [1, 1, 1]
    assert torch.ones(ng.tensor(2)).tolist() == [1, 1]


def test_a_ufunc_that_numba_compiled_names_custom_op():
    numba = pytest.importorskip("numba")
    with pytest.raises(TypeError, match=r"try: ng\.custom_op"):
        numba.vectorize(lambda x: 2 * x)(ng.ones(3))


def test_a_training_loop_warns_of_a_number_once():
    x = ng.tensor(1.5, requires_grad=True)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(4):
            loss = x * x
            loss.backward()
            float(loss)
    assert [bool(re.search("to a scalar", str(w.message))) for w in seen] == [True]
