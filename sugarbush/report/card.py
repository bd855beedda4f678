"""The release card: its fields, the one function that writes it to JSON, and the one that reads it.

A field of the card is a field of one of these classes, under the same name and in the same order.
`card_values.release_card` computes the values, and the templates `release_card.*` show them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, InstanceOf, model_validator

from sugarbush.errors import StorageError
from sugarbush.json_lines import load_json
from sugarbush.privacy.entries import NOT_AN_ENTRY, CapRaise
from sugarbush.privacy.events import Event, event_from_dict, parameters_of
from sugarbush.privacy.settings import Purpose
from sugarbush.privacy.unit import Unit
from sugarbush.report.json_fields import JsonFields, Number

_BESIDE_THE_EVENT = ("id", "time", "stage", "mechanism", "plan", "slack", "charged")
FORMAT: Final = "sugarbush release card 1"
CARD_FILE = "release_card.json"
_RUN = "Write the release and its card again with: sugarbush run"


@dataclass(frozen=True, kw_only=True)
class Promise(JsonFields):
    """The guarantee. `epsilon` counts all charges on the dataset, and may be infinite."""

    variant: str
    data_domain: str
    unit: Unit
    unit_details: str
    records_per_unit: Annotated[int, Field(ge=1)]
    adjacency: str
    epsilon: Number
    epsilon_of_this_run: Number
    delta: Annotated[float, Field(ge=0, le=1)]
    in_short: str
    statement: str
    in_other_words: str | None


@dataclass(frozen=True, kw_only=True)
class CardEvent(JsonFields):
    """One charge: its ledger entry, the mechanism in words, and the event with its parameters.

    In JSON, the parameters are keys beside `id`. `plan` and `slack` are those of the entry.
    `charged` says for a charge of another run whether it is from before or after this run.
    """

    id: str
    time: str
    stage: str
    mechanism: str
    event: InstanceOf[Event]
    plan: str = ""
    slack: int = 0
    charged: str | None = None

    @property
    def count(self) -> int:
        """How often the mechanism ran."""
        return int(getattr(self.event, "count", 1))

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "time": self.time,
            "stage": self.stage,
            "mechanism": self.mechanism,
            "count": self.count,
            **({"plan": self.plan} if self.plan else {}),
            **({"slack": self.slack} if self.slack else {}),
            **self.event.as_dict(),
            **({} if self.charged is None else {"charged": self.charged}),
        }

    @model_validator(mode="before")
    @classmethod
    def _with_event(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Invert `to_json`: put the event's parameters apart. Raises ValueError."""
        try:
            event = dict(values)
            own = {name: event.pop(name) for name in _BESIDE_THE_EVENT if name in event}
            return {**own, "event": _event_of(event)}
        except NOT_AN_ENTRY as error:
            raise ValueError(f"is no event ({error})") from None


def _event_of(fields: dict[str, Any]) -> Event:
    """Return an event with exactly these parameters. On the card, each event has a count."""
    names = parameters_of(fields["kind"])
    if "count" not in names and fields.pop("count") != 1:
        raise ValueError("this kind of event has no count")
    if set(fields) != {"kind", *names}:
        raise ValueError("the parameters are not those of its kind")
    return event_from_dict(fields)


@dataclass(frozen=True, kw_only=True)
class CardBudget(JsonFields):
    """The charges of the release in `events`, and those of other runs in `events_of_others`.

    `ledger_head` names the state of the ledger with these charges.
    """

    composition: str
    planned_epsilon: Number
    dataset_total_epsilon: Number
    dataset_cap_epsilon: Annotated[float, Field(ge=0)]
    ledger_head: str
    dataset_cap_raises: tuple[CapRaise, ...]
    events: tuple[CardEvent, ...]
    others: tuple[str, ...]
    events_of_others: tuple[CardEvent, ...]


@dataclass(frozen=True, kw_only=True)
class CardFigure(JsonFields):
    """A public figure with its interval."""

    name: str
    meaning: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class MethodFigures(JsonFields):
    """The public figures of the texts of one method.

    `left_out` names attributes whose labels are wrong, so they are no columns. `uses` says what the
    texts can be used for.
    """

    measured_on: Mapping[str, int | float]
    figures: tuple[CardFigure, ...]
    left_out: tuple[str, ...]
    uses: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CardFigures(JsonFields):
    """The public figures by method, and the decision of the rule `release.accept_if`."""

    level: float
    methods: Mapping[str, MethodFigures]
    rules: tuple[str, ...]
    unmet_rules: Mapping[str, tuple[str, ...]]
    accepted: bool


@dataclass(frozen=True, kw_only=True)
class Deployment(JsonFields):
    """The deployment model, its actors and their trust."""

    model: str
    release_type: str
    access: str
    actors: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TextCounts(JsonFields):
    """The texts of a method: all, those with votes or scores, and those written afterwards."""

    released: int
    voted_on: int
    written_afterwards: int


@dataclass(frozen=True, kw_only=True)
class MadeBy(JsonFields):
    """How the texts were made. `settings` contains no result and no path."""

    methods: tuple[str, ...]
    texts: Mapping[str, TextCounts]
    generator: Mapping[str, str | tuple[str, ...]]
    encoder: str
    metadata_engine: str | None
    settings: Mapping[str, Any]
    software: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class CardSchema(JsonFields):
    """The subject of the texts, and the values of each attribute."""

    subject: str
    attributes: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class PublishedRelease(JsonFields):
    """The date and the number of this publication, and the dates of the other ones of the dataset.

    For an observer who has all of them, `epsilon_of_all` is the epsilon to count.
    """

    date: str
    number: int
    others: tuple[str, ...]
    epsilon_of_all: Number


@dataclass(frozen=True, kw_only=True)
class CardRenewal(JsonFields):
    """What is new in a release of a corpus that grows.

    `learned` is the date of the last draw of this release. `reused` says why the last run drew
    nothing from later records, and is None if it could. `previous` is the date of the last draw of
    the release before, or None if there is none. `drawn_again` names the stages that drew since.
    `new_texts` counts the texts of each method that the release before does not have. `draws_left`
    is the number of further draws that the cap allows, and `next_draw` the earliest date of the
    next one. Both are None if the settings have no schedule.
    """

    learned: str
    reused: str | None
    previous: str | None
    drawn_again: tuple[str, ...]
    new_texts: Mapping[str, int]
    draws_left: int | None
    next_draw: str | None


@dataclass(frozen=True, kw_only=True)
class Card(JsonFields):
    """The guarantee, the charges, the assumptions, and what is not covered.

    `publication` contains the settings `publication` by name, and None for what nobody stated.
    `public_figures` is None if nothing was measured. Only the card of a publication has
    `published`, and a first release has no `renewal`.
    """

    format: Literal["sugarbush release card 1"]
    title: str
    created: str
    dataset: str
    purpose: Purpose
    publishable: bool
    heading: str
    promise: Promise
    budget: CardBudget
    public_figures: CardFigures | None
    unprotected_quantities: tuple[str, ...]
    deployment: Deployment
    tuning: str
    publication: Mapping[str, str | tuple[str, ...] | None]
    assumed_public: tuple[str, ...]
    not_covered: tuple[str, ...]
    remarks: tuple[str, ...]
    made_by: MadeBy
    schema: CardSchema
    renewal: CardRenewal | None = None
    published: PublishedRelease | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the card as plain values for JSON. An infinite epsilon is the text "infinity"."""
        values = super().to_json()
        for name in ("renewal", "published"):
            if values[name] is None:
                del values[name]
        return values


def card_json(card: Card) -> str:
    """Write the card as JSON."""
    return json.dumps(card.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_card(path: Path) -> Card:
    """Read the card that `card_json` wrote.

    Raises StorageError if the file is no JSON of this format, or if a field is missing, unknown,
    repeated, or of another type.
    """
    try:
        return Card.from_json(load_json(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        raise StorageError(f"{path}: is damaged ({error}). {_RUN}") from None
