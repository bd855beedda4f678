"""Writes the invented shop's customer-service texts, with known attributes and spans.

attributes.yaml                 the frequencies of attribute values
vocabulary.yaml, sentences.yaml the words and the sentences of the texts
schema.yaml                     the public schema of the corpus

The simulator never reads these files.
"""
