"""A graph as segments that repeat, and what is in memory between them.

Start with `segments.py`.
"""
