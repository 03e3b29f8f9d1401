"""Torch's gradient contract. Start with `backward.py`."""
