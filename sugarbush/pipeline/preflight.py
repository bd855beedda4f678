"""Before anything is spent: does the generator answer, do the prompts fit, is there a model?"""

from __future__ import annotations

import math
from pathlib import Path

from sugarbush.data.schema import Schema
from sugarbush.errors import ParamsError
from sugarbush.generators.build import build_generator
from sugarbush.generators.interface import Request
from sugarbush.generators.settings import GeneratorSettings, Provider
from sugarbush.pipeline.estimate import planned_calls
from sugarbush.pipeline.settings import ProjectSettings
from sugarbush.pipeline.stages.prepare import read_donated
from sugarbush.pipeline.state import state_of
from sugarbush.privacy.data_types import Released
from sugarbush.training.dpsgd.settings import TINY

# Of English prose, in the largest vocabularies; other languages and smaller ones take more.
_LEAST_TOKENS_PER_WORD = 1.2


def preflight(params: ProjectSettings, base: Path, schema: Schema) -> None:
    """See that whatever will write the texts is there."""
    if params.evolving:
        check_generator(params, base, schema)
    if params.trains:
        check_model(params, schema)
    if params.redacts:
        from sugarbush.training.crt.start import check_start

        check_start(params.crt)


def check_generator(params: ProjectSettings, base: Path, schema: Schema) -> None:
    """See that the generator can write with these settings; an endpoint is paid one call at most.

    Raises ParamsError, InputError or GeneratorError saying what to change.
    """
    settings = params.generator
    if settings.provider is Provider.POOL:
        from sugarbush.generators.pool_files import load_pool

        load_pool(settings.pool.sources, base=base)
        return
    generator = build_generator(
        settings, state=state_of(params, base), account=params.privacy.dataset, stage="check"
    )
    probe = getattr(generator, "check", None)
    if probe is not None:
        donated = tuple(read_donated(base, params, schema)["text"])
        planned = _longest_requests(params, schema, donated)
        _refuse_cut_answers(settings, planned)
        probe(Released(planned))


def _refuse_cut_answers(settings: GeneratorSettings, planned: tuple[Request, ...]) -> None:
    """Raises ParamsError where every answer of the asked length would be cut off, and paid for."""
    limits = {
        Provider.OPENAI: settings.openai.max_tokens,
        Provider.HUGGINGFACE: settings.huggingface.max_tokens,
    }
    limit = limits.get(settings.provider)
    words = max((request.words or 0 for request in planned), default=0)
    least = math.floor(words * _LEAST_TOKENS_PER_WORD)
    if limit is not None and least > limit:
        raise ParamsError(
            f"params.yaml: initialise.length asks for texts of up to {words} words, at least "
            f"{least} tokens, and generator.{settings.provider}.max_tokens={limit} would cut every "
            "such answer off. Raise max_tokens, or ask for less."
        )


def _longest_requests(
    params: ProjectSettings, schema: Schema, donated: tuple[str, ...]
) -> tuple[Request, ...]:
    """One of each batch, as long as settings, schema and donated examples can make it."""
    return tuple(
        batch.request
        for method in params.evolving
        for batch in planned_calls(params, method, schema=schema, donated=donated, candidates=None)
    )


def check_model(params: ProjectSettings, schema: Schema) -> None:
    """See that what fine-tuning starts from can be loaded and has a clipping rule for all of it,
    and that there is room for a text after the codes.

    The tiny model is made by a stage of its own. Raises ParamsError and PrivacyError.
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
