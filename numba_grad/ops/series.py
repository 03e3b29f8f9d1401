"""Numbers of series, which operations share with their kernels. Imports nothing."""

# Bernoulli's numbers B(2 k) / (2 k)!
EULER_MACLAURIN = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -5.28419013868749322e-10,
    1.3382536530684678861e-11,
    -3.389680296322582717e-13,
    8.5860620562778451694e-15,
    -2.1748686985580619227e-16,
    5.5090028283602295302e-18,
    -1.3954464685812524713e-19,
)

# Of the derivatives of zeta functions: below, terms cancel.
LEAST_EXPONENT = -1.0

# Of the derivatives of hyp1f1. What may be lost to cancellation: of 16 digits, 10.
MOST_TERMS = 1 << 15
LEAST_ACCURACY = 1e-6

# Of the derivatives of exp(x) K_v(x), whose integrals are cut where cosh does not overflow.
LEAST_ARGUMENT = 1e-300
