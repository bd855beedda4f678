"""The encoder with the cache that belongs to what it encodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sugarbush.embedding.cache import EmbeddingCache
from sugarbush.embedding.encoder import Encoder
from sugarbush.paths import Roots, make_private
from sugarbush.pipeline.settings import ProjectSettings


@contextmanager
def open_encoder(params: ProjectSettings, roots: Roots, *, private: bool) -> Iterator[Encoder]:
    """The encoder of `embedding`, with private embeddings cached under data/private alone."""
    folder = roots.private / "embeddings" if private else roots.base / ".cache" / "embeddings"
    if private:
        make_private(folder)
    yield Encoder(params.embedding, cache=EmbeddingCache(folder))
