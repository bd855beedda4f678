"""Measures the first texts of a generator, before a run spends budget.

All inputs are public: the requests, the answers of the generator, the donated texts and the schema.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sugarbush.attributes.extract import extract_codes
from sugarbush.attributes.reader import codes_in_records, is_in_record
from sugarbush.attributes.settings import ExtractMetadataSettings
from sugarbush.attributes.zero_shot import ZeroShotReader
from sugarbush.data.schema import Schema
from sugarbush.evaluation.downstream import train_classifier
from sugarbush.evolution.enlarge import without_repeated_texts
from sugarbush.evolution.population import NO_CODE
from sugarbush.evolution.targets import Donated, Targets
from sugarbush.generators.interface import Answer, Embed
from sugarbush.languages import count_words
from sugarbush.rehearsal.verdict import FEWEST_DONATED, Figures, Lengths, ShownAttribute

_FAR: Final = 0.9  # quantile of the distance of a donated text to its nearest other donated text
_LEAST_LABELS: Final = 8  # number of donated texts with a known value, for a classifier
_NEAREST_SUBJECTS: Final = 3

# Subjects of other collections. A text about its own subject is nearer to it than to most of these.
OTHER_SUBJECTS = (
    "restaurant reviews", "medical case reports", "weather forecasts", "football match reports",
    "cooking recipes", "court decisions", "customer complaints to a bank", "software bug reports",
    "abstracts of physics papers", "hotel reviews", "tweets to an airline", "job advertisements",
    "political speeches", "fairy tales", "product descriptions of furniture", "song lyrics",
    "dialogues between a doctor and a patient", "reviews of scientific papers",
    "news about the stock market", "instructions for garden work",
)  # fmt: skip


def measure(
    answers: Sequence[Answer], targets: Targets, *, words: int | None, reader: AttributeReader
) -> Figures:
    """Compute the figures of `answers` (n,) to requests with `targets` (n,).

    `reader` has the donated texts, which are the standard. `words` is the median of the requested
    lengths.
    """
    donated, embed = reader.donated, reader.embed
    kept = [i for i, answer in enumerate(answers) if answer.text is not None]
    texts = [str(answers[i].text) for i in kept]
    standard = donated.texts if donated is not None else ()
    different = [texts[i] for i in without_repeated_texts(texts)]
    problems = dict(Counter(a.problem.value for a in answers if a.problem is not None))
    figures = Figures(
        requested=len(answers),
        usable=len(texts),
        different=len(different),
        donated=len(standard),
        problems=problems,
    )
    if not texts:
        return figures
    embedded = np.asarray(embed(texts), dtype=np.float64)
    known = np.asarray(embed(standard), dtype=np.float64) if standard else None
    compared: dict[str, Any] = {}
    if known is not None and len(known) >= FEWEST_DONATED:
        compared = _compared(embedded, known)
    return replace(
        figures,
        **compared,
        lengths=_lengths(texts),
        donated_lengths=_lengths(standard),
        requested_words=words,
        spread=_spread(embedded),
        off_subject=_off_subject(embedded, reader.schema.subject, embed=embed),
        attributes=_shown(texts, targets.codes[kept], reader),
    )


@dataclass(frozen=True, kw_only=True)
class AttributeReader:
    """Reads attribute values from public texts.

    A JSON record contains its values. Keywords and zero-shot readers read their attributes. A
    classifier that is trained on the donated texts reads the others. An attribute without a reader
    is not read.
    """

    schema: Schema
    donated: Donated | None
    zero_shot: Mapping[str, ZeroShotReader]
    settings: ExtractMetadataSettings
    embed: Embed
    seed: int

    def read(self, texts: Sequence[str]) -> dict[str, NDArray[np.int64]]:
        """Return the codes of each attribute that can be read, `(n,)` each."""
        none = dict.fromkeys(self.schema.names, (None,) * len(texts))
        read = extract_codes(
            self.schema,
            texts,
            none,
            embed=self.embed,
            readers=self.zero_shot,
            params=self.settings,
        )
        found = {}
        for place, attribute in enumerate(self.schema.attributes):
            if attribute.column is None and attribute.source is None:
                found[attribute.name] = read[:, place]
            elif is_in_record(attribute, self.schema):
                found[attribute.name] = codes_in_records(attribute, self.schema, texts)
            elif (codes := self._classified(texts, place)) is not None:
                found[attribute.name] = codes
        return found

    def taught(self, name: str) -> set[int]:
        """Return the codes of an attribute that the reader can find."""
        place = self.schema.names.index(name)
        attribute = self.schema.attributes[place]
        every = range(len(attribute.domain))
        if is_in_record(attribute, self.schema):
            return set(every)
        if (attribute.column is None and attribute.source is None) or self.donated is None:
            return set(every)
        return set(np.unique(self.donated.codes[:, place]).tolist())

    def _classified(self, texts: Sequence[str], place: int) -> NDArray[np.int64] | None:
        if self.donated is None:
            return None
        codes = self.donated.codes[:, place]
        known = np.flatnonzero(codes != len(self.schema.attributes[place].domain) - 1)
        if len(known) < _LEAST_LABELS or len(np.unique(codes[known])) < 2:
            return None
        section = self.schema.attributes[place].read_from
        examples = self.schema.texts_of(section, [self.donated.texts[i] for i in known])
        model = train_classifier(self.embed(examples), codes[known], seed=self.seed)
        embedded = self.embed(self.schema.texts_of(section, texts))
        return np.asarray(model.predict(embedded), dtype=np.int64)


def within_reach(texts: Sequence[str], reader: AttributeReader, *, count: int) -> tuple[str, ...]:
    """Return at most `count` different public texts, nearest to `count` donated texts in turn.

    With too few donated texts, the texts are nearest to the subject of the schema. Rounds of scores
    move from far first texts towards the records, but a release has only texts that exist. These
    are the best that it can have. A copy of a donated text is left out.
    """
    donated = reader.donated.texts if reader.donated is not None else ()
    enough = len(donated) >= FEWEST_DONATED
    standard = donated[:count] if enough else (reader.schema.subject,)
    known = set(donated)
    different = [text for text in dict.fromkeys(texts) if text not in known]
    if not different:
        return ()
    nearest = np.argsort(-(reader.embed(standard) @ reader.embed(different).T), axis=1)
    chosen = dict.fromkeys(nearest[:, :count].T.ravel().tolist())
    return tuple(different[i] for i in list(chosen)[:count])


def public_kinds(texts: Sequence[str], reader: AttributeReader) -> dict[str, dict[str, int]]:
    """Return the number of different texts for each value of each attribute that can be read.

    A value without a donated example cannot be read by a classifier, so it is left out.
    """
    different = [texts[i] for i in without_repeated_texts(texts)]
    kinds = {}
    for name, codes in reader.read(different).items():
        values = reader.schema.attribute(name).domain[:-1]
        counts = np.bincount(codes, minlength=len(values) + 1)
        taught = reader.taught(name)
        kinds[name] = {v: int(counts[code]) for code, v in enumerate(values) if code in taught}
    return kinds


def _shown(
    texts: Sequence[str], requested: NDArray[np.int64], reader: AttributeReader
) -> tuple[ShownAttribute, ...]:
    """Compare the values in the texts with the requested codes (n, d)."""
    found = []
    for name, codes in reader.read(texts).items():
        asked = requested[:, reader.schema.names.index(name)]
        bucket = len(reader.schema.attribute(name).domain) - 1
        rows = np.flatnonzero((asked != NO_CODE) & (asked != bucket))
        if len(rows) < 2:
            continue
        shares = [float(np.mean(codes[rows] == np.roll(asked[rows], k))) for k in range(len(rows))]
        found.append(
            ShownAttribute(
                name=name, shown=shares[0], chance=float(np.mean(shares[1:])), texts=len(rows)
            )
        )
    return tuple(found)


def _compared(embedded: NDArray[np.float64], known: NDArray[np.float64]) -> dict[str, float]:
    spread = _spread(known)
    _, first = np.unique(np.round(known, 5), axis=0, return_index=True)
    known = known[np.sort(first)]  # a donated text may occur twice
    among = 1.0 - known @ known.T
    np.fill_diagonal(among, np.inf)
    usual = among.min(axis=1)
    nearest = (1.0 - embedded @ known.T).min(axis=1)
    return {
        "far": float(np.mean(nearest > np.quantile(usual, _FAR))),
        "distance": float(np.median(nearest)),
        "donated_distance": float(np.median(usual)),
        "donated_spread": spread,
    }


def _spread(embedded: NDArray[np.float64]) -> float:
    """Return the mean cosine distance between two texts; 0 for a single text."""
    count = len(embedded)
    if count < 2:
        return 0.0
    similarities = embedded @ embedded.T
    return float(1.0 - (similarities.sum() - np.trace(similarities)) / (count * (count - 1)))


def _off_subject(embedded: NDArray[np.float64], subject: str, *, embed: Embed) -> float:
    subjects = np.asarray(embed([subject, *OTHER_SUBJECTS]), dtype=np.float64)
    similarities = embedded @ subjects.T
    nearer = (similarities[:, 1:] > similarities[:, :1]).sum(axis=1)
    return float(np.mean(nearer >= _NEAREST_SUBJECTS))


def _lengths(texts: Sequence[str]) -> Lengths | None:
    if not texts:
        return None
    found = np.quantile([count_words(text) for text in texts], (0.1, 0.5, 0.9))
    low, median, high = (round(value) for value in found.tolist())
    return Lengths(low=low, median=median, high=high)
