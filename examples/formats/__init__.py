"""Formats of files that are one record each, written from docs/how-to/add-a-format.md.

`pip install -e examples/formats` registers them: see pyproject.toml in this folder.
"""
