"""Every expression of the registry becomes machine code, without spills, and in its precision."""

from collections import defaultdict

import numpy as np
import pytest

from numba_grad.compiler.cuda import front_end, link
from numba_grad.compiler.cuda.expressions import KernelExpressions
from numba_grad.compiler.scalar_expressions import parsed
from tests.cuda.expression_kernels import Case, cases, source_of
from tests.cuda.requirements import needs_compiler

# Why a float32 kernel has float64 instructions all the same. None is on the usual way.
FLOAT64_IN_FLOAT32 = {
    # libdevice reduces arguments beyond 100,000 with one product in float64.
    **dict.fromkeys(("sin", "cos", "tan"), "large arguments"),
    # libdevice's functions of negative numbers, next to whose zeros float32 has no digits left.
    **dict.fromkeys(("gamma", "gammaln", "rgamma", "beta", "betaln"), "negative arguments"),
    # The formulas are in float64 on the CPU, too.
    **dict.fromkeys(("lambertw", "lambertw_below"), "float64 throughout"),
    **dict.fromkeys(("zeta", "riemann_zeta", "exp1", "expi"), "float64 throughout"),
    **dict.fromkeys(("gammainc", "gammaincc", "betainc"), "float64 throughout"),
    **dict.fromkeys(("sine_integral", "cosine_integral"), "float64 throughout"),
    **dict.fromkeys(("jv", "yv", "iv", "ive", "kv", "kve", "hyp1f1"), "float64 throughout"),
    **dict.fromkeys(("j0", "j1", "y0", "y1", "i0", "i1", "i0e", "i1e"), "float64 throughout"),
    **dict.fromkeys(("k0", "k1", "k0e", "k1e"), "float64 throughout"),
}
# By their parts, or float64 throughout, as on the CPU; of arctan and arctanh, next to 1 and beyond
# 1e18.
OF_COMPLEX = {
    *("arctan", "arctanh"),
    *("erf", "erfc", "erfcx", "ndtr", "log_ndtr", "gamma", "rgamma", "loggamma", "digamma"),
    *("exp1", "expi", "sine_integral", "cosine_integral", "jv", "complex_hyp1f1"),
    *("exp", "exp2", "expm1", "sinh", "cosh", "tanh", "power", "integer_power", "sigmoid"),
    *("sin", "cos", "tan", "lambertw_branch", "integer_zeta"),
}
PER_KERNEL = 12
MOST_COST = 600  # of which a kernel takes a quarter of a minute
SINGLE = {"bool", "float16", "float32", "complex64"}


def may_use_float64(case: Case) -> bool:
    if case.dtypes[0].kind == "c":
        return case.op.name in OF_COMPLEX
    return case.op.name in FLOAT64_IN_FLOAT32


def is_single(case: Case) -> bool:
    return {d.name for d in (*case.dtypes, case.result)} <= SINGLE and not (
        case.dtypes[0].kind == "b" and len({*case.dtypes, case.result}) == 1
    )


def groups():
    """Cases by what is to hold for their machine code, some to a kernel: compiling takes time."""
    by_kind: dict[str, list[Case]] = defaultdict(list)
    for case in cases("?biqBQefdFD"):
        if case.dtypes[0].name == "float16" and case.op.cost > 4:
            continue  # computed in float32: compiled for that already
        kind = case.dtypes[-1].name
        if is_single(case):
            kind += ", some float64" if may_use_float64(case) else ", no float64"
        by_kind[kind].append(case)
    for kind, found in sorted(by_kind.items()):
        for number, group in enumerate(in_kernels(found)):
            # Half a minute each, for functions that complex128 has compiled.
            is_again = kind == "complex64, some float64" and cost_of(group) > MOST_COST / 2
            yield pytest.param(
                group,
                id=f"{kind}, {number}",
                marks=pytest.mark.thorough(rare=True) if is_again else (),
            )


def in_kernels(found: list[Case]) -> list[list[Case]]:
    result: list[list[Case]] = [[]]
    for case in found:
        if len(result[-1]) == PER_KERNEL or cost_of(result[-1]) > MOST_COST:
            result.append([])
        result[-1].append(case)
    return result


def cost_of(group: list[Case]) -> float:
    return sum(case.op.cost for case in group)


@pytest.mark.thorough(but="^(float32, no|int64|complex64, no).* 0$")
@needs_compiler
@pytest.mark.parametrize("group", list(groups()))
def test_expressions_compile(group):
    ptx = front_end.compile_to_ptx(source_of(group), "sm_80")
    for architecture in ("sm_80", "sm_90"):
        cubin, usage = link.link(ptx, architecture)
        assert cubin[:4] == b"\x7fELF"
        assert usage.spilled_bytes == 0, [str(case) for case in group]
    if all(is_single(case) and not may_use_float64(case) for case in group):
        assert ".f64" not in ptx, [str(case) for case in group]


@pytest.mark.thorough(but="^(i0|expi)$")
@needs_compiler
@pytest.mark.parametrize("name", sorted(FLOAT64_IN_FLOAT32))
def test_exceptions_are_needed(name):
    (case,) = [case for case in cases("f") if case.op.name == name]
    assert ".f64" in front_end.compile_to_ptx(source_of([case]), "sm_80")


F32, F64, I8, I64 = (np.dtype(t) for t in (np.float32, np.float64, np.int8, np.int64))
BOOL, C64 = np.dtype(bool), np.dtype(np.complex64)


@pytest.mark.parametrize(
    ("template", "dtype", "operands", "text"),
    [
        ("{x} * {y}", F32, {"x": ("a", F32), "y": ("b", F32)}, "libdevice.fmul_rn(a, b)"),
        ("{x} * {y}", I64, {"x": ("a", I64), "y": ("b", I64)}, "a * b"),
        (
            "{x} - {y} * {z}",
            F64,
            {"x": ("a", F64), "y": ("b", F64), "z": ("c", F64)},
            "libdevice.fma(-b, c, a)",
        ),
        (
            "reduce_add({x}, {y} * {z})",
            F32,
            {"x": ("a", F32), "y": ("b[1]", F32), "z": ("c", F32)},
            "libdevice.fmaf(b[1], c, a)",
        ),
        ("{x} + {y}", I8, {"x": ("a", I8), "y": ("b", I8)}, "int8(a + b)"),
        ("{x} + {y}", BOOL, {"x": ("a", BOOL), "y": ("b", BOOL)}, "a | b"),
        ("-{x}", I8, {"x": ("a", I8)}, "int8(-a)"),
        ("exp({x})", F32, {"x": ("a", F32)}, "libdevice.expf(a)"),
        ("exp({x})", F64, {"x": ("a", F64)}, "libdevice.exp(a)"),
        ("erfc({x})", F32, {"x": ("a", F32)}, "erfc_float32(a)"),
        ("cast(1, float32)", F32, {"x": ("a", F32)}, "float32(1.0)"),
        ("cast({x}, int64)", I64, {"x": ("a", F32)}, "int64_of_float32(a)"),
        ("cast({x}, float16)", np.dtype("e"), {"x": ("a", F32)}, "float32(float16(a))"),
        ("real({x})", F32, {"x": ("a", C64)}, "a.real"),
        ("{x} / {y}", C64, {"x": ("a", C64), "y": ("b", C64)}, "divide_complex64(a, b)"),
        (
            "select({c}, {x}, {y})",
            F32,
            {"c": ("c", BOOL), "x": ("a", F32), "y": ("b", F32)},
            "cuda.selp(c, a, b)",
        ),
        (
            "select({c}, {x}, {y})",
            C64,
            {"c": ("c", BOOL), "x": ("a", C64), "y": ("b", C64)},
            "a if c else b",
        ),
        (
            "({x} < cast(0, int64)) | (cast({x}, uint64) < {y})",
            BOOL,
            {"x": ("a", I64), "y": ("b", np.dtype(np.uint64))},
            "(a < int64(0)) | (uint64(a) < b)",
        ),
        ("reduce_add({a}, {b})", F32, {"a": ("s", F32), "b": ("v", F32)}, "s + v"),
        (
            "reduce_maximum({a}, {b})",
            F32,
            {"a": ("s", F32), "b": ("v", F32)},
            "maximum_float32(s, v)",
        ),
    ],
)
def test_templates_become_cuda_python(template, dtype, operands, text):
    assert KernelExpressions().apply(parsed(template), operands, dtype, dtype.kind in "iub") == text


def test_functions_come_after_what_they_call():
    expressions = KernelExpressions()
    complex128 = np.dtype(np.complex128)
    expressions.apply(parsed("arcsinh({x})"), {"x": ("a", complex128)}, complex128, False)
    names = [text.split("def ")[1].split("(")[0] for text in expressions.definitions()]
    assert names.index("sqrt_complex128") < names.index("asin_complex128")
    assert names[-1] == "asinh_complex128"
    assert len(set(names)) == len(names)
