"""Numba's typed intermediate representation to a tree of regions; nobody else knows of it.

Private parts of Numba: the pipeline up to type inference, its statements and types; tested with
Numba 0.68. What is not named in this folder is refused, with its line. Its modules import Numba, so
only code that compiles imports them; tests/test_layers.py looks that no others know these parts.

type_inference  Numba's own pipeline, up to the types of all variables
typed_code      the code of one function with its types
ways            where the ways between its blocks lead, and where they meet
variables       which memory each version of a variable is
names           what a name stands for (`meanings`), at the place that is being translated

A class for each kind of statement, which knows those before it and calls itself:

assignments     what names are given, arrays that are swapped or copied
expressions     constants, operators, attributes
elements        elements of arrays and tuples, read and stored
iteration       what `for` goes through
calls           of the user's other functions, of Python's and of NumPy's
control_flow    branches and loops, and all of these together: `Translation`

function_tree   the tree of a whole function; `findings` are what a translation begins again with
kernel_front_end  a kernel of `numba.cuda` as a function of one thread
"""
