"""Texts to unit vectors, and a cache of them."""

from sugarbush.lazy_names import lazy_names

__getattr__ = lazy_names(__name__, {"encoder": ("Encoder",), "settings": ("EmbeddingSettings",)})
