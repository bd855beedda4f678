"""Judges what the generator writes, before the first charge."""
