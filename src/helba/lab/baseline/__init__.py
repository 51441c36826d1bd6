"""Baselines that experiments compare HELBA with, on plain data."""
