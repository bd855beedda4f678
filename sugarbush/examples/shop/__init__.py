"""The invented shop: a corpus of customer service texts with known attributes and spans.

attributes.yaml                 how often each combination of attribute values occurs
vocabulary.yaml, sentences.yaml what a text is made of
schema.yaml                     the public schema of the corpus

The simulator never reads any of this.
"""
