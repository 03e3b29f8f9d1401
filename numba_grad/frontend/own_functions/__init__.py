"""Code of the user's own as operations: for Numba, or plain Python."""
