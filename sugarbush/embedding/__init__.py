"""Texts to unit vectors, and a cache of them."""
