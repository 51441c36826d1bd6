"""Kernels of the reference and of the ring, as things to time."""
