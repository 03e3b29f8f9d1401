"""The workloads, a module each. Where to start reading: `rosenbrock.py`.

A module has
    TITLE              what is measured
    SIZES              "small", "medium", "large" -> the numbers that make it so, a named tuple
    IMPLEMENTATIONS    name -> function of such numbers that returns a `Prepared`
    GOALS              what numba_grad is to reach
and, where the defaults do not fit,
    TOLERANCE          of values and gradients among each other, relative to the largest
    LIMIT              seconds that an implementation may take until it is ready to be timed
    MEMORY             bytes of data that an implementation may take
    REPEATS            timed runs at most
    OTHERWISE          implementations of ours that write the same problem as others would
    minimal_bytes      function of a size: inputs and results, each moved once; where that is the
                       limit
A name after a comma is a variant: "numba_grad, jitted step".
"""

GRADIENTS = (
    "black_scholes",
    "rosenbrock",
    "lennard_jones",
    "logistic_regression",
    "gaussian_mixture",
    "mlp",
    "mlp_float32",
    "softmax_rows",
    "layer_normalization",
    "lstm",
    "lotka_volterra",
    "wave_inversion",
    "heat_adjoint",
    "jacobi",
    "bundle_adjustment",
)
COSTS = (
    "lotka_volterra_first",
    "define_by_run",
    "recording",
    "small_call",
    "replay",
    "start_up",
    "compile_kernel",
    "pairs_memory",
    "leak",
    "elementwise_sizes",
)
NAMES = GRADIENTS + COSTS
