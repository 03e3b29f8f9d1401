"""Public as `numba_grad.random`: random numbers as functions of a key, without hidden state.

    key = ng.random.key(0)
    first, second = ng.random.split(key)
    x = ng.random.normal(first, (1000, 3))
    y = ng.random.uniform(second, (1000,), low=-1.0)

A key is a uint64 tensor without axes: an array like any other, which may be stored, passed to a
jitted function, or mapped over by `vmap`. The same key gives the same numbers, whatever the number
of threads, within `jit` and outside, and element i of a result does not depend on how many there
are. So use each key once, and make new ones by `split` and `fold_in`: two draws from one key are
not independent.

Bits come from Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
1, 2, 3", 2011), one block of 128 for each number, with the key as its key and the position of the
number as its counter. That is an elementwise operation, so numbers are computed inside of the
kernels that use them. They are not for cryptography.

Where a distribution has a location, scale or other parameters that numbers depend on smoothly,
gradients flow to these (reparametrization). In all of these functions

    shape : of the result; by default what the parameters broadcast to. Parameters broadcast to it.
    dtype : float32 or float64; by default that of the parameters, float64 if these are numbers
"""

from numba_grad.frontend.random_variates.bits import bits, fold_in, key, split
from numba_grad.frontend.random_variates.choices import (
    bernoulli,
    categorical,
    choice,
    integers,
    permutation,
    poisson,
)
from numba_grad.frontend.random_variates.distributions import (
    beta,
    chisquare,
    dirichlet,
    exponential,
    gamma,
    gumbel,
    laplace,
    loggamma,
    logistic,
    lognormal,
    multivariate_normal,
    normal,
    standard_t,
    truncated_normal,
    uniform,
)

__all__ = [
    "bernoulli",
    "beta",
    "bits",
    "categorical",
    "chisquare",
    "choice",
    "dirichlet",
    "exponential",
    "fold_in",
    "gamma",
    "gumbel",
    "integers",
    "key",
    "laplace",
    "loggamma",
    "logistic",
    "lognormal",
    "multivariate_normal",
    "normal",
    "permutation",
    "poisson",
    "split",
    "standard_t",
    "truncated_normal",
    "uniform",
]
