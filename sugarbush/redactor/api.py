"""Redacts texts: `sugarbush.redact`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sugarbush.arguments import names_arguments, require_list, require_texts
from sugarbush.html_table import html_table
from sugarbush.paths import named_state, state_root
from sugarbush.redactor.rewriting import Rewriter
from sugarbush.training.crt.findings import DEFAULT_DETECTORS


@dataclass(frozen=True, kw_only=True)
class Redaction:
    """Redacted texts, with the position and kind of each detected secret.

    `spans` contains (start, end) in characters of the original texts; the end is exclusive.
    `labels` contains the kind of each span.
    """

    texts: tuple[str, ...] = field(repr=False)
    spans: tuple[tuple[tuple[int, int], ...], ...] = field(repr=False)
    labels: tuple[tuple[str, ...], ...] = field(repr=False)

    @property
    def found(self) -> dict[str, int]:
        """The number of spans of each kind, the most frequent kind first."""
        return dict(Counter(label for own in self.labels for label in own).most_common())

    def _repr_html_(self) -> str:
        """Show no text and no number, because redaction has no guarantee and notebooks are saved
        with their output."""
        rows = [
            (".texts", "the redacted texts"),
            (".spans, .labels", "the secrets that were found"),
        ]
        rows.append((".found", "the number of secrets of each kind"))
        return html_table("Redaction", rows, note="Private: detectors miss some secrets.")


@names_arguments
def redact(
    texts: Sequence[str],
    *,
    detectors: Sequence[str] = DEFAULT_DETECTORS,
    threshold: float = 0.3,
    surrogates: bool = False,
    state: Path | str | None = None,
) -> Redaction:
    """Replace each detected secret in the texts by a mask or by a surrogate.

    The function has no guarantee, because detectors miss some secrets. Each detector is "regex",
    "learned", "presidio", "spacy:<pipeline>", or the name or path of a token classification model.
    "installed" means Presidio and all installed spaCy pipelines. The first use of "learned" on a
    machine trains this detector, which takes some minutes. A surrogate is an invented value of the
    same kind. The key of the state folder chooses the surrogates. Within a text, a person always
    has the same surrogate name. Raises ParamsError for an unknown detector, and InputError for an
    item that is not a text.

    >>> import sugarbush as sb
    >>> sb.redact(["Call 555-010-1234 today"], detectors=["regex"]).texts
    ('Call <MASK> today',)
    """
    every = list(require_texts("texts", texts))
    require_list("detectors", detectors)
    rewriter = Rewriter(
        tuple(map(str, detectors)),
        threshold=threshold,
        state=_state_folder(state) if surrogates else None,
    )
    made = rewriter.rewritten(every)
    return Redaction(
        texts=tuple(text for text, _ in made),
        spans=tuple(tuple((span.start, span.end) for span in own) for _, own in made),
        labels=tuple(tuple(span.label for span in own) for _, own in made),
    )


def _state_folder(state: Path | str | None) -> Path:
    return state_root(Path()) if state is None else named_state(Path(), state)
