"""How much a policy finds, measured on labelled spans, with bounds that may be relied on.

A labelled secret counts as found only when it is masked whole. The false-negative rate that enters
the accounting is an *upper* confidence bound: no miss in 200 labels still leaves 1.5%. It holds for
secrets drawn as the labelled ones were, so a report names the sample.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sugarbush.crt.dedup import MASK
from sugarbush.crt.findings import PublicPolicy
from sugarbush.crt.redact import Policy
from sugarbush.crt.screening import public_views
from sugarbush.crt.sentences import split
from sugarbush.errors import InputError
from sugarbush.privacy.binomial import Share, share


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """A text of the sample, and its secrets as (start, end, label), end exclusive."""

    text: str
    spans: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """`missed`: secrets not masked whole, by label and in all (gamma is its `upper`).

    `precision`: masked spans that meet a labelled one. `public`: secrets that show in the public
    part, which a conservative policy lets through (delta_2 is its `upper`); None without one.
    """

    sample: str
    confidence: float
    missed: Share
    missed_by_label: dict[str, Share]
    precision: Share
    public: Share | None

    @property
    def gamma(self) -> float:
        return self.missed.upper

    @property
    def delta_2(self) -> float:
        return 0.0 if self.public is None else self.public.upper


def measure(
    sample: Sequence[Labelled],
    policy: Policy,
    *,
    name: str,
    conservative: PublicPolicy | None = None,
    confidence: float = 0.95,
) -> Measurement:
    """Misses and precision of `policy` on `sample`, which is called `name`.

    The bounds take the labelled secrets as independent draws. Raises InputError when there is no
    label, or one that is not within its text.
    """
    _require_spans(sample, name)
    masked = policy.spans([one.text for one in sample])
    misses: dict[str, list[bool]] = defaultdict(list)
    hits = []
    for one, own in zip(sample, masked, strict=True):
        for start, end, label in one.spans:
            misses[label].append(not any(s.start <= start and end <= s.end for s in own))
        hits += [any(s.start < end and start < s.end for start, end, _ in one.spans) for s in own]
    every = [missed for by_label in misses.values() for missed in by_label]
    return Measurement(
        sample=name,
        confidence=confidence,
        missed=share(every, confidence=confidence),
        missed_by_label={k: share(v, confidence=confidence) for k, v in sorted(misses.items())},
        precision=share(hits, confidence=confidence),
        public=None
        if conservative is None
        else share(shown(sample, policy, conservative), confidence=confidence),
    )


def shown(sample: Sequence[Labelled], policy: Policy, conservative: PublicPolicy) -> list[bool]:
    """Of each labelled secret whether its text's public part changes when it is masked everywhere.

    By a replay, as in `screening.changed_units`. A secret that moves the end of a sentence counts:
    which sentence is the first of its kind, in this text or another, might change with it.
    """
    pairs = [(one.text, one.text[start:end]) for one in sample for start, end, _ in one.spans]
    replaced = [text.replace(secret, MASK) for text, secret in pairs]
    texts = [one.text for one in sample]
    views = dict(zip(texts, public_views(policy.redact(texts), conservative), strict=True))
    after = public_views(policy.redact(replaced), conservative)
    return [
        views[text] != view or _without(secret, text) != _without(MASK, other)
        for (text, secret), other, view in zip(pairs, replaced, after, strict=True)
    ]


def _without(secret: str, text: str) -> list[str]:
    """The sentences of `text` that do not hold `secret`."""
    return [sentence.text for sentence in split(text) if secret not in sentence.text]


def _require_spans(sample: Sequence[Labelled], name: str) -> None:
    if not any(one.spans for one in sample):
        raise InputError(f"{name}: no labelled span, so nothing can be measured")
    for row, one in enumerate(sample, start=1):
        for start, end, label in one.spans:
            if not 0 <= start < end <= len(one.text):
                raise InputError(
                    f"{name}, record {row}: a span of {label} from {start} to {end} is not within "
                    f"its text of {len(one.text)} characters"
                )
