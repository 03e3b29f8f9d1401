"""`independent`: the range of a loop no pass of which touches an element that another one writes.

Compiled code (`array_lowering.py`) relies on it.
"""

independent = range
