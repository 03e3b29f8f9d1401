"""Plain Python control flow in `jit(f, control_flow=True)`.

The function is read from its source text and written anew: a loop or a branch becomes functions
for its parts, and a call that decides, when it runs, what to do with them. Where the condition is
known, it does what Python does. Where it is a value that is not there yet, the parts are traced,
and become the bodies of one operation, a loop or a branch.

    while error > tolerance:          def test():
        x = x - step(x)                   return error > tolerance
        error = abs(x)                def body():
                                          nonlocal x, error
                                          x = x - step(x)
                                          error = abs(x)
                                      control_flow.while_loop(0, test, body)

So variables stay variables of the user's function, in the cells that its inner functions share, and
their values there are replaced by stand-ins while a part is traced (`variables.py`).

    function_source.py   the syntax tree of a function
    jumps.py             break, continue and return -> flags and branches
    liveness.py          which variables a statement assigns, and which are read afterwards
    rewriting.py         the function with calls in place of its loops and branches
    decisions.py         what is called: Python, or an operation?
    branches.py          a branch as one operation, `and` and `or` among them
    loops.py             a loop as one operation
    parts.py             what is traced of them
    kinds_in_common.py   what a variable can hold after either side, before and after a step
    flattened_values.py  what a variable holds: arrays and numbers of certain types, in containers
    variables.py         the variables of a loop or a branch
    surroundings_of_parts.py  what else its parts can reach, and must not change
    sites.py             where a loop or branch is in the user's source, for messages
"""
