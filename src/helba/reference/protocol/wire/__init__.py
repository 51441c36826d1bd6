"""Messages and their bytes."""
