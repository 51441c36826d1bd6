"""Experiments: policies on problems. They yield rows; summaries and plots are made from rows."""
