"""Trains the learned redactor, and rewrites files with it."""
