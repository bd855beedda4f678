"""Measures public figures of quality: charged mechanisms on private records, per released method.

    records    their number, and their distance from the release's labels
    quality    whether a record has a near text, and right answers of classifiers
    topics     the distance of the records' topics from those of the released texts

The instruments come from the release alone (`quality.instruments`). Each mechanism is charged
before its draw. All of them read the records from which the release was made: `records` all of
them, the others one record of each unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush import versions
from sugarbush.evaluation.figures_plan import PARTS, QUALITY, RECORDS, TOPICS, request_name
from sugarbush.evaluation.public_figures import (
    COVERAGE,
    NoisyNumbers,
    PublicFigure,
    estimate,
    number_of_records,
)
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.distances import noisy_histogram_distances
from sugarbush.privacy.mechanisms import noisy_counts
from sugarbush.privacy.results import ResultStore
from sugarbush.privacy.session import PrivacySession
from sugarbush.quality.instruments import Instruments
from sugarbush.quality.look import one_of_each
from sugarbush.release.figures import MeasuredFigures, MeasuredRelease
from sugarbush.run.context import Project
from sugarbush.run.ledgers import open_store
from sugarbush.run.records import corpus_of

STAGE = "measure"


def measure(
    project: Project, releases: Mapping[str, MeasuredRelease], *, forced: bool
) -> MeasuredFigures:
    """Draw the public figures of each release, or restore earlier results.

    Guarantee: each mechanism is charged before its draw, with the events of the plan. All noise is
    on disk before any figure is returned. Raises BudgetExceededError before anything is counted.
    """
    settings = project.settings
    key = {
        "version": versions.FIGURES,
        "corpus": project.inputs.names(),
        "releases": {name: release.digest() for name, release in releases.items()},
        "schema": project.schema.fields_for_private_results(),
        "embedding": settings.embedding.output_settings(),
        "seed": settings.seed,
        "random": project.look and project.look.random,
        "privacy": settings.privacy.promise,
        "plan": {
            request_name(name, part): project.plan.of(request_name(name, part)).mu
            for name in releases
            for part in PARTS
        },
    }
    with open_store(project, STAGE, key, forced=forced) as store:
        session = corpus_of(project).session(
            ledger=project.ledger(), stage=STAGE, run=store.run, plan=project.plan.planned
        )
        names = [request_name(name, part) for name in releases for part in PARTS]
        waiting = [name for name in names if store.finished(name) is None]
        session.check([project.plan.of(name).event for name in waiting])
        measurements = {name: _Measurement(project, name, own) for name, own in releases.items()}
        for measurement in measurements.values() if waiting else ():
            measurement.prepare()  # what can fail comes before the first charge
        drawn = {name: each.draw(store, session) for name, each in measurements.items()}
    ids = [i for numbers in drawn.values() for i in numbers.ledger_ids]
    return MeasuredFigures(
        by_method={
            name: _known(estimate(numbers.value), measurements[name].instruments.random)
            for name, numbers in drawn.items()
        },
        facts={
            name: {
                "records": number_of_records(numbers.value),
                "quality_stddev": numbers.value.quality_stddev,
                "records_stddev": numbers.value.records_stddev,
            }
            for name, numbers in drawn.items()
        },
        digests={name: release.digest() for name, release in releases.items()},
        run=store.run,
        ledger_ids=tuple(dict.fromkeys(ids)),
    )


def _known(figures: Iterable[PublicFigure], random: float | None) -> tuple[PublicFigure, ...]:
    """Return the figures. Without the similarity of random records, the coverage is unknown."""
    return tuple(
        replace(figure, low=0.0, high=1.0) if figure.name == COVERAGE and random is None else figure
        for figure in figures
    )


class _Measurement:
    """The three mechanisms on the records of a project, for the texts of one method."""

    def __init__(self, project: Project, method: str, release: MeasuredRelease) -> None:
        self._project, self.method = project, method
        self.instruments = Instruments(
            texts=release.texts,
            labels=release.labels,
            schema=project.schema,
            embed=project.inputs.encoder(private=False).encode,
            seed=project.settings.seed,
            random=None if project.look is None else project.look.random,
        )

    def prepare(self) -> None:
        """Build the instruments, and embed the records."""
        self.instruments.prepare()
        _ = self._embeddings

    @cached_property
    def _embeddings(self) -> Private[Any]:
        encode = self._project.inputs.encoder(private=True).encode
        return one_of_each(self._project, corpus_of(self._project).embeddings(encode))

    def draw(self, store: ResultStore, session: PrivacySession) -> Released[NoisyNumbers]:
        draws: dict[str, Callable[[PrivacySession], Released[NDArray[np.int64]]]] = {
            RECORDS: self._records,
            QUALITY: self._quality,
            TOPICS: self._topics,
        }
        found = {
            part: store.array(request_name(self.method, part), partial(draws[part], session))
            for part in PARTS
        }
        instruments, project = self.instruments, self._project
        numbers = NoisyNumbers(
            records=found[RECORDS].value,
            records_stddev=self._stddev(RECORDS),
            quality=found[QUALITY].value,
            quality_stddev=self._stddev(QUALITY),
            topics=found[TOPICS].value,
            topics_stddev=self._stddev(TOPICS),
            number_of_topics=instruments.number_of_topics,
            attributes=project.schema.names,
            measured=instruments.measured,
            pairs_measured=bool(instruments.pairs),
        )
        ids = [i for part in PARTS for i in found[part].ledger_ids]
        return Released(numbers, tuple(dict.fromkeys(ids)))

    def _stddev(self, part: str) -> float:
        return self._project.plan.of(request_name(self.method, part)).stddev

    def _records(self, session: PrivacySession) -> Released[NDArray[np.int64]]:
        codes = corpus_of(self._project).code_parts(self._project.schema.names)
        return noisy_histogram_distances(
            codes.map_batch(self.instruments.cells_of_records),
            queries=self.instruments.queries(),
            counted=True,
            stddev=self._stddev(RECORDS),
            session=session,
        )

    def _quality(self, session: PrivacySession) -> Released[NDArray[np.int64]]:
        instruments, names = self.instruments, self._project.schema.names
        codes = one_of_each(self._project, corpus_of(self._project).codes(names))
        return noisy_counts(
            self._embeddings.zip_batch(codes, instruments.cells_of_quality),
            size=instruments.quality_size,
            cells_per_record=instruments.quality_cells,
            stddev=self._stddev(QUALITY),
            session=replace(session, records_per_unit=1),
        )

    def _topics(self, session: PrivacySession) -> Released[NDArray[np.int64]]:
        topics = self.instruments.topics
        return noisy_histogram_distances(
            self._embeddings.map_batch(topics.cells),
            queries=[[topics.texts]],
            counted=False,
            stddev=self._stddev(TOPICS),
            session=replace(session, records_per_unit=1),
        )
