"""The opener: holds the secret key of the ring and opens only what is masked."""
