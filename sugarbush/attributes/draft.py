"""Drafts a schema, which a person edits, from the donated examples and a public description.

The draft spends no budget, because no private text or value is read. Each categorical or numeric
column of the donated file becomes an attribute. The values of the attribute `topic` are clusters of
the donated texts. Words that are frequent in only one cluster describe the cluster. The other
columns of the private file become comments, which the person completes.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Final

import numpy as np
import yaml
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer
from sklearn.metrics import silhouette_score

from sugarbush.attributes.placeholders import VALUES
from sugarbush.data.cells import same_text, text_of
from sugarbush.data.quantities import CellError, Kind, Quantity
from sugarbush.data.schema import RELEASE_COLUMNS, Attribute, Schema
from sugarbush.data.shapes.conversation import ChatFormat, OtherTurns
from sugarbush.data.shapes.declaration import HistoryForm, TextForm
from sugarbush.data.shapes.history import GAP_DAYS, RECORDS
from sugarbush.data.shapes.json_schema import resolved, type_of
from sugarbush.errors import SchemaError
from sugarbush.generators.interface import Embed
from sugarbush.languages import ENGLISH, MORE_STOP_WORDS
from sugarbush.randomness import seed_of

_MOST_VALUES: Final = 30  # a column with more distinct values is not an attribute
_MOST_TOPICS: Final = 8
_TEXTS_PER_TOPIC: Final = 4  # minimum mean number of texts per topic
_TERMS: Final = 4  # number of terms that describe a topic
_AS_GOOD: Final = 0.02  # smaller relative differences between silhouettes are ignored
_MOST_UNCLEAR: Final = 3  # values that a comment asks to describe
_VOWELS: Final = frozenset("aeiouyæøœ")
_SHORT_WORDS: Final = frozenset({"no", "ja", "si", "da", "ok", "up", "on", "in", "go"})
_JOINED: Final = r"[_/|+]|[a-zß-öø-ÿ][A-ZÀ-ÖØ-Þ]"
_NO_VALUES: Final = re.compile(
    r"na|n\.a\.|none|null|nan|others?|misc(ellaneous)?|various|general|unknown|undefined|unsure"
    r"|tbd|default|not (applicable|available|specified)|(can't|cannot) tell|no answer"
)
_HEAD: Final = """\
# This draft was made from the subject, the column names and the donated examples.
# No private text or value was read. Edit names, values and descriptions. Everything in this file
# becomes public, so list values from public knowledge. A value that is not listed becomes `other`.
# `column` names a column of the private file. If the file has no such column, give the attribute
# keywords or zero_shot descriptions. A donated column with that name then has the labels.
"""
_UNKNOWN: Final = """\
# The private file has the columns below. Their values were not read. To use a column, list its
# possible values (for numbers and dates `bins`, `type` and `span`), and remove the marks '#'.
"""


def draft_schema(
    texts: Sequence[str],
    *,
    subject: str,
    columns: Mapping[str, Sequence[object]],
    embed: Embed,
    seed: int,
) -> Schema:
    """Return a draft schema with at least one attribute.

    `texts` are the donated texts. `columns` are the other columns of the donated file, with one
    entry per text. Raises SchemaError when there are too few examples.
    """
    proposed = [_from_values(name, values) for name, values in columns.items()]
    proposed.append(_topics(texts, subject=subject, embed=embed, seed=seed))
    attributes: list[Attribute] = []
    for attribute in proposed:
        if attribute is not None:
            taken = RELEASE_COLUMNS.union(a.name for a in attributes)
            name = free_word(attribute.name, taken, between="_")
            attributes.append(attribute.model_copy(update={"name": name}))
    if not attributes:
        raise SchemaError(
            f"{len(texts)} donated example(s) are too few to draft a schema. Give at least "
            f"{2 * _TEXTS_PER_TOPIC}, or columns with repeated values"
        )
    return Schema(subject=subject, attributes=tuple(attributes))


def schema_yaml(
    schema: Schema, *, unknown_columns: Sequence[str] = (), json_schema: str | None = None
) -> str:
    """Return the schema as YAML for `load_schema`, with a comment for each unknown column.

    `json_schema` is the path of the JSON Schema, if there is one.
    """
    fields = {"subject": schema.subject}
    if schema.language != ENGLISH:
        fields["language"] = schema.language
    attributes = "".join(map(_attribute_yaml, schema.attributes))
    form = "" if schema.text is None else text_yaml(schema.text, json_schema=json_schema)
    head = _HEAD + form + _dumped(fields, width=100, flow=False)
    return f"{head}attributes:\n{attributes}{_as_comments(unknown_columns)}"


def _attribute_yaml(attribute: Attribute) -> str:
    fields = {
        name: value
        for name, value in attribute.model_dump(mode="json").items()
        if value and (name, value) != ("other", "other")
    }
    comment = descriptions_comment(attribute)
    return _dumped([fields], width=100) + (f"  {comment}\n" if comment else "")


def descriptions_comment(attribute: Attribute) -> str:
    """Return a comment that asks for `descriptions` of unclear values, or "" if all are clear."""
    unclear = [v for v in attribute.values if is_unclear(v) and v not in attribute.descriptions]
    if not unclear:
        return ""
    shown = _flow(dict.fromkeys(unclear[:_MOST_UNCLEAR], "..."))
    return f"# descriptions: {shown}  # what such values mean; prompts show it"


def is_unclear(value: str) -> bool:
    """Return whether the meaning of a value may be unclear without a description.

    Such a value has at most two letters, no vowel, no letter at all, joined words, or it says that
    there is no value.

    >>> [is_unclear(v) for v in ("BK", "bkg", "3", "late_flight", "lateFlight", "Review / NA")]
    [True, True, True, True, True, True]
    >>> [is_unclear(v) for v in ("n/a", "Can't Tell", "Not Applicable", "unknown")]
    [True, True, True, True]
    >>> [is_unclear(v) for v in ("lamp", "Late Flight", "no", "Größe", "sky", "退款", "well-known")]
    [False, False, False, False, False, False, False]
    """
    plain = unicodedata.normalize("NFKD", value).casefold().strip().replace("’", "'")
    letters = [character for character in plain if character.isalpha()]
    if not letters or _NO_VALUES.fullmatch(plain) or re.search(_JOINED, value):
        return True
    is_latin = all("LATIN" in unicodedata.name(letter, "") for letter in letters)
    is_short = len(letters) <= 2 and plain not in _SHORT_WORDS
    return is_latin and (is_short or not set(plain) & _VOWELS)


def text_yaml(form: TextForm, *, json_schema: str | None = None) -> str:
    """Return the section `text` of a schema, with comments."""
    lines = ["text:  # the form of a record. Names of columns, roles and properties become public"]
    if form.conversation is not None:
        chat = form.conversation
        format_ = chat.format if isinstance(chat.format, str) else _flow(list(chat.format))
        lines += [
            "  conversation:",
            f"    column: {_flow(chat.column)}",
            f"    format: {format_}  # openai: a list of {{role, content}}; sharegpt: of "
            "{from, value};",
            "                    # prefixes: a text with a label such as Agent: before each turn;",
            "                    # [speaker, text]: a list of {speaker, text}, and so on",
            f"    roles: {_flow(list(chat.all_roles))}  # every role in the file, as it is spelled",
        ]
        first, alternate = chat.first or chat.all_roles[0], str(chat.alternate).lower()
        lines += [
            f"    {'' if chat.first else '# '}first: {_flow(first)}  # who begins",
            f"    alternate: {alternate}  # true: two turns in a row never have the same role",
            f"    max_turns: {chat.max_turns}  # a longer conversation is a bad row",
        ]
        if chat.format != ChatFormat.PREFIXES:
            declared = chat.other_turns != OtherTurns.REFUSE
            policy = _flow(chat.other_turns if declared else OtherTurns.DROP.value)
            lines.append(
                f"    {'' if declared else '# '}other_turns: {policy}  # turns of other speakers: "
                "drop, join or a role"
            )
        for key, numbers in (("turns", chat.turns), ("words_per_turn", chat.words_per_turn)):
            if numbers:
                lines.append(
                    f"    {key}: {_flow(list(numbers))}  # quantiles; prompts request all between"
                )
    elif form.json_schema is not None:
        lines.append(f"  json_schema: {_flow(json_schema)}  # a file beside this one")
        if form.column is not None:
            lines.append(f"  column: {_flow(form.column)}")
    elif form.history is not None:
        own = form.history
        lines += [
            "  history:  # the rows of a person become one record, the oldest first",
            f"    person: {_flow(own.person)}  # prepare.user_column",
            f"    by: {_flow(own.by)}",
            f"    column: {_flow(own.column)}",
            f"    type: {own.type}  # what `by` has: date, datetime, or integer",
            f"    label: {_flow(own.label)}  # what a record is called in texts, such as ticket",
            f"    most: {own.most}  # the earliest records that are used",
        ]
        lines += [f"    format: {_flow(own.format)}"] if own.format else []
        for key, numbers in (("records", own.records), ("words_per_record", own.words_per_record)):
            if numbers:
                lines.append(
                    f"    {key}: {_flow(list(numbers))}  # quantiles; prompts request all between"
                )
    else:
        lines.append(f"  fields: {_flow(list(form.fields))}  # in the order of a text")
        optional = _flow(list(form.optional or form.fields[:1]))
        lines.append(f"  {'' if form.optional else '# '}optional: {optional}  # may be empty")
    if form.words:
        lines.append("  words:  # quantiles; prompts request all numbers between them")
        lines += [f"    {_flow(name)}: {_flow(list(n))}" for name, n in form.words.items()]
    return "\n".join(lines) + "\n"


def attributes_of_history(form: HistoryForm) -> tuple[Attribute, ...]:
    """Return attributes for the number of records of a person and for the days between them. The
    edges of their bins do not depend on the data."""
    counts = [edge for edge in (2, 3, 5, 9, 17, 33) if edge <= form.most]
    found = []
    if counts:
        number = {"bins": counts, "type": Kind.INTEGER, "span": (1, form.most)}
        found.append(Attribute(name=RECORDS, column=RECORDS, **number))
    if form.type.is_time and counts:
        kind = Kind.INTEGER if form.type is Kind.DATE else Kind.NUMBER
        days = {"bins": (2, 8, 31, 91), "type": kind, "span": (0, 365)}
        about = "days between two records"
        found.append(Attribute(name=GAP_DAYS, column=GAP_DAYS, description=about, **days))
    return tuple(found)


def attributes_of_record(schema: Mapping[str, Any], *, column: str | None) -> tuple[Attribute, ...]:
    """Return attributes for the enums, booleans and ranges of a public JSON Schema.

    Only properties at the top of the record become attributes. Numbers need a minimum and a
    maximum. The quarters of this range become bins.
    """
    attributes = []
    for name, declared in schema["properties"].items():
        node = resolved(declared, schema)
        where = name if column is None else f"{column}.{name}"
        kind, _ = type_of(node, schema)
        values = [value for value in node.get("enum", ()) if value is not None]
        if kind == "boolean":
            values = ["true", "false"]
        low, high = node.get("minimum"), node.get("maximum")
        fields: dict[str, Any] | None = None
        if kind in ("string", "boolean") and len(values) > 1:
            fields = {"values": values, "other": free_word("other", values)}
        elif kind in ("integer", "number") and low is not None and high is not None and low < high:
            fields = {"bins": sorted({low + (high - low) * quarter / 4 for quarter in (1, 2, 3)})}
        if fields is not None:
            attribute = attribute_name(name)
            if column is None and attribute != name:
                continue  # a column of a release has one name
            attributes.append(
                Attribute(
                    name=attribute, column=where, description=node.get("description", ""), **fields
                )
            )
    return tuple(attributes)


def _flow(value: Any) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=1000)
    return text.removesuffix("...\n").strip()


def _as_comments(columns: Sequence[str]) -> str:
    drafts = [
        {"name": attribute_name(column), "column": column, "values": list(VALUES)}
        for column in columns
    ]
    if not drafts:
        return ""
    lines = _dumped(drafts, width=1000).splitlines()
    return _UNKNOWN + "".join(f"# {line}\n" for line in lines)


def _dumped(fields: Any, *, width: int, flow: bool | None = None) -> str:
    """Write YAML with the fields in their order, and with each list of values on one line."""
    text: str = yaml.safe_dump(
        fields, sort_keys=False, allow_unicode=True, default_flow_style=flow, width=width
    )
    return text


def _from_values(name: str, values: Sequence[object]) -> Attribute | None:
    """Return an attribute for a column, or None if the column looks like ids or free text."""
    present = [value for value in values if text_of(value) is not None]
    spelled = Counter(same_text(text_of(value) or "") for value in present)
    if len(spelled) < 2:
        return None
    if 2 * len(spelled) <= len(present) and len(spelled) <= _MOST_VALUES:
        common = tuple(value for value, _ in spelled.most_common())
        return Attribute(
            name=attribute_name(name), values=common, column=name, other=free_word("other", common)
        )
    return _with_quantity(name, present)


def _with_quantity(name: str, values: Sequence[object]) -> Attribute | None:
    """Return an attribute with the quartiles as bins, or None if a value is no number or date.

    The span is that of the donated values, which are public.
    """
    for kind in (Kind.INTEGER, Kind.NUMBER, Kind.DATE):
        read = Quantity(kind=kind, edges=(0,), low=0, high=0)
        try:
            numbers = [number for value in values if (number := read.number_of(value)) is not None]
        except CellError:
            continue
        if not numbers:
            return None
        low, high = min(numbers), max(numbers)
        quartiles = np.quantile(numbers, [0.25, 0.5, 0.75]).tolist()
        rounded = map(round, quartiles) if kind.is_time else (float(f"{q:.2g}") for q in quartiles)
        edges = sorted({edge for edge in rounded if low < edge <= high})
        if not edges:
            return None
        shown: Callable[[float], object] = read.spelled if kind.is_time else float
        return Attribute.model_validate(
            {
                "name": attribute_name(name),
                "column": name,
                "bins": [shown(edge) for edge in edges],
                "type": kind,
                "span": [shown(low), shown(high)],
            }
        )
    return None


def _topics(texts: Sequence[str], *, subject: str, embed: Embed, seed: int) -> Attribute | None:
    most = min(_MOST_TOPICS, len(texts) // _TEXTS_PER_TOPIC)
    if most < 2:
        return None
    cluster = clusters_of(np.asarray(embed(texts)), most=most, seed=seed)
    described: dict[str, list[str]] = {}
    for terms in _distinctive_terms(texts, cluster):
        name = free_word(", ".join(terms[:2]), described)
        described[name] = [f"{subject} about {term}" for term in (*terms, " and ".join(terms[:2]))]
    return Attribute.model_validate(
        {
            "name": "topic",
            "description": f"what the text is about ({subject})",
            "values": list(described),
            "zero_shot": described,
        }
    )


def clusters_of(embedded: NDArray[Any], *, most: int, seed: int) -> NDArray[np.int64]:
    """Assign embeddings of length 1 to clusters by k-means, `(n,)`.

    The number of clusters is the smallest number with a silhouette within 2% of the best
    silhouette.
    """
    clusterings = {1: np.zeros(len(embedded), dtype=np.int64)}
    scores: dict[int, float] = {}
    distinct = len(np.unique(embedded.round(5), axis=0))
    for count in range(2, min(most, distinct - 1) + 1):
        state = seed_of(seed, "topics", count) % 2**32
        clusterings[count] = KMeans(count, n_init=10, random_state=state).fit_predict(embedded)
        scores[count] = float(silhouette_score(embedded, clusterings[count]))
    best = max(scores.values(), default=0.0)
    return clusterings[next((c for c, s in scores.items() if s >= best - _AS_GOOD * abs(best)), 1)]


def _distinctive_terms(texts: Sequence[str], cluster: NDArray[np.int64]) -> list[tuple[str, ...]]:
    """Return the terms with the largest class-based TF-IDF for each cluster.

    Source: Grootendorst 2022, Eq. 2.
    """
    # The token pattern splits "don't", so its pieces are stop words too.
    stop_words = {p for word in ENGLISH_STOP_WORDS | MORE_STOP_WORDS for p in word.split("'")}
    vectorizer = CountVectorizer(
        stop_words=sorted(stop_words),
        ngram_range=(1, 2),
        token_pattern=r"(?u)\b[^\W\d_]{3,}\b",
    )
    try:
        counts = vectorizer.fit_transform(texts)
    except ValueError:  # the texts have only stop words and numbers
        return [(f"topic {number + 1}",) for number in sorted(set(cluster.tolist()))]
    vocabulary = vectorizer.get_feature_names_out()
    labels = sorted(set(cluster.tolist()))
    by_class = np.stack([np.asarray(counts[cluster == c].sum(axis=0)).ravel() for c in labels])
    # A term that occurs in only one text does not describe a topic.
    spread = np.stack([np.asarray((counts[cluster == c] > 0).sum(axis=0)).ravel() for c in labels])
    weight = by_class * np.log1p(by_class.sum() / len(labels) / by_class.sum(axis=0))
    weight = np.where(spread >= 2, weight, weight * 1e-3)
    return [_without_overlap(vocabulary[np.argsort(-row, kind="stable")]) for row in weight]


def _without_overlap(ranked: Sequence[str]) -> tuple[str, ...]:
    """Choose the first terms of `ranked`, and skip terms that repeat a word of a chosen term."""
    chosen: list[str] = []
    used: set[str] = set()
    for term in ranked:
        if used.isdisjoint(term.split()):
            chosen.append(str(term))
            used.update(term.split())
        if len(chosen) == _TERMS:
            break
    return tuple(chosen)


def attribute_name(column: str) -> str:
    """Return a name for an attribute that a schema allows.

    >>> attribute_name("Date (UTC)"), attribute_name("2nd line")
    ('date_utc', 'column_2nd_line')
    >>> attribute_name("Größe")
    'grosse'
    """
    plain = unicodedata.normalize("NFKD", column.replace("ß", "ss"))
    plain = "".join(character for character in plain if not unicodedata.combining(character))
    cleaned = re.sub(r"\W+", "_", plain, flags=re.ASCII).strip("_").lower()[:64]
    return cleaned if cleaned and not cleaned[0].isdigit() else f"column_{cleaned}"[:64]


def free_word(word: str, taken: Container[str], *, between: str = " ") -> str:
    """Return `word`, with a number appended if `taken` contains `word`."""
    free, number = word, 2
    while free in taken:
        free, number = f"{word}{between}{number}", number + 1
    return free
