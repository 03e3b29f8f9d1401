"""The functions of `numba_grad.special`, by what they compute."""
