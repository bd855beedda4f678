"""Measured quality: how like the records texts are, inside the guarantee."""
