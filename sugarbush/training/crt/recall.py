"""Measures the recall of a policy on labelled secrets, with confidence bounds.

The unit is the distinct secret: a label and a text, without differences in case, width and white
space. Several labelled spans of one secret are one case. Several spans are not independent cases,
because the policy reads the same words again. A distinct secret counts as missed if the policy
misses any of its spans.

A labelled span counts as found only if it is masked completely. A complete mask is not enough for
epsilon 0. For example, a detector may mask the word before a name, but not the word before a mask.
So gamma counts the secrets with a *trace*. A missed secret has a trace. To test a masked secret, a
mask replaces the secret before redaction. If the redacted text changes, the secret has a trace. The
accounting uses an *upper* confidence bound: for 200 distinct secrets without a trace, the bound is
1.5%. If both gamma and delta_2 are used, both bounds must hold at once. So each bound has half of
the allowed error (Bonferroni). The bounds hold only for secrets from the source of the labelled
secrets. So a report names the sample.

A detector knows its training texts and their secrets. So training texts and their secrets do not
count. Texts that `sugarbush label` showed with suggestions do not count either, because people
overlook what the suggestions overlook.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from operator import index
from pathlib import Path
from typing import Any

from sugarbush.data.cells import is_half
from sugarbush.data.reading import read_rows
from sugarbush.errors import InputError, printable
from sugarbush.privacy.binomial import BoundedShare, share
from sugarbush.training.crt.dedup import MASK
from sugarbush.training.crt.findings import PublicPolicy
from sugarbush.training.crt.redact import Policy
from sugarbush.training.crt.screening import public_views
from sugarbush.training.crt.sentences import split

FOR_TRAINING = "train"
_MOST, _LONGEST = 10, 24  # labels in a message, and characters of each


@dataclass(frozen=True, kw_only=True)
class LabelledText:
    """A text of the sample, and its secrets as (start, end, label), end exclusive.

    `suggested` is True if the person who labelled the text saw the findings of detectors.
    """

    text: str
    spans: tuple[tuple[int, int, str], ...]
    suggested: bool = False


def load_labelled(
    path: Path, *, text_column: str, disjoint: bool = True, setting: str = "methods.crt.labelled"
) -> list[LabelledText]:
    """Load the texts of a file with a column `spans`: a list of start, end and label, or its JSON.

    Texts with "train" in an optional column `use` were labelled with suggestions. Raises InputError
    with file and row for a bad row. With `disjoint`, it is also an error if spans overlap or are
    outside their text. Messages name `setting`.
    """
    column = "--text" if setting.startswith("--") else "prepare.text_column"
    columns = {text_column: column, "spans": setting}
    labelled = []
    for row in read_rows(path, setting=setting, wanted=columns, all_columns=True):
        try:
            spans = row.fields["spans"]
            items = json.loads(spans) if isinstance(spans, str) else spans
            triples = tuple(map(span_of, items))
            text = row.fields[text_column]
            if not isinstance(text, str):
                raise TypeError("no text")
        except (KeyError, TypeError, ValueError, RecursionError):
            raise InputError(
                f"{path}, row {row.number}: needs '{text_column}' and 'spans' with start, end and "
                f"label ({setting})"
            ) from None
        if any(map(is_half, (text, *(label for *_, label in triples)))):
            raise InputError(
                f"{path}, row {row.number}: a text or label has half a character (a lone "
                f"surrogate) ({setting})"
            )
        if disjoint:
            require_disjoint(triples, len(text), where=f"{path}, row {row.number}")
        suggested = row.fields.get("use") == FOR_TRAINING
        labelled.append(LabelledText(text=text, spans=triples, suggested=suggested))
    return labelled


def span_of(fields: Mapping[str, Any]) -> tuple[int, int, str]:
    """Return start, end and label of a span. Raises KeyError, TypeError."""
    if not isinstance(fields["label"], str):
        raise TypeError("no label")
    return index(fields["start"]), index(fields["end"]), fields["label"]


def require_disjoint(spans: Sequence[tuple[int, int, str]], length: int, *, where: str) -> None:
    """Refuse spans outside their text. Refuse overlapping spans, because one secret would count
    twice.

    Offsets count code points, as in Python, and not bytes or UTF-16 units.
    """
    end_before = 0
    for start, end, _ in sorted(spans):
        if not 0 <= start < end <= length:
            raise InputError(f"{where}: a span is not within its text. Offsets count code points.")
        if start < end_before:
            raise InputError(f"{where}: a span overlaps another one. Keep one of them.")
        end_before = end


@dataclass(frozen=True, kw_only=True)
class RecallMeasurement:
    """What a policy misses on a sample. The shares of secrets count each distinct secret once.

    `missed` counts the secrets with a span that is not masked completely. `traced` also counts
    masked secrets that leave a trace. The upper bound of `traced` is gamma. `public` counts the
    secrets that remain visible in the public part, because the conservative policy missed them. The
    upper bound of `public` is delta_2. Without a conservative policy, `public` is None. `precision`
    is the share of masked spans that overlap a labelled span. `left_out` is the number of texts
    that do not count (see the module). `left_out_labels` are the labels of the sample that
    `must_find` does not name.

    gamma and delta_2 together hold at `confidence`. Each bound of `traced`, `public` and
    `traced_by_label` alone holds at `confidence_each`. Each other bound alone holds at
    `confidence`.
    """

    sample: str
    confidence: float
    confidence_each: float
    missed: BoundedShare
    traced: BoundedShare
    missed_by_label: dict[str, BoundedShare]
    traced_by_label: dict[str, BoundedShare]
    precision: BoundedShare
    public: BoundedShare | None
    left_out: int = 0
    left_out_labels: tuple[str, ...] = ()

    @property
    def gamma(self) -> float:
        return self.traced.upper

    @property
    def delta_2(self) -> float:
        return 0.0 if self.public is None else self.public.upper


def measure(
    sample: Sequence[LabelledText],
    policy: Policy,
    *,
    name: str,
    conservative: PublicPolicy | None = None,
    must_find: Sequence[str] = (),
    confidence: float = 0.95,
) -> RecallMeasurement:
    """Measure what `policy` misses on `sample`. `name` is the name of the sample in reports.

    The bound gamma is valid with probability at least `confidence`. With `conservative`, gamma and
    delta_2 are valid together with this probability. The bounds assume that the distinct labelled
    secrets are independent. If `must_find` is not empty, only secrets with one of its labels count.
    Training texts of a detector do not count, and neither do their secrets in other texts. Texts
    that were labelled with suggestions do not count. Raises InputError if no text is left, or if a
    label in `must_find` has no secret. Raises InputError if a span is not within its text.
    """
    given = sample
    untrained = [
        labelled_text
        for labelled_text in given
        if not labelled_text.suggested and text_digest(labelled_text.text) not in policy.trained_on
    ]
    trained_secrets = {
        distinct_secret(labelled_text.text[start:end], "")
        for labelled_text in given
        if text_digest(labelled_text.text) in policy.trained_on
        for start, end, _ in labelled_text.spans
    }
    sample = [_without_known(labelled_text, trained_secrets) for labelled_text in untrained]
    if given and all(labelled_text.suggested for labelled_text in given):
        raise InputError(
            f"{name}: all of these texts were labelled with suggestions, so they cannot measure "
            "what the detectors miss. Label more texts: half of them are for measuring."
        )
    if trained_secrets and not any(labelled_text.spans for labelled_text in sample):
        raise InputError(
            f"{name}: the redactor was trained with all of these texts or secrets, so they cannot "
            "measure what it misses. Label other texts, or train with a share of them."
        )
    sample = of_kinds(sample, must_find, name=name)
    _require_spans(sample, name)
    masked = policy.spans([labelled_text.text for labelled_text in sample])
    secrets: list[Secret] = []
    every: list[bool] = []
    hits = []
    whole = of_kinds(untrained, must_find, name=name)
    for labelled_text, every_span, spans in zip(sample, whole, masked, strict=True):
        for start, end, label in labelled_text.spans:
            secrets.append(distinct_secret(labelled_text.text[start:end], label))
            every.append(not any(s.start <= start and end <= s.end for s in spans))
        hits += [any(s.start < b and a < s.end for a, b, _ in every_span.spans) for s in spans]
    missed = _of_any_span(secrets, every)
    replays = replayed(sample, policy)
    each = confidence if conservative is None else (1 + confidence) / 2
    traces = [is_missed or replay.traced for is_missed, replay in zip(every, replays, strict=True)]
    traced = _of_any_span(secrets, traces)
    return RecallMeasurement(
        sample=name,
        confidence=confidence,
        confidence_each=each,
        missed=share([*missed.values()], confidence=confidence),
        traced=share([*traced.values()], confidence=each),
        missed_by_label=_by_label(missed, confidence=confidence),
        traced_by_label=_by_label(traced, confidence=each),
        left_out=len(given) - len(sample),
        left_out_labels=tuple(sorted(_labels(untrained) - _labels(whole))),
        precision=share(hits, confidence=confidence),
        public=None
        if conservative is None
        else share(
            [*_of_any_span(secrets, public_changes(replays, conservative)).values()],
            confidence=each,
        ),
    )


def _by_label(outcomes: dict[Secret, bool], *, confidence: float) -> dict[str, BoundedShare]:
    by_label: dict[str, list[bool]] = defaultdict(list)
    for secret, value in outcomes.items():
        by_label[secret.label].append(value)
    return {k: share(v, confidence=confidence) for k, v in sorted(by_label.items())}


def _without_known(labelled_text: LabelledText, secrets: Set[Secret]) -> LabelledText:
    fresh = (
        s
        for s in labelled_text.spans
        if distinct_secret(labelled_text.text[s[0] : s[1]], "") not in secrets
    )
    return replace(labelled_text, spans=tuple(fresh))


def of_kinds(
    sample: Sequence[LabelledText], must_find: Sequence[str], *, name: str
) -> list[LabelledText]:
    """Keep only the spans with a label in `must_find`; keep all spans if it is empty.

    Case is ignored; otherwise spans would be left out and gamma would be too small. Raises
    InputError if a label in `must_find` has no span.
    """
    if not must_find:
        return list(sample)
    requested_labels = {label.casefold() for label in must_find}
    present = _labels(sample)
    present_labels = {label.casefold() for label in present}
    if absent := [label for label in must_find if label.casefold() not in present_labels]:
        raise InputError(
            f"{name}: has no label {shown_labels(absent)}, which methods.crt.must_find names; "
            f"there are {shown_labels(present) or 'none'}"
        )
    return [
        replace(
            labelled_text,
            spans=tuple(
                span for span in labelled_text.spans if span[2].casefold() in requested_labels
            ),
        )
        for labelled_text in sample
    ]


def _labels(sample: Iterable[LabelledText]) -> set[str]:
    return {label for labelled_text in sample for *_, label in labelled_text.spans}


def shown_labels(labels: Iterable[str]) -> str:
    """Return labels for a message: at most ten, and the first characters of each. A file may have a
    private text in place of a label."""
    every = sorted(set(labels))
    cut = (label if len(label) <= _LONGEST else f"{label[:_LONGEST]}…" for label in every[:_MOST])
    more = f" and {len(every) - _MOST} more" if len(every) > _MOST else ""
    return printable(", ".join(cut)).replace("\n", " ") + more


def text_digest(text: str) -> str:
    """Return a digest that identifies a labelled text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


@dataclass(frozen=True)
class Secret:
    """A distinct secret: its normalised text and its label."""

    text: str
    label: str


def distinct_secret(text: str, label: str) -> Secret:
    """Return the secret of a span. Spans are one secret if they differ only in case, in white
    space, or in Unicode compatibility forms (such as full-width letters)."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return Secret(" ".join(plain.split()), label)


def _of_any_span(secrets: Sequence[Secret], spans: Sequence[bool]) -> dict[Secret, bool]:
    """Return, for each distinct secret, whether one of its spans has the value True."""
    outcomes: dict[Secret, bool] = {}
    for secret, value in zip(secrets, spans, strict=True):
        outcomes[secret] = outcomes.get(secret, False) or value
    return outcomes


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A redacted text (`before`), and the redacted text if a mask replaces one secret first
    (`after`).

    `moved` is true if the secret moves the end of a sentence. A moved end may change which sentence
    is the first occurrence, in this text or another.
    """

    before: str
    after: str
    moved: bool

    @property
    def traced(self) -> bool:
        """Whether the secret leaves a trace in the redacted text."""
        return self.moved or self.before != self.after


def replayed(sample: Sequence[LabelledText], policy: Policy) -> list[Replay]:
    """Redact again with a mask for each labelled secret, as `screening.changed_units` does."""
    redacted = policy.redact([labelled_text.text for labelled_text in sample])
    secrets = [
        (before, labelled_text.text, labelled_text.text[start:end])
        for before, labelled_text in zip(redacted, sample, strict=True)
        for start, end, _ in labelled_text.spans
    ]
    masked = [text.replace(secret, MASK) for _, text, secret in secrets]
    return [
        Replay(before=before, after=after, moved=_without(secret, text) != _without(MASK, other))
        for (before, text, secret), other, after in zip(
            secrets, masked, policy.redact(masked), strict=True
        )
    ]


def public_changes(replays: Sequence[Replay], conservative: PublicPolicy) -> list[bool]:
    """Return, for each replay, whether the mask in place of the secret changes the public part."""
    befores = list(dict.fromkeys(replay.before for replay in replays))
    views = dict(zip(befores, public_views(befores, conservative), strict=True))
    after = public_views([replay.after for replay in replays], conservative)
    return [
        replay.moved or views[replay.before] != view
        for replay, view in zip(replays, after, strict=True)
    ]


def _without(secret: str, text: str) -> list[str]:
    """Return the sentences of `text` that do not contain `secret`."""
    return [sentence.text for sentence in split(text) if secret not in sentence.text]


def _require_spans(sample: Sequence[LabelledText], name: str) -> None:
    if not any(labelled_text.spans for labelled_text in sample):
        raise InputError(f"{name} has no labelled span, so nothing can be measured")
    for row, labelled_text in enumerate(sample, start=1):
        if not all(
            0 <= start < end <= len(labelled_text.text) for start, end, _ in labelled_text.spans
        ):
            raise InputError(f"{name}, record {row}: a span is not within its text")
