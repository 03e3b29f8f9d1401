"""Loops -> the text of a kernel for the processor. Start with `emit_cpu.py`."""
