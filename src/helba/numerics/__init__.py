"""Numerics that the learning and its bounds share."""
