"""What a computation is. Start with `node.py`."""
