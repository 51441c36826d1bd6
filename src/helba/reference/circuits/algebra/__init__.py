"""Sums, moved slots, products of matrices, and what is built on them."""
