"""Just-in-time compiled reverse-mode automatic differentiation for NumPy code."""
