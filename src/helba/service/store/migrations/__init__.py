"""The steps that bring a store to the tables of this version, each in a file, never changed."""
