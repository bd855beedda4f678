"""The generator of candidates that the settings name."""

from __future__ import annotations

from pathlib import Path

from sugarbush.embedding.encode import Encoder
from sugarbush.evolution.evolve import Writer
from sugarbush.llm.build import build_generator
from sugarbush.llm.client import Generator
from sugarbush.llm.pool import PoolGenerator
from sugarbush.params import Params, Provider
from tasks.pool import load_pool
from tasks.state import state_of


def open_generator(params: Params, base: Path, encoder: Encoder) -> Generator:
    """The generator of `generator.provider`. `encoder` is for public text alone."""
    settings = params.generator
    if settings.provider is Provider.POOL:
        texts = load_pool(settings.pool.sources, base=base)
        return PoolGenerator(
            texts,
            encoder.encode(texts),
            params=settings.pool,
            seed=settings.seed,
            embed=encoder.encode,
        )
    return build_generator(settings, state=state_of(params, base))


def open_writer(params: Params, base: Path, encoder: Encoder) -> Writer:
    """The generator with what is borne of unusable answers."""
    return Writer(
        generator=open_generator(params, base, encoder),
        max_dropped_share=params.generator.max_dropped_share,
    )
