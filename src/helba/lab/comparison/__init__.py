"""Algorithms side by side on many draws of a problem."""
