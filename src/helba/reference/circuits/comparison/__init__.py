"""Signs, roots, comparisons, argmax."""
