"""The functions of `numba_grad.linalg`, by what they compute."""
