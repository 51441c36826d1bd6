"""The paper's experiments, recomputed and written up; see `run.reproduce`."""
