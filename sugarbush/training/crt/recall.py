"""The recall of a policy on labelled secrets, with confidence bounds.

The unit is the distinct secret: its text, without differences in case, width and white space, and
its label. Many labelled spans of one secret are one case, because they are not independent: the
policy reads the same words again. A distinct secret counts as missed if the policy misses any of
its spans.

A labelled span counts as found only if it is masked completely. A complete mask is not enough for
epsilon 0: a detector may mask the word before a name, but not the word before a mask. So gamma
counts the secrets with a *trace*: the missed ones, and those where redaction gives another text if
a mask replaces the secret. The accounting uses an *upper* confidence bound: 200 distinct secrets
without a trace still give 1.5%. If gamma and delta_2 are both used, both bounds must hold at once,
so each is measured at half the error (Bonferroni). They hold for secrets from the same source as
the labelled ones, so a report names the sample.

A detector knows the texts that it was trained with, and the secrets in them. Neither counts.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from operator import index
from pathlib import Path

from sugarbush.data.reading import read_rows
from sugarbush.errors import InputError
from sugarbush.privacy.binomial import Share, share
from sugarbush.training.crt.dedup import MASK
from sugarbush.training.crt.findings import PublicPolicy
from sugarbush.training.crt.redact import Policy
from sugarbush.training.crt.screening import public_views
from sugarbush.training.crt.sentences import split


@dataclass(frozen=True, kw_only=True)
class LabelledText:
    """A text of the sample, and its secrets as (start, end, label), end exclusive."""

    text: str
    spans: tuple[tuple[int, int, str], ...]


def load_labelled(path: Path, *, text_column: str, disjoint: bool = True) -> list[LabelledText]:
    """The texts of a file with a column `spans`: start, end, label of each, as a list or as JSON.

    Raises InputError naming file and row; also for spans outside their text and, if `disjoint`,
    for spans that overlap.
    """
    wanted = {text_column: "prepare.text_column", "spans": "crt.labelled"}
    labelled = []
    for row in read_rows(path, setting="crt.labelled", wanted=wanted):
        try:
            spans = row.fields["spans"]
            found = json.loads(spans) if isinstance(spans, str) else spans
            own = tuple((index(s["start"]), index(s["end"]), str(s["label"])) for s in found)
            text = row.fields[text_column]
            if not isinstance(text, str):
                raise TypeError("no text")
        except (KeyError, TypeError, ValueError):
            raise InputError(
                f"{path}, row {row.number}: needs '{text_column}' and 'spans' with start, end and "
                "label (crt.labelled)"
            ) from None
        if disjoint:
            require_disjoint(own, len(text), where=f"{path}, row {row.number}")
        labelled.append(LabelledText(text=text, spans=own))
    return labelled


def require_disjoint(spans: Sequence[tuple[int, int, str]], length: int, *, where: str) -> None:
    """Refuse spans outside their text, and spans that overlap: one secret would count twice.

    Offsets are those of Python: code points, not bytes and not UTF-16 units.
    """
    end_before = 0
    for start, end, _ in sorted(spans):
        if not 0 <= start < end <= length:
            raise InputError(
                f"{where}: a span is not within its text (crt.labelled). Offsets count code points."
            )
        if start < end_before:
            raise InputError(
                f"{where}: a span overlaps another one (crt.labelled). Keep one of them."
            )
        end_before = end


@dataclass(frozen=True, kw_only=True)
class RecallMeasurement:
    """`missed`: secrets that are not masked completely, by label and in total. `traced`: the missed
    secrets, and those that are masked but leave a trace (gamma is its `upper`). `public`: secrets
    that remain visible in the public part, because the conservative policy missed them (delta_2 is
    its `upper`); None without such a policy. These shares count each distinct secret once, and it
    counts if any of its spans does.

    `traced_by_label` has gamma by kind; each of its bounds holds at `confidence_each` alone.
    `precision`: the share of masked spans that overlap a labelled one. `left_out`: texts that were
    not counted because a detector was trained with them.

    Results that use gamma and delta_2 together hold at `confidence`. So the bounds of `traced` and
    of `public` each hold at `confidence_each`; each of the other bounds holds at `confidence`.
    """

    sample: str
    confidence: float
    confidence_each: float
    missed: Share
    traced: Share
    missed_by_label: dict[str, Share]
    traced_by_label: dict[str, Share]
    precision: Share
    public: Share | None
    left_out: int = 0

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
    """Misses and precision of `policy` on `sample`, which is called `name`.

    gamma alone holds at `confidence`; with `conservative`, gamma and delta_2 hold together. The
    bounds assume that the distinct labelled secrets are independent. Only secrets with a label in
    `must_find` count, or all if it is empty. Texts that a detector was trained with do not count,
    and their secrets count in no other text: the detector knows them. Raises InputError when there
    is no label of a kind that must be found, or when one is not within its text.
    """
    given = sample
    untrained = [one for one in given if text_digest(one.text) not in policy.trained_on]
    known = {
        distinct_secret(one.text[start:end], "")
        for one in given
        if text_digest(one.text) in policy.trained_on
        for start, end, _ in one.spans
    }
    sample = [_without_known(one, known) for one in untrained]
    if known and not any(one.spans for one in sample):
        raise InputError(
            f"{name}: the redactor was trained with all of its texts or secrets, so they cannot "
            "measure what it misses. Label other texts, or train with a share of them."
        )
    sample = of_kinds(sample, must_find, name=name)
    _require_spans(sample, name)
    masked = policy.spans([one.text for one in sample])
    secrets: list[Secret] = []
    every: list[bool] = []
    hits = []
    whole = of_kinds(untrained, must_find, name=name)
    for one, every_span, own in zip(sample, whole, masked, strict=True):
        for start, end, label in one.spans:
            secrets.append(distinct_secret(one.text[start:end], label))
            every.append(not any(s.start <= start and end <= s.end for s in own))
        hits += [any(s.start < b and a < s.end for a, b, _ in every_span.spans) for s in own]
    missed_secrets = _of_any_span(secrets, every)
    misses: dict[str, list[bool]] = defaultdict(list)
    for secret, is_missed in missed_secrets.items():
        misses[secret.label].append(is_missed)
    replays = replayed(sample, policy)
    each = confidence if conservative is None else (1 + confidence) / 2
    left = [missed or replay.traced for missed, replay in zip(every, replays, strict=True)]
    traced = _of_any_span(secrets, left)
    traces: dict[str, list[bool]] = defaultdict(list)
    for secret, is_traced in traced.items():
        traces[secret.label].append(is_traced)
    return RecallMeasurement(
        sample=name,
        confidence=confidence,
        confidence_each=each,
        missed=share([*missed_secrets.values()], confidence=confidence),
        traced=share([*traced.values()], confidence=each),
        missed_by_label={k: share(v, confidence=confidence) for k, v in sorted(misses.items())},
        traced_by_label={k: share(v, confidence=each) for k, v in sorted(traces.items())},
        left_out=len(given) - len(sample),
        precision=share(hits, confidence=confidence),
        public=None
        if conservative is None
        else share(
            [*_of_any_span(secrets, shown(replays, conservative)).values()], confidence=each
        ),
    )


def _without_known(one: LabelledText, known: Set[Secret]) -> LabelledText:
    """The text with only the spans of secrets that are not `known`."""
    fresh = (s for s in one.spans if distinct_secret(one.text[s[0] : s[1]], "") not in known)
    return replace(one, spans=tuple(fresh))


def of_kinds(
    sample: Sequence[LabelledText], must_find: Sequence[str], *, name: str
) -> list[LabelledText]:
    """The texts with only the spans that have a label in `must_find`; with all if it is empty.

    Raises InputError for a kind without a label.
    """
    if not must_find:
        return list(sample)
    present = {label for one in sample for *_, label in one.spans}
    if absent := sorted(set(must_find) - present):
        raise InputError(
            f"{name}: has no label {', '.join(absent)}, which crt.must_find names; there are "
            f"{', '.join(sorted(present)) or 'none'}"
        )
    return [
        replace(one, spans=tuple(span for span in one.spans if span[2] in must_find))
        for one in sample
    ]


def text_digest(text: str) -> str:
    """The identity of a labelled text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


@dataclass(frozen=True)
class Secret:
    """A distinct secret: its normalised text and its label."""

    text: str
    label: str


def distinct_secret(text: str, label: str) -> Secret:
    """The secret of a labelled span. Spans that differ in case, width or white space are one
    secret."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return Secret(" ".join(plain.split()), label)


def _of_any_span(secrets: Sequence[Secret], spans: Sequence[bool]) -> dict[Secret, bool]:
    """For each distinct secret, whether the value of any of its spans is true."""
    found: dict[Secret, bool] = {}
    for secret, value in zip(secrets, spans, strict=True):
        found[secret] = found.get(secret, False) or value
    return found


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A redacted text, and its version when one of its secrets is masked everywhere beforehand.

    `moved`: the secret moves an end of a sentence. Then the first occurrence of a sentence, in this
    text or another, might change too.
    """

    before: str
    after: str
    moved: bool

    @property
    def traced(self) -> bool:
        """Whether the redacted text is different for the secret and for a mask."""
        return self.moved or self.before != self.after


def replayed(sample: Sequence[LabelledText], policy: Policy) -> list[Replay]:
    """A replay for each labelled secret in order, computed as in `screening.changed_units`."""
    redacted = policy.redact([one.text for one in sample])
    secrets = [
        (before, one.text, one.text[start:end])
        for before, one in zip(redacted, sample, strict=True)
        for start, end, _ in one.spans
    ]
    masked = [text.replace(secret, MASK) for _, text, secret in secrets]
    return [
        Replay(before=before, after=after, moved=_without(secret, text) != _without(MASK, other))
        for (before, text, secret), other, after in zip(
            secrets, masked, policy.redact(masked), strict=True
        )
    ]


def shown(replays: Sequence[Replay], conservative: PublicPolicy) -> list[bool]:
    """For each replay, whether the public part of the text is different for the secret and for a
    mask."""
    befores = list(dict.fromkeys(replay.before for replay in replays))
    views = dict(zip(befores, public_views(befores, conservative), strict=True))
    after = public_views([replay.after for replay in replays], conservative)
    return [
        replay.moved or views[replay.before] != view
        for replay, view in zip(replays, after, strict=True)
    ]


def _without(secret: str, text: str) -> list[str]:
    """The sentences of `text` without `secret`."""
    return [sentence.text for sentence in split(text) if secret not in sentence.text]


def _require_spans(sample: Sequence[LabelledText], name: str) -> None:
    if not any(one.spans for one in sample):
        raise InputError(f"{name}: no labelled span, so nothing can be measured")
    for row, one in enumerate(sample, start=1):
        if not all(0 <= start < end <= len(one.text) for start, end, _ in one.spans):
            raise InputError(f"{name}, record {row}: a span is not within its text")
