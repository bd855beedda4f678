"""Reads the labels of a method's final texts, and drops the texts that break a rule."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sugarbush.attributes.reader import LabelReader, Labels
from sugarbush.methods.interface import FinalSet
from sugarbush.pipeline.released import values_of_texts

BROKEN_RULE = "broken_rule"  # the name of the number of dropped texts in `usage.problems`


def with_labels(final: FinalSet, reader: LabelReader) -> tuple[FinalSet, Labels]:
    """Return the texts and their labels, without texts with numbers or dates that break a rule.

    The labels of the other texts are read again, because labels depend on all texts. So a second
    call with the result drops nothing. The number of dropped texts is in `usage.problems`; it is a
    number of released texts, so it is public.
    """
    while True:
        texts = final.lineage.final
        labels = reader.read(texts.texts, texts.codes, texts.values)
        _, broken = values_of_texts(texts, reader.schema, labels)
        if not broken.any():
            return final, labels
        final = _without(final, np.flatnonzero(~broken), dropped=int(broken.sum()))


def _without(final: FinalSet, kept: NDArray[np.intp], *, dropped: int) -> FinalSet:
    usage = final.lineage.usage
    problems = dict(Counter(usage.problems) + Counter({BROKEN_RULE: dropped}))
    lineage = replace(
        final.lineage,
        final=final.lineage.final.take(kept),
        usage=replace(usage, problems=problems),
    )
    return replace(final, lineage=lineage)
