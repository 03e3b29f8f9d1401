"""Plan to results: knows buffers and functions, not graphs. Start with `plan.py`."""
