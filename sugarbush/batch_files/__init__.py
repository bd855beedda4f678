"""Sends the calls to an endpoint as files: the Batch API, for the setting `mode: batch`.

This package is optional: no other module of Sugarbush imports it.
"""
