"""The same evolution without noise: the ceiling, and the control that every audit must catch.

Reads    data/private/prepared/train.parquet, data/private/metadata/train.parquet,
         data/public/donated/
Writes   data/private/arms/nonprivate/  as data/released/evolve/<method>/, and initial/
         data/stamps/nonprivate/
Spends   nothing of the DP budget, since it has no guarantee and is not released; each look at the
         data is noted as not private in a ledger of its own. The settings allow it only on data
         that is declared public.
"""

from __future__ import annotations

import hmac
import json
from dataclasses import asdict
from pathlib import Path

from sugarbush.data.private_store import load_real_texts, read_keyed_digest
from sugarbush.data.schema import Schema, load_schema
from sugarbush.evolution.evolve import METHOD_VERSION, evolve
from sugarbush.evolution.initialisation import Targets, candidate_count, targets_by_rows
from sugarbush.evolution.population import save_population
from sugarbush.evolution.voting import VotingSession
from sugarbush.paths import Roots, atomic_directory, find_input
from sugarbush.pipeline import entry_point as stage
from sugarbush.pipeline.budget import open_uncapped_ledger
from sugarbush.pipeline.encoders import open_encoder
from sugarbush.pipeline.forced import was_forced
from sugarbush.pipeline.generators import open_writer
from sugarbush.pipeline.preflight import preflight
from sugarbush.pipeline.release import write_release
from sugarbush.pipeline.settings import Method, ProjectSettings
from sugarbush.pipeline.stages.evolve import embeddings_of, write_evolution
from sugarbush.pipeline.stages.initialise import write_first
from sugarbush.pipeline.state import state_of
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.events import NonPrivate
from sugarbush.privacy.key import state_key
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.results import digest_of, open_result_store
from sugarbush.privacy.session import PrivacySession
from sugarbush.randomness import public_rng, seed_of

NAME = "nonprivate"
METHOD = Method.NONPRIVATE
_ALL = 2**62


def run(base: Path, params: ProjectSettings) -> None:
    """Start from real metadata, evolve by exact votes, and keep the result in the private root."""
    roots, schema = Roots(base), load_schema(find_input(base, params.prepare.schema_))
    ledger = open_uncapped_ledger(params, base, kind=NAME)
    digest = digest_for(base, params, schema)
    settings = params.evolve.of(METHOD)
    preflight(params, base, schema)
    with (
        open_result_store(
            state_of(params, base), dataset=f"{NAME}-{params.privacy.dataset}", stage=NAME,
            digest=digest, forced=was_forced(),
        ) as store,
        open_encoder(params, roots, private=True) as private_encoder,
        open_encoder(params, roots, private=False) as encoder,
    ):  # fmt: skip
        targets = real_targets(base, params, schema, ledger=ledger, run_id=store.run)
        first, first_usage = write_first(base, params, METHOD, schema, targets)
        evolution = evolve(
            Released(first, targets.ledger_ids),
            params=settings,
            schema=schema,
            writer=open_writer(params, base, encoder, stage=NAME),
            encode=encoder.encode,
            voting=VotingSession(
                embeddings=embeddings_of(base, params, METHOD, schema, private_encoder.encode),
                stddev=None,
                session=PrivacySession(ledger=ledger, stage=NAME, run=store.run),
            ),
            store=store,
            seed=seed_of(params.evolve.seed, METHOD.value),
            say=lambda line: print(f"{NAME}: {line}", flush=True),
        )
        with atomic_directory(roots.private / "arms" / NAME, private=True) as folder:
            (folder / "initial").mkdir()
            save_population(first, schema.names, folder / "initial" / "candidates.parquet")
            (folder / "initial" / "usage.json").write_text(json.dumps(asdict(first_usage)))
            write_evolution(evolution, schema, folder)
            write_release(
                folder, stage=NAME, params=params, ledger_ids=evolution.ledger_ids, run=store.run
            )
    stamp = hmac.new(state_key(state_of(params, base)), store.run.encode(), "sha256").hexdigest()
    with atomic_directory(roots.stamps / NAME) as folder:
        (folder / "stamp.json").write_text(json.dumps({"stamp": stamp}) + "\n")


def digest_for(base: Path, params: ProjectSettings, schema: Schema) -> str:
    """What the result depends on."""
    stamps = Roots(base).stamps
    return digest_of(
        version=METHOD_VERSION,
        texts=read_keyed_digest(stamps / "train_texts.json", left_by="prepare"),
        codes=read_keyed_digest(stamps / "train_codes.json", left_by="extract_metadata"),
        schema=schema.model_dump(mode="json"),
        settings=params.evolve.of(METHOD).key_settings(),
        first=params.initialise.model_dump(mode="json"),
        seed=params.evolve.seed,
        generator=params.generator.identity(),
        embedding=params.embedding.model_dump(mode="json"),
    )


def real_targets(
    base: Path, params: ProjectSettings, schema: Schema, *, ledger: Ledger, run_id: str
) -> Released[Targets]:
    """First candidates after real rows of metadata, noted before they are looked at."""
    charge = ledger.charge(NonPrivate(), stage=NAME, run=run_id)
    settings, seed = params.evolve.of(METHOD), seed_of(params.initialise.seed, METHOD.value)
    real = load_real_texts(Roots(base).private, "train", schema.names, _ALL, seed)
    count = candidate_count(settings, record_count=len(real.texts)) // settings.variations
    rows = targets_by_rows(max(1, count), real.codes, rng=public_rng(seed, "rows"))
    return Released(rows, (charge,))


if __name__ == "__main__":
    stage.main(NAME, run)
