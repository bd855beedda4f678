"""Reads the labels of a method's final texts, and drops the texts that break a rule, and those
beyond the shares of `release.mix`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sugarbush.attributes.reader import LabelReader, Labels
from sugarbush.data.mix import counts_of_cells
from sugarbush.embedding.class_sums import ClassSums
from sugarbush.errors import GeneratorError
from sugarbush.evolution.parts import Lineage
from sugarbush.evolution.selection import apportion
from sugarbush.methods.interface import FinalSet
from sugarbush.release.folders import values_of_texts

# The names of the numbers of dropped texts in `usage.problems`.
BROKEN_RULE, OUTSIDE_MIX = "broken_rule", "outside_mix"


def with_labels(final: FinalSet, reader: LabelReader) -> tuple[FinalSet, Labels]:
    """Return the texts and their labels, without texts with values that break a rule.

    With a mix, the texts with the most labels in the chosen shares stay.
    The labels of the other texts are read again, because labels depend on all texts. So a second
    call with the result drops nothing. The number of dropped texts is in `usage.problems`; it is a
    number of released texts, so it is public. `reader` also uses the sums by class of the lineage.
    """
    reader = reader.with_sums(class_sums_of(final.lineage))
    while True:
        texts = final.lineage.final
        labels = reader.read(texts.texts, texts.codes, texts.values)
        _, broken = values_of_texts(texts, reader.schema, labels)
        if broken.any():
            final = _without(final, np.flatnonzero(~broken), problem=BROKEN_RULE)
            continue
        kept = np.arange(len(texts)) if reader.mix is None else within_mix(labels, reader)
        if len(kept) == len(texts):
            return final, labels
        final = _without(final, kept, problem=OUTSIDE_MIX)


def within_mix(labels: Labels, reader: LabelReader) -> NDArray[np.intp]:
    """Return the indices of the most texts that have the chosen shares, within rounding.

    The first texts of a cell are kept, in order. Raises GeneratorError if a chosen value has too
    few texts for one text of the release.
    """
    mix = reader.mix
    assert mix is not None
    cells = mix.cell_of(labels.codes)
    counts = counts_of_cells(cells, len(mix.cells))
    mix = mix.reachable(counts)
    needed = mix.shares > 0
    most = float(np.min((counts[needed] + 1) / mix.shares[needed]))
    for size in range(min(int(most), int(counts.sum())), 0, -1):
        quotas = apportion(mix.shares, total=size)
        if (quotas <= counts).all():
            rows = [np.flatnonzero(cells == cell)[:quota] for cell, quota in enumerate(quotas)]
            return np.sort(np.concatenate(rows))
    cell = mix.cells[int(np.argmin(counts / np.maximum(mix.shares, 1e-12)))].tolist()
    named = ", ".join(
        f"{attribute.name}: {attribute.domain[each.fallback[number]]}"
        for each, number in zip(mix.attributes, cell, strict=True)
        for attribute in [reader.schema.attributes[each.column]]
    )
    raise GeneratorError(
        f"release.mix: no text of the release has {named}, so its share cannot be reached. Use "
        "another generator, add texts of this kind to the pool, or change release.mix. The run "
        "then goes on from its finished results, without a new charge"
    )


def _without(final: FinalSet, kept: NDArray[np.intp], *, problem: str) -> FinalSet:
    usage = final.lineage.usage
    dropped = len(final.lineage.final) - len(kept)
    problems = dict(Counter(usage.problems) + Counter({problem: dropped}))
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
