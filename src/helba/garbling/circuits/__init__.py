"""Boolean circuits: gates, arithmetic on shares, the argmax and the checks."""
