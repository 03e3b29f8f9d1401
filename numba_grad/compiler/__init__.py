"""Graph to plan. Start with `pipeline.py`."""
