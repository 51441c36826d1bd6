"""Reports about plans."""
