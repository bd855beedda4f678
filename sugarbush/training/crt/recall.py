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
"""

from __future__ import annotations

import json
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
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


def load_labelled(path: Path, *, text_column: str) -> list[LabelledText]:
    """The texts of a file with a column `spans`: start, end, label of each, as a list or as JSON.

    Raises InputError naming file and row.
    """
    wanted = {text_column: "prepare.text_column", "spans": "crt.labelled"}
    labelled = []
    for row in read_rows(path, setting="crt.labelled", wanted=wanted):
        try:
            spans = row.fields["spans"]
            found = json.loads(spans) if isinstance(spans, str) else spans
            own = tuple((int(s["start"]), int(s["end"]), str(s["label"])) for s in found)
            labelled.append(LabelledText(text=str(row.fields[text_column]), spans=own))
        except (KeyError, TypeError, ValueError):
            raise InputError(
                f"{path}, row {row.number}: needs '{text_column}' and 'spans' with start, end and "
                "label (crt.labelled)"
            ) from None
    return labelled


@dataclass(frozen=True, kw_only=True)
class RecallMeasurement:
    """`missed`: secrets that are not masked completely, by label and in total. `traced`: the missed
    secrets, and those that are masked but leave a trace (gamma is its `upper`). `public`: secrets
    that remain visible in the public part, because the conservative policy missed them (delta_2 is
    its `upper`); None without such a policy. These shares count each distinct secret once, and it
    counts if any of its spans does.

    `precision`: the share of masked spans that overlap a labelled one.

    Results that use gamma and delta_2 together hold at `confidence`. So the bounds of `traced` and
    of `public` each hold at `confidence_each`; each of the other bounds holds at `confidence`.
    """

    sample: str
    confidence: float
    confidence_each: float
    missed: Share
    traced: Share
    missed_by_label: dict[str, Share]
    precision: Share
    public: Share | None

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
    confidence: float = 0.95,
) -> RecallMeasurement:
    """Misses and precision of `policy` on `sample`, which is called `name`.

    gamma alone holds at `confidence`; with `conservative`, gamma and delta_2 hold together. The
    bounds assume that the distinct labelled secrets are independent. Raises InputError when there
    is no label, or when one is not within its text.
    """
    _require_spans(sample, name)
    masked = policy.spans([one.text for one in sample])
    secrets: list[Secret] = []
    every: list[bool] = []
    hits = []
    for one, own in zip(sample, masked, strict=True):
        for start, end, label in one.spans:
            secrets.append(distinct_secret(one.text[start:end], label))
            every.append(not any(s.start <= start and end <= s.end for s in own))
        hits += [any(s.start < end and start < s.end for start, end, _ in one.spans) for s in own]
    missed_secrets = _of_any_span(secrets, every)
    misses: dict[str, list[bool]] = defaultdict(list)
    for secret, is_missed in missed_secrets.items():
        misses[secret.label].append(is_missed)
    replays = replayed(sample, policy)
    each = confidence if conservative is None else (1 + confidence) / 2
    left = [missed or replay.traced for missed, replay in zip(every, replays, strict=True)]
    return RecallMeasurement(
        sample=name,
        confidence=confidence,
        confidence_each=each,
        missed=share([*missed_secrets.values()], confidence=confidence),
        traced=share([*_of_any_span(secrets, left).values()], confidence=each),
        missed_by_label={k: share(v, confidence=confidence) for k, v in sorted(misses.items())},
        precision=share(hits, confidence=confidence),
        public=None
        if conservative is None
        else share(
            [*_of_any_span(secrets, shown(replays, conservative)).values()], confidence=each
        ),
    )


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
        Replay(
            before=before,
            after=after,
            moved=_without(secret, text) != _without(MASK, other),
        )
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
        for start, end, label in one.spans:
            if not 0 <= start < end <= len(one.text):
                raise InputError(
                    f"{name}, record {row}: a span of {label} from {start} to {end} is not within "
                    f"its text of {len(one.text)} characters"
                )
