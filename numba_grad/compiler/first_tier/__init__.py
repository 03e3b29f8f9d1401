"""Small graphs to plans without new kernels: a step for each operation, with a kernel of its own.

Compiling takes some 10 ms a kernel, and a fused kernel serves one program. The kernel of one
operation computes one element (`operation_kernels.py`); another one walks through arrays of any
rank and strides. They serve all programs, and are compiled once a machine. So a graph that is
evaluated for the first time is run operation by operation, at once; one that comes again and again
is fused (`evaluate.py` says when). What decides is the graph and how often it was evaluated, never
what is in a cache, so that a program gives the same bits each time.
"""
