"""The final texts of a method, for later stages and for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from sugarbush.data.schema import Schema
from sugarbush.evolution.population import NO_CODE, Population, save_population
from sugarbush.paths import Roots, require
from sugarbush.pipeline.settings import Method


def final_folder(roots: Roots, method: Method) -> Path:
    """The folder with a method's final texts. Raises MissingInputError naming its stage."""
    if method.stays_private:
        path = roots.private / "arms" / method.value / "synthetic.jsonl"
        return require(path, left_by=method.value).parent
    if method.trains:
        return require(roots.released / "generated" / "final.parquet", left_by="generate").parent
    return require(roots.released / "evolve" / method.value, left_by=f"evolve@{method}")


def first_folder(roots: Roots, method: Method) -> Path:
    """The folder with the first candidates of a method."""
    if method.stays_private:
        return final_folder(roots, method) / "initial"
    path = roots.released / "initial" / method.value
    return require(path / "candidates.parquet", left_by=f"initialise@{method}").parent


def write_texts(final: Population, schema: Schema, folder: Path) -> None:
    """final.parquet, and synthetic.jsonl for people."""
    save_population(final, schema.names, folder / "final.parquet")
    readable(final, schema).to_json(
        folder / "synthetic.jsonl", orient="records", lines=True, force_ascii=False
    )


def readable(population: Population, schema: Schema) -> pd.DataFrame:
    """One row for each text: id, text, requested values, parent and round."""
    columns: dict[str, Any] = {"id": population.ids, "text": list(population.texts)}
    for place, attribute in enumerate(schema.attributes):
        codes = population.codes[:, place]
        if (codes != NO_CODE).any():
            columns[attribute.name] = [
                attribute.domain[code] if code != NO_CODE else None for code in codes
            ]
    columns |= {"parent": population.parents, "round": population.rounds}
    return pd.DataFrame(columns)
