"""Formulas of the elementary functions, written once over traced scalars. Start at `scalar.py`.

Each function takes and returns `Value`s and runs once per process and dtype: it writes LLVM
instructions, not numbers. Formulas have no branches, so loops over them vectorize. Beside each
stands which function of kernel source it is (`registry.py`); `formulas.py` has them all.
"""
