"""Chooses texts that a user labels, suggests labels, and stores the labels.

<private root>/labels.jsonl    one text a line: text, spans, use (train or measure)

A hash of the text decides the use, so a text keeps its use. Only texts for training get
suggestions. With a suggestion, people overlook what the detectors overlook, and gamma would be too
small.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sugarbush.data.cells import is_half
from sugarbush.data.reading import read_rows
from sugarbush.errors import InputError, ParamsError
from sugarbush.paths import OWN_LABELS, atomic_file, make_owner_only
from sugarbush.randomness import hash_share
from sugarbush.redactor.values import (
    ADDRESS,
    EMAIL,
    NAME,
    NUMBER,
    ORGANIZATION,
    PHONE,
    PLACE,
    SECRET_KINDS,
)
from sugarbush.training.crt.recall import (
    FOR_TRAINING,
    LabelledText,
    load_labelled,
    require_disjoint,
    span_of,
)
from sugarbush.training.crt.redact import Policy

TRAIN_SHARE = 0.5
_MEASURE = "measure"
# The classifier learns not to mask words that are labelled as no secret. So a label that is not in
# the table counts as a secret.
_LABELS = {
    EMAIL: "email email_address mail e_mail emails mails",
    PHONE: "phone phone_number phone_num phone_no telephone telephone_number tel tel_no fax fax_no "
    "mobile mobile_number cell phones",
    ADDRESS: "address addr street street_address street_name building building_number "
    "address_line zip zip_code post postcode post_code postal_code plz po_box addresses",
    NUMBER: "ip_address mac_address bitcoin_address number code state_id",
    NAME: "name person per pers patient doctor user username handle recipient capitals names "
    "persons customer client nurse",
    PLACE: "place loc location gpe fac city city_name country country_name state county",
    ORGANIZATION: "organization organisation org company employer organization_name company_name",
    "": "date date_time time age title prefix suffix norp nrp product event work_of_art law "
    "language percent money quantity ordinal cardinal misc field url domain_name file_name "
    "product_name event_name",
}  # of detectors and data sets, in words
_KINDS = {label: kind for kind, labels in _LABELS.items() for label in labels.split()}
# A label such as FULLNAME has no mark between its words. Shorter words would match by chance.
_JOINED = {label.replace("_", ""): kind for label, kind in _KINDS.items() if len(label) > 3}
_SECRETS = {label for label, kind in _JOINED.items() if kind in SECRET_KINDS}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def kind_of_label(label: str) -> str:
    """Return the redactor's kind for a label of another schema; "" if the label marks no secret.

    The table is searched for the label, then for the label without its first word, and so on, and
    at last for an end without a mark before it. A label without a match is a secret: NUMBER.

    >>> [kind_of_label(label) for label in ("IP_ADDRESS", "HOTEL_PHONE", "FULLNAME", "MRN", "DATE")]
    ['NUMBER', 'PHONE', 'NAME', 'NUMBER', '']
    """
    words = [word.casefold() for word in _WORD.findall(label)]
    ends = ("_".join(words[first:]) for first in range(len(words)))
    if (ending := next((end for end in ends if end in _KINDS), None)) is not None:
        return _KINDS[ending]
    joined = max((end for end in _SECRETS if "".join(words).endswith(end)), key=len, default="")
    return _JOINED.get(joined, NUMBER)


def for_training(
    sample: Iterable[LabelledText], *, share: float = TRAIN_SHARE
) -> list[LabelledText]:
    """Return the texts that a hash selects for training, with the kinds of the redactor."""
    return [
        LabelledText(
            text=labelled_text.text,
            spans=tuple((a, b, kind_of_label(label)) for a, b, label in labelled_text.spans),
        )
        for labelled_text in sample
        if hash_share(labelled_text.text) < share
    ]


@dataclass
class LabelFile:
    """The texts to label, in a fixed order, and the labels so far."""

    path: Path
    texts: list[str]
    policy: Policy | None = None
    spans: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def page_entry(self, number: int) -> dict[str, Any]:
        """Return text `number` for the page, with its labels.

        If the text has no labels yet, they are suggestions.
        """
        text = self.texts[number]
        spans = self.spans.get(text)
        return {
            "number": number,
            "count": len(self.texts),
            "done": len(self.spans),
            "text": text,
            "use": use_of(text),
            "labelled": spans is not None,
            "spans": self._suggested(text) if spans is None else spans,
        }

    def label(self, number: int, spans: Sequence[dict[str, Any]]) -> None:
        """Store the spans of text `number`, and write the file. Raises InputError."""
        text = self.texts[number]
        try:
            triples = tuple(map(span_of, spans))
        except (KeyError, TypeError, ValueError):
            raise InputError("a span needs the fields start, end and label") from None
        require_disjoint(triples, len(text), where=f"text {number + 1}")
        if any(is_half(label) for *_, label in triples):  # no later label could be written either
            raise InputError(f"text {number + 1}: a label has half a character (a lone surrogate)")
        rows = [{"start": a, "end": b, "label": label} for a, b, label in sorted(triples)]
        labelled = {**self.spans, text: rows}
        self._write(labelled)
        self.spans = labelled  # after the write, so that only stored labels count

    def _suggested(self, text: str) -> list[dict[str, Any]]:
        if self.policy is None or use_of(text) == _MEASURE:
            return []
        spans = self.policy.spans([text])[0]
        return [
            {"start": s.start, "end": s.end, "label": kind_of_label(s.label) or NUMBER}
            for s in spans
            if s.label != "DATE"
        ]

    def _write(self, labelled: Mapping[str, Sequence[dict[str, Any]]]) -> None:
        with (
            atomic_file(self.path) as temporary,
            temporary.open("w", encoding="utf-8") as file,
        ):
            for text, spans in labelled.items():
                row = {"text": text, "spans": spans, "use": use_of(text)}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")


def open_labels(
    source: Path, output: Path, *, text: str, count: int, policy: Policy | None
) -> LabelFile:
    """Choose the `count` texts of `source` with the smallest hashes; read the labels in `output`.

    Raises ParamsError if others can read the folder of `output`, and InputError for a bad file.
    """
    make_owner_only(output.parent)
    if output.parent.stat().st_mode & 0o077:
        raise ParamsError(
            f"{output.parent}: others can read this folder, and labelled texts are private. Name a "
            f"file in a folder with mode 0700, such as the folder of {OWN_LABELS}."
        )
    rows = read_rows(source, setting="input", wanted={text: "--text"})
    texts = dict.fromkeys(str(row.fields[text]) for row in rows if row.fields.get(text))
    for row in rows:
        if is_half(str(row.fields.get(text))):  # the file of labels cannot contain it
            raise InputError(
                f"{source}, row {row.number}: column '{text}' has half a character (a lone "
                "surrogate)"
            )
    # This hash must differ from the hash in `use_of`, or all chosen texts would be for training.
    chosen = sorted(texts, key=lambda candidate: hash_share(f"to label: {candidate}"))[:count]
    if not chosen:
        raise InputError(f"{source}: no row has a text in column '{text}'")
    spans_by_text: dict[str, list[dict[str, Any]]] = {}
    if output.exists():
        for labelled_text in load_labelled(output, text_column="text", setting="--output"):
            spans_by_text[labelled_text.text] = [
                {"start": a, "end": b, "label": k} for a, b, k in labelled_text.spans
            ]
    return LabelFile(output, list(dict.fromkeys([*spans_by_text, *chosen])), policy, spans_by_text)


def use_of(text: str) -> str:
    """Return whether a labelled text trains the redactor or measures what it misses."""
    return FOR_TRAINING if hash_share(text) < TRAIN_SHARE else _MEASURE
