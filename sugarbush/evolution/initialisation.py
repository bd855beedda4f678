"""The requests for the first candidates (RANDOM_API).

`augpe` uses DP label counts. `maple` uses rows of the DP table and donated examples. `public` uses
no data. All values here are public or post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.schema import Schema
from sugarbush.errors import ParamsError
from sugarbush.evolution.population import NO_CODE, Population
from sugarbush.evolution.selection import apportion
from sugarbush.evolution.settings import CandidateSettings, FirstLength, PromptContent
from sugarbush.generators.examples import choose_examples
from sugarbush.generators.interface import Answer, Attributes, RandomRequest, Request
from sugarbush.randomness import Rng, public_rng, seed_of


@dataclass(frozen=True, kw_only=True)
class Donated:
    """Donated texts (m,) with their codes (m, d). The guarantee does not cover donated texts."""

    texts: tuple[str, ...]
    codes: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Targets:
    """The required values of n first candidates: `codes` (n, d) and `labels` (n,).

    The code NO_CODE allows any value.
    """

    codes: NDArray[np.int64]
    labels: NDArray[np.int64]

    def take(self, places: NDArray[np.integer[Any]]) -> Targets:
        """Return the targets at `places`."""
        return Targets(codes=self.codes[places], labels=self.labels[places])

    def join(self, other: Targets) -> Targets:
        """Return these targets, followed by the targets of `other`."""
        return Targets(
            codes=np.concatenate([self.codes, other.codes]),
            labels=np.concatenate([self.labels, other.labels]),
        )


def candidate_count(params: CandidateSettings, *, record_count: float | None) -> int:
    """Return the number of candidates in a round.

    The number is a setting, or a multiple of the *DP* record count. Raises ParamsError if the
    setting is null and there is no DP count.
    """
    if params.candidates is not None:
        return params.candidates
    if record_count is None:
        raise ParamsError(
            "candidates is null, but this method releases no DP record count. Set "
            "methods.<method>.candidates"
        )
    wanted = int(params.candidates_per_record * max(record_count, 0.0))
    return max(min(wanted, params.max_candidates), 1)


def open_targets(count: int, schema: Schema) -> Targets:
    """Return targets without required attribute values."""
    return Targets(
        codes=np.full((count, len(schema.attributes)), NO_CODE, dtype=np.int64),
        labels=np.zeros(count, dtype=np.int64),
    )


def targets_by_label(
    count: int, schema: Schema, *, attribute: str, label_counts: NDArray[Any]
) -> Targets:
    """Return targets in proportion to the DP counts of one attribute's values.

    A negative count is replaced by 0.
    """
    weights = np.maximum(np.asarray(label_counts, dtype=np.float64), 0.0)
    labels = np.repeat(np.arange(len(weights)), apportion(weights, total=count))
    targets = open_targets(count, schema)
    targets.codes[:, schema.names.index(attribute)] = labels
    return replace(targets, labels=labels.astype(np.int64))


def targets_by_rows(count: int, rows: NDArray[np.int64], *, rng: Rng) -> Targets:
    """Return targets with the codes of DP rows, in random order.

    Every row is used once before any row is used again. Raises ParamsError for an empty table.
    """
    if not len(rows):
        raise ParamsError(
            "the DP table is empty, because the corpus is too small for this budget. Use more "
            "records, or raise privacy.epsilon"
        )
    passes = [rng.permutation(len(rows)) for _ in range(-(-count // len(rows)))]
    codes = rows[np.concatenate(passes)[:count]]
    return Targets(codes=codes, labels=np.zeros(count, dtype=np.int64))


def first_requests(
    targets: Targets,
    *,
    schema: Schema,
    params: CandidateSettings,
    length: FirstLength,
    donated: Donated | None,
    seed: int,
) -> tuple[RandomRequest, ...]:
    """Make one RANDOM_API request per target. `params.prompt` decides the content of the request.

    Raises ParamsError if the donated examples for the prompt are missing.
    """
    if params.shows_examples and (donated is None or not donated.texts):
        raise ParamsError(
            f"prompt: {params.prompt} shows donated examples. Set prepare.donated, or choose "
            "prompt: metadata"
        )
    shown: list[tuple[str, ...]] = [()] * len(targets.labels)
    known: list[tuple[Attributes, ...]] = [()] * len(targets.labels)
    if params.shows_examples and donated is not None:
        if params.prompt is PromptContent.BOTH:
            near = public_rng(seed, "near")
            places = choose_examples(targets.codes, donated.codes, k=params.examples, rng=near)
            of_each = [_attributes(row, schema) for row in donated.codes]
            known = [tuple(of_each[i] for i in row) for row in places]
        else:
            places = _any_examples(len(targets.labels), len(donated.texts), params.examples, seed)
        shown = [tuple(donated.texts[i] for i in row) for row in places]
    return tuple(
        RandomRequest(
            subject=schema.subject,
            attributes=_attributes(row, schema) if params.shows_metadata else (),
            examples=examples,
            example_attributes=attributes,
            words=_words(i, row, schema, length),
            sample=seed_of(seed, "first", i) >> 1,
        )
        for i, (row, examples, attributes) in enumerate(
            zip(targets.codes, shown, known, strict=True)
        )
    )


def contradicted(
    requested: NDArray[np.int64],
    read: NDArray[np.int64],
    confidence: NDArray[np.float64],
    *,
    bucket: Sequence[int],
) -> NDArray[np.bool_]:
    """Return for each text whether it more likely than not lacks a requested value, `(n,)`.

    `requested` and `read` (n, d) are codes, and `confidence` (n, d) the probability of `read`.
    `bucket` (d,) are the codes of `other`, which no prompt requests.

    >>> contradicted(np.array([[0], [0], [1]]), np.array([[0], [1], [1]]), np.ones((3, 1)),
    ...              bucket=[2]).tolist()
    [False, True, False]
    """
    asked = (requested != NO_CODE) & (requested != np.asarray(bucket))
    return np.asarray((asked & (read != requested) & (confidence >= 0.5)).any(axis=1))


def first_population(
    targets: Targets,
    answers: Sequence[Answer],
    *,
    requests: Sequence[Request] = (),
    donated: Donated | None = None,
) -> Population:
    """Return the usable answers as candidates of round 0.

    With `requests` and `donated`, the candidates have the indices of their examples.
    """
    kept = np.array([i for i, answer in enumerate(answers) if answer.text is not None], dtype=int)
    places = {text: i for i, text in enumerate(donated.texts if donated else ())}
    shown = [requests[i].examples if donated and requests else () for i in kept]
    return Population.first(
        [str(answers[i].text) for i in kept],
        codes=targets.codes[kept],
        labels=targets.labels[kept],
        examples=tuple(tuple(places[text] for text in own if text in places) for own in shown),
    )


def _attributes(row: NDArray[np.int64], schema: Schema) -> Attributes:
    """Return name and value of each requested attribute, except the value `other`."""
    return tuple(
        (attribute.name, attribute.domain[code])
        for attribute, code in zip(schema.attributes, row, strict=True)
        if code != NO_CODE and code != len(attribute.domain) - 1
    )


def _words(place: int, row: NDArray[np.int64], schema: Schema, length: FirstLength) -> int:
    if length.attribute is None or length.words_by_value is None:
        return length.of(place)
    attribute = schema.attribute(length.attribute)
    code = row[schema.names.index(length.attribute)]
    return length.of(place, attribute.domain[code] if code != NO_CODE else attribute.other)


def _any_examples(count: int, available: int, wanted: int, seed: int) -> NDArray[np.int64]:
    rng = public_rng(seed, "examples")
    k = min(wanted, available)
    return np.stack([rng.choice(available, size=k, replace=False) for _ in range(count)])
