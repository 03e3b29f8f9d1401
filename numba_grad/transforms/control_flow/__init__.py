"""Loops and branches as operations: their derivatives and batched forms, and other loops that come
to the same for less. Start with `loops.py`.
"""
