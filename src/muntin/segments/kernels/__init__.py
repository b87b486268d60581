"""Hot loops over the columns of many states at once.

A kernel here calls kernels of its own file and of `muntin.summaries.kernels` only: Numba's cache
notices a change of a function's own file, and the folder of the cache is named after the files of
`muntin.summaries.kernels`. A test holds this.
"""
