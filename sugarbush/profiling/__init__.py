"""A DP profile of a private corpus: sizes, lengths, column values, style, words and topics.

The profile is released before a schema exists, and a schema can be drafted from it.
"""
