"""One run of one algorithm, in the clear or encrypted, with its twin beside it."""
