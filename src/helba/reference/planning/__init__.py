"""Parameters that are as secure as they say, and what a circuit will cost before it runs."""
