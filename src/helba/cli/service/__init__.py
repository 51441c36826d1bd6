"""Commands of the first service. They go with it."""
