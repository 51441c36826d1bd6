"""The user: contexts, rewards, and the answers to its own questions."""
