"""Torch's gradient contract, on recorded graphs. Start with `backward.py`.

What is per tensor (`.grad`, hooks, ...) is in a `state.GradientState` on its node.
"""
