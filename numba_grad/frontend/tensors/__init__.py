"""Tensors: what users hold, and how NumPy's operators, functions and ufuncs reach ours."""
