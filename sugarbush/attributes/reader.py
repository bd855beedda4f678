"""Reads the attribute values of released texts, so that labels are true of the texts.

A generator often ignores the value that a prompt requests, so the requested value is a poor label.
Three public facts decide a label:

    the text              a JSON record contains the values of its properties. Keywords and
                          zero-shot descriptions read a text as they read a record. For all other
                          attributes, a classifier is trained on the donated examples. Another one
                          learns from noisy sums of the records' embeddings by class (without
                          donated examples, only if requests give no information). `read_from`
                          limits each of them to one section of the text, such as one role
    the request           its weight follows from the agreement of requests and texts. The weight
                          is 0 for a pool, because its texts existed before the requests. If nothing
                          else reads an attribute, a classifier learns from the texts with a
                          request, and reads the texts without one
    the DP table          its counts of values are the prior of the classifier, if there is a table.
                          The frequencies of the labels follow these counts

Guarantee: post-processing. Inputs are released texts, released tables and public examples, so the
labels cost no budget. Source of the estimate of agreement: Cohen 1960 (kappa), corrected for the
errors of the classifier (Dawid and Skene 1979, with one parameter).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sugarbush.attributes.class_reader import SUMS_ALONE, ClassReader, choose_weights, combined
from sugarbush.attributes.extract import by_keywords, without_section
from sugarbush.attributes.released_values import states_value
from sugarbush.attributes.rule_repair import Reading, obey_rules
from sugarbush.attributes.zero_shot import ZeroShotReader
from sugarbush.data.mix import Mix
from sugarbush.data.schema import Attribute, Schema
from sugarbush.embedding.class_sums import ClassSums
from sugarbush.generators.interface import Embed
from sugarbush.randomness import hash_share
from sugarbush.threads import one_blas_thread

if TYPE_CHECKING:
    import pandas as pd

UNREAD = -1  # the code of an attribute that neither the text nor a request tells
LEAST_EXAMPLES = 10  # donated examples with a listed value that a classifier needs
_FOLDS = 5
_STRENGTH = 10.0  # inverse of the regularisation; scikit-learn's default underfits unit vectors
_DOUBT = 0.03  # probability that is spread over all values, because few examples teach too sure
_TEMPERATURES = tuple(float(t) for t in np.geomspace(0.25, 8, 31))
_MOST_AGREEMENT = 0.97
_LEAST_LOG = -20.0
_NEVER = -200.0  # the log-probability of a value that no text has
_LEAST_KAPPA = 0.05
_RAKING_ROUNDS = 20
_BALANCING_ROUNDS = 30
_MOST_OFFSET = float(np.log(100)) / 2
_MOST_WEIGHT = 4.0

LabelSource = Literal[
    "record", "keywords", "zero_shot", "class_sums", "donated", "drawn", "request", "nothing"
]


@dataclass(frozen=True, kw_only=True)
class ReadAttribute:
    """How one attribute was read, and how far texts and requests agree. All values are public.

    `source` is `record` (a property of a JSON record), `keywords`, `zero_shot`, `class_sums` (noisy
    sums of the records, with or without donated examples), `donated` (a classifier), `drawn` (from
    the DP counts, except for requested values, because no text tells it), `request` (no
    example has a label, so nothing verifies the requested values, or the values of texts that
    requests left open), or `nothing`. `examples` is the number of donated examples with a label,
    and `accuracy` the share of them that the classifier reads right in cross-validation.
    `requested` is the number of texts for which a value was requested, and `shown` the share of
    these texts that have this value. Both shares are None if nothing verifies them: without a
    classifier, or if sums alone read. `guessed` is true if the classifier reads the donated
    examples no better than chance. `wrong` is true if the records show that its labels are wrong
    (`report.true_labels`). Then no function publishes them as labels. `chosen` is true if a mix
    decides the shares of its labels. Then a model that learns them shows nothing about them.
    """

    name: str
    source: LabelSource
    requested: int
    shown: float | None = None
    examples: int = 0
    accuracy: float | None = None
    guessed: bool = False
    wrong: bool = False
    chosen: bool = False

    @property
    def is_unverified(self) -> bool:
        """Whether nothing public shows that the labels are true."""
        alone = self.source == "class_sums" and self.accuracy is None
        return alone or self.guessed or self.source == "request"

    @property
    def missed(self) -> bool:
        """Whether fewer than 40% of the texts have the requested value."""
        return self.shown is not None and self.requested > 0 and self.shown < 0.4


@dataclass(frozen=True, kw_only=True)
class Labels:
    """The attribute codes `codes` (n, d) of n released texts, in schema order.

    `confidence` (n, d) is the probability that the code is right, according to the reader; NaN if
    nothing verified a requested value. UNREAD means no value. With the `weights` (n,), of mean 1,
    the counts of values come near the DP counts. `attributes` has one entry per attribute.
    """

    codes: NDArray[np.int64]
    confidence: NDArray[np.float64]
    weights: NDArray[np.float64]
    attributes: tuple[ReadAttribute, ...]

    @property
    def left_out(self) -> tuple[str, ...]:
        """The attributes without published labels, because their labels are wrong."""
        return tuple(each.name for each in self.attributes if each.wrong)

    def without(self, names: Sequence[str]) -> Labels:
        """Return the labels with the attributes in `names`, and no others, marked as wrong."""
        marked = (replace(each, wrong=each.name in names) for each in self.attributes)
        return replace(self, attributes=tuple(marked))

    @property
    def given_codes(self) -> NDArray[np.int64]:
        """The published codes (n, d): UNREAD for an attribute that is left out."""
        wrong = [each.wrong for each in self.attributes]
        return np.where(wrong, UNREAD, self.codes) if any(wrong) else self.codes

    def frame(self, names: Sequence[str]) -> pd.DataFrame:
        """Return the columns `read_<name>`, `confidence_<name>` and `weight`."""
        import pandas as pd

        columns: dict[str, Any] = {f"read_{n}": self.codes[:, j] for j, n in enumerate(names)}
        columns |= {f"confidence_{n}": self.confidence[:, j] for j, n in enumerate(names)}
        return pd.DataFrame({**columns, "weight": self.weights})

    @classmethod
    def of_frame(
        cls, frame: pd.DataFrame, names: Sequence[str], attributes: tuple[ReadAttribute, ...]
    ) -> Labels:
        """Return the labels that `frame` wrote."""
        shape = (len(frame), len(names))
        codes = frame[[f"read_{name}" for name in names]].to_numpy(dtype=np.int64)
        sure = frame[[f"confidence_{name}" for name in names]].to_numpy(dtype=np.float64)
        return cls(
            codes=codes.reshape(shape),
            confidence=sure.reshape(shape),
            weights=frame["weight"].to_numpy(dtype=np.float64),
            attributes=attributes,
        )


def is_in_record(attribute: Attribute, schema: Schema) -> bool:
    """Return whether every text contains the value of an attribute, as a JSON record does."""
    column = attribute.column
    return schema.shape is not None and column is not None and schema.shape.is_inside(column)


def is_drawn(attribute: Attribute, schema: Schema) -> bool:
    """Return whether the release draws the value of an attribute if no reader reads it."""
    column = attribute.column
    return schema.shape is not None and column is not None and column in schema.shape.drawn_columns


def _is_gap(attribute: Attribute, schema: Schema) -> bool:
    """Return whether an attribute is between the records of a history, so no text has it."""
    column = attribute.column
    if not is_drawn(attribute, schema):
        return False
    assert schema.shape is not None and column is not None
    return schema.shape.is_computed(column)


def codes_in_records(
    attribute: Attribute, schema: Schema, texts: Sequence[str]
) -> NDArray[np.int64]:
    """Return the codes of the values that the canonical texts contain, (n,)."""
    shape, column = schema.shape, attribute.column
    assert shape is not None and column is not None
    values = (shape.value_in(text, column) for text in texts)
    return np.array([attribute.code(value) for value in values], dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class LabelReader:
    """Reads labels with public examples: `examples` (m) texts with `codes` (m, d).

    `readers` are the zero-shot readers of the records. `abstain` is their threshold. `counts` maps
    an attribute to its released DP counts, `(values,)`; the map may be empty. `requests_tell` says
    whether a generator wrote the texts for the requests. If it is false, the classifier alone
    decides: the same examples chose the text and trained the classifier, so its agreement with the
    request is no evidence. `class_sums` are released sums of the records' embeddings by class.
    With a `mix`, `counts` have its shares, and the weights undo it.
    """

    schema: Schema
    embed: Embed
    examples: Sequence[str] = ()
    codes: NDArray[np.int64] | None = None
    readers: Mapping[str, ZeroShotReader] = field(default_factory=dict)
    abstain: float = 0.0
    counts: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    requests_tell: bool = True
    class_sums: ClassSums | None = None
    mix: Mix | None = None

    def with_sums(self, sums: ClassSums | None) -> LabelReader:
        """Return a reader that also learns from sums by class, if there are any."""
        return self if sums is None else replace(self, class_sums=sums)

    @property
    def reads(self) -> bool:
        """Whether the value of an attribute can be read from a text."""
        return any(
            attribute.keywords is not None
            or is_in_record(attribute, self.schema)
            or attribute.name in self.readers
            or (
                self.codes is not None
                and len(_labelled(self.codes[:, column], attribute)) >= LEAST_EXAMPLES
            )
            for column, attribute in enumerate(self.schema.attributes)
        )

    def read(
        self,
        texts: Sequence[str],
        requested: NDArray[np.int64],
        values: NDArray[np.float64] | None = None,
    ) -> Labels:
        """Return the labels of `texts` (n). `requested` (n, d) are the requested codes, or -1.

        `values` (n, d) are the numbers and dates that the prompts showed, or NaN. A text that
        states this value gets its bin, unless texts were not written for the requests.
        """
        n, schema = len(texts), self.schema
        codes = np.full((n, len(schema.names)), UNREAD, dtype=np.int64)
        confidence = np.full(codes.shape, np.nan)
        attributes, readings = list[ReadAttribute](), list[Reading]()
        # once for all attributes that read the same section, and only if needed
        vectors = cache(lambda section: self._embedded(schema.texts_of(section, texts)))
        for column, attribute in enumerate(schema.attributes):
            requested_codes = _requested_codes(requested[:, column], attribute)
            read = self._probabilities(column, attribute, texts, vectors)
            quality = None if read is None else read[2]
            guessed = quality is not None and not quality.is_above_chance
            if guessed and self.requests_tell:
                read = None
            if read is None:
                codes[:, column], reading, unread = self._without_reader(
                    column, attribute, texts, requested[:, column], vectors
                )
                readings.append(reading)
                attributes.append(unread)
                continue
            examples = self._example_count(column, attribute)
            likely, source, _ = read
            asked = requested_codes >= 0
            same = likely.argmax(axis=1)[asked] == requested_codes[asked]
            share = float(np.mean(same)) if asked.any() else None
            if quality is not None and share is not None:
                if self.requests_tell:
                    obeyed, chance = _obeyed(
                        likely[asked], requested_codes[asked], kappa=quality.kappa
                    )
                    likely = _with_requests(likely, requested_codes, obeyed=obeyed)
                    share = obeyed + (1 - obeyed) * chance
                else:
                    share = quality.share_of(share, values=len(attribute.domain) - 1)
                if quality.expected:
                    share = None
            if values is not None and attribute.quantity is not None and self.requests_tell:
                said = schema.texts_of(attribute.read_from, texts)
                states = states_value(attribute.quantity, said, values[:, column]) & asked
                likely[states] = (1 - _MOST_AGREEMENT) / likely.shape[1]
                likely[states, requested_codes[states]] += _MOST_AGREEMENT
            counts = None if quality is None else self._counts(attribute)
            if counts is not None:  # no example teaches the value `other`
                counts = np.append(counts[:-1], 0.0)
            codes[:, column] = in_proportion(likely, counts)
            readings.append(Reading.of(likely, source, is_certain=quality is None))
            confidence[:, column] = likely[np.arange(n), codes[:, column]]
            if quality is None:  # a reader that finds nothing says `other`
                confidence[codes[:, column] == len(attribute.domain) - 1, column] = np.nan
            attributes.append(
                ReadAttribute(
                    name=attribute.name,
                    source=source,
                    requested=int(asked.sum()),
                    shown=share,
                    examples=examples,
                    accuracy=None if quality is None or quality.expected else quality.accuracy,
                    guessed=guessed,
                )
            )
        codes, confidence = obey_rules(codes, confidence, readings, schema=schema)
        return Labels(
            codes=codes,
            confidence=confidence,
            weights=self._weights(codes),
            attributes=self._with_chosen(attributes, codes),
        )

    def _with_chosen(
        self, attributes: Sequence[ReadAttribute], codes: NDArray[np.int64]
    ) -> tuple[ReadAttribute, ...]:
        """Mark the attributes of a mix, and those of which it leaves one value alone."""
        if self.mix is None:
            return tuple(attributes)
        return tuple(
            replace(each, chosen=place in self.mix.columns or len(np.unique(codes[:, place])) == 1)
            for place, each in enumerate(attributes)
        )

    def _weights(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        if self.mix is not None:
            return self.mix.weights(codes)
        return raking_weights(codes, schema=self.schema, counts=self.counts)

    def _example_count(self, column: int, attribute: Attribute) -> int:
        return 0 if self.codes is None else len(_labelled(self.codes[:, column], attribute))

    def _without_reader(
        self,
        column: int,
        attribute: Attribute,
        texts: Sequence[str],
        requested: NDArray[np.int64],
        vectors: Callable[[str | None], NDArray[np.float32]],
    ) -> tuple[NDArray[np.int64], Reading, ReadAttribute]:
        """Return the codes (n,) of an attribute that nothing reads, by the requested ones (n,)."""
        asked = int((_requested_codes(requested, attribute) >= 0).sum())
        if self._draws(attribute):
            codes, is_open = self._drawn(attribute, texts, requested)
            drawn = ReadAttribute(name=attribute.name, source="drawn", requested=asked)
            return codes, Reading(is_open=is_open, is_drawn=True), drawn
        codes, is_open = requested.copy(), requested == UNREAD
        if asked and is_open.any():
            of_texts = vectors(attribute.read_from)
            codes[is_open] = self._like_requested(requested, attribute, of_texts)
        unread = ReadAttribute(
            name=attribute.name,
            source="request" if asked else "nothing",
            requested=asked,
            examples=self._example_count(column, attribute),
        )
        return codes, Reading(is_open=is_open), unread

    def _draws(self, attribute: Attribute) -> bool:
        has_counts = self._counts(attribute) is not None
        return is_drawn(attribute, self.schema) and (has_counts or _is_gap(attribute, self.schema))

    def _drawn(
        self, attribute: Attribute, texts: Sequence[str], requested: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the codes (n,) of values that the release draws, and which of them were drawn: the
        requested one stays, all others are in proportion to the DP counts.

        The gap between the records of a history has a listed value, and is `other` for a history of
        one record.
        """
        bucket, counts = len(attribute.domain) - 1, self._counts(attribute)
        codes, is_open = requested.copy(), requested == UNREAD
        shares = np.zeros(bucket + 1) if counts is None else np.maximum(counts, 0.0)
        is_gap, shape = _is_gap(attribute, self.schema), self.schema.shape
        if is_gap:
            is_open |= requested == bucket
            shares = shares[:-1]
        for place in np.flatnonzero(is_open).tolist() if shares.any() else ():
            share = hash_share(f"{attribute.name}\x1f{texts[place]}")
            codes[place] = np.searchsorted(shares.cumsum() / shares.sum(), share, side="right")
        if is_gap and shape is not None:
            is_single = np.array([len(shape.embedded(text)) < 2 for text in texts], dtype=bool)
            codes[is_single], is_open[is_single] = bucket, False
        return codes, is_open

    def _like_requested(
        self, requested: NDArray[np.int64], attribute: Attribute, vectors: NDArray[np.float32]
    ) -> NDArray[np.int64]:
        """Return the codes of the texts without a request, read like the texts with one.

        `requested` (n,) are the requested codes, and `vectors` (n, dim) the embeddings of all
        texts. A request for `other` trains the classifier only if the prompt stated it. If only one
        value is known, every text has it.
        """
        bucket, is_open = len(attribute.domain) - 1, requested == UNREAD
        teaches = ~is_open & ((requested != bucket) | bool(attribute.excluded))
        labels, counts = requested[teaches], self._counts(attribute)
        if len(np.union1d(labels, np.arange(bucket))) < 2:
            return np.zeros(int(is_open.sum()), dtype=np.int64)
        if counts is not None and not (labels == bucket).any():
            counts = np.append(counts[:-1], 0.0)
        classifier = _Classifier.train(
            vectors[teaches], labels, attribute=attribute, embed=self.embed, counts=counts
        )
        return in_proportion(classifier.probabilities(vectors[is_open]), counts)

    def _probabilities(
        self,
        column: int,
        attribute: Attribute,
        texts: Sequence[str],
        vectors: Callable[[str | None], NDArray[np.float32]],
    ) -> tuple[NDArray[np.float64], LabelSource, _Quality | None] | None:
        """Return the probability of each value (n, k) and its source, or None without a reader."""
        size, section = len(attribute.domain), attribute.read_from
        if _is_gap(attribute, self.schema):
            return None
        if is_in_record(attribute, self.schema):
            return _certain(codes_in_records(attribute, self.schema, texts), size), "record", None
        if attribute.keywords is not None:
            said = self.schema.texts_of(section, texts)
            return _certain(by_keywords(attribute, said), size), "keywords", None
        if attribute.name in self.readers:
            read = self.readers[attribute.name].read(vectors(section), abstain=self.abstain)
            read = without_section(attribute, self.schema, texts, read)
            return _certain(read, size), "zero_shot", None
        return self._classified(column, attribute, vectors)

    def _classified(
        self,
        column: int,
        attribute: Attribute,
        vectors: Callable[[str | None], NDArray[np.float32]],
    ) -> tuple[NDArray[np.float64], LabelSource, _Quality | None] | None:
        """Read an attribute with donated examples, with sums by class, or with both."""
        examples, labels = self._examples(column, attribute)
        if not examples and self.requests_tell:
            return None  # nothing shows whether sums know more than requests
        counts, sums, section = self._counts(attribute), None, attribute.read_from
        if self.class_sums is not None and counts is not None:
            sums = ClassReader.of(self.class_sums, column, counts=counts, public=vectors(section))
        if not examples:
            if sums is None:
                return None
            of_sums = sums.log_likelihoods(vectors(section))
            likely = combined(of_sums, 0.0, _log_prior(counts), weights=SUMS_ALONE)
            return likely, "class_sums", _expected_quality(likely)
        embedded = self._embedded(self.schema.texts_of(section, examples))
        classifier = _Classifier.train(
            embedded, labels, attribute=attribute, embed=self.embed, counts=counts
        )
        others = _others(examples, embedded, labels, attribute=attribute, embed=self.embed)
        if sums is None:
            heldout = _by_others(others, embedded, len(attribute.domain))
            quality = _quality(heldout, labels, temperature=_temperature(heldout, labels))
            likely = classifier.probabilities(vectors(section), temperature=quality.temperature)
            return likely, "donated", quality
        prior = _log_prior(counts)
        heldout = np.empty((len(labels), len(prior)))
        for in_fold, other in others:
            heldout[in_fold] = other.log_likelihoods(embedded[in_fold])
        of_sums = sums.log_likelihoods(embedded)
        weights = choose_weights(of_sums, heldout, labels, prior)
        by_others = np.empty(heldout.shape)
        for in_fold, _ in others:  # nor do the weights of a fold come from its own labels
            rest = ~in_fold
            without = choose_weights(of_sums[rest], heldout[rest], labels[rest], prior)
            by_others[in_fold] = combined(
                of_sums[in_fold], heldout[in_fold], prior, weights=without
            )
        quality = _quality(by_others, labels)
        likely = combined(
            sums.log_likelihoods(vectors(section)),
            classifier.log_likelihoods(vectors(section)),
            prior,
            weights=weights,
        )
        return likely, "class_sums" if weights[0] else "donated", quality

    def _examples(self, column: int, attribute: Attribute) -> tuple[list[str], NDArray[np.int64]]:
        """Return the donated examples with a label of the attribute, or none if there are few."""
        if self.codes is not None:
            examples = _labelled(self.codes[:, column], attribute)
            labels = self.codes[examples, column]
            if len(examples) >= LEAST_EXAMPLES and len(np.unique(labels)) > 1:
                return [self.examples[i] for i in examples], labels
        return [], np.empty(0, dtype=np.int64)

    def _counts(self, attribute: Attribute) -> NDArray[np.float64] | None:
        counts = self.counts.get(attribute.name)
        return None if counts is None else np.asarray(counts, dtype=np.float64)

    def _embedded(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.asarray(self.embed(tuple(texts)), dtype=np.float32)


@dataclass(frozen=True, kw_only=True)
class _Quality:
    """The quality of a classifier in cross-validation. `kappa` is the accuracy above chance, and
    `error` the standard error of kappa. `temperature` calibrates its probabilities. `expected` is
    true if the classifier estimated its own quality, because there are too few examples."""

    accuracy: float
    kappa: float
    error: float
    temperature: float
    expected: bool = False

    def share_of(self, agreement: float, *, values: int) -> float:
        """Return the share of texts with the requested value, if `agreement` is the share for which
        the classifier reads it, and the classifier is as accurate as on donated examples."""
        missed = (1 - self.accuracy) / max(values - 1, 1)
        return agreement * self.accuracy + (1 - agreement) * missed

    @property
    def is_above_chance(self) -> bool:
        """Whether texts show the attribute at all. If not, requests cannot be verified."""
        return self.kappa > 2 * self.error


@dataclass(frozen=True, kw_only=True)
class _Classifier:
    """A logistic regression on embeddings. `factors` (k,) turn its prior into the DP counts'.

    `frequencies` (k,) are the shares of the values among the examples.
    """

    model: Any
    factors: NDArray[np.float64]
    frequencies: NDArray[np.float64]

    @classmethod
    def train(
        cls,
        embedded: NDArray[np.float32],
        labels: NDArray[np.int64],
        *,
        attribute: Attribute,
        embed: Embed,
        counts: NDArray[np.float64] | None = None,
    ) -> _Classifier:
        """Train on labelled examples, and on the name of each value as one more example.

        So a value without an example can be read, too.
        """
        from sklearn.linear_model import LogisticRegression  # slow to import

        size = len(attribute.domain)
        names = np.asarray(embed(attribute.domain[: size - 1]), dtype=np.float32)
        taught = np.concatenate([labels, np.arange(size - 1)])
        model = LogisticRegression(C=_STRENGTH, max_iter=300, solver="newton-cg")
        with one_blas_thread():
            model.fit(np.concatenate([embedded, names]), taught)
        frequencies = np.bincount(taught, minlength=size) / len(taught)
        factors = np.ones(size)
        if counts is not None and counts.sum() > 0:
            prior = np.maximum(counts, 1.0) / np.maximum(counts, 1.0).sum()
            factors = prior / np.maximum(frequencies, 1 / (2 * len(taught)))
        return cls(
            model=model,
            factors=np.where(frequencies > 0, factors, 0.0),
            frequencies=frequencies,
        )

    def probabilities(
        self, embedded: NDArray[np.float32], *, temperature: float = 1.0
    ) -> NDArray[np.float64]:
        """Return the probability of each value, `(n, k)`.

        The temperature makes the confidence match the accuracy, before the DP counts replace the
        prior. Source: temperature scaling, Guo et al. 2017, Section 4.2.
        """
        posterior = np.zeros((len(embedded), len(self.factors)))
        if len(embedded):
            posterior[:, self.model.classes_] = self.model.predict_proba(embedded)
        posterior **= 1 / temperature
        posterior *= self.factors
        posterior /= np.maximum(posterior.sum(axis=1, keepdims=True), 1e-12)
        return (1 - _DOUBT) * posterior + _DOUBT / len(self.factors)

    def log_likelihoods(self, embedded: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return log(p / frequency) for each value, `(n, k)`; 0 for a value without an example.

        The mean of p / frequency over the values is 1. So 0 is no evidence for or against a value.
        """
        logs = np.zeros((len(embedded), len(self.factors)))
        if len(embedded):
            classes = self.model.classes_
            predicted = self.model.predict_log_proba(embedded)
            logs[:, classes] = np.maximum(predicted, _LEAST_LOG) - np.log(self.frequencies[classes])
        return logs


Others = list[tuple[NDArray[np.bool_], _Classifier]]


def _others(
    texts: Sequence[str],
    embedded: NDArray[np.float32],
    labels: NDArray[np.int64],
    *,
    attribute: Attribute,
    embed: Embed,
) -> Others:
    """Return the examples of each fold, with a classifier that was trained on the other folds."""
    fold = folds(texts)
    return [
        (
            fold == number,
            _Classifier.train(
                embedded[fold != number], labels[fold != number], attribute=attribute, embed=embed
            ),
        )
        for number in range(_FOLDS)
    ]


def _by_others(others: Others, embedded: NDArray[np.float32], size: int) -> NDArray[np.float64]:
    """Return the probabilities (m, size) of each example, by the classifier of the other folds."""
    likely = np.zeros((len(embedded), size))
    for in_fold, other in others:
        likely[in_fold] = other.probabilities(embedded[in_fold])
    return likely


def _quality(
    likely: NDArray[np.float64], labels: NDArray[np.int64], *, temperature: float = 1.0
) -> _Quality:
    """Compare probabilities (m, k) of examples with their labels (m,)."""
    read = likely.argmax(axis=1)
    return _quality_of(
        float(np.mean(read == labels)), _chance(read, labels), len(labels), temperature=temperature
    )


def _expected_quality(likely: NDArray[np.float64]) -> _Quality:
    """Return the quality that probabilities (n, k) expect of themselves, without examples."""
    shares = np.bincount(likely.argmax(axis=1), minlength=likely.shape[1]) / max(len(likely), 1)
    accuracy = float(likely.max(axis=1).mean()) if len(likely) else 0.0
    chance = float(shares @ likely.mean(axis=0))
    return replace(_quality_of(accuracy, chance, max(len(likely), 1)), expected=True)


def _quality_of(
    accuracy: float, chance: float, count: int, *, temperature: float = 1.0
) -> _Quality:
    variance = max(accuracy * (1 - accuracy), chance * (1 - chance)) / count
    above = max(1 - chance, 1e-9)
    return _Quality(
        accuracy=accuracy,
        kappa=(accuracy - chance) / above,
        error=float(np.sqrt(variance)) / above,
        temperature=temperature,
    )


def _log_prior(counts: NDArray[np.float64] | None) -> NDArray[np.float64]:
    assert counts is not None
    shares = np.maximum(counts[:-1], 1.0)  # nothing teaches the value `other`
    return np.append(np.log(shares / shares.sum()), _NEVER)


def _temperature(likely: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """Return the temperature with which probabilities (n, k) fit `labels` best."""

    def loss(temperature: float) -> float:
        logs = np.log(likely) / temperature
        logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
        return -float(logs[np.arange(len(labels)), labels].mean())

    return min(_TEMPERATURES, key=loss)


def _obeyed(
    likely: NDArray[np.float64], requested: NDArray[np.int64], *, kappa: float
) -> tuple[float, float]:
    """Return the share of texts that obey their request, and how often others have it by chance.

    With probability a, a text has the requested value; otherwise its value is independent of the
    request. The classifier reads values with `kappa` above chance, so requests and read values
    agree with a kappa of about a * `kappa`. This gives a.
    """
    read = likely.argmax(axis=1)
    chance = _chance(read, requested)
    agreement = (float(np.mean(read == requested)) - chance) / max(1 - chance, 1e-9)
    a = float(np.clip(agreement / max(kappa, _LEAST_KAPPA), 0.0, _MOST_AGREEMENT))
    return a, chance


def _with_requests(
    likely: NDArray[np.float64], requested: NDArray[np.int64], *, obeyed: float
) -> NDArray[np.float64]:
    """Return the probabilities (n, k), given also the requested codes (n,); -1 means no request.

    The share `obeyed` of the texts has the requested value; see `_obeyed`.
    """
    asked = np.flatnonzero(requested >= 0)
    requested_codes = requested[asked]
    shares = np.bincount(requested_codes, minlength=likely.shape[1]) / len(requested_codes)
    evidence = np.repeat(((1 - obeyed) * shares[requested_codes])[:, None], likely.shape[1], axis=1)
    evidence[np.arange(len(requested_codes)), requested_codes] += obeyed
    posterior = likely.copy()
    posterior[asked] *= evidence
    return np.asarray(posterior / posterior.sum(axis=1, keepdims=True))


def folds(texts: Sequence[str], count: int = _FOLDS) -> NDArray[np.int64]:
    """Return the fold (n,) of each text, for cross-validation. Equal texts are in one fold.

    >>> folds(["a", "b", "a", "c"], 2).tolist()
    [0, 1, 0, 0]
    """
    number = {text: index for index, text in enumerate(dict.fromkeys(texts))}
    return np.array([number[text] % count for text in texts], dtype=np.int64)


def in_proportion(
    likely: NDArray[np.float64], counts: NDArray[np.float64] | None
) -> NDArray[np.int64]:
    """Return a value (n,) for each row of `likely` (n, k), so that values are as frequent as in
    `counts` (k,), as far as probabilities allow. Without counts, return the most likely values.

    The most likely value of a text is too often the most common value, so rare values would be
    missing in a training set. The log-probability of each value is raised or lowered by one number
    for all texts (Sinkhorn's iteration, with the temperature going to 0). The numbers of two values
    differ by at most log(100): a value is never chosen for a text where another one is 100 times as
    likely.

    >>> in_proportion(np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([5.0, 5.0])).tolist()
    [0, 1]
    """
    shares = np.zeros(1) if counts is None else np.maximum(counts, 0.0)
    if not len(likely) or shares.sum() <= 0:
        return np.asarray(likely.argmax(axis=1), dtype=np.int64)
    logs = np.log(np.maximum(likely, 1e-12))
    shares /= shares.sum()
    wanted = np.log(np.maximum(shares, 1e-3 / len(logs)))
    offsets = np.zeros(len(shares))
    for temperature in (1.0, 0.3, 0.1):
        for _ in range(_BALANCING_ROUNDS):
            scaled = (logs + offsets) / temperature
            scaled -= scaled.max(axis=1, keepdims=True)
            soft = np.exp(scaled)
            now = (soft / soft.sum(axis=1, keepdims=True)).mean(axis=0)
            offsets += temperature * (wanted - np.log(np.maximum(now, 1e-12)))
            # a rare value that no text can have must not move the others
            offsets = np.clip(offsets - shares @ offsets, -_MOST_OFFSET, _MOST_OFFSET)
    return np.asarray((logs + offsets).argmax(axis=1), dtype=np.int64)


def raking_weights(
    codes: NDArray[np.int64], *, schema: Schema, counts: Mapping[str, NDArray[Any]]
) -> NDArray[np.float64]:
    """Return weights (n,) of mean 1, so that weighted counts of `codes` (n, d) come near `counts`.

    The weights of one attribute after the other are scaled to its DP counts (raking; Deming and
    Stephan 1940). For a value that no text has, weights cannot help. Before the last scaling to
    mean 1, every weight is between 1/4 and 4, so that no text dominates. Guarantee:
    post-processing.
    """
    weights = np.ones(len(codes))
    for _ in range(_RAKING_ROUNDS if len(codes) else 0):
        for column, attribute in enumerate(schema.attributes):
            values, size = codes[:, column], len(attribute.domain)
            if attribute.name not in counts or (values < 0).any():
                continue
            target = np.maximum(np.asarray(counts[attribute.name], dtype=np.float64), 0.0)
            now = np.bincount(values, weights=weights, minlength=size)
            target = np.where(now > 0, target, 0.0)
            if target.sum() <= 0:
                continue
            factors = target / target.sum() * now.sum() / np.maximum(now, 1e-12)
            weights = np.clip(weights * factors[values], 1 / _MOST_WEIGHT, _MOST_WEIGHT)
            weights *= len(weights) / weights.sum()
    weights = np.clip(weights, 1 / _MOST_WEIGHT, _MOST_WEIGHT)
    return np.asarray(weights / weights.mean()) if len(weights) else weights


def _chance(a: NDArray[np.int64], b: NDArray[np.int64]) -> float:
    """Return the share of equal codes that independent codes with these frequencies would have."""
    size = int(max(a.max(initial=0), b.max(initial=0))) + 1
    first, second = (np.bincount(codes, minlength=size) / max(len(codes), 1) for codes in (a, b))
    return float(first @ second)


def _requested_codes(requested: NDArray[np.int64], attribute: Attribute) -> NDArray[np.int64]:
    """Return the requested codes; -1 for no request. A prompt never requests the value `other`."""
    return np.where(requested < len(attribute.domain) - 1, requested, UNREAD)


def _labelled(codes: NDArray[np.int64], attribute: Attribute) -> NDArray[np.intp]:
    """Return the indices of the examples with a listed value. No value is stored as other."""
    return np.flatnonzero((codes >= 0) & (codes < len(attribute.domain) - 1))


def _certain(codes: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    probabilities = np.zeros((len(codes), size))
    probabilities[np.arange(len(codes)), codes] = 1.0
    return probabilities
