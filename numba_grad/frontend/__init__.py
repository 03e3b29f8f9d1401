"""What users touch. Start with `tensors/tensor.py`."""
