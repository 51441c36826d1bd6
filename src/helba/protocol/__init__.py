"""Messages between the parties, their bytes, and what all parties agreed on."""
