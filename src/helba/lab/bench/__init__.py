"""Benches: what an operation, a round or an update costs here."""
