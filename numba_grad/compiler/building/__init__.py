"""Kernel text -> loaded code: from memory, from disk, or compiled now. Start with `build.py`."""
