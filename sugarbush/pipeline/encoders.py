"""The encoder of a project, with a cache for private or for public texts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sugarbush.embedding.cache import EmbeddingCache
from sugarbush.embedding.encoder import Encoder
from sugarbush.paths import Roots, make_private
from sugarbush.pipeline.settings import ProjectSettings


@contextmanager
def open_encoder(params: ProjectSettings, roots: Roots, *, private: bool) -> Iterator[Encoder]:
    """The encoder of `embedding`. Private embeddings are cached under data/private only."""
    folder = roots.private / "embeddings" if private else roots.base / ".cache" / "embeddings"
    if private:
        make_private(folder)
    yield Encoder(params.embedding, cache=EmbeddingCache(folder))
