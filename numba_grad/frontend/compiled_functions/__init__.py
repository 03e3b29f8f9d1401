"""`jit`: functions that are traced once for each signature, and then replayed."""
