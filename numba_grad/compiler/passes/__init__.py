"""Exact rewritings of a graph before it is fused: of a segment, or of all that a jitted function
computes, in the order that targets name (`of_every_target.py`).
"""
