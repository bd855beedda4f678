"""Drafts a schema from a profile, without a look at the data. A person may edit it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from sugarbush.attributes.draft import attribute_name, free_word
from sugarbush.attributes.placeholders import SUBJECT, TONE
from sugarbush.data.schema import RELEASE_COLUMNS, RELEASE_PREFIXES, Attribute, Schema
from sugarbush.languages import ENGLISH, language_code
from sugarbush.privacy.accounting import rounded_up
from sugarbush.profiling.layout import DATE, EMPTY, NESTED, NUMBER
from sugarbush.profiling.release import (
    MOST_VALUES,
    QUANTILES,
    Column,
    Profile,
    interval,
    percent,
)
from sugarbush.profiling.style import UNKNOWN

_LEAST_COVERED: Final = 0.3  # share of the records with one of the values
_COVERED_NUMBERS: Final = 0.7  # share of the records from which numbers are listed one by one
_MOST, _SOME = 0.5, 0.15  # shares of texts
_QUARTILES = tuple(QUANTILES.index(share) for share in (0.25, 0.5, 0.75))
_SAME: Final = {"mention somebody (@name)": "begin with a mention (@name)"}
_SUBJECT_TERMS: Final = 3
_NO_SUBJECT: Final = frozenset(
    [
        "all",
        "corpus",
        "csv",
        "data",
        "dataset",
        "db",
        "dump",
        "export",
        "file",
        "final",
        "input",
        "json",
        "list",
        "new",
        "old",
        "output",
        "private",
        "raw",
        "records",
        "rows",
        "sample",
        "table",
        "test",
        "text",
        "texts",
        "tmp",
        "train",
        "untitled",
    ]
)


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A schema from a profile, and why other columns are no attributes."""

    schema: Schema
    left_out: tuple[tuple[str, str], ...]


def subject_of_file(stem: str) -> str | None:
    """Return a description of texts from the name of their file, or None for a name without one.

    >>> subject_of_file("support_tickets-2024"), subject_of_file("export")
    ('support tickets', None)
    """
    words = [word for word in re.split(r"[\W\d_]+", stem) if len(word) > 1]
    told = [word for word in words if word.casefold() not in _NO_SUBJECT]
    return " ".join(words).lower() if told else None


def draft_from_profile(profile: Profile, *, subject: str | None) -> Draft:
    """Return a schema with an attribute for each column that the profile could describe.

    Topics become an attribute that is read from the text by keywords. Without any attribute, the
    schema has the tone of a text. Without `subject`, the most frequent terms describe the texts.
    """
    attributes: list[Attribute] = []
    left_out: list[tuple[str, str]] = []
    for column in profile.columns:
        found = _attribute(profile, column, taken=[a.name for a in attributes])
        if isinstance(found, Attribute):
            attributes.append(found)
        else:
            left_out.append((column.name, found))
    if profile.topics:
        attributes.append(_topic(profile, taken=[a.name for a in attributes]))
    schema = Schema(
        subject=subject or _subject(profile),
        style=style_of(profile),
        language=language_code(_language(profile) or "") or ENGLISH,
        attributes=tuple(attributes) or (TONE,),
    )
    return Draft(schema=schema, left_out=tuple(left_out))


def word_counts(profile: Profile) -> tuple[int, ...]:
    """Return numbers of words for prompts: five DP quantiles, or () if the noise is too large."""
    counts = profile.quantiles("words")
    return tuple(sorted({max(1, round(count)) for count in counts}))


def style_of(profile: Profile) -> str:
    """Describe the form of the texts in one or two sentences, from the DP shares of the rules.

    A rule is named if its whole interval is above 50% ("most texts") or 15% ("some texts").
    """
    shares = {rule: profile.share(count, group="style") for rule, count in profile.style.items()}
    sentences = []
    spoken = _language(profile)
    if spoken is not None and language_code(spoken) is None:  # a script; else `language` says it
        sentences.append(f"The texts are in {spoken}.")
    most = [rule for rule, share in shares.items() if share.low > _MOST]
    some = [rule for rule, share in shares.items() if rule not in most and share.low > _SOME]
    for who, rules in (("Most", most), ("Some", some)):
        named = [rule for rule in rules if _SAME.get(rule) not in (*most, *some)]
        if named:
            sentences.append(f"{who} texts {_listed(named)}.")
    return " ".join(sentences)


def _language(profile: Profile) -> str | None:
    name = max(profile.languages, key=profile.languages.__getitem__)
    share = profile.share(profile.languages[name], group="style")
    return name if share.low > _MOST and name != UNKNOWN else None


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _subject(profile: Profile) -> str:
    counts = profile.term_counts()
    terms = sorted(counts, key=lambda term: (-counts[term], term))[:_SUBJECT_TERMS]
    return f"texts about {_listed(terms)}" if terms else SUBJECT


def _attribute(profile: Profile, column: Column, *, taken: Sequence[str]) -> Attribute | str:
    """Return an attribute, or why there is none."""
    name, listed = _free_name(column.name, taken), list(profile.listed(column))
    other = free_word("other", listed)
    if profile.kind_share(column, NUMBER).low > _MOST:
        numbers = [value for value in listed if _number(value) is not None]
        is_list = len(column.values) <= MOST_VALUES and len(numbers) > 1
        if is_list and _covered(profile, column) >= _COVERED_NUMBERS:
            ordered = sorted(numbers, key=lambda value: _number(value) or 0.0)
            return Attribute(name=name, column=column.name, values=tuple(ordered), other=other)
        edges = _edges(profile, column)
        if not edges:
            return "too few numbers for bins at this noise"
        return Attribute(name=name, column=column.name, bins=edges)
    if (why := _why_not(profile, column)) is not None:
        return why
    return Attribute(name=name, column=column.name, values=tuple(listed), other=other)


def _covered(profile: Profile, column: Column) -> float:
    return 1 - profile.other(column).share


def _why_not(profile: Profile, column: Column) -> str | None:
    """Return why a column without numbers is no attribute, or None."""
    reasons = {
        EMPTY: "most of its cells are empty",
        NESTED: "its cells are lists or records; name a field inside them",
        DATE: f"dates{_months(profile, column)}; give it bins and span, such as "
        "bins: [2024-07-01], span: [2024-01-01, 2024-12-31]",
    }
    for kind, reason in reasons.items():
        if profile.kind_share(column, kind).low > _MOST:
            return reason
    share = percent(profile.rare("values"))
    rare = f"values of fewer than {share} of the {profile.unit}s stay unknown"
    if not column.values:
        return f"no frequent value: {rare}"
    if len(column.values) == 1:
        return f"one value, '{next(iter(column.values))}', and {rare}"
    covered = _covered(profile, column)
    if covered < _LEAST_COVERED:
        return f"its known values cover {percent(covered)} of the records; {rare}"
    return None


def _months(profile: Profile, column: Column) -> str:
    most = max(range(12), key=lambda month: column.months[month])
    share = profile.share(column.months[most], group="columns")
    if share.low <= 1 / 12:
        return ""
    return f", most of them in month {most + 1} ({percent(share.share)} of the records)"


def _topic(profile: Profile, *, taken: Sequence[str]) -> Attribute:
    keywords: dict[str, tuple[str, ...]] = {}
    for name, terms in profile.topics:
        keywords[free_word(name, keywords)] = terms
    return Attribute(
        name=_free_name("topic", taken),
        description="what the text is about",
        values=tuple(keywords),
        keywords=keywords,
        other=free_word("other", tuple(keywords)),
    )


def _free_name(column: str, taken: Sequence[str]) -> str:
    name = attribute_name(column)
    if name.startswith(RELEASE_PREFIXES):
        name = f"column_{name}"
    return free_word(name, RELEASE_COLUMNS.union(taken), between="_")


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _edges(profile: Profile, column: Column) -> tuple[float, ...]:
    found = profile.number_quantiles(column)
    return tuple(sorted({float(f"{found[index]:.2g}") for index in _QUARTILES})) if found else ()


def schema_text(draft: Draft, profile: Profile) -> str:
    """Return the schema as YAML for `load_schema`. Comments show the DP share of each value."""
    return "".join(f"{line}\n" for line in _lines(draft, profile))


def _lines(draft: Draft, profile: Profile) -> Iterator[str]:
    schema = draft.schema
    yield "# Drafted from a DP profile of the private file: epsilon " + rounded_up(profile.epsilon)
    yield f"# at delta {rounded_up(profile.delta)}, per {profile.unit}, charged to its ledger. The"
    yield "# percentages are DP shares with 95% intervals. Edit what you know better. Every release"
    yield "# of this dataset counts the charges of the profile."
    yield f"subject: {_scalar(schema.subject)}"
    if schema.style:
        yield f"style: {_scalar(schema.style)}"
    if schema.language != ENGLISH:
        yield f"language: {schema.language}"
    yield "attributes:"
    columns = {column.name: column for column in profile.columns}
    for attribute in schema.attributes:
        yield f"  - name: {_scalar(attribute.name)}"
        if attribute.description:
            yield f"    description: {_scalar(attribute.description)}"
        if attribute.column is not None:
            yield f"    column: {_scalar(attribute.column)}"
        yield from _domain(attribute, profile, columns.get(attribute.column or ""))
    for name, why in draft.left_out:
        yield f"# No attribute from column {_scalar(name)}: {why}."


def _domain(attribute: Attribute, profile: Profile, column: Column | None) -> Iterator[str]:
    if attribute.bins is not None:
        yield f"    bins: {_flow(list(attribute.bins))}  # quartiles"
        yield "    # type: number         # integer or number: the release has numbers, not bins"
        yield "    # span: [0, 1000]      # the ends of the first and the last bin"
    elif column is None:
        yield f"    values: {_flow(list(attribute.values))}"
    else:
        yield "    values:"
        width = max(len(_scalar(value)) for value in attribute.values)
        for value in attribute.values:
            share = profile.share(column.values[value], group="values")
            yield f"      - {_scalar(value):<{width}}  # {interval(share)}"
        yield f"    # {attribute.other}: {interval(profile.other(column))}"
    if attribute.other != "other":
        yield f"    other: {_scalar(attribute.other)}"
    for source in ("keywords", "zero_shot"):
        described = getattr(attribute, source)
        if described is not None:
            yield f"    {source}:"
            for value, terms in described.items():
                yield f"      {_scalar(value)}: {_flow(list(terms))}"


def _scalar(value: str) -> str:
    """Write a text as a YAML scalar on one line, quoted where YAML would read another type."""
    text: str = yaml.safe_dump(value, allow_unicode=True, width=10**6, default_style=None)
    line = text.removesuffix("\n...\n").removesuffix("\n")
    return (
        line if "\n" not in line else yaml.safe_dump(value, default_style='"', width=10**6).strip()
    )


def _flow(values: list[Any]) -> str:
    text: str = yaml.safe_dump(values, default_flow_style=True, allow_unicode=True, width=10**6)
    return text.strip()
