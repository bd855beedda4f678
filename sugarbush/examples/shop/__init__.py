"""Writes the invented shop's customer-service texts, with known attributes and spans.

The simulator never reads the files of this folder.
"""
