"""Kernels, calls of libraries and memory -> steps of a plan."""
