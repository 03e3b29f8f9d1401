"""Exact rewritings of a graph before it is cut and fused, in the order that targets name."""
