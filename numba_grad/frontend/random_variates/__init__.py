"""The functions of `numba_grad.random`, by what they draw."""
