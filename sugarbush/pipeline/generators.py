"""The generator of a project, opened with its state folder and its encoder."""

from __future__ import annotations

import sys
from pathlib import Path

from sugarbush.embedding.encoder import Encoder
from sugarbush.evolution.evolve import Writer
from sugarbush.generators.interface import Generator, GeneratorContext
from sugarbush.pipeline.settings import ProjectSettings
from sugarbush.pipeline.state import state_of


def generator_context(
    params: ProjectSettings, base: Path, encoder: Encoder, *, stage: str
) -> GeneratorContext:
    """What the generator may use. `encoder` embeds public text only; `stage` pays for the calls."""
    return GeneratorContext(
        seed=params.generator.seed,
        state=state_of(params, base),
        account=params.privacy.dataset,
        stage=stage,
        base=base,
        embed=encoder.encode,
        say=_print_to_stderr,
    )


def open_generator(
    params: ProjectSettings, base: Path, encoder: Encoder, *, stage: str
) -> Generator:
    """The generator that `generator.provider` names. Arguments as of `generator_context`."""
    context = generator_context(params, base, encoder, stage=stage)
    return params.generator.chosen.open(context)


def open_writer(params: ProjectSettings, base: Path, encoder: Encoder, *, stage: str) -> Writer:
    """The generator and how many unusable answers are tolerated."""
    return Writer(
        generator=open_generator(params, base, encoder, stage=stage),
        max_dropped_share=params.generator.max_dropped_share,
    )


def _print_to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
