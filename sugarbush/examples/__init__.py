"""An example corpus to try the pipeline on, and the generator that works without a model.

corpus.py     writes the example: records of an invented shop, donated examples, a schema
shop/         how the shop's records look: attributes, vocabulary, sentences
simulator/    the generator: writes customer-service texts on request; never reads shop/
grammar.py, people.py, seeded_random.py, data_files.py   used by both
"""

from sugarbush.lazy_names import lazy_names

__getattr__ = lazy_names(
    __name__,
    {
        "corpus": ("example_records", "example_schema"),
    },
)
