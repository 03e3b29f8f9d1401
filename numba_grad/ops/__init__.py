"""The primitives: one record each, nothing about them elsewhere. Start with `families.py`."""
