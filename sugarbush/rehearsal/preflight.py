"""Checks the encoder, the generator, the prompts and the models before a run spends budget."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sugarbush.embedding.encoder import ENGLISH_MODELS
from sugarbush.errors import ParamsError
from sugarbush.evolution.enlarge import without_repeated_texts
from sugarbush.evolution.enlargers import ByPredictedScores
from sugarbush.evolution.starts import LABELS, METADATA
from sugarbush.generators.interface import Request
from sugarbush.generators.shaped import requests_in_shape
from sugarbush.languages import ENGLISH, language_name
from sugarbush.methods.interface import PlannedCalls, Planning
from sugarbush.privacy.data_types import Released
from sugarbush.rehearsal.length_notices import length_notices
from sugarbush.run.context import Project
from sugarbush.run.tools import first_length, generator_context

if TYPE_CHECKING:  # slow imports
    from sugarbush.attributes.llm_labels import Labeller

_RATIO = ByPredictedScores.ratio
# Minimum for English prose. Other languages need more tokens.
_LEAST_TOKENS_PER_WORD = 1.2
_WORDS = 80  # of a planned text if nothing says how long the texts are
_WITH_TEXTS = ("pool", "simulator")  # these generators need no examples
# Figures: docs/log/language_model.md.
_NO_EXAMPLES = (
    "there are no donated texts (prepare.donated). Releases of language models of 135M to 1.5B "
    "weights had a MAUVE of 0.01 to 0.62 without examples, and of 0.45 to 1.00 with 50 donated "
    "texts. docs/how-to/no-donated-texts.md says what else helps"
)


def preflight(project: Project) -> None:
    """Check the encoder, the generator and the models. Raises ParamsError, PrivacyError, InputError
    or GeneratorError. `Project.ledger` judges the first texts later, before the first charge."""
    if any(method.facts.uses_encoder for method in project.settings.chosen):
        project.inputs.encoder(private=False).check()
    if any(method.facts.asks_generator for method in project.settings.chosen):
        check_generator(project)
    for method in project.settings.chosen:
        method.preflight(project.schema, project.settings.training)


def check_without_metadata(project: Project) -> None:
    """Check as `preflight`, if no DP metadata is drawn. Otherwise, the stage of the metadata has
    checked.
    """
    if not (project.plan.holds(METADATA) or project.plan.holds(LABELS)):
        preflight(project)


def check_generator(project: Project) -> None:
    """Check that the generator can answer a run's requests. This check needs at most one paid
    call."""
    planned = refuse_cut_answers(project, project.inputs.donated_texts())
    asked = requests_in_shape(planned, project.schema.shape)
    generator = project.settings.generator.chosen
    generator.preflight(generator_context(project, "check"), Released(asked))


def check_labeller(project: Project, labeller: Labeller) -> None:
    """Check the endpoint that labels texts, with a public text that is as long as the settings and
    the donated texts say. The length of a private text decides nothing."""
    planned = "word " * (first_length(project).longest or _WORDS)
    labeller.check(max([*project.inputs.donated_texts(), planned], key=len))


def refuse_cut_answers(project: Project, donated: Sequence[str]) -> tuple[Request, ...]:
    """Raise ParamsError if the longest answers of a run exceed the generator's token limit.

    Return the longest requests of each batch.
    """
    planned = tuple(batch.request for batch in planned_calls(project, donated))
    _refuse_cut_answers(project, planned)
    return planned


def planned_calls(
    project: Project, donated: Sequence[str], *, record_count: float | None = None
) -> tuple[PlannedCalls, ...]:
    """Return every batch of requests. Each request is as long as settings, schema and examples
    allow. If the DP record count is unknown, the function assumes the largest default size of a
    release."""
    settings = project.settings
    counts = any(r.pool == METADATA for m in settings.chosen for r in m.budget_requests())
    planning = Planning(
        schema=project.schema,
        donated=donated,
        length=first_length(project),
        texts=settings.release.size(math.inf if counts and record_count is None else record_count),
        record_count=record_count,
        texts_setting=settings.release.texts,
    )
    return tuple(batch for method in settings.chosen for batch in method.planned_calls(planning))


def notices(project: Project) -> Iterator[str]:
    """Yield notices before a run that are not errors. Reads public files only."""
    settings = project.settings
    if any(method.facts.asks_generator for method in settings.chosen):
        if (few := few_public_texts(project)) is not None:
            yield few
        yield from length_notices(first_length(project), project.schema)
        if settings.generator.provider not in _WITH_TEXTS and not project.inputs.donated_texts():
            yield _NO_EXAMPLES
    language = project.schema.language
    encodes = any(method.facts.uses_encoder for method in settings.chosen)
    if (
        encodes
        and language.partition("-")[0] != ENGLISH
        and settings.embedding.model in ENGLISH_MODELS
    ):
        yield (
            f"the bundled encoder learned English, and the texts are in {language_name(language)}. "
            "For better votes and labels, name a multilingual model of sentence-transformers in "
            "embedding.model"
        )


def few_public_texts(project: Project) -> str | None:
    """Return a notice if the generator's public texts are too few to choose a release from.

    A pool writes no new text. A release of nearly the whole pool is not chosen by the records.
    Returns None for generators without public texts. The function reads public files only.
    """
    settings = project.settings
    texts = settings.generator.chosen.public_texts(project.base, project.schema.shape)
    wanted = settings.release.texts
    if not texts or wanted is None:
        return None
    different = len(without_repeated_texts(texts))
    if different >= _RATIO * wanted:
        return None
    return (
        f"generator.{settings.generator.provider}: has {different:,} different texts, and "
        f"release.texts={wanted:,} needs at least {_RATIO * wanted:,}. With fewer "
        "texts, the records choose little or nothing. Add public texts, or set release.texts to at "
        f"most {different // _RATIO:,}"
    )


def _refuse_cut_answers(project: Project, planned: Sequence[Request]) -> None:
    generator = project.settings.generator.chosen
    limit = generator.answer_token_limit
    words = max((request.words or 0 for request in planned), default=0)
    least = math.floor(words * _LEAST_TOKENS_PER_WORD)
    if limit is not None and least > limit:
        raise ParamsError(
            f"params.yaml: initialise.length (or `text` in the schema) asks for texts of up to "
            f"{words} words, which need at least {least} tokens, but generator.{generator.name}."
            f"max_tokens={limit}. Raise max_tokens, or request shorter texts."
        )
