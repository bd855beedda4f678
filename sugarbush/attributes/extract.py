"""Computes one categorical row per record. The schema names the source of each attribute:

    column      the record's own raw value, looked up in the public domain
    keywords    the value with the most keyword hits in the text
    zero_shot   the value with descriptions that are nearest to the text in embedding space
    llm         the value that an endpoint returned; the caller passes it like a column

`read_from` limits keywords and zero_shot to one section of the text, such as the turns of one role.

Guarantee: row i depends only on record i and on public data (schema, donated examples). Therefore
`Private.map_batch` may call `extract_codes`. The guarantee assumes that the embedding of a text
depends on this text alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sugarbush.attributes.settings import ExtractMetadataSettings
from sugarbush.attributes.zero_shot import ZeroShotReader
from sugarbush.data.schema import Attribute, Schema
from sugarbush.errors import InvariantError
from sugarbush.generators.interface import Embed
from sugarbush.languages import UNSPACED


def extract_codes(
    schema: Schema,
    texts: Sequence[str],
    columns: Mapping[str, Sequence[object]],
    *,
    embed: Embed,
    readers: Mapping[str, ZeroShotReader],
    params: ExtractMetadataSettings,
) -> NDArray[np.int64]:
    """Compute one row of codes per record: `(n, d)` int64, columns in the order of the schema.

    Guarantee: row i is a function of record i alone.
    Shapes: `texts` and each sequence in `columns` have one entry per record. `columns` maps an
    attribute with the source `column` or `llm` to its raw values. `readers` maps each zero_shot
    attribute to its reader. Raises InvariantError if a column is missing or has a wrong length.
    """
    vectors = cache(lambda section: np.asarray(embed(schema.texts_of(section, texts))))
    codes = np.empty((len(texts), len(schema.attributes)), dtype=np.int64)
    for column, attribute in enumerate(schema.attributes):
        if attribute.column is not None or attribute.source is not None:
            codes[:, column] = _from_column(attribute, columns, rows=len(texts))
        elif attribute.keywords is not None:
            codes[:, column] = by_keywords(attribute, schema.texts_of(attribute.read_from, texts))
        elif len(texts):
            read = readers[attribute.name].read(
                vectors(attribute.read_from), abstain=params.zero_shot_abstain
            )
            codes[:, column] = without_section(attribute, schema, texts, read)
    return codes


def without_section(
    attribute: Attribute, schema: Schema, texts: Sequence[str], codes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return `codes` (n,), with `other` for each text without the section `read_from`."""
    if attribute.read_from is None:
        return codes
    empty = [not section.strip() for section in schema.texts_of(attribute.read_from, texts)]
    return np.where(empty, len(attribute.domain) - 1, codes)


def _from_column(
    attribute: Attribute, columns: Mapping[str, Sequence[object]], *, rows: int
) -> list[int]:
    values = columns.get(attribute.name)
    if values is None or len(values) != rows:
        raise InvariantError(f"attribute '{attribute.name}' needs one raw value per record")
    return [attribute.code(value) for value in values]


def by_keywords(attribute: Attribute, texts: Sequence[str]) -> NDArray[np.int64]:
    """Return the code of the value with the most keyword hits, for each text.

    A tie goes to the first value in the schema. A text without a hit gets `other`.
    """
    bucket = len(attribute.domain) - 1
    words = attribute.keywords or {}
    patterns = [_pattern(words.get(value, ())) for value in attribute.values]
    hits = np.array(
        [[len(p.findall(text)) if p else 0 for p in patterns] for text in texts], dtype=np.int64
    ).reshape(len(texts), len(patterns))
    return np.where(hits.any(axis=1), hits.argmax(axis=1), bucket)


def _pattern(words: Sequence[str]) -> re.Pattern[str] | None:
    """Make a pattern that matches whole words in any case, with any white space between words.

    Longer keywords match first. For example, the text "credit card" is a hit for "credit card", not
    for "credit".
    """
    spelled = sorted({" ".join(word.split()) for word in words if word.strip()}, key=len)
    if not spelled:
        return None
    alternatives = "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in reversed(spelled))
    # Between characters of a script without spaces, every position may end a word.
    before, after = rf"(?:(?<!\w)|(?<=[{UNSPACED}]))", rf"(?:(?!\w)|(?=[{UNSPACED}]))"
    return re.compile(rf"{before}(?:{alternatives}){after}", re.IGNORECASE)
