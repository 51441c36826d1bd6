"""Where numbers stand in slots, and how they are moved there."""
