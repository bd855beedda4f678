"""Rounds of private votes and public variation, from the first candidates to the final set.

Reads    data/released/initial/<method>/, data/private/prepared/train.parquet,
         data/private/metadata/train.parquet (labels, where votes are by label)
Writes   data/released/evolve/<method>/  synthetic.jsonl, final.parquet, round_NNN/, usage.json,
                                         release.json
Spends   its share: one discrete-Gaussian histogram (or sum of scores) a round, L2 sensitivity 1 a
         record (or RESOLUTION, in its own unit), add/remove one unit
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.private_store import (
    Records,
    load_codes,
    load_records,
    read_keyed_digest,
)
from sugarbush.data.schema import Schema, load_schema
from sugarbush.evolution.evolve import METHOD_VERSION, Evolution, evolve
from sugarbush.evolution.population import (
    load_population,
    save_population,
)
from sugarbush.evolution.settings import EvolutionSettings, FinalSelection, Selection
from sugarbush.evolution.voting import PrivateEmbeddings, VotingSession
from sugarbush.paths import Roots, atomic_directory, find_input, require
from sugarbush.pipeline import entry_point as stage
from sugarbush.pipeline.budget import open_session, plan_for, result_store_name, votes_of
from sugarbush.pipeline.encoders import open_encoder
from sugarbush.pipeline.forced import was_forced
from sugarbush.pipeline.generators import open_writer
from sugarbush.pipeline.release import read_release, write_release
from sugarbush.pipeline.settings import Method, ProjectSettings
from sugarbush.pipeline.skipping import write_skip_marker
from sugarbush.pipeline.stages.synthesize_metadata import label_attribute
from sugarbush.pipeline.state import state_of
from sugarbush.pipeline.texts import write_texts
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.results import digest_of, open_result_store
from sugarbush.randomness import seed_of

NAME = "evolve"


def voting_session(
    base: Path,
    params: ProjectSettings,
    method: Method,
    schema: Schema,
    encode: Callable[[tuple[str, ...]], NDArray[np.float32]],
    *,
    run_id: str,
) -> VotingSession | None:
    """The embedded private records, and what each vote may spend; None without votes."""
    plan, part = plan_for(params), votes_of(method)
    if not plan.holds(part):
        return None
    return VotingSession(
        embeddings=embeddings_of(base, params, method, schema, encode),
        stddev=plan.of(part).stddev,
        session=open_session(params, base, stage=f"{NAME}@{method}", run=run_id),
    )


def embeddings_of(
    base: Path,
    params: ProjectSettings,
    method: Method,
    schema: Schema,
    encode: Callable[[tuple[str, ...]], NDArray[np.float32]],
) -> Private[PrivateEmbeddings]:
    """The embedded private records, with labels where votes are by label."""
    private = Roots(base).private
    records: Private[Records] = load_records(private / "prepared" / "train.parquet")
    if params.evolve.of(method).by_label:
        place = schema.names.index(label_attribute(params, schema))
        codes = load_codes(private / "metadata" / "train.parquet", schema.names)
        return records.zip_batch(
            codes, lambda r, table: PrivateEmbeddings(encode(r.texts), table[:, place])
        )
    return records.map_batch(
        lambda r: PrivateEmbeddings(encode(r.texts), np.zeros(len(r), dtype=np.int64))
    )


def digest_for(base: Path, params: ProjectSettings, method: Method, schema: Schema) -> str:
    """What a round's result depends on: nothing else makes it be drawn again."""
    plan, part, stamps = plan_for(params), votes_of(method), Roots(base).stamps
    initial = Roots(base).released / "initial" / method.value
    first = load_population(
        require(initial / "candidates.parquet", left_by=f"initialise@{method}"), schema.names
    )
    return digest_of(
        version=METHOD_VERSION,
        method=method.value,
        texts=read_keyed_digest(stamps / "train_texts.json", left_by="prepare"),
        codes=read_keyed_digest(stamps / "train_codes.json", left_by="extract_metadata"),
        first=first.frame(schema.names).to_json(orient="split"),
        schema=schema.model_dump(mode="json"),
        settings=_in_use(params.evolve.of(method)),
        seed=params.evolve.seed,
        generator=params.generator.identity(),
        embedding=params.embedding.model_dump(mode="json"),
        label=label_attribute(params, schema),
        privacy=params.privacy.promise,
        stddev=plan.of(part).stddev if plan.holds(part) else None,
    )


def _in_use(params: EvolutionSettings) -> dict[str, Any]:
    """The settings without those that ask for nothing: rounds drawn before they existed still
    count, and the width of scores that nobody gives makes no round another."""
    fields = params.key_settings()
    new = {"tones": [], "contrast": 0, "distinct": False, "final": FinalSelection.SURVIVORS.value,
           "score_width": 0.2}  # fmt: skip
    if params.selection is not Selection.KERNEL_HERDING:
        del fields["score_width"]
    return {k: v for k, v in fields.items() if k not in new or v != new[k]}


def run(base: Path, params: ProjectSettings, method: Method) -> None:
    """Evolve, restoring every round that was finished before, and release the result."""
    if method.trains or method.stays_private:
        write_skip_marker(Roots(base).released / NAME / method.value)
        return
    roots, schema = Roots(base), load_schema(find_input(base, params.prepare.schema_))
    name = f"{NAME}-{method}"
    initial = roots.released / "initial" / method.value
    digest = digest_for(base, params, method, schema)
    first = load_population(initial / "candidates.parquet", schema.names)
    with (
        open_result_store(
            state_of(params, base), dataset=result_store_name(params), stage=name, digest=digest,
            forced=was_forced(),
        ) as store,
        open_encoder(params, roots, private=True) as private_encoder,
        open_encoder(params, roots, private=False) as encoder,
    ):  # fmt: skip
        evolution = evolve(
            Released(first, tuple(read_release(initial)["ledger_ids"])),
            params=params.evolve.of(method),
            schema=schema,
            writer=open_writer(params, base, encoder, stage=f"{NAME}@{method}"),
            encode=encoder.encode,
            voting=voting_session(
                base, params, method, schema, private_encoder.encode, run_id=store.run
            ),
            store=store,
            seed=seed_of(params.evolve.seed, method.value),
            say=lambda line: print(f"{NAME}@{method}: {line}", flush=True),
        )
        with atomic_directory(roots.released / NAME / method.value) as folder:
            write_evolution(evolution, schema, folder)
            write_release(
                folder, stage=f"{NAME}@{method}", params=params,
                ledger_ids=evolution.ledger_ids, run=store.run,
            )  # fmt: skip


def write_evolution(evolution: Evolution, schema: Schema, folder: Path) -> None:
    """The final set as people read it, and every round as the report does."""
    usage: dict[str, Any] = {}
    for round_ in evolution.rounds:
        own = folder / f"round_{round_.number:03d}"
        own.mkdir()
        save_population(round_.population, schema.names, own / "candidates.parquet")
        np.save(own / "votes.npy", round_.votes.value)
        np.save(own / "survivors.npy", round_.survivors)
        usage[own.name] = asdict(round_.usage)
    usage["final"] = asdict(evolution.usage)
    (folder / "usage.json").write_text(json.dumps(usage, indent=1))
    write_texts(evolution.final, schema, folder)


if __name__ == "__main__":
    stage.main_of_method(NAME, run)
