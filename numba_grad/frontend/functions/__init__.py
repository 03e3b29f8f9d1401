"""NumPy's functions, a module for each kind, which says in `__all__` what is public."""
