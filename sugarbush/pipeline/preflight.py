"""Checks before anything is spent: the generator answers, the prompts fit, the model loads."""

from __future__ import annotations

import math
from pathlib import Path

from sugarbush.data.schema import Schema
from sugarbush.embedding.encoder import Encoder
from sugarbush.errors import ParamsError
from sugarbush.generators.interface import GeneratorSettings, Request
from sugarbush.pipeline.estimate import planned_calls
from sugarbush.pipeline.generators import generator_context
from sugarbush.pipeline.settings import ProjectSettings
from sugarbush.pipeline.stages.prepare import read_donated
from sugarbush.privacy.data_types import Released
from sugarbush.training.dpsgd.settings import TINY

# English prose in the largest vocabularies; other languages and vocabularies need more.
_LEAST_TOKENS_PER_WORD = 1.2


def preflight(params: ProjectSettings, base: Path, schema: Schema) -> None:
    """Check everything that will write texts."""
    if params.evolving:
        check_generator(params, base, schema)
    if params.trains:
        check_model(params, schema)
    if params.redacts:
        from sugarbush.training.crt.start import check_start

        check_start(params.crt)


def check_generator(params: ProjectSettings, base: Path, schema: Schema) -> None:
    """Check that the generator can answer a run's requests, with one paid call at most.

    Raises ParamsError, InputError or GeneratorError saying what to change.
    """
    donated = tuple(read_donated(base, params, schema)["text"])
    planned = _longest_requests(params, schema, donated)
    _refuse_cut_answers(params.generator.chosen, planned)
    encoder = Encoder(params.embedding, cache=None)
    context = generator_context(params, base, encoder, stage="check")
    params.generator.chosen.preflight(context, Released(planned))


def _refuse_cut_answers(generator: GeneratorSettings, planned: tuple[Request, ...]) -> None:
    """Raises ParamsError where every answer of the requested length would be cut off."""
    limit = generator.answer_token_limit
    words = max((request.words or 0 for request in planned), default=0)
    least = math.floor(words * _LEAST_TOKENS_PER_WORD)
    if limit is not None and least > limit:
        raise ParamsError(
            f"params.yaml: initialise.length asks for texts of up to {words} words, at least "
            f"{least} tokens, and generator.{generator.name}.max_tokens={limit} would cut every "
            "such answer off. Raise max_tokens, or ask for less."
        )


def _longest_requests(
    params: ProjectSettings, schema: Schema, donated: tuple[str, ...]
) -> tuple[Request, ...]:
    """One request of each batch, as long as settings, schema and donated examples allow."""
    return tuple(
        batch.request
        for method in params.evolving
        for batch in planned_calls(params, method, schema=schema, donated=donated, candidates=None)
    )


def check_model(params: ProjectSettings, schema: Schema) -> None:
    """Check that fine-tuning's first model loads, can be clipped, and has room for a text.

    Skips the tiny model, which a stage of its own makes. Raises ParamsError and PrivacyError.
    """
    settings = params.finetune.chosen
    if settings.model == TINY:
        return
    import torch

    from sugarbush.training.dpsgd import models
    from sugarbush.training.dpsgd.data import refuse_long_codes
    from sugarbush.training.dpsgd.train import Clipping, open_clipper

    model, tokenizer = models.load(settings.model, device=torch.device("cpu"))
    models.refuse_beyond_context(model, settings.max_length)
    refuse_long_codes(schema, tokenizer, settings.max_length)
    if settings.lora_rank is not None:
        model = models.with_lora(model, rank=settings.lora_rank)
    open_clipper(model, settings.clip_norm, Clipping(params.finetune.clipping)).remove()
