"""Drafts a schema from a profile, without a look at the data. A person may edit it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

import yaml
from pydantic import ValidationError

from sugarbush.attributes.draft import (
    attribute_name,
    attributes_of_record,
    free_word,
    text_yaml,
)
from sugarbush.attributes.placeholders import SUBJECT, TONE
from sugarbush.data.quantities import Kind
from sugarbush.data.schema import RELEASE_COLUMNS, RELEASE_PREFIXES, Attribute, Schema
from sugarbush.data.shapes.conversation import TURNS
from sugarbush.data.shapes.declaration import TextForm
from sugarbush.data.shapes.interface import WORDS_OF
from sugarbush.languages import ENGLISH, language_code
from sugarbush.profiling.layout import DATE, EMPTY, INTEGER, NESTED, NUMBER
from sugarbush.profiling.release import (
    MOST_VALUES,
    Column,
    Profile,
    interval,
    percent,
)
from sugarbush.profiling.style import UNKNOWN

_LEAST_COVERED: Final = 0.3  # share of the records with one of the values
_COVERED_NUMBERS: Final = 0.7  # share of the records from which numbers are listed one by one
_MOST, _SOME = 0.5, 0.15  # shares of texts
# The months of a bin of dates, for at most so many years
_MONTHS_OF_BINS: Final = ((3, 2), (6, 4))
_MOST_BINS_OF_YEARS: Final = 8
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


def draft_from_profile(
    profile: Profile, *, subject: str | None, form: TextForm | None = None
) -> Draft:
    """Return a schema with an attribute for each column that the profile could describe.

    Topics become an attribute that is read from the text by keywords. Without any attribute, the
    schema has the tone of a text. Without `subject`, the most frequent terms describe the texts.
    `form` is the shape of a record, which gets the released lengths. A public JSON Schema gives
    attributes of its own.
    """
    attributes: list[Attribute] = []
    if form is not None and form.json_schema is not None:
        attributes += attributes_of_record(form.json_schema, column=form.column)
    left_out: list[tuple[str, str]] = []
    named = {attribute.column for attribute in attributes}
    for column in profile.columns:
        if column.name in named:
            continue
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
        text=None if form is None else _with_lengths(form, profile),
    )
    return Draft(schema=schema, left_out=tuple(left_out))


def _with_lengths(form: TextForm, profile: Profile) -> TextForm:
    """Return the shape with the DP quantiles of its lengths, unless it has numbers already.

    Equal quantiles stay, because prompts request each number equally often.
    """
    shape, requested = form.shape, dict[str, tuple[int, ...]]()
    for measure in shape.measures:
        may_be_empty = measure.removeprefix(WORDS_OF) in form.optional
        least = 0 if may_be_empty or form.json_schema is not None else 1
        most = math.inf if form.conversation is None else form.conversation.max_turns
        limit = most if measure == TURNS else math.inf
        counts = [min(max(least, round(count)), limit) for count in profile.quantiles(measure)]
        if counts:
            requested[measure] = tuple(int(count) for count in counts)
    return form.with_lengths({**requested, **shape.requested})


def word_counts(profile: Profile) -> tuple[int, ...]:
    """Return numbers of words for prompts: five DP quantiles, or () if the noise is too large."""
    return tuple(max(1, round(count)) for count in profile.quantiles("words"))


def style_of(profile: Profile) -> str:
    """Describe the form of the texts in one or two sentences, from the DP shares of the rules.

    A rule is named if its whole interval is above 50% ("most texts") or 15% ("some texts"). The
    description is empty if the noise is too large for the form of the texts.
    """
    if not profile.is_measured("style"):
        return ""
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
    if not profile.is_measured("style"):
        return None
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
    if profile.kind_share(column, DATE).low > _MOST and (found := _dates(profile, column, name)):
        return found
    if profile.number_share(column).low > _MOST:
        is_list = len(column.values) <= MOST_VALUES and len(listed) > 1
        if is_list and _covered(profile, column) >= _COVERED_NUMBERS:
            ordered = _in_order(listed)
            return Attribute(name=name, column=column.name, values=tuple(ordered), other=other)
        quantiles = profile.number_quantiles(column)
        if not quantiles:
            return "too few numbers for bins at this noise"
        edges = tuple(sorted({float(f"{quantile:.2g}") for quantile in quantiles}))
        typed = _typed(profile, column, name, edges)
        return typed or Attribute(name=name, column=column.name, bins=edges)
    if (why := _why_not(profile, column)) is not None:
        return why
    return Attribute(name=name, column=column.name, values=tuple(listed), other=other)


def _typed(
    profile: Profile, column: Column, name: str, edges: tuple[float, ...]
) -> Attribute | None:
    """Return an attribute with numbers in the release, or None if some cells may be no numbers.

    The ends of the last bins of the profile are the span. A cell that is no number would be a bad
    row.
    """
    ends = profile.extent(column)
    if ends is None or not profile.has_only(column, {INTEGER, NUMBER}):
        return None
    low, high = ends
    kind = Kind.INTEGER if profile.has_only(column, {INTEGER}) else Kind.NUMBER
    if kind is Kind.INTEGER:
        edges = tuple(sorted(set(map(round, edges))))
        low, high = math.ceil(low), math.ceil(high) - 1
    else:
        high = round(high, 9) + 0.0  # the end of the bin of 0 is a tiny number
    inside = tuple(edge for edge in edges if low < edge <= high)
    return _attribute_or_none(
        name=name, column=column.name, bins=inside, type=kind, span=(low, high)
    )


def _dates(profile: Profile, column: Column, name: str) -> Attribute | None:
    """Return an attribute with dates, from the first to the last year with more than noise."""
    ends = profile.extent(column)
    if ends is None or not profile.has_only(column, {DATE}):
        return None
    first, end = map(int, ends)
    months = next((step for step, most in _MONTHS_OF_BINS if end - first <= most), 0)
    months = months or 12 * math.ceil((end - first) / _MOST_BINS_OF_YEARS)
    edges = [
        date(first + at // 12, at % 12 + 1, 1) for at in range(months, 12 * (end - first), months)
    ]
    span = (date(first, 1, 1), date(end - 1, 12, 31))
    return _attribute_or_none(name=name, column=column.name, bins=edges, span=span)


def _attribute_or_none(**fields: Any) -> Attribute | None:
    try:
        return Attribute.model_validate(fields)
    except ValidationError:  # a bin without a value, or no edge inside the span
        return None


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


def _in_order(values: list[str]) -> list[str]:
    """Return numbers by size. Other values stay in the order of their frequency: they are codes."""
    if not all(_number(value) is not None for value in values):
        return values
    return sorted(values, key=lambda value: (_number(value), value))


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def schema_text(draft: Draft, profile: Profile, *, json_schema: str | None = None) -> str:
    """Return the schema as YAML for `load_schema`. Comments show the DP share of each value.

    `json_schema` is the path of the JSON Schema, if the shape has one.
    """
    return "".join(f"{line}\n" for line in _lines(draft, profile, json_schema))


def _lines(draft: Draft, profile: Profile, json_schema: str | None) -> Iterator[str]:
    schema = draft.schema
    yield "# Drafted from a DP profile of the private file. The percentages are DP shares with 95%"
    yield "# intervals. Edit what you know better. Every release of this dataset counts the charges"
    yield "# of all its profiles. To see them, run: sugarbush budget"
    yield f"subject: {_scalar(schema.subject)}"
    if schema.style:
        yield f"style: {_scalar(schema.style)}"
    if schema.language != ENGLISH:
        yield f"language: {schema.language}"
    if schema.text is not None:
        yield from text_yaml(schema.text, json_schema=json_schema).splitlines()
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
        yield f"    bins: {_flow(list(attribute.bins))}"
        shown = "" if attribute.type else "# "
        kind = attribute.type or attribute.kind or Kind.NUMBER
        if not kind.is_time:
            yield f"    {shown}type: {kind.value}  # or {_other_kind(kind)}: numbers in the release"
        span = _flow(list(attribute.span or (0, 1000)))
        yield f"    {'' if attribute.span else '# '}span: {span}  # ends of the outer bins"
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


def _other_kind(kind: Kind) -> str:
    return (Kind.NUMBER if kind is Kind.INTEGER else Kind.INTEGER).value


def _scalar(value: str) -> str:
    """Write a text as a YAML scalar on one line, quoted where YAML would read another type."""
    text: str = yaml.safe_dump(value, allow_unicode=True, width=10**6, default_style=None)
    line = text.removesuffix("\n...\n").removesuffix("\n")
    return (
        line if "\n" not in line else yaml.safe_dump(value, default_style='"', width=10**6).strip()
    )


def _flow(values: list[Any]) -> str:
    """Return a YAML list on one line. Whole numbers have no decimal point."""
    values = [int(v) if isinstance(v, float) and v.is_integer() else v for v in values]
    text: str = yaml.safe_dump(values, default_flow_style=True, allow_unicode=True, width=10**6)
    return text.strip()
