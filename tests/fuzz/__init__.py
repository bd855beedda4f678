"""Damaged inputs for everything that reads one. `make fuzz` runs 100,000 cases of each."""
