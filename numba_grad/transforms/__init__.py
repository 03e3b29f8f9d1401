"""Graph to graph, with a mathematical meaning. Start with `vjp.py`."""
