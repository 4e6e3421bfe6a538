"""Operations the engine spends its time in, each twice: obvious torch, and one Triton kernel.

A folder per operation: `reference.py` says what it computes, `triton.py` how the GPU does it fast, `cases.py` names the
shapes that tests check and benchmarks time, and how much work they are (`work.py`). Callers import the one function of
the folder; it looks at the device of its input, so this room is the only place where the choice is made, and Triton is
not imported without a GPU.
"""
