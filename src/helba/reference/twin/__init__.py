"""Plaintext twins of the reference profiles."""
