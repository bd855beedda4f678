"""Contains the embedded example corpus (`shop`), and a generator without a model (`simulator`)."""

from sugarbush.lazy_names import lazy_names

__getattr__ = lazy_names(__name__, {"corpus": ("example_records", "example_schema")})
