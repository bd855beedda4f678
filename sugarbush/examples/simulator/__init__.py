"""Generates customer-service texts without a model.

`writer` uses `generic_texts` for a request without examples, `imitation` for a request with
examples, and `variation` for a request with a parent.
"""
