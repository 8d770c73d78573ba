"""PyTorch's own tables of operators (OpInfo) through the compiler: every sample, in every element type, beside eager.

`make opinfo` runs all of it and can be stopped and taken up again; `tests/python/test_opinfo.py` runs a seeded share.

entries   which entries, types and samples there are
verdict   whether two results are the same
trial     one sample, compiled and judged
worker    a process that runs trials and reports them as lines of JSON
pool      keeps workers going through crashes and hangs
summary   tables of what was found
"""
