"""Numerics that circuits repeat on ciphertexts: sums and products only, each with a certificate."""
