"""What noise makes of results, at worst, and what covers it."""
