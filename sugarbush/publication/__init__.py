"""Writes a published dataset: a folder that dataset hubs open, and a record for a registry."""
