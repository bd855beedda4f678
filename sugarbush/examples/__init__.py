"""Contains the embedded example corpus, and a generator that needs no model.

corpus.py     writes the corpus of an invented shop, its donated examples and its schema
shop/         attributes, vocabulary and sentences of the shop's records
simulator/    the generator, which writes customer-service texts and never reads shop/
grammar.py, people.py, seeded_random.py, data_files.py   code for both
"""

from sugarbush.lazy_names import lazy_names

__getattr__ = lazy_names(__name__, {"corpus": ("example_records", "example_schema")})
