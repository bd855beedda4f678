"""Drafts a schema from a profile, without a look at the data. A person may edit it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final

import yaml
from pydantic import ValidationError

from sugarbush.attributes.draft import (
    attribute_name,
    attributes_of_history,
    attributes_of_record,
    descriptions_comment,
    free_word,
    text_yaml,
)
from sugarbush.attributes.placeholders import SUBJECT, TONE
from sugarbush.data.lengths import NOISY_SHARES
from sugarbush.data.quantities import Kind, number_of_edge, number_text
from sugarbush.data.schema import RELEASE_COLUMNS, RELEASE_PREFIXES, Attribute, Schema
from sugarbush.data.shapes.declaration import TextForm
from sugarbush.data.shapes.interface import WORDS_OF
from sugarbush.languages import ENGLISH, language_code
from sugarbush.profiling.layout import COMPACT_DATE, DATE, EMPTY, NESTED, NUMERIC
from sugarbush.profiling.refinement import Distribution
from sugarbush.profiling.release import (
    MOST_VALUES,
    QUANTILES,
    ProfiledColumn,
    ReleasedProfile,
    interval,
    percent,
)
from sugarbush.profiling.style import UNKNOWN

_LEAST_COVERED: Final = 0.3  # share of the records with one of the values
_COVERED_NUMBERS: Final = 0.7  # share of the records from which numbers are listed one by one
_MOST, _SOME = 0.5, 0.15  # shares of texts
_MONTHS_OF_BINS: Final = (1, 3, 6)  # the first with few enough bins; else whole years
_MOST_BINS_OF_DATES: Final = 9
_LEAST_DAYS_OF_MONTHS: Final = 90
_DATES: Final = (
    "dates; give it bins and span, such as bins: [2024-07-01], span: [2024-01-01, 2024-12-31]"
)
_ONE_VALUE: Final = "nearly all of its {} are {}"
_TOO_CLOSE: Final = (
    "its {} are too close together for bins at this noise: most are between {} and {}. Give it "
    "bins and span, if you know them from public knowledge"
)
_YEARS: Final = (1800, 2100)
_UNITS_OF_TIME: Final = {"seconds": 1, "milliseconds": 1000}
_TIMES: Final = (946_684_800, 2_208_988_800)  # the years 2000 to 2039, in seconds since 1970
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
    """A schema, and the reason why each other column was left out."""

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
    profile: ReleasedProfile, *, subject: str | None, form: TextForm | None = None
) -> Draft:
    """Return a schema with an attribute for each column that the profile could describe.

    Topics become an attribute that is read from the text by keywords. Without any attribute, the
    schema has the tone of a text. Without `subject`, the most frequent terms describe the texts.
    `form` is the shape of a record, which gets the released lengths. A public JSON Schema adds
    further attributes.
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
    if form is not None and form.history is not None:
        described = {attribute.column for attribute in attributes}
        usual = [a for a in attributes_of_history(form.history) if a.column not in described]
        attributes += usual
        left_out = [each for each in left_out if each[0] not in {a.column for a in usual}]
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


def _with_lengths(form: TextForm, profile: ReleasedProfile) -> TextForm:
    """Return the shape with the DP quantiles of its lengths, unless it has numbers already.

    Equal quantiles stay, because they are a part of the distribution.
    """
    return form.with_lengths({**lengths_of_sections(form, profile), **form.shape.requested})


def lengths_of_sections(form: TextForm, profile: ReleasedProfile) -> dict[str, tuple[int, ...]]:
    """Return DP quantiles of the lengths of a shape's sections; {} if the noise is too large."""
    shape, requested = form.shape, dict[str, tuple[int, ...]]()
    for measure in shape.measures:
        may_be_empty = measure.removeprefix(WORDS_OF) in form.optional
        least = 0 if may_be_empty or form.json_schema is not None else 1
        limit = shape.limits.get(measure, math.inf)
        quantiles = profile.quantiles(measure, NOISY_SHARES)
        counts = [min(max(least, round(count)), limit) for count in quantiles]
        if counts:
            requested[measure] = tuple(int(count) for count in counts)
    return requested


def word_counts(profile: ReleasedProfile) -> tuple[int, ...]:
    """Return numbers of words for prompts: DP quantiles, or () if the noise is too large."""
    return tuple(max(1, round(count)) for count in profile.quantiles("words", NOISY_SHARES))


def style_of(profile: ReleasedProfile) -> str:
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


def _language(profile: ReleasedProfile) -> str | None:
    if not profile.is_measured("style"):
        return None
    name = max(profile.languages, key=profile.languages.__getitem__)
    share = profile.share(profile.languages[name], group="style")
    return name if share.low > _MOST and name != UNKNOWN else None


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _subject(profile: ReleasedProfile) -> str:
    counts = profile.term_counts()
    terms = sorted(counts, key=lambda term: (-counts[term], term))[:_SUBJECT_TERMS]
    return f"texts about {_listed(terms)}" if terms else SUBJECT


def _attribute(
    profile: ReleasedProfile, column: ProfiledColumn, *, taken: Sequence[str]
) -> Attribute | str:
    """Return an attribute, or why there is none."""
    name, listed = _free_name(column.name, taken), list(profile.listed(column))
    other = free_word("other", listed)
    if profile.number_share(column).low > _MOST:
        is_list = (
            len(column.values) <= MOST_VALUES and _covered(profile, column) >= _COVERED_NUMBERS
        )
        if is_list and len(listed) > 1:
            ordered = _in_order(listed)
            return Attribute(name=name, column=column.name, values=tuple(ordered), other=other)
        if is_list and listed:
            return _ONE_VALUE.format("numbers", listed[0])
    if profile.date_share(column).low > _MOST:
        return _dates(profile, column, name)
    if profile.number_share(column).low > _MOST:
        return _numbers(profile, column, name)
    if (why := _why_not(profile, column)) is not None:
        return why
    return Attribute(name=name, column=column.name, values=tuple(listed), other=other)


def _numbers(profile: ReleasedProfile, column: ProfiledColumn, name: str) -> Attribute | str:
    """Return an attribute with bins, or why there is none.

    It has a type, and the release has numbers, if all other kinds of cells are within the noise of
    0: a cell that is no number would be a bad row.
    """
    found = column.distribution
    if found is None or found.is_days:
        return "too few numbers for bins at this noise"
    if (ends := found.ends) is None:
        return _TOO_CLOSE.format("numbers", *map(_shown, (found.edges[0], found.edges[-1])))
    low, high = ends
    if low == high:
        return _ONE_VALUE.format("numbers", number_text(low))
    bounds = _rounded(low, _edges(found, low, high), high, whole=found.is_whole)
    decimals = None
    if not found.is_whole and found.quantiles(QUANTILES).count(0.0) > 1:
        bounds, decimals = _with_zeros(bounds)
    span, edges = (bounds[0], bounds[-1]), bounds[1:-1]
    if not edges:
        return "too few different numbers for bins at this noise"
    untyped = Attribute(name=name, column=column.name, bins=edges)
    if not profile.has_only(column, NUMERIC):
        return untyped
    kind = Kind.INTEGER if found.is_whole else Kind.NUMBER
    typed = _attribute_or_none(
        name=name, column=column.name, bins=edges, type=kind, span=span, decimals=decimals
    )
    return typed or untyped


def _edges(found: Distribution, low: float, high: float) -> tuple[float, ...]:
    """Return the quantiles between the ends. If several quantiles are the same whole number, it
    gets its own bin.
    """
    quantiles = found.quantiles(QUANTILES)
    edges = {*quantiles}
    if found.is_whole:
        edges |= {edge + 1 for edge in quantiles if quantiles.count(edge) > 1}
        high += 1
    return tuple(sorted(edge for edge in edges if low < edge < high))


def _with_zeros(bounds: tuple[float, ...]) -> tuple[tuple[float, ...], int]:
    """Return the bounds with a bin for 0 alone, and the number of decimals for which it is alone.

    >>> _with_zeros((0.0, 12.5, 100.0))
    ((0.0, 0.01, 12.5, 100.0), 2)
    """
    decimals = max(2, *(len(f"{bound:.9f}".rstrip("0").partition(".")[2]) for bound in bounds))
    return tuple(sorted({*bounds, 10.0**-decimals})), decimals


def _rounded(low: float, edges: Sequence[float], high: float, *, whole: bool) -> tuple[float, ...]:
    """Return the bounds with as many digits as the widths of the bins need. The ends move inwards,
    so that they stay between the values."""
    bounds = (low, *edges, high)
    rounded = []
    for at, bound in enumerate(bounds):
        around = [abs(bounds[n] - bound) for n in (at - 1, at + 1) if 0 <= n < len(bounds)]
        exponent = math.floor(math.log10((min(w for w in around if w) if any(around) else 1) / 20))
        exponent = max(exponent, 0) if whole else exponent
        step = 10.0**exponent
        towards = {0: math.ceil, len(bounds) - 1: math.floor}.get(at, round)
        rounded.append(round(towards(round(bound / step, 6)) * step, max(-exponent, 0)) + 0.0)
    return tuple(rounded)


def _dates(profile: ReleasedProfile, column: ProfiledColumn, name: str) -> Attribute | str:
    """Return an attribute with dates, or why there is none. Bins are months or longer, except in a
    short span."""
    found = column.distribution
    if found is None or not found.is_days or not profile.has_only(column, {DATE, COMPACT_DATE}):
        return _DATES
    if (ends := found.ends) is None:
        days = [_day(edge).isoformat() for edge in (found.edges[0], found.edges[-1])]
        return _TOO_CLOSE.format("dates", *days)
    first, last = map(_day, ends)
    if first == last:
        return _ONE_VALUE.format("dates", first.isoformat())
    edges = [_day(day) for day in _edges(found, *ends)]
    months = [date(year, m, 1) for year in range(first.year, last.year + 1) for m in range(1, 13)]
    if (last - first).days > _LEAST_DAYS_OF_MONTHS:
        steps = (*_MONTHS_OF_BINS, *range(12, 12 * 201, 12))
        within = (
            [day for at, day in enumerate(months) if at % step == 0 and first < day <= last]
            for step in steps
        )
        edges = next(days for days in within if len(days) < _MOST_BINS_OF_DATES)
    return (
        _attribute_or_none(name=name, column=column.name, bins=edges, span=(first, last)) or _DATES
    )


def _day(number: float) -> date:
    return date.fromordinal(int(number))


def _shown(number: float) -> str:
    return number_text(float(f"{number:.12g}"))


def _attribute_or_none(**fields: Any) -> Attribute | None:
    try:
        return Attribute.model_validate(fields)
    except ValidationError:  # a bin without a value, or no edge inside the span
        return None


def _covered(profile: ReleasedProfile, column: ProfiledColumn) -> float:
    return 1 - profile.other(column).share


def _why_not(profile: ReleasedProfile, column: ProfiledColumn) -> str | None:
    """Return why a column without numbers is no attribute, or None."""
    reasons = {
        EMPTY: "most of its cells are empty",
        NESTED: "its cells are lists or records; name a field inside them",
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


def _topic(profile: ReleasedProfile, *, taken: Sequence[str]) -> Attribute:
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


def schema_text(draft: Draft, profile: ReleasedProfile, *, json_schema: str | None = None) -> str:
    """Return the schema as YAML for `load_schema`. Comments show the DP share of each value.

    `json_schema` is the path of the JSON Schema, if the shape has one.
    """
    return "".join(f"{line}\n" for line in _lines(draft, profile, json_schema))


def _lines(draft: Draft, profile: ReleasedProfile, json_schema: str | None) -> Iterator[str]:
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


def _domain(
    attribute: Attribute, profile: ReleasedProfile, column: ProfiledColumn | None
) -> Iterator[str]:
    if attribute.bins is not None:
        yield from _meaning(attribute, column)
        yield f"    bins: {_flow(list(attribute.bins))}"
        shown = "" if attribute.type else "# "
        kind = attribute.type or attribute.kind or Kind.NUMBER
        if not kind.is_time:
            yield f"    {shown}type: {kind.value}  # or {_other_kind(kind)}: numbers in the release"
        if attribute.decimals is not None:
            yield f"    decimals: {attribute.decimals}"
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
    if comment := descriptions_comment(attribute):
        yield f"    {comment}"
    if attribute.other != "other":
        yield f"    other: {_scalar(attribute.other)}"
    for source in ("keywords", "zero_shot"):
        described = getattr(attribute, source)
        if described is not None:
            yield f"    {source}:"
            for value, terms in described.items():
                yield f"      {_scalar(value)}: {_flow(list(terms))}"


def _meaning(attribute: Attribute, column: ProfiledColumn | None) -> Iterator[str]:
    """Say what numbers are by a public rule on the released span: years, or times since 1970."""
    if column is not None and attribute.kind is Kind.DATE:
        if column.kinds[COMPACT_DATE] > column.kinds[DATE]:
            yield "    # dates such as 20240131 in the column; 2024-01-31 in the release"
        return
    if attribute.type is not Kind.INTEGER or attribute.span is None:
        return
    low, high = (number_of_edge(end, Kind.INTEGER) for end in attribute.span)
    if _YEARS[0] <= low and high <= _YEARS[1]:
        yield "    # these look like years"
    for unit, second in _UNITS_OF_TIME.items():
        first, last = (
            datetime.fromtimestamp(min(max(end / second, 0), 2 * _TIMES[1]), tz=UTC)
            for end in (low, high)
        )
        if _TIMES[0] <= first.timestamp() and last.timestamp() <= _TIMES[1]:
            yield (f"    # these look like {unit} since 1970: from {first.date()} to {last.date()}")


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
