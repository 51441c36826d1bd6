"""Shares modulo q: integers, pads, places and what is moved between them."""
