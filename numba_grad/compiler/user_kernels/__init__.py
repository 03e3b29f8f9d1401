"""Kernels that users wrote, for `custom_op`: compiled by Numba, called by address."""
