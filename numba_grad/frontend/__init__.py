"""What users touch. Start with `tensor.py`."""
