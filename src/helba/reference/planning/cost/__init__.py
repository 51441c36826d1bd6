"""What circuits take: levels, operations, refreshes, seconds."""
