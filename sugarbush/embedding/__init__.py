"""Computes unit vectors of texts, and stores them in a cache."""

from sugarbush.lazy_names import lazy_names

__getattr__ = lazy_names(__name__, {"encoder": ("Encoder",), "settings": ("EmbeddingSettings",)})
