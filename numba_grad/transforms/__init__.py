"""Graph to graph, with a mathematical meaning. Start with `vjp.py`.

vjp.py, jvp.py, batch.py       reverse mode, forward mode, many examples at once
call_target.py, call.py        functions as graphs, and calls of them
kept_values.py                 what their derivatives keep, and what they compute again
control_flow/                  loops and branches as operations
python_loops.py, rerolling/    steps that Python has recorded one by one, as a loop again
rewrites/                      equal graphs whose derivative costs less
"""
