"""DP metadata: a synthetic table by AIM, and DP counts of one label.

Reads    data/private/metadata/train.parquet
Writes   data/released/metadata/     rows.parquet, labels.npy, metadata.json, release.json
Spends   its share: AIM as one Gaussian-DP mechanism where a method starts from the table, one
         discrete-Gaussian histogram (L2 sensitivity 1 a record) where one starts from label counts
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sugarbush.data.private_store import load_codes, load_dataset_fingerprint, read_keyed_digest
from sugarbush.data.schema import Schema, load_schema
from sugarbush.evolution.population import NO_CODE
from sugarbush.paths import Roots, atomic_directory, find_input
from sugarbush.pipeline import entry_point as stage
from sugarbush.pipeline.budget import (
    LABELS,
    METADATA,
    open_session,
    plan_for,
    refuse_beyond_cap,
    result_store_name,
)
from sugarbush.pipeline.forced import was_forced
from sugarbush.pipeline.preflight import preflight
from sugarbush.pipeline.release import copy_release, write_release
from sugarbush.pipeline.settings import ProjectSettings
from sugarbush.pipeline.state import state_of
from sugarbush.privacy.budget import BudgetPlan
from sugarbush.privacy.mechanisms import noisy_histogram
from sugarbush.privacy.results import digest_of, open_result_store
from sugarbush.randomness import public_rng
from sugarbush.tables.engines import METHOD_VERSION, synthesize

NAME = "synthesize_metadata"


def label_attribute(params: ProjectSettings, schema: Schema) -> str:
    """The attribute whose counts `augpe` starts from: the first one unless named."""
    named = params.synthesize_metadata.label
    return schema.attribute(named).name if named is not None else schema.names[0]


def table_attributes(params: ProjectSettings, schema: Schema) -> list[str]:
    """The attributes of the DP table, in schema order: all of them unless some are named."""
    named = params.synthesize_metadata.attributes
    wanted = schema.names if named is None else [schema.attribute(name).name for name in named]
    return [name for name in schema.names if name in wanted]


def run(base: Path, params: ProjectSettings) -> None:
    """Draw what the plan holds for metadata, or restore what was drawn before.

    A cap that cannot carry the whole run, and a generator that cannot write, are told before the
    draw: nothing is spent on a run that could not be finished.
    """
    roots, plan = Roots(base), plan_for(params)
    schema = load_schema(find_input(base, params.prepare.schema_))
    parts = {part: plan.of(part).mu for part in (METADATA, LABELS) if plan.holds(part)}
    digest = digest_of(
        version=METHOD_VERSION,
        corpus=read_keyed_digest(roots.stamps / "train_codes.json", left_by="extract_metadata"),
        schema=schema.model_dump(mode="json"),
        settings=params.synthesize_metadata.model_dump(mode="json"),
        privacy=params.privacy.promise,
        plan=parts,
    )
    with open_result_store(
        state_of(params, base),
        dataset=result_store_name(params),
        stage=NAME,
        digest=digest,
        forced=was_forced(),
    ) as store:
        results = {
            METADATA: lambda folder: _draw_table(folder, base, params, schema, run_id=store.run),
            LABELS: lambda folder: _draw_labels(folder, base, params, schema, run_id=store.run),
        }
        finished = {part for part in parts if store.finished(part) is not None}
        if finished != parts.keys():
            dataset_fingerprint = load_dataset_fingerprint(
                roots.private / "prepared" / "sketch.json"
            )
            refuse_beyond_cap(
                params, base, finished=finished, dataset_fingerprint=dataset_fingerprint
            )
            preflight(params, base, schema)
        found = {}
        for part in parts:
            if store.finished(part) is None:
                with store.writing(part) as folder:
                    results[part](folder)
            found[part] = store.finished(part)
        with atomic_directory(roots.released / "metadata") as folder:
            ids: list[str] = []
            for path in found.values():
                assert path is not None
                ids += copy_release(path, folder)
            _describe(folder, params, schema, plan)
            write_release(folder, stage=NAME, params=params, ledger_ids=tuple(ids), run=store.run)


def _draw_table(
    folder: Path, base: Path, params: ProjectSettings, schema: Schema, *, run_id: str
) -> None:
    roots, plan = Roots(base), plan_for(params)
    names = table_attributes(params, schema)
    places = [schema.names.index(name) for name in names]
    codes = load_codes(roots.private / "metadata" / "train.parquet", schema.names)
    table = synthesize(
        codes.map_batch(lambda rows: rows[:, places]),
        {name: schema.domain[name] for name in names},
        mu=plan.of(METADATA).mu,
        params=params.synthesize_metadata,
        session=open_session(params, base, stage=NAME, run=run_id),
        rng=public_rng(params.synthesize_metadata.seed, "table"),
    )
    rows = pd.DataFrame(table.rows.value, columns=names)
    rows.reindex(columns=list(schema.names), fill_value=NO_CODE).to_parquet(
        folder / "rows.parquet", index=False
    )
    (folder / "table.json").write_text(json.dumps(table.to_json()))
    (folder / "ledger_ids.json").write_text(json.dumps(table.rows.ledger_ids))


def _draw_labels(
    folder: Path, base: Path, params: ProjectSettings, schema: Schema, *, run_id: str
) -> None:
    plan = plan_for(params)
    roots, name = Roots(base), label_attribute(params, schema)
    place = schema.names.index(name)
    codes = load_codes(roots.private / "metadata" / "train.parquet", schema.names)
    counts = noisy_histogram(
        codes.map_batch(lambda table: table[:, place]),
        size=len(schema.attribute(name).domain),
        stddev=plan.of(LABELS).stddev,
        session=open_session(params, base, stage=NAME, run=run_id),
    )
    np.save(folder / "labels.npy", counts.value)
    (folder / "ledger_ids.json").write_text(json.dumps(counts.ledger_ids))


def _describe(folder: Path, params: ProjectSettings, schema: Schema, plan: BudgetPlan) -> None:
    described: dict[str, Any] = {
        "engine": params.synthesize_metadata.engine.value if plan.holds(METADATA) else None,
        "label": label_attribute(params, schema) if plan.holds(LABELS) else None,
        "label_stddev": plan.of(LABELS).stddev if plan.holds(LABELS) else None,
        "attributes": {a.name: list(a.domain) for a in schema.attributes},
    }
    (folder / "metadata.json").write_text(json.dumps(described, indent=1))


if __name__ == "__main__":
    stage.main(NAME, run)
