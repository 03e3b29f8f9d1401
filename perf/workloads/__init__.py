"""The workloads, a module each. Where to start reading: `rosenbrock.py`.

A module has
    TITLE, UNIT        how it is reported; UNIT is one of "us", "ms", "s", "MB"
    IMPLEMENTATIONS    name -> function without arguments that returns a `Prepared`
    GOALS              what numba_grad is to reach
and, where the defaults do not fit,
    LIMIT              seconds that an implementation may take until it is ready to be timed
    MEMORY             bytes of data that an implementation may take
    REPEATS            timed runs at most
"""

NAMES = (
    "black_scholes",
    "rosenbrock",
    "lennard_jones",
    "logistic_regression",
    "lotka_volterra",
    "lotka_volterra_first",
    "wave_inversion",
    "heat_adjoint",
    "define_by_run",
    "small_call",
    "replay",
    "start_up",
    "compile_kernel",
    "pairs_memory",
)
