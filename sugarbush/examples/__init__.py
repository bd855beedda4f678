"""Contains the embedded example corpus (`shop`), and a generator without a model (`simulator`)."""

from typing import TYPE_CHECKING

from sugarbush.lazy_names import lazy_names

if TYPE_CHECKING:
    from sugarbush.examples.corpus import example_records as example_records
    from sugarbush.examples.corpus import example_schema as example_schema
else:
    __getattr__ = lazy_names(__name__)
