"""The bandit on shares: its parties, their messages, and all of them in one process."""
