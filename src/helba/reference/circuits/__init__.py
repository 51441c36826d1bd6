"""The numerics again, on encrypted vectors: written against the engine interface only."""
