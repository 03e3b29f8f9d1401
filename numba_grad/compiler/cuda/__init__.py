"""The second target: kernels for NVIDIA GPUs, as CUDA Python that a compiler turns into cubins."""
