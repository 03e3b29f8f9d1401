"""Derivatives of users' own Numba functions: typed code to regions to source.

regions            the tree: loops, branches, loads, stores and scalars
scalar_operations  what scalars are computed with: source text and derivatives
numba_ir           the folder that knows Numba's intermediate representation, alone
named_operations   what Python and NumPy call the scalar operations
array_expressions  array code (slices, views, products, reductions) to loops of the tree
numpy_in_loops     functions of NumPy that are written as users would
analyses           what is active, what an adjoint needs, how it comes by it
tangent, adjoint   tree to tree
source_writer      a tree as plain Numba source
"""
