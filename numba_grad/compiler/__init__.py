"""Graph to plan.

From what is asked for to a plan, in order:

    evaluate.py, held_values.py      what to compute at once, and what to keep
    programs.py, plan_cache.py       a program that is known, in memory or on disk
    first_tier/                      else, of a graph that has not recurred: a kernel an operation
    pipeline.py                      else the whole way:
        partition/                     the graph as arrays, cut into segments that repeat
        passes/                        exact rewritings of a segment
        fusion/, loop_nests/           which values share a kernel, and its loops
        emission/, cuda/               their text
        library_kernels/               operations with kernels of their own
        control_flow/                  loops and branches as steps
        steps/                         steps, memory and plan
    kernel_language/, elementary/    what that text may say, and its functions
    building/                        text to machine code, in memory and on disk
    numba_functions/, user_kernels/  functions that users have written for Numba
"""
