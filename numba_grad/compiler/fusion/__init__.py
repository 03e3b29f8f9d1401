"""Which values of a segment get memory, and which share a kernel. Start with `fuse.py`."""
