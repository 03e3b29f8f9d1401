"""Graph to graph, with a mathematical meaning. Start with `vjp.py`.

vjp.py, jvp.py, batch.py       reverse mode, forward mode, many examples at once
call.py, kept_values.py        calls of functions, and what their derivatives keep
control_flow/                  loops and branches as operations
python_loops.py, rerolling/    steps that Python has recorded one by one, as a loop again
rewrites/                      equal graphs whose derivative costs less
"""
