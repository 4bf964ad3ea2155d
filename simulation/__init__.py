"""A whole cluster in one thread, on a clock that jumps, with a seed that repeats everything."""
