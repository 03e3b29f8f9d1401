"""Loops and branches as operations: `scan`, `while_loop`, `cond` and their relatives."""
