"""The server: rounds, rewards, updates, and what waits for help."""
