"""All parties in one process, which exchange bytes and nothing else."""
