"""What runs on NVIDIA GPUs: the driver, devices, streams, memory and arrays. No kernels here."""
