"""From which sizes on a loop is an operation, rather than its steps."""

# Of a loop in a compiled function: fewer are better written out.
FEWEST_STEPS = 12
# Elements of a value inside of a step, where steps that were recorded one by one become a loop.
LARGEST_VALUE = 256
# In a compiled function of larger ones as well, from so many operations of a step on.
LONG_STEP = 24
