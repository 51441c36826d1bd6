"""The authority: makes the keys and says who takes part."""
