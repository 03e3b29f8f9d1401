"""The functions of `numba_grad.mpi`, by what they exchange."""
