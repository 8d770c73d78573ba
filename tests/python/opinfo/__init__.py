"""PyTorch's own tables of operators (OpInfo) and modules (ModuleInfo) through the compiler: every sample beside eager.

`make opinfo` and `make moduleinfo` run all of it and can be stopped and taken up again; `tests/python/test_opinfo.py` runs a
seeded share.

entries   which entries, types and samples there are
verdict   whether two results are the same
trial     one sample of an operator, compiled and judged
modules   entries, samples and trials of modules, with gradients
worker    a process that runs trials and reports them as lines of JSON
pool      keeps workers going through crashes and hangs
summary   tables of what was found
"""
