"""Commands of the lab: `helba run`, `compare`, `sensitivity`, `plan`, `paper` and `bench`."""
