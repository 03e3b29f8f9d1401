"""Array code to loops of the tree: slices, views, array expressions, products, reductions.

An array expression that is used at once is not stored: `Expression` says what each of its elements
is, and the loops of who uses it compute that (`expressions.py`). Slices, rows and transposes are
views. `lowering.lowered` is where a translation asks for all of this; of the classes behind it, one
for each subject, each knows those before it: broadcasting, views, indexing, elementwise_functions,
new_arrays, reductions, products.
"""
