"""Scores of arms, and the model and the trace that they are made with."""
