"""A fused group as loops over an iteration space.

Start with `lower.py`; what comes out is in `kernel_ir.py`.
"""
