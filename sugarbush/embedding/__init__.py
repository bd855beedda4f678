"""Computes unit vectors of texts, and stores them in a cache."""

from typing import TYPE_CHECKING

from sugarbush.lazy_names import lazy_names

if TYPE_CHECKING:
    from sugarbush.embedding.encoder import Encoder as Encoder
    from sugarbush.embedding.settings import EmbeddingSettings as EmbeddingSettings
else:
    __getattr__ = lazy_names(__name__)
