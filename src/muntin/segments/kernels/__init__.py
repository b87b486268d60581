"""Hot loops over the columns of many states at once.

A kernel here calls kernels of its own file and of `muntin.summaries.kernels` only: what several
kinds need is there. A test holds this.
"""
