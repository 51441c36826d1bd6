"""The figures, tables and sections of the report."""
