"""Forecasts how long a whole run takes, from the speed of the rehearsal on this machine.

The forecast counts the requests to the generator, the embeddings of the records and of the texts,
and the start of each stage. A generator that answers with public texts embeds each of them once.
The forecast depends on the exact length of the records, so only the operator's terminal may show
it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from sugarbush.embedding.encoder import BUNDLED, LIGHT, Encoder
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.errors import ParamsError
from sugarbush.languages import ENGLISH
from sugarbush.pipeline.graph import STAGES
from sugarbush.preparation.findings import CHARACTERS_PER_TOKEN, CorpusFindings
from sugarbush.progress import working
from sugarbush.rehearsal.rehearse import Rehearsal
from sugarbush.run.context import Project
from sugarbush.run.settings import ProjectSettings

_STAGE_MINUTES: Final = 0.1  # imports and start of a stage
_LONG_MINUTES: Final = 5.0  # embeddings for which another encoder is worth a choice
_PROBES: Final = 48
_PROBE_WORDS: Final = (
    "the",
    "lamp",
    "of",
    "my",
    "last",
    "order",
    "came",
    "broken,",
    "so",
    "please",
)
_CHARACTERS_PER_WORD: Final = 6


@dataclass(frozen=True, kw_only=True)
class RunForecast:
    """The minutes of each kind of work in a run. Private.

    `light` are the minutes of the embeddings by the light encoder, if it is worth a choice.
    """

    requests: float
    embeddings: float
    stages: float
    light: float | None = None

    @property
    def minutes(self) -> float:
        return self.requests + self.embeddings + self.stages

    def line(self) -> str:
        """Return the forecast in one line."""
        times = [
            f"{_rounded(self.requests)} for the requests",
            f"{_rounded(self.embeddings)} for the embeddings of records and texts",
            f"{_rounded(self.stages)} for the start of the stages",
        ]
        line = f"about {_rounded(self.minutes)} min to the end: {', '.join(times)}"
        if self.light is None:
            return line
        return f"{line}; with embedding.model=light about {_rounded(self.light)} min for these"


def forecast_run(project: Project, rehearsal: Rehearsal, findings: CorpusFindings) -> RunForecast:
    """Forecast a run without cached results, at the present speed of this machine."""
    settings, forecast, seconds = project.settings, rehearsal.forecast, 0.0
    if any(method.facts.uses_encoder for method in settings.chosen):
        with working("measuring the speed of the encoder"):
            seconds = _seconds_per_character(settings.embedding)
    characters = findings.characters + _characters_of_texts(project, rehearsal)
    embeddings, light = characters * seconds / 60, None
    chosen, english = settings.embedding, project.schema.language.partition("-")[0] == ENGLISH
    if embeddings >= _LONG_MINUTES and chosen.model == BUNDLED and english:
        # A damaged light encoder does not concern a run that does not use it.
        with suppress(ParamsError), working("measuring the speed of the light encoder"):
            faster = chosen.model_copy(update={"model": LIGHT})
            light = characters * _seconds_per_character(faster) / 60
    return RunForecast(
        requests=forecast.minutes or 0.0,
        embeddings=embeddings,
        light=light,
        stages=_STAGE_MINUTES * sum(_runs_of(settings)),
    )


def _characters_of_texts(project: Project, rehearsal: Rehearsal) -> int:
    """Return how many characters of generated texts the encoder reads."""
    settings, lengths = project.settings, rehearsal.figures.lengths
    most = settings.embedding.max_tokens * CHARACTERS_PER_TOKEN
    generator = settings.generator.chosen
    if public := generator.public_texts(project.base, project.schema.shape):
        return sum(min(len(text), most) for text in public)
    words = 0 if lengths is None else lengths.high
    return rehearsal.forecast.calls * min(words * _CHARACTERS_PER_WORD, most)


def _seconds_per_character(settings: EmbeddingSettings) -> float:
    """Measure the encoder on public texts of different lengths, without its cache."""
    texts = _probe_texts(settings.max_tokens)
    encode = Encoder(settings, cache=None, private=False).encode
    encode(texts[:1])  # loads the model
    start = time.monotonic()
    encode(texts)
    return (time.monotonic() - start) / sum(map(len, texts))


def _probe_texts(max_tokens: int) -> Sequence[str]:
    most = max(max_tokens // 2, 8)
    counts = [8 + (most - 8) * i // (_PROBES - 1) for i in range(_PROBES)]
    return [
        " ".join(_PROBE_WORDS[(i + j) % len(_PROBE_WORDS)] for j in range(count))
        for i, count in enumerate(counts)
    ]


def _runs_of(settings: ProjectSettings) -> list[int]:
    """Return how often each stage runs."""
    return [
        sum(stage.is_needed(settings, method) for method in settings.chosen)
        if stage.by_method
        else int(stage.is_needed(settings, None))
        for stage in STAGES
    ]


def _rounded(minutes: float) -> str:
    """Return minutes with one decimal below ten.

    >>> [_rounded(minutes) for minutes in (0.02, 1.46, 9.97, 1234.5)]
    ['0.1', '1.5', '10', '1,234']
    """
    return f"{max(0.1, minutes):.1f}" if minutes < 9.95 else f"{round(minutes):,}"
