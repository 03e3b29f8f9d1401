"""A fused group as loops over an iteration space.

Start with `lowering.py`; what comes out is in `kernel_ir.py`.
"""
