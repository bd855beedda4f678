"""The generator of candidates that the settings name."""

from __future__ import annotations

from pathlib import Path

from sugarbush.embedding.encoder import Encoder
from sugarbush.evolution.evolve import Writer
from sugarbush.generators.build import build_generator
from sugarbush.generators.interface import Generator
from sugarbush.generators.settings import Provider
from sugarbush.pipeline.settings import ProjectSettings
from sugarbush.pipeline.state import state_of


def open_generator(
    params: ProjectSettings, base: Path, encoder: Encoder, *, stage: str
) -> Generator:
    """The generator of `generator.provider`. `encoder` is for public text alone; `stage` is what
    the journal of paid calls files them under."""
    settings = params.generator
    if settings.provider is Provider.POOL:
        from sugarbush.generators.pool import PoolGenerator
        from sugarbush.generators.pool_files import load_pool

        texts = load_pool(settings.pool.sources, base=base)
        return PoolGenerator(
            texts,
            encoder.encode(texts),
            params=settings.pool,
            seed=settings.seed,
            embed=encoder.encode,
        )
    return build_generator(
        settings, state=state_of(params, base), account=params.privacy.dataset, stage=stage
    )


def open_writer(params: ProjectSettings, base: Path, encoder: Encoder, *, stage: str) -> Writer:
    """The generator with what is borne of unusable answers."""
    return Writer(
        generator=open_generator(params, base, encoder, stage=stage),
        max_dropped_share=params.generator.max_dropped_share,
    )
