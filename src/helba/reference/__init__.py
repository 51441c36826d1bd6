"""The paper on ciphertexts alone: slot engine, circuits, planner and protocol, in one process."""
