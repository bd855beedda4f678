"""Redacts texts: a mask replaces each span of findings.

    detectors -> findings of at least `threshold` -> with titles of persons -> joined -> <MASK>

Detectors read each text as it is and in plain characters (`plain_text`): no-break spaces, dashes,
invisible characters and digits of other scripts hide no secret.

The findings in a text depend on the whole text and on nothing else. If a secret is masked, a model
that reads context may label a neighbouring word differently. So a masked secret may leave a trace.
`screening.changed_units` redacts again without the secret and compares the results.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sugarbush.errors import ParamsError
from sugarbush.training.crt.dedup import MASK
from sugarbush.training.crt.findings import Detector, Finding
from sugarbush.training.crt.patterns import RegexDetector
from sugarbush.training.crt.plain_text import PlainText, plain, unwrapped, visible

PAPER_THRESHOLD = 0.3  # the threshold of Zhao, Li, Wang 2022
_MASKS = re.compile(re.escape(MASK))
# A title or degree shows the sex or the profession, so the mask of a name includes its title. A
# title or degree beside a mask is masked too. So the redacted text does not change if a mask
# already replaces the name.
_TITLES = re.compile(
    r"(?<!\w)(?:(?:Mrs?|Ms|Miss|Mx|Dr|Prof|Professor|Doctor|Sir|Madam|Mme|Monsieur|Herr|Frau|Se[nñ]ora?|"
    r"Nurse|Officer|Rev|Capt|Sgt)\.?[ \t]+){1,3}\Z",
    re.IGNORECASE,
)
_DEGREES = re.compile(r",? ?(?:Esq|M\.?D|Ph\.?D|RN|DDS|CPA|Jr|Sr|III|II)\b\.?")
_WRAPS = re.compile(r"[\t\n\r\x0b\x0c]|  |&[\w#]{2,14};|<[bB][rR]|%20")
_SEPARATES = re.compile(r"\d ?(?:[^\w\s]|_){1,2} ?[\dA-Z]")
_OUTSIDE = "a detector found a span that is not within its text"
_LONGEST_TITLES = 30  # number of characters before a span that are searched for a title


_Find = Callable[[Sequence[str]], list[list[Finding]]]


@dataclass(frozen=True)
class TextSpan:
    """Characters `start` to `end` (exclusive) of a text, and a label: the kind of secret."""

    start: int
    end: int
    label: str = field(default="", compare=False)


class Policy:
    """A redaction policy: its detectors, and the smallest score of a finding that it masks."""

    def __init__(
        self, detectors: Sequence[Detector], *, threshold: float = PAPER_THRESHOLD
    ) -> None:
        if not detectors:
            raise ParamsError("a redaction policy needs at least one detector")
        if not _is_share(threshold):
            raise ParamsError(f"a score threshold of {threshold!r} is not between 0 and 1")
        self._detectors, self._threshold = tuple(detectors), threshold

    def spans(self, texts: Sequence[str]) -> list[list[TextSpan]]:
        """Return the spans to mask in each text: disjoint, in order, and not adjacent.

        Masks that a text already contains are spans too. Raises ParamsError for a finding outside
        its text.
        """
        by_text: list[list[TextSpan]] = [[] for _ in texts]
        # The last detector comes first: its labels are used for equal spans. In the default policy
        # this is the trained detector. It knows the kind of a secret where a pattern only knows
        # "text after `name:`".
        for detector in reversed(self._detectors):
            for findings, new in zip(by_text, self._found(detector, texts), strict=True):
                findings.extend(new)
        return [joined_spans(text, findings) for text, findings in zip(texts, by_text, strict=True)]

    def _found(self, detector: Detector, texts: Sequence[str]) -> list[list[TextSpan]]:
        """Return the findings of a detector in the texts, in their plain characters, and if the
        detector has patterns for them, in the unwrapped texts."""
        found = self._in_views(detector.find, [PlainText(text) for text in texts])
        written = {i: plain(text) for i, text in enumerate(texts)}
        changed = {i: view for i, view in written.items() if view.text != texts[i]}
        if not isinstance(detector, RegexDetector):
            self._add(found, detector.find, changed)
        else:
            self._add(found, detector.find_plain, changed)
            wrapped = {i: unwrapped(text) for i, text in enumerate(texts) if _may_wrap(text)}
            self._add(found, detector.find_wrapped, wrapped)
            separated = {i: view for i, view in written.items() if _SEPARATES.search(view.text)}
            self._add(found, detector.find_separated, separated)
        return found

    def _add(
        self, found: list[list[TextSpan]], find: _Find, views: Mapping[int, PlainText]
    ) -> None:
        for index, spans in zip(views, self._in_views(find, list(views.values())), strict=True):
            found[index] += spans

    def _in_views(self, find: _Find, views: Sequence[PlainText]) -> list[list[TextSpan]]:
        if not views:
            return []
        found = find([view.text for view in views])
        return [
            [_original(view, f) for f in findings if f.score >= self._threshold]
            for view, findings in zip(views, found, strict=True)
        ]

    @property
    def trained_on(self) -> frozenset[str]:
        """Return digests of the labelled texts that trained the detectors."""
        none: frozenset[str] = frozenset()
        return none.union(*(getattr(d, "trained_on", none) for d in self._detectors))

    @property
    def identities(self) -> tuple[str, ...]:
        """Return the identities of the detectors, for cache keys."""
        return identities_of(self._detectors)

    def redact(self, texts: Sequence[str]) -> list[str]:
        spans = self.spans(texts)
        return [mask_spans(text, text_spans) for text, text_spans in zip(texts, spans, strict=True)]


def _may_wrap(text: str) -> bool:
    return not text.isascii() or _WRAPS.search(text) is not None


def _original(view: PlainText, finding: Finding) -> TextSpan:
    """Return the characters of the original text that a finding in its plain characters covers."""
    if not 0 <= finding.start < finding.end <= len(view.text):
        raise ParamsError(_OUTSIDE)
    return TextSpan(*view.span(finding.start, finding.end), finding.label)


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value <= 1


def identities_of(detectors: Iterable[object]) -> tuple[str, ...]:
    """Return digests of weights or versions of packages. Patterns have none."""
    return tuple(d.identity for d in detectors if hasattr(d, "identity"))


def joined_spans(text: str, spans: Iterable[TextSpan]) -> list[TextSpan]:
    """Join `spans` and the masks in `text`. Spans with only blanks between them become one span.

    A joined span has the label that covers most of its characters; if two labels cover equally
    many, the label that comes first in `spans`. Raises ParamsError for a span that is not within
    the text.
    """
    masks = (TextSpan(match.start(), match.end()) for match in _MASKS.finditer(text))
    given = [*masks, *spans]
    if not all(0 <= span.start < span.end <= len(text) for span in given):
        raise ParamsError(_OUTSIDE)
    text = visible(text)
    whole = [_with_title(text, span) for span in given]
    groups: list[list[int]] = []
    end = 0
    for index in sorted(range(len(whole)), key=lambda i: (whole[i].start, whole[i].end)):
        span = whole[index]
        if groups and not text[end : span.start].strip(" \t"):
            groups[-1].append(index)
            end = max(end, span.end)
        else:
            groups.append([index])
            end = span.end
    return [
        TextSpan(
            whole[group[0]].start, max(whole[i].end for i in group), _widest_label(whole, group)
        )
        for group in groups
    ]


def _widest_label(spans: Sequence[TextSpan], indices: Sequence[int]) -> str:
    """Return the label that covers most characters. `indices` are in the order of the text."""
    ends: dict[str, int] = {}
    covered: dict[str, tuple[bool, int, int]] = {}
    for index in indices:
        span = spans[index]
        _, before, first = covered.get(span.label, (False, 0, -index))
        more = max(0, span.end - max(span.start, ends.get(span.label, 0)))
        covered[span.label] = span.label != "", before + more, max(first, -index)
        ends[span.label] = max(span.end, ends.get(span.label, 0))
    return max(covered, key=covered.__getitem__)


def _with_title(text: str, span: TextSpan) -> TextSpan:
    titles = _TITLES.search(text, max(0, span.start - _LONGEST_TITLES), span.start)
    degree = _DEGREES.match(text, span.end)
    return TextSpan(
        titles.start() if titles else span.start, degree.end() if degree else span.end, span.label
    )


def mask_spans(text: str, spans: Sequence[TextSpan]) -> str:
    """Replace each of `spans` by a mask. The spans are disjoint and in order."""
    pieces, end = [], 0
    for span in spans:
        pieces += [text[end : span.start], MASK]
        end = span.end
    return "".join(pieces) + text[end:]
