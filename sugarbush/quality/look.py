"""Draws the first look of a run (`sugarbush.evaluation.first_look`), and stops a run without a fit.

The form of the records (lengths and style) is stored apart from the fit, because it does not depend
on the generator. After a change of the generator, only the fit is drawn and charged again.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush import versions
from sugarbush.data.lengths import lengths_of
from sugarbush.errors import GeneratorError, PoorFitError
from sugarbush.evaluation.first_look import (
    CENTRE,
    FEWEST_TEXTS,
    FIT,
    KINDS,
    LENGTHS,
    STYLE,
    TEXTS,
    FirstLook,
    kinds_of,
)
from sugarbush.evaluation.fit import CELLS, UNIT, Centre, NearTexts, ShareInterval, steps_of
from sugarbush.evolution.enlarge import without_repeated_texts
from sugarbush.languages import count_words
from sugarbush.privacy.accounting import rounded_up
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.mechanisms import noisy_counts, noisy_sum
from sugarbush.privacy.results import ResultStore, digest_of
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.settings import Purpose
from sugarbush.privacy.unit import Unit
from sugarbush.profiling.form import FormReader
from sugarbush.rehearsal.preflight import preflight
from sugarbush.rehearsal.rehearse import first_inputs, public_inputs, rehearsed_method
from sugarbush.run.context import Project
from sugarbush.run.ledgers import open_store
from sugarbush.run.records import corpus_of, key_of
from sugarbush.run.tools import writer_of

STAGE = "look"
FILE = "look.json"
_WHAT = "first look"
_MOST_TEXTS = 5000  # of a pool


@dataclass(frozen=True, kw_only=True)
class DrawnLook:
    """A first look, and the random id of its draw."""

    look: FirstLook
    run: str


@dataclass(frozen=True)
class LookRequest:
    """A request for the first look of a project."""

    project: Project

    def release(self, *, forced: bool) -> DrawnLook:
        """Draw the look, or restore finished results. Prompts then have its lengths and style.

        Each group is charged before its draw. Before the first charge, the cap must allow the whole
        run, and the encoder, the generator and its first texts are checked.
        """
        if self.project.settings.generator.chosen.public_texts(
            self.project.base, self.project.schema.shape
        ):
            first_texts(self.project)  # too few public texts are refused before the first charge
        form = self._form(forced=forced) if self.project.plan.holds(LENGTHS) else _NO_FORM
        self.project.inputs.look = form
        drawn = self._fit(form, forced=forced)
        self.project.inputs.look = drawn.look
        return drawn

    def _form(self, *, forced: bool) -> FirstLook:
        project, plan, reader = self.project, self.project.plan, self._form_reader
        text = project.schema.text
        key = {
            "version": versions.LOOK,
            "corpus": project.inputs.names()["texts"],
            "text": None if text is None else text.without_lengths.model_dump(mode="json"),
            "privacy": project.settings.privacy.promise,
            "plan": {name: plan.of(name).mu for name in (LENGTHS, STYLE)},
        }
        with open_store(project, f"{STAGE}_form", key, forced=forced) as store:
            drawing = self._drawing(store, (LENGTHS, STYLE))
            lengths = drawing.counts(
                LENGTHS, lambda: self._of_texts(reader.cells_of_lengths), reader.lengths.size
            )
            style = drawing.counts(
                STYLE, lambda: self._of_texts(reader.cells_of_style), reader.style.size
            )
        form = reader.form(
            lengths.value,
            style.value,
            stddev={"sizes": plan.of(LENGTHS).stddev, "style": plan.of(STYLE).stddev},
            text=text,
        )
        ids = (*lengths.ledger_ids, *style.ledger_ids)
        return replace(_NO_FORM, **vars(form), ledger_ids=ids)

    def _fit(self, form: FirstLook, *, forced: bool) -> DrawnLook:
        project, plan, schema = self.project, self.project.plan, self.project.schema
        texts = first_texts(project)
        sizes = list(schema.domain.values())
        key = {
            "version": versions.LOOK,
            "corpus": project.inputs.names(),
            "texts": digest_of(texts=texts),
            "schema": schema.fields_for_private_results(),
            "embedding": project.settings.embedding.output_settings(),
            "privacy": project.settings.privacy.promise,
            "plan": {name: plan.of(name).mu for name in (CENTRE, FIT, KINDS)},
        }
        written = np.asarray(project.inputs.encoder(private=False).encode(texts))
        with open_store(project, STAGE, key, forced=forced) as store:
            drawing = self._drawing(store, (CENTRE, FIT, KINDS))
            sums = drawing.sums(CENTRE, lambda: self._embeddings, written.shape[1] + 1)
            centre = Centre.of(sums.value, stddev=plan.of(CENTRE).stddev)
            random = None if centre is None else centre.least_similarity
            near = NearTexts(embeddings=written, random=random)

            @cache  # the search for the nearest texts, for both groups
            def cells() -> Private[Any]:
                return self._embeddings.map_batch(near.cells)

            def cells_by_value() -> Private[Any]:
                codes = one_of_each(self.project, corpus_of(project).codes(schema.names))
                return cells().zip_batch(
                    codes,
                    lambda rows, own: near.cells_by_value(
                        rows, np.asarray(own, dtype=np.int64), sizes
                    ),
                )

            fit = drawing.counts(FIT, lambda: cells().map_batch(lambda rows: rows[:, None]), CELLS)
            kinds = drawing.counts(KINDS, cells_by_value, CELLS * sum(sizes))
        far, close = fit.value.tolist()
        ids = (*form.ledger_ids, *sums.ledger_ids, *fit.ledger_ids, *kinds.ledger_ids)
        look = replace(
            form,
            # Without a scale, foreign texts that are unlike each other would be near.
            fit=None
            if random is None
            else ShareInterval.of(far, close, stddev=plan.of(FIT).stddev),
            kinds=()
            if random is None
            else kinds_of(
                kinds.value,
                [(attribute.name, attribute.domain) for attribute in schema.attributes],
                stddev=plan.of(KINDS).stddev,
            ),
            texts=len(texts),
            text_words=int(np.median([count_words(text) for text in texts])),
            random=random,
            ledger_ids=tuple(dict.fromkeys(ids)),
        )
        return DrawnLook(look=look, run=store.run)

    @cached_property
    def _form_reader(self) -> FormReader:
        return FormReader(self.project.schema.shape)

    @cached_property
    def _embeddings(self) -> Private[Any]:
        encode = self.project.inputs.encoder(private=True).encode
        return one_of_each(self.project, corpus_of(self.project).embeddings(encode))

    def _of_texts(self, function: Callable[[Sequence[str]], NDArray[np.int32]]) -> Private[Any]:
        cells = corpus_of(self.project).map_records(lambda records: function(records.texts))
        return one_of_each(self.project, cells)

    def _drawing(self, store: ResultStore, names: Sequence[str]) -> _LookGroups:
        """Check everything that could stop the run, if a result of `store` is missing."""
        project = self.project
        session = corpus_of(project).session(
            ledger=project.ledger(), stage=STAGE, run=store.run, plan=project.plan.planned
        )
        waiting = [name for name in names if store.finished(name) is None]
        if waiting:
            charged = {LENGTHS, STYLE, *names}.difference(waiting)  # the form comes first
            left = [e.event for e in project.plan.allocations if e.name not in charged]
            session.check(left)
            preflight(project)
        # one record of each unit is read, so the sensitivity is that of one record
        return _LookGroups(project, store, replace(session, records_per_unit=1))


@dataclass(frozen=True)
class _LookGroups:
    """The groups of noisy numbers of a look in one result store."""

    project: Project
    store: ResultStore
    session: PrivacySession

    def sums(
        self, name: str, embeddings: Callable[[], Private[Any]], size: int
    ) -> Released[NDArray[np.int64]]:
        """Draw the sum of the embeddings, or restore it."""
        return self.store.array(
            name,
            lambda: noisy_sum(
                embeddings(),
                scores=lambda rows: [steps_of(np.asarray(rows))],
                size=size,
                record_l2_sensitivity=UNIT,
                stddev=self.project.plan.of(name).stddev,
                session=self.session,
            ),
        )

    def counts(
        self, name: str, cells: Callable[[], Private[Any]], size: int
    ) -> Released[NDArray[np.int64]]:
        """Draw a group of counts, or restore it."""
        allocation = self.project.plan.of(name)
        return self.store.array(
            name,
            lambda: noisy_counts(
                cells(),
                size=size,
                cells_per_record=allocation.count,
                stddev=allocation.stddev,
                session=self.session,
            ),
        )


def one_of_each(project: Project, values: Private[Any]) -> Private[Any]:
    """Return the values of one record of each unit. A keyed digest of the text chooses it."""
    if project.settings.privacy.unit is Unit.RECORD:
        return values
    key = key_of(project)
    keys = corpus_of(project).map_records(
        lambda records: np.array(
            [hmac.digest(key, b"look" + text.encode(), "sha256") for text in records.texts],
            dtype="S32",
        )
    )
    return values.one_of_each(corpus_of(project).users(), keys=keys)


_NO_FORM = FirstLook(fit=None, kinds=(), texts=0, lengths={})


def first_texts(project: Project) -> tuple[str, ...]:
    """Return the texts that records are compared with: of a pool all, else the first answers.

    The requests have the form of the run's first requests. Their number follows from settings, and
    never from the records. Raises GeneratorError if fewer than two different texts are usable.
    """
    settings, schema = project.settings, project.schema
    public = settings.generator.chosen.public_texts(project.base, schema.shape)
    if public:
        different = [public[i] for i in without_repeated_texts(public)]
        chosen = np.linspace(0, len(different) - 1, min(len(different), _MOST_TEXTS)).astype(int)
        return _two_at_least([different[i] for i in chosen])
    count, method = number_of_first_texts(project), rehearsed_method(project)
    assert method is not None
    first = method.first_requests(
        first_inputs(project, public_inputs(project, count=count)), count=count
    )
    answers = writer_of(project, STAGE).write(first.map(lambda both: both[1]), what=_WHAT).value
    texts = [answer.text for answer in answers if answer.text is not None]
    return _two_at_least([texts[i] for i in without_repeated_texts(texts)])


def _two_at_least(texts: Sequence[str]) -> tuple[str, ...]:
    if len(texts) < 2:
        raise GeneratorError(
            "the generator has fewer than two different first texts. No fit was measured. Check "
            "the generator's settings, or give a pool more texts"
        )
    return tuple(texts)


def number_of_first_texts(project: Project) -> int:
    """Return how many first texts are requested: half of the scored texts, 40 to 200."""
    method = rehearsed_method(project)
    if method is None:
        return 0
    parts, texts = method.parts(), project.settings.release.texts
    candidates = parts.start.prompts.planned_count(None, texts=texts)
    return min(TEXTS, max(FEWEST_TEXTS, parts.first_count(candidates) // 2))


def require_fit(project: Project, look: FirstLook, *, accept: bool) -> None:
    """Raise PoorFitError if the first texts are certainly unlike the records.

    Benchmarks, the example and runs that the operator continues on purpose are never stopped. A run
    is not stopped either if its settings allow a generator for any texts, because these texts are
    useless on purpose.
    """
    settings = project.settings
    accept = (
        accept or settings.report.accept_poor or settings.generator.chosen.allowed_for_any_texts
    )
    if accept or settings.privacy.purpose is not Purpose.RELEASE or not look.is_poor:
        return
    raise PoorFitError(refusal(project, look))


def refusal(project: Project, look: FirstLook) -> str:
    """Return the message for a look without a fit: what is missing, the cost, what to change."""
    ledger, plan = project.ledger(rehearse=False), project.plan.planned
    missing = look.listed_missing()
    source = project.settings.generator.provider
    return (
        f"the first look: {look.line()}. "
        + (f"No near texts for: {missing}. " if missing else "")
        + _form_or_content(project, look)
        + f"The run stopped before its other charges. Spent so far: epsilon "
        f"{rounded_up(ledger.total())}; a further try comes to "
        f"{rounded_up(ledger.total_with((plan.events, plan)))} of a cap of "
        f"{rounded_up(ledger.cap)}. What to change: {_advice(source)}. To go on all the same: "
        "sugarbush run --yes"
    )


def _form_or_content(project: Project, look: FirstLook) -> str:
    """Say whether the length of the first texts differs from that of the records, and what to do.

    The lengths of the records are those that the look released, else those of the donated texts.
    Without both, nobody knows them.
    """
    settings, own = project.settings, project.settings.initialise.length.numbers
    released, donated = look.words, project.inputs.donated_texts()
    whose = "the records" if released else "the donated texts"
    words = released or (lengths_of(donated) if donated else ())
    if look.text_words is None or not (words or own):
        return ""
    if not words:
        return (
            f"The first texts have about {look.text_words} words. Nothing measured how long the "
            "records are, so check initialise.length. "
        )
    typical = round(float(np.median(words)))
    if look.has_length(typical):
        return (
            f"The first texts are about as long as {whose} ({typical} words), so not their length "
            "but their content or style is at fault. "
        )
    if settings.generator.provider == "pool":
        change = "use public texts of this length"
    elif own and set(own) != set(words):
        change = f"set initialise.length.words: {list(words)}"
    else:
        change = "say in the schema's `style` how long they are, or use a model that keeps to it"
    return (
        f"The first texts have about {look.text_words} words, {whose} about {typical}, so at "
        f"least their form is at fault: {change}. "
    )


def _advice(provider: str) -> str:
    if provider == "pool":
        return "add public texts of the kinds of the records to the pool, or use a language model"
    return (
        "say in the schema's `subject` and `style` what the texts are, donate examples "
        "(prepare.donated), or use a stronger model"
    )
