"""The release card: what was promised, what paid for it, what it rests on, what it leaves out.

It holds settings, released values and ledger entries. It never holds an exact count of private
records, a fingerprint, or a path of the user's.
"""

from __future__ import annotations

import json
import math
import platform
from functools import lru_cache
from importlib import metadata
from typing import Any

from sugarbush.privacy.accounting import epsilon
from sugarbush.privacy.events import (
    DiscreteGaussian,
    Event,
    GaussianDp,
    NonPrivate,
    PoissonGaussian,
)
from sugarbush.privacy.ledger import Entry
from sugarbush.privacy.settings import Purpose
from sugarbush.privacy.unit import ADJACENCY, Unit
from sugarbush.report.model import Release

FORMAT = "sugarbush release card 1"
COMPOSITION = (
    "Each mechanism's own privacy loss distribution, discretised so that epsilon is never "
    "understated, composed with the others' (dp_accounting)."
)
_SOFTWARE = (
    "sugarbush",
    "dp-accounting",
    "opendp",
    "sentence-transformers",
    "torch",
    "transformers",
    "openai",
    "faiss-cpu",
    "numpy",
)


def release_card(release: Release) -> dict[str, Any]:
    """The card as plain values for JSON; an infinite epsilon is the text "infinity"."""
    return {
        "format": FORMAT,
        "title": release.title,
        "created": release.created,
        "dataset": release.dataset,
        "purpose": release.purpose.value,
        "publishable": is_publishable(release),
        "heading": heading(release),
        "promise": {
            "unit": release.unit.value,
            "records_per_unit": release.records_per_unit,
            "adjacency": ADJACENCY,
            "epsilon": _number(release_epsilon(release)),
            "delta": release.delta,
            "statement": statement(release),
            "in_other_words": in_other_words(release),
        },
        "budget": {
            "composition": COMPOSITION,
            "planned_epsilon": _number(release.plan.epsilon),
            "dataset_total_epsilon": _number(release.dataset_epsilon),
            "dataset_cap_epsilon": release.cap,
            "events": [_event(entry) for entry in release.entries],
        },
        "assumed_public": assumed_public(release),
        "not_covered": not_covered(release),
        "remarks": remarks(release),
        "made_by": {
            "methods": list(release.methods),
            "generator": _generator(release),
            "encoder": release.encoder,
            "metadata_engine": release.engine,
            "settings": dict(release.settings),
            "software": dict(release.software),
        },
        "schema": {
            "subject": release.schema.subject,
            "attributes": {a.name: list(a.domain) for a in release.schema.attributes},
        },
    }


def card_json(card: dict[str, Any]) -> str:
    """The card as JSON text."""
    return json.dumps(card, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def release_epsilon(release: Release) -> float:
    """Epsilon at the release's delta of the entries that paid for it, composed."""
    return _composed(tuple(entry.event for entry in release.entries), release.delta)


@lru_cache(maxsize=16)
def _composed(events: tuple[Event, ...], delta: float) -> float:
    return epsilon(events, delta=delta)


def is_publishable(release: Release) -> bool:
    """Whether the settings call it a release and every mechanism is DP."""
    private = not any(isinstance(entry.event, NonPrivate) for entry in release.entries)
    return release.purpose is Purpose.RELEASE and private


def heading(release: Release) -> str:
    """What stands above everything else."""
    if any(isinstance(entry.event, NonPrivate) for entry in release.entries):
        return "NOT PRIVATE: a mechanism without differential privacy was used. Do not publish."
    match release.purpose:
        case Purpose.BENCHMARK:
            return (
                "Benchmark: the settings declare the data public, and its ledger is not that of a "
                "release. Not publishable."
            )
        case Purpose.EXAMPLE:
            return (
                "Example: made from an invented corpus that comes with the program. It protects "
                "nobody; the mechanisms and the accounting are those of a release."
            )
        case Purpose.RELEASE:
            return "Release: differentially private under the assumptions below."


def statement(release: Release) -> str:
    """The promise in one sentence."""
    spent = release_epsilon(release)
    if math.isinf(spent):
        return "Nothing is promised: epsilon is infinite."
    if not release.entries:
        return "No private text was looked at: epsilon is 0."
    return (
        f"Adding or removing {_whom(release)} changes the probability of any outcome by at most a "
        f"factor of {math.exp(spent):.3g}, the exponential of epsilon = {spent:.3g}, and an "
        f"additive {short_power(release.delta)}."
    )


def in_other_words(release: Release) -> str | None:
    """The promise as what somebody may learn; None where nothing is promised or nothing was used.

    Bayes' rule: posterior odds are at most e^epsilon times the prior odds, but for delta.
    """
    spent = release_epsilon(release)
    if math.isinf(spent) or not release.entries:
        return None
    sure = 1 / (1 + math.exp(-spent))
    return (
        f"Somebody who held it for even odds that {_whom(release)} is in the corpus, and who knows "
        f"everything else, becomes at most {sure:.0%} sure by this release (but for delta)."
    )


def _whom(release: Release) -> str:
    if release.unit is Unit.RECORD:
        return "one record"
    return "one person with all of their records"


def short_power(value: float) -> str:
    """1e-06 as people write it: 1e-6."""
    return f"{value:g}".replace("e-0", "e-")


def describe(event: Event) -> str:
    """A mechanism in words."""
    match event:
        case DiscreteGaussian():
            return (
                f"integer counts or sums, exact discrete Gaussian noise of standard deviation "
                f"{event.stddev:.4g} on each; one unit moves them by at most "
                f"{event.sensitivity} in L2 all together"
            )
        case GaussianDp():
            return (
                f"adaptive mechanism proved to be {event.mu:.4g}-Gaussian-DP as a whole "
                "(metadata table: noisy marginals and private selections under one filter)"
            )
        case PoissonGaussian():
            return (
                f"DP-SGD steps: Gaussian noise of multiplier {event.noise_multiplier:.4g} on "
                f"Poisson samples of rate {event.rate:.4g}"
            )
        case NonPrivate():
            return "no differential privacy"
    return event.kind


def assumed_public(release: Release) -> list[str]:
    """What the promise takes as known to everybody. None of it is protected."""
    schema, generator = release.schema, release.generator
    items = [
        "The schema: its subject, the attributes' names, descriptions and values were written "
        f"without looking at the private texts ({len(schema.names)} attributes: "
        f"{', '.join(schema.names)}).",
        "All settings, delta among them, and the choice of methods: none was tuned on the "
        "private texts.",
        f"The encoder: {release.encoder}.",
    ]
    if generator is not None:
        items.append(_generator_public(generator.provider, generator.model, generator.sources))
    if release.starts_from is not None:
        items.append(
            f"The model that fine-tuning starts from ({release.starts_from}) and whatever it was "
            "trained on."
        )
    if release.donated:
        items.append(
            f"The {release.donated} donated examples. They are NOT protected: texts of the "
            "release may repeat them word for word. They are no part of the private records."
        )
    return items


def not_covered(release: Release) -> list[str]:
    """What the promise says nothing about."""
    items = [
        "Facts about groups: what holds for many people can be learnt, and is meant to be.",
        "Timing, memory and other side channels of the machine that ran this.",
        "Pass or fail, error messages and exact tallies on the operator's terminal: they depend "
        "on the private texts and are not part of the release.",
        "The internal report: it is computed on real texts, is not differentially private, and "
        "must not be handed out.",
        "Attacks that failed: they bound nothing. Safety rests on the ledger alone.",
        "Other releases about the same people under other dataset names or by other programs.",
    ]
    if release.unit is Unit.RECORD:
        items.insert(
            0,
            "One person in several records: the promise is per record. For k records of one "
            "person it weakens to k*epsilon, at a delta k*exp((k-1)*epsilon) times as large.",
        )
    else:
        items.insert(
            0,
            "Records that name another person: each is protected as its author's only. Somebody "
            "who stands in the corpus under several names is several persons to it; several under "
            "one name, `unknown` say, are one, and each of them alone is not protected.",
        )
    if release.generator is not None and release.generator.endpoint is not None:
        items.append(
            f"The logs of the provider at {release.generator.endpoint}: it saw every prompt and "
            "answer. Prompts hold released and public text only."
        )
    if release.labels_endpoint is not None:
        items.append(
            f"The logs of the endpoint at {release.labels_endpoint}: EVERY PRIVATE TEXT was sent "
            "to it, to read attributes off it; the settings call it trusted. Its answers are "
            "private and enter the release by the noisy metadata alone."
        )
    return items


def remarks(release: Release) -> list[str]:
    """How exact the arithmetic is."""
    events = [entry.event for entry in release.entries]
    items = []
    if any(isinstance(event, DiscreteGaussian | GaussianDp) for event in events):
        items.append(
            "Noise on counts is integer noise, drawn exactly and seeded by the operating system; "
            "floating-point attacks on it do not apply."
        )
    if any(isinstance(entry.event, DiscreteGaussian) and entry.stage.startswith("evolve")
           for entry in release.entries):  # fmt: skip
        items.append(
            "A record's votes or scores are a function of its embedding to the bit. The encoder's "
            "own rounding, about 1e-7 a number, may depend on the texts that are embedded beside "
            "it, and is not accounted for."
        )
    if any(isinstance(event, PoissonGaussian) for event in events):
        items.append(
            "The noise of DP-SGD is drawn in floating point from a generator seeded by the "
            "operating system; attacks on its low-order bits are out of scope."
        )
    if events:
        items.append(
            "Epsilon is computed in floating point from privacy loss distributions that are "
            "rounded to the pessimistic side."
        )
    return items


def software_versions() -> dict[str, str]:
    """Python and the libraries that the promise or the texts depend on, where installed."""
    found = {"python": platform.python_version()}
    for name in _SOFTWARE:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def card_markdown(card: dict[str, Any]) -> str:
    """The card as a page of Markdown, for people."""
    promise, budget, made = card["promise"], card["budget"], card["made_by"]
    lines = [
        f"# Release card: {_plain(card['title'])}",
        "",
        f"**{card['heading']}**",
        "",
        f"Dataset `{card['dataset']}` · {card['created']} · methods {', '.join(made['methods'])}",
        "",
        "## What is promised",
        "",
        " ".join(filter(None, [promise["statement"], promise["in_other_words"]])),
        "",
        "| | |",
        "|---|---|",
        f"| epsilon | {_shown(promise['epsilon'])} |",
        f"| delta | {promise['delta']:g} |",
        f"| unit | {promise['unit']}{_used(promise)} |",
        f"| adjacency | {promise['adjacency']} |",
        "",
        "## What paid for it",
        "",
        budget["composition"],
        "",
        f"All charges on this dataset so far, these included: epsilon "
        f"{_shown(budget['dataset_total_epsilon'])} of a cap of {budget['dataset_cap_epsilon']:g}. "
        f"It is what holds for a {'person' if promise['unit'] == Unit.USER else 'record'} that was "
        "there each time, against somebody who sees every release.",
        "",
        "| ledger entry | when | stage | mechanism | times |",
        "|---|---|---|---|---|",
        *(
            f"| `{e['id']}` | {e['time']} | {e['stage']} | {e['mechanism']} | {e['count']} |"
            for e in budget["events"]
        ),
        *([] if budget["events"] else ["| none | | | no private text was looked at | |"]),
    ]
    for name, key in (
        ("What is assumed to be public", "assumed_public"),
        ("What is not covered", "not_covered"),
        ("Remarks", "remarks"),
    ):
        if card[key]:
            lines += ["", f"## {name}", "", *(f"- {_plain(item)}" for item in card[key])]
    lines += ["", "## How it was made", "", "| | |", "|---|---|"]
    lines += [f"| {k} | {_plain(v)} |" for k, v in made["generator"].items()]
    lines += [f"| encoder | {made['encoder']} |"]
    if made["metadata_engine"]:
        lines += [f"| engine of the metadata table | {made['metadata_engine']} |"]
    lines += [f"| {name} | {version} |" for name, version in made["software"].items()]
    lines += ["", "### Schema", "", f"{_plain(card['schema']['subject'])}", ""]
    lines += [
        f"- {name}: {_plain(', '.join(values))}"
        for name, values in card["schema"]["attributes"].items()
    ]
    return "\n".join(lines) + "\n"


def _event(entry: Entry) -> dict[str, Any]:
    fields = {"count": 1} | entry.event.as_dict()
    return {
        "id": entry.id,
        "time": entry.time,
        "stage": entry.stage,
        "mechanism": describe(entry.event),
        **fields,
    }


def _generator(release: Release) -> dict[str, Any]:
    facts = release.generator
    fine_tuned = {} if release.starts_from is None else {"fine-tuned": release.starts_from}
    if facts is None:
        return fine_tuned
    found: dict[str, Any] = {"provider": facts.provider, **fine_tuned}
    if facts.model:
        found["model"] = facts.model
    if facts.endpoint:
        found["endpoint"] = facts.endpoint
    if facts.sources:
        found["sources"] = list(facts.sources)
    return found


def _generator_public(provider: str, model: str | None, sources: tuple[str, ...]) -> str:
    what = f"The generator ({provider}{f', {model}' if model else ''})"
    if sources:
        return f"{what} and the texts that it draws on: {', '.join(sources)}."
    return f"{what} and whatever it was trained on or written from."


def _used(promise: dict[str, Any]) -> str:
    """How much of a person is in it at all."""
    if promise["unit"] != Unit.USER:
        return ""
    return f" (records used of each: at most {promise['records_per_unit']})"


def _number(value: float) -> float | str:
    return "infinity" if math.isinf(value) else value


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def _plain(value: object) -> str:
    """Text that Markdown and its HTML leave alone: a title or a value may hold anything."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    for character in "\\`*_|[]<>":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())
