"""The server: ciphertexts and public keys, never a secret key."""
