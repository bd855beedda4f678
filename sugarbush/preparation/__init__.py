"""Reads, checks and splits the records."""
