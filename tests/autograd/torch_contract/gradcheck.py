"""`gradcheck` and `gradgradcheck`."""

from tests.autograd.torch_contract.functional import cubes, mix
from tests.autograd.torch_contract.scenarios import raises, scenario, variable


@scenario
def gradcheck_of_right_gradients(lib):
    x, y = variable(lib), variable(lib, 3.0, 4.0, 5.0)
    z = lib.tensor([1 + 2j, 0.5 - 1j], requires_grad=True, dtype="complex128")
    check, twice = lib.autograd.gradcheck, lib.autograd.gradgradcheck
    return [
        check(cubes, x),
        check(mix, (x, y)),
        check(lambda z: z * z, z),
        check(lambda z: z * z.conj() * z, (z,), check_batched_grad=True),
        check(cubes, x, fast_mode=True),
        check(lambda x, c: x * c, (x, 3.0)),
        twice(cubes, x),
        twice(mix, (x, y)),
        twice(lambda z: z * z * z, z),
        twice(cubes, x, lib.tensor([1.0, 2.0, 3.0], requires_grad=True), fast_mode=True),
    ]


def _wrong(lib, factor=2.5, once=False):
    class Square(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x.detach() * factor if once else g * x * factor

    return Square.apply


@scenario
def gradcheck_of_wrong_gradients(lib):
    x = variable(lib)
    check, twice = lib.autograd.gradcheck, lib.autograd.gradgradcheck
    return [
        check(_wrong(lib), x, raise_exception=False),
        check(_wrong(lib), x, raise_exception=False, fast_mode=True),
        check(_wrong(lib, 2, once=True), x),
        twice(_wrong(lib, 2, once=True), x, raise_exception=False),
    ]


@raises("RuntimeError")
def gradcheck_raises(lib):
    lib.autograd.gradcheck(_wrong(lib), variable(lib))


@raises("ValueError")
def gradcheck_without_inputs(lib):
    lib.autograd.gradcheck(cubes, lib.tensor([1.0]))
