"""What differs between profiles: how slots are filled, what the server computes."""
