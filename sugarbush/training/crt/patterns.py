"""Detectors by regular expression, for secrets with a fixed format.

The time of each pattern is linear in the length of a text: there is no repetition inside a
repetition. Card numbers are checked by their checksum. Names have no fixed format: NAME is two
capitalised words, which also finds titles and places. Of single first names it finds only "I'm
Ann". Measure its misses, or use a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sugarbush.errors import ParamsError
from sugarbush.training.crt.findings import Finding


def luhn(text: str) -> bool:
    """Whether the digits in `text` form a card number: 12 to 19 digits with Luhn's check digit."""
    digits = [int(c) for c in text if c.isdigit()]
    doubled = [
        d if place % 2 == 0 else sum(divmod(2 * d, 10)) for place, d in enumerate(digits[::-1])
    ]
    return 12 <= len(digits) <= 19 and sum(doubled) % 10 == 0


@dataclass(frozen=True)
class Pattern:
    """An expression, the score of a match, and an additional test of a match."""

    expression: re.Pattern[str]
    score: float
    confirmed: Callable[[str], bool] = lambda text: True


_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Sept|Oct|Nov|Dec)[a-z]{0,6}"
_STREET = (
    r"(?:Street|St|Road|Rd|Lane|Ln|Row|Avenue|Ave|Close|Terrace|Way|Drive|Dr|Boulevard|Blvd|Court|Ct|"
    r"Place|Pl|Square|Parkway|Pkwy|Circle|Highway|Hwy|Trail)\b\.?"
)
# The pattern excludes "I'm" in "I'm Ann": if it were masked too, redaction would differ between a
# secret and a mask.
_CONTRACTION = (
    r"(?:I|It|He|She|We|You|They|This|That|There|Here|What|Who|Where|How)['’][a-z]{1,2}(?!\w)"
)

PATTERNS: Mapping[str, Pattern] = {
    "EMAIL": Pattern(re.compile(r"[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,6}"), 0.95),
    "PHONE": Pattern(
        re.compile(
            r"(?<![\w-])(?:\+?\d{1,3}[ .-]?)?(?:\(\d{2,5}\)|\d{2,5})(?:[ .-]?\d{2,5}){1,4}"
            r"(?:\s?x\d{1,6})?(?![\w-])"
        ),
        0.6,
        lambda text: 7 <= sum(c.isdigit() for c in text) <= 20,
    ),
    "SSN": Pattern(re.compile(r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])"), 0.9),
    "CARD": Pattern(re.compile(r"(?<![\w-])\d(?:[ -]?\d){11,18}(?![\w-])"), 0.9, luhn),
    "ORDER_NUMBER": Pattern(re.compile(r"(?<![\w-])\d{3}-\d{5}-\d{4}(?![\w-])"), 0.9),
    "TRACKING_NUMBER": Pattern(
        re.compile(r"(?<![\w-])(?=[A-Z-]*\d)[A-Z0-9](?:-?[A-Z0-9]){6,24}(?![\w-])"), 0.7
    ),
    "REFERENCE": Pattern(re.compile(r"(?<![\w-])[A-Z]{1,5}[- ]?\d[A-Z0-9-]{3,20}(?![\w-])"), 0.6),
    "IDENTIFIER": Pattern(re.compile(r"(?<![\w.-])\d{6,}(?![\w-])"), 0.5),
    "DATE": Pattern(
        re.compile(
            r"(?<!\w)(?:\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}"
            rf"|\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH}(?:,? \d{{4}})?"
            rf"|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?)(?!\w)"
        ),
        0.6,
    ),
    "ADDRESS": Pattern(
        re.compile(
            rf"(?<!\w)\d{{1,6}}[A-Za-z]?,? (?:[A-Z][\w'.-]{{0,30}} ){{1,5}}{_STREET}"
            r"(?:(?:,? (?:Apt|Suite|Unit|Flat)\.? ?\w{1,8})?(?:,? [A-Z][\w'-]{1,30}){0,4}"
            r"(?:,? [A-Z]{2})?,? \d{4,6}(?:-\d{4})?)?"
        ),
        0.7,
    ),
    "ZIP_ADDRESS": Pattern(
        re.compile(
            r"(?<!\w)\d{1,6} (?:[A-Z][\w'.-]{0,30},? ){1,8}(?:Apt\. |Suite )?(?:\d{1,5} )?"
            r"(?:[A-Z][\w'.-]{0,30},? ){0,5}(?:[A-Z]{2},? )\d{5}(?:-\d{4})?(?!\w)"
        ),
        0.8,
    ),
    "MILITARY_ADDRESS": Pattern(
        re.compile(
            r"(?<!\w)(?:PSC|CMR|Unit|USS|USNS|USNV|USCGC) [\w, ]{1,60}\bA[AEP],? \d{5}(?!\w)"
        ),
        0.9,
    ),
    "CAPITALS": Pattern(re.compile(r"(?<![\w-])[A-Z]{8,24}(?![\w-])"), 0.4),
    "NAME": Pattern(
        re.compile(
            rf"(?<!\w)(?!{_CONTRACTION})[A-Z][a-z'’-]{{1,20}} (?:[A-Z]\. )?[A-Z][a-zA-Z'’-]{{1,20}}"
            r"(?: [A-Z][a-zA-Z'’-]{1,20})?(?!\w)"
            r"|(?<=\bI['’]m )[A-Z][a-z'’-]{1,20}(?!\w)"
        ),
        0.35,
    ),
    "POSTCODE": Pattern(re.compile(r"(?<!\w)[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}(?!\w)", re.I), 0.6),
    "IP": Pattern(re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])"), 0.8),
}


class RegexDetector:
    """Finds the patterns in `labels`, or all of them; `extra` adds your own."""

    def __init__(
        self, labels: Sequence[str] | None = None, *, extra: Mapping[str, str] | None = None
    ) -> None:
        unknown = sorted(set(labels or ()) - PATTERNS.keys())
        if unknown:
            raise ParamsError(
                f"no pattern is called {', '.join(unknown)}; there are {', '.join(PATTERNS)}"
            )
        chosen = PATTERNS if labels is None else {label: PATTERNS[label] for label in labels}
        self._patterns = dict(chosen)
        for label, expression in (extra or {}).items():
            try:
                self._patterns[label] = Pattern(re.compile(expression), 1.0)
            except re.error as error:
                raise ParamsError(f"pattern {label}: not a regular expression: {error}") from None

    def find(self, texts: Sequence[str]) -> list[list[Finding]]:
        return [self._in_one(text) for text in texts]

    def _in_one(self, text: str) -> list[Finding]:
        return [
            Finding(match.start(), match.end(), label, pattern.score)
            for label, pattern in self._patterns.items()
            for match in pattern.expression.finditer(text)
            if match.end() > match.start() and pattern.confirmed(match.group())
        ]


_PLAIN = re.compile(r"[a-z,.;:!?'’ \n\t()-]*")
_SPEAKER = re.compile(r"(?m)^[A-Z]{2,8}: ")
_AFTER_STOP = re.compile(
    r"(?:\A|(?<=[.!?…\n])|(?<=[.!?…] )|(?<=: ))\s*[\"'“‘(]?[A-Z](?=[a-z'’ ,])|\bI\b"
)


class PlainWords:
    """A conservative policy without a model: only lower-case words and punctuation are public.

    Capitals are allowed at the start of a sentence, in "I", and in a speaker's tag at the start of
    a line ("USR: "). A digit, a name inside a sentence or a sign such as @ makes a text private. It
    misses secrets in lower-case words (a diagnosis) and names at the start of a sentence, so
    measure its delta_2.
    """

    def is_public(self, texts: Sequence[str]) -> list[bool]:
        spoken = (_SPEAKER.sub("", text) for text in texts)
        return [_PLAIN.fullmatch(_AFTER_STOP.sub("", text)) is not None for text in spoken]


def described() -> dict[str, tuple[str, int, float]]:
    """Each expression with its flags and score, as JSON.

    Additional tests of a match (a card's check digit) are code, and their version is part of the
    cache key.
    """
    own = {label: (pattern.expression, pattern.score) for label, pattern in PATTERNS.items()}
    own |= {"plain": (_PLAIN, 0.0), "speaker": (_SPEAKER, 0.0), "after a stop": (_AFTER_STOP, 0.0)}
    return {name: (regex.pattern, regex.flags, score) for name, (regex, score) in own.items()}
