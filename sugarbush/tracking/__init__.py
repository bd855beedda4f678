"""Sends events of stages and releases to the receivers of an organisation."""
