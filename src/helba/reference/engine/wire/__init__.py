"""Vectors, keys and exchanges as bytes."""
