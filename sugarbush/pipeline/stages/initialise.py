"""The first candidates of a method.

Reads    data/released/metadata/     rows.parquet or labels.npy, release.json
         data/public/donated/donated.parquet, the schema
Writes   data/released/initial/<method>/  candidates.parquet, usage.json, release.json
Spends   nothing: post-processing of the DP metadata
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd

from sugarbush.data.schema import Schema, load_schema
from sugarbush.errors import GeneratorError
from sugarbush.evolution.initialisation import (
    Donated,
    Targets,
    candidate_count,
    first_population,
    first_requests,
    open_targets,
    targets_by_label,
    targets_by_rows,
)
from sugarbush.evolution.population import Population, save_population
from sugarbush.evolution.settings import EvolutionSettings
from sugarbush.generators.examples import choose_examples
from sugarbush.generators.interface import Usage, usage_of
from sugarbush.paths import Roots, atomic_directory, find_input, require
from sugarbush.pipeline import entry_point as stage
from sugarbush.pipeline.encoders import open_encoder
from sugarbush.pipeline.generators import open_writer
from sugarbush.pipeline.release import read_release, write_release
from sugarbush.pipeline.settings import Method, ProjectSettings
from sugarbush.pipeline.skipping import write_skip_marker
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.results import digest_of
from sugarbush.randomness import public_rng, seed_of

NAME = "initialise"


def load_donated(base: Path, schema: Schema) -> Donated | None:
    """The donated examples with their codes, or None where there are none."""
    path = require(Roots(base).public / "donated" / "donated.parquet", left_by="extract_metadata")
    frame = pd.read_parquet(path)
    if frame.empty:
        return None
    return Donated(
        texts=tuple(frame["text"]), codes=frame[list(schema.names)].to_numpy(dtype=np.int64)
    )


def targets_of(
    method: Method, params: EvolutionSettings, schema: Schema, metadata: Path, *, seed: int
) -> Released[Targets]:
    """What the method's first candidates should be, and what paid for it."""
    if not method.votes:
        return Released(open_targets(_survivors(params, None), schema))
    ids = tuple(read_release(metadata)["ledger_ids"])
    if method.uses_metadata:
        described = json.loads((metadata / "table.json").read_text())
        count = _survivors(params, float(described["record_count"]))
        rows = pd.read_parquet(metadata / "rows.parquet").to_numpy(dtype=np.int64)
        return Released(targets_by_rows(count, rows, rng=public_rng(seed, "rows")), ids)
    if not params.by_label:
        return Released(open_targets(_survivors(params, None), schema))
    described = json.loads((metadata / "metadata.json").read_text())
    labels = np.load(metadata / "labels.npy")
    count = _survivors(params, float(labels.sum()))
    targets = targets_by_label(count, schema, attribute=described["label"], label_counts=labels)
    return Released(targets, ids)


def _survivors(params: EvolutionSettings, record_count: float | None) -> int:
    """A round votes on `variations` texts a survivor, so it starts from that part of them."""
    return max(1, candidate_count(params, record_count=record_count) // params.variations)


def run(base: Path, params: ProjectSettings, method: Method) -> None:
    """Ask the generator for the first candidates and keep the usable answers."""
    if method.trains or method.stays_private:
        write_skip_marker(Roots(base).released / "initial" / method.value)
        return
    roots, schema = Roots(base), load_schema(find_input(base, params.prepare.schema_))
    evolution = params.evolve.of(method)
    metadata = require(roots.released / "metadata", left_by="synthesize_metadata")
    seed = seed_of(params.initialise.seed, method.value)
    targets = targets_of(method, evolution, schema, metadata, seed=seed)
    population, usage = write_first(base, params, method, schema, targets)
    with atomic_directory(roots.released / "initial" / method.value) as folder:
        save_population(population, schema.names, folder / "candidates.parquet")
        (folder / "usage.json").write_text(json.dumps(asdict(usage)))
        write_release(
            folder, stage=f"{NAME}@{method}", params=params, ledger_ids=targets.ledger_ids,
            run=digest_of(seed=seed, ids=list(targets.ledger_ids)),
        )  # fmt: skip


def write_first(
    base: Path, params: ProjectSettings, method: Method, schema: Schema, targets: Released[Targets]
) -> tuple[Population, Usage]:
    """The texts that the generator writes for `targets`, and what they took.

    Raises GeneratorError when none of them can be used.
    """
    seed, name = seed_of(params.initialise.seed, method.value), f"{NAME}@{method}"
    donated = load_donated(base, schema)
    requests = targets.map(
        lambda t: first_requests(
            t,
            schema=schema,
            params=params.evolve.of(method),
            length=params.initialise.length,
            donated=donated,
            choose=lambda codes, k: choose_examples(
                codes, donated.codes if donated else codes[:0], k=k, rng=public_rng(seed, "near")
            ),
            seed=seed,
        )
    )
    with open_encoder(params, Roots(base), private=False) as encoder:
        answers = open_writer(params, base, encoder, stage=name).write(requests, what="first texts")
    population = first_population(targets.value, answers)
    if not len(population):
        raise GeneratorError(f"{name}: the generator returned no usable text")
    return population, usage_of(answers)


if __name__ == "__main__":
    stage.main_of_method(NAME, run)
