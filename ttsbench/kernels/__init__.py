"""Operations the engine spends its time in, each twice: obvious torch, and one kernel, in Triton or CUDA C++.

A folder per operation: `reference.py` says what it computes, `triton.py` how the GPU does it fast, `cases.py` names the
shapes that tests check and benchmarks time, and how much work they are (`work.py`). Callers import the functions
of the folder; these look at device and size of their input, and Triton is not imported without a GPU.
"""
