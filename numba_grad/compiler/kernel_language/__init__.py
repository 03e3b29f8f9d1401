"""The language of kernels, and its way to LLVM. Start with `intrinsics.py`."""
