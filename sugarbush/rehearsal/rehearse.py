"""Rehearses a run: requests its first texts and judges them, before any budget is spent.

The requests have the form of the run's first requests: the same prompt, schema and donated
examples. The DP table does not exist yet, so the requested attribute values come from donated texts
or, without donated texts, from the schema. A rehearsal opens no private file and charges nothing.

If a method scores first texts in rounds because they may be far from the records, the first texts
say nothing about the release. Then the public texts that rounds may reach are judged in their
place (`within_reach`).

The answers are in the cache of answers, and the verdict is in .cache/rehearsal.json. A rehearsal
with the same settings and public files sends nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.reading import digest_of_files
from sugarbush.data.schema import Schema
from sugarbush.errors import ParamsError, PoorRehearsalError, PrivacyError
from sugarbush.evolution.inputs import MetadataRelease
from sugarbush.evolution.targets import Donated, open_targets
from sugarbush.generators.interface import Answer, GeneratorSettings, Problem, Usage, usage_of
from sugarbush.generators.prices import cost_of
from sugarbush.methods.interface import MethodInputs, PrivateInputs, Tools
from sugarbush.methods.of_parts import PartsMethod
from sugarbush.paths import find_input
from sugarbush.privacy.results import digest_of
from sugarbush.privacy.settings import Purpose
from sugarbush.progress import working
from sugarbush.randomness import Rng, public_rng, seed_of
from sugarbush.rehearsal.estimate import estimate
from sugarbush.rehearsal.preflight import planned_calls, refuse_cut_answers
from sugarbush.rehearsal.verdict import (
    FEWEST_DONATED,
    Figures,
    Lengths,
    RehearsalGrade,
    RehearsalVerdict,
    ShownAttribute,
    judge_rehearsal,
)
from sugarbush.release.folders import read_record_count
from sugarbush.run.context import Project
from sugarbush.run.tools import label_of, open_generator, public_values

if TYPE_CHECKING:
    from sugarbush.attributes.zero_shot import ZeroShotReader

TEXTS = 40  # number of requests
FEWER_TEXTS = 24  # number of requests for each form of prompts, if there are several
NAME = "rehearsal"
_VERSION = 3  # increase this number if requests or figures change
_SEED = 1
_LEAST_CODES = 8  # donated texts whose attribute values are requested


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The calls of the whole run, with the minutes and the cost that the first texts indicate."""

    calls: int
    minutes: float | None = None
    cost: float | None = None


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """The verdict on the first texts of `method`, with its figures and the forecast.

    `sent` is the number of calls that the rehearsal needed. `changes` are settings that gave better
    texts than the settings of the project, such as generator.huggingface.form=list. `accepted`
    states whether the operator continues in spite of a poor verdict.
    """

    method: str
    verdict: RehearsalVerdict
    figures: Figures
    forecast: Forecast
    sent: int = 0
    changes: tuple[str, ...] = ()
    accepted: bool = False

    @property
    def is_poor(self) -> bool:
        return self.verdict.grade is RehearsalGrade.POOR

    def line(self) -> str:
        """Return the verdict in one line: the grade and its reasons."""
        return f"{self.verdict.grade}: {'; '.join(self.verdict.reasons)}"

    def advice(self) -> str:
        return "; or ".join(self.verdict.advice)


def stored_rehearsal(project: Project) -> Rehearsal | None:
    """Return the verdict of an earlier rehearsal on the same public inputs, or None."""
    return _stored(project, _key(project)) if is_rehearsed(project) else None


def is_rehearsed(project: Project) -> bool:
    """Return whether a run of the project needs a rehearsal.

    Public data needs none. The embedded example needs none, because its simulator writes its texts.
    A generator of one domain that the settings allow for any texts needs none, because its texts
    are useless on purpose.
    """
    settings, generator = project.settings, project.settings.generator.chosen
    example = settings.privacy.purpose is Purpose.EXAMPLE and generator.one_domain
    return (
        rehearsed_method(project) is not None
        and settings.privacy.purpose is not Purpose.BENCHMARK
        and not (example or generator.allowed_for_any_texts)
    )


def rehearse(project: Project) -> Rehearsal | None:
    """Request the first texts, judge them and store the verdict. None if there is nothing to judge.

    A stored verdict on the same public inputs is returned at once. Raises ParamsError,
    GeneratorError or InputError if the generator cannot answer.
    """
    method = rehearsed_method(project)
    if method is None or not is_rehearsed(project):
        return None
    key = _key(project)
    if (stored := _stored(project, key)) is not None:
        return stored
    with working("rehearsal"):
        public = public_inputs(project)
        refuse_cut_answers(project, public.texts)
        generators = alternatives(project)
        count = TEXTS if len(generators) == 1 else FEWER_TEXTS
        found = [_rehearsed(project, method, public, one, count=count) for one in generators]
    best = replace(min(found, key=_rank), sent=sum(one.sent for one in found))
    if not best.figures.problems.get(Problem.FAILED):
        _store(project, key, best)
    return best


def alternatives(project: Project) -> tuple[GeneratorSettings, ...]:
    """Return the settings of the generator that a rehearsal compares."""
    donated = project.settings.prepare.donated is not None
    return project.settings.generator.chosen.alternatives(examples=donated)


def require_rehearsal(project: Project) -> None:
    """Rehearse before a stage spends budget. A stored verdict needs no request.

    Raises PoorRehearsalError for a poor verdict that nobody accepted. Raises ParamsError if other
    settings of the generator gave better texts.
    """
    found = require_good_rehearsal(project, accept=False)
    if found is not None and found.changes:
        raise ParamsError(
            f"params.yaml: the rehearsal gave better texts with {', '.join(found.changes)}. Set "
            "it, or start with `sugarbush run`, which sets it. No budget was spent"
        )


def require_good_rehearsal(project: Project, *, accept: bool) -> Rehearsal | None:
    """Rehearse, and raise PoorRehearsalError for a poor verdict that nobody accepted.

    With `accept`, the verdict is accepted and stored, so later runs with the same public inputs go
    on too.
    """
    found = rehearse(project)
    if found is None or not found.is_poor or found.accepted:
        return found
    if not accept:
        raise PoorRehearsalError(refusal(found))
    accepted = replace(found, accepted=True)
    _store(project, _key(project), accepted)
    return accepted


def keep_for_changed_settings(project: Project, found: Rehearsal) -> None:
    """Store the verdict for a project whose settings have `found.changes` now."""
    _store(project, _key(project), replace(found, changes=()))


def refusal(found: Rehearsal) -> str:
    """Return the message for a poor verdict: the reasons, and what to change."""
    return (
        f"the rehearsal is {found.line()}. No budget was spent. What to change: "
        f"{found.advice() or 'see the reasons'}. To go on all the same: sugarbush run --yes"
    )


@dataclass(frozen=True, kw_only=True)
class FirstInputs:
    """The donated texts with their codes, the readers of attributes, and the public rows.

    `cliques` are the sets of attributes with joint values: those of donated texts. Every other
    attribute is alone, because nothing public says which values go together.
    """

    donated: Donated | None
    readers: Mapping[str, ZeroShotReader]
    rows: NDArray[np.int64]
    cliques: tuple[tuple[str, ...], ...]

    @property
    def texts(self) -> tuple[str, ...]:
        return self.donated.texts if self.donated is not None else ()


def rehearsed_method(project: Project) -> PartsMethod | None:
    """Return the method that is rehearsed: the method that shows the most in its prompts.

    Among equal ones, a method that does not score first texts in rounds comes first.
    """
    methods = [
        method
        for method in project.settings.chosen
        if isinstance(method, PartsMethod) and not method.stays_private
    ]
    return max(methods, key=lambda m: (_shown(m), not m.parts().scores_first), default=None)


def _shown(method: PartsMethod) -> int:
    prompts = method.parts().start.prompts
    return prompts.shows_examples + prompts.shows_metadata


def public_inputs(project: Project, *, count: int = TEXTS) -> FirstInputs:
    """Return the donated texts, and the attribute values of `count` first texts."""
    read = project.inputs.examples()
    donated = Donated(texts=read.texts, codes=read.codes) if read.texts else None
    codes = read.codes if len(read.texts) >= _LEAST_CODES else None
    known = _known_attributes(project.schema, codes)
    rows = _public_rows(project.schema, codes, known, public_rng(_SEED, NAME), count=count)
    names = project.schema.names
    together = (tuple(names[place] for place in known),) if known else ()
    alone = ((name,) for place, name in enumerate(names) if place not in known)
    return FirstInputs(
        donated=donated, readers=read.readers, rows=rows, cliques=(*together, *alone)
    )


def _known_attributes(schema: Schema, donated: NDArray[np.int64] | None) -> list[int]:
    """Return the columns of the attributes that some donated text has."""
    return [
        place
        for place, attribute in enumerate(schema.attributes)
        if donated is not None and (donated[:, place] != len(attribute.domain) - 1).any()
    ]


def _public_rows(
    schema: Schema,
    donated: NDArray[np.int64] | None,
    known: Sequence[int],
    rng: Rng,
    *,
    count: int,
) -> NDArray[np.int64]:
    """Return rows of attribute values in place of the DP table: (count, d).

    The rows are those of donated texts. An attribute that no donated text has, and every attribute
    without donated texts, has each value of the schema equally often.
    """
    attributes = schema.attributes
    rows = np.stack(
        [rng.permutation(np.arange(count) % max(len(a.domain) - 1, 1)) for a in attributes], axis=1
    )
    if donated is not None:
        order = np.concatenate([rng.permutation(len(donated)) for _ in range(count)])[:count]
        rows[:, known] = donated[order][:, known]
    return rows.astype(np.int64)


def _rehearsed(
    project: Project,
    method: PartsMethod,
    public: FirstInputs,
    generator: GeneratorSettings,
    *,
    count: int,
) -> Rehearsal:
    from sugarbush.rehearsal.figures import (  # slow imports
        AttributeReader,
        measure,
        public_kinds,
        within_reach,
    )

    inputs = first_inputs(project, public)
    first = method.first_requests(inputs, count=count)
    targets, requests = first.value
    opened = open_generator(project, generator, NAME)
    start = time.monotonic()
    answers = opened.generate(first.map(lambda both: both[1]), what=NAME).value
    elapsed_s = time.monotonic() - start
    settings = project.settings
    reader = AttributeReader(
        schema=project.schema,
        donated=public.donated,
        zero_shot=public.readers,
        settings=settings.extract_metadata,
        embed=project.inputs.encoder(private=False).encode,
        seed=seed_of(_SEED, NAME),
    )
    words = round(float(np.median([request.words or 0 for request in requests]))) or None
    texts = generator.public_texts(project.base, project.schema.shape)
    judged = answers
    size = max(count, settings.release.texts or 0)  # a pool with fewer texts repeats them
    in_rounds = method.parts().scores_first
    if in_rounds and (reached := within_reach(texts, reader, count=size)):
        judged = tuple(Answer(text=reached[i % len(reached)]) for i in range(size))
        targets = open_targets(len(judged), project.schema)
    figures = measure(judged, targets, words=words, reader=reader)
    if texts:
        figures = replace(figures, kinds=public_kinds(texts, reader))
    usage = usage_of(answers)
    return Rehearsal(
        method=method.name,
        verdict=judge_rehearsal(
            figures,
            max_dropped_share=settings.generator.max_dropped_share,
            compared=len(public.texts) >= FEWEST_DONATED,
        ),
        figures=figures,
        forecast=_forecast(
            project,
            public.texts,
            seconds_per_call=elapsed_s / usage.calls if usage.calls else None,
            usage=usage,
        ),
        sent=usage.calls if settings.generator.chosen.endpoint is not None else 0,
        changes=generator.differences(settings.generator.chosen),
    )


def _rank(found: Rehearsal) -> tuple[int, float]:
    return list(RehearsalGrade).index(found.verdict.grade), -found.figures.usable_share


def _forecast(
    project: Project,
    donated: Sequence[str],
    *,
    seconds_per_call: float | None,
    usage: Usage,
) -> Forecast:
    """Return the forecast for the whole run, from the plan and the first answers."""
    generator = project.settings.generator.chosen
    planned = planned_calls(project, donated, record_count=read_record_count(project.roots))
    found = estimate(planned, generator.endpoint)
    minutes, cost = found.minutes or None, found.cost
    if seconds_per_call is not None:
        minutes = max(found.minutes, found.calls * seconds_per_call / 60)
    if usage.calls and usage.completion_tokens:
        scale = found.calls / usage.calls
        cost = cost_of(
            generator.price,
            prompt_tokens=scale * usage.prompt_tokens,
            completion_tokens=scale * usage.completion_tokens,
            cached_prompt_tokens=scale * usage.cached_prompt_tokens,
        )
    return Forecast(calls=found.calls, minutes=minutes, cost=cost)


def first_inputs(project: Project, public: FirstInputs) -> MethodInputs:
    """Collect what a method needs for its first requests. Everything else raises PrivacyError."""
    schema, label = project.schema, label_of(project)
    closed: Any = _NoPrivateData()
    metadata = MetadataRelease(
        rows=public.rows,
        cliques=public.cliques,
        record_count=float(len(public.rows)),
        labels=np.bincount(
            public.rows[:, schema.names.index(label)],
            minlength=len(schema.attribute(label).domain),
        ).astype(np.int64),
        label=label,
    )
    return MethodInputs(
        private=PrivateInputs(
            corpus=closed,
            privacy=project.settings.privacy,
            plan=closed,
            digests={},
            encode=closed,
            ledger=closed,
            uncapped_ledger=closed,
            open_store=closed,
            scratch=closed,
        ),
        public=public_values(project, metadata, donated=public.donated),
        tools=Tools(
            writer=closed,
            encode=project.inputs.encoder(private=False).encode,
            label_reader=closed,
            find=partial(find_input, project.base),
            training=project.settings.training,
        ),
    )


class _NoPrivateData:
    """Stands for everything that a rehearsal must not open."""

    def __getattr__(self, name: str) -> NoReturn:
        raise PrivacyError("a rehearsal opens no private data and charges nothing")

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise PrivacyError("a rehearsal opens no private data and charges nothing")


def _key(project: Project) -> str:
    """Return a digest of every public input of a rehearsal."""
    settings = project.settings
    generator = settings.generator
    names = ("generator", "initialise", "embedding", "extract_metadata", "release")
    return digest_of(
        version=_VERSION,
        settings=settings.changed_output_settings(names),
        seed=settings.seed,
        generator=generator.identity(),
        dropped=generator.max_dropped_share,
        methods=[
            [own.name, own.model_dump(mode="json")]
            for own in settings.chosen
            if isinstance(own, PartsMethod)
        ],
        text_column=settings.prepare.text_column,
        label=label_of(project),
        schema=project.schema.model_dump(mode="json"),
        donated=project.inputs.digest_of_examples(),
        files=digest_of_files(
            project.base, generator.chosen.public_files(), setting="generator.pool.sources"
        ).hex(),
    )


def _store(project: Project, key: str, found: Rehearsal) -> None:
    project.inputs.keep_rehearsal({"key": key, "rehearsal": asdict(found)})


def _stored(project: Project, key: str) -> Rehearsal | None:
    """Return the stored verdict on the same inputs, or None. A damaged file is ignored."""
    with suppress(ValueError, KeyError, TypeError):
        fields = project.inputs.kept_rehearsal()
        if fields["key"] == key:
            return _parsed(fields["rehearsal"])
    return None


def _parsed(fields: dict[str, Any]) -> Rehearsal:
    verdict, figures = fields["verdict"], fields["figures"]
    for name in ("lengths", "donated_lengths"):
        figures[name] = None if figures[name] is None else Lengths(**figures[name])
    figures["attributes"] = tuple(ShownAttribute(**one) for one in figures["attributes"])
    return Rehearsal(
        method=fields["method"],
        verdict=RehearsalVerdict(
            grade=RehearsalGrade(verdict["grade"]),
            reasons=tuple(verdict["reasons"]),
            advice=tuple(verdict["advice"]),
        ),
        figures=Figures(**figures),
        forecast=Forecast(**fields["forecast"]),
        changes=tuple(fields["changes"]),
        accepted=fields["accepted"],
    )
