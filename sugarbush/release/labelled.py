"""Reads the labels of a method's final texts, and drops the texts that break a rule."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sugarbush.attributes.reader import LabelReader, Labels
from sugarbush.embedding.class_sums import ClassSums
from sugarbush.evolution.parts import Lineage
from sugarbush.methods.interface import FinalSet
from sugarbush.release.folders import values_of_texts

BROKEN_RULE = "broken_rule"  # the name of the number of dropped texts in `usage.problems`


def with_labels(final: FinalSet, reader: LabelReader) -> tuple[FinalSet, Labels]:
    """Return the texts and their labels, without texts with numbers or dates that break a rule.

    The labels of the other texts are read again, because labels depend on all texts. So a second
    call with the result drops nothing. The number of dropped texts is in `usage.problems`; it is a
    number of released texts, so it is public. `reader` also uses the sums by class of the lineage.
    """
    reader = reader.with_sums(class_sums_of(final.lineage))
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


def class_sums_of(lineage: Lineage) -> ClassSums | None:
    """Return the sums by class that the records' scores were released with, if any."""
    sums = None if lineage.last is None else lineage.last.class_sums
    return None if sums is None else sums.value
