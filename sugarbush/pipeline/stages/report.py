"""The release card, and a page for everybody and one for the house.

Reads    data/released/, the schema, the ledger; for the internal page reports/internal/ and the
         private metadata
Writes   reports/public/     release_card.json, release_card.md, index.html, metrics.json, plots/
         reports/internal/   index.html: computed on real texts, not DP
Spends   nothing
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sugarbush.attributes.agreement import Agreement
from sugarbush.data.private_store import load_real_texts
from sugarbush.data.schema import Schema, load_schema
from sugarbush.evaluation.interface import read_values
from sugarbush.evolution.population import NO_PARENT, Population, load_population
from sugarbush.generators.interface import Usage
from sugarbush.generators.openai.cost import cost_of
from sugarbush.generators.settings import Provider
from sugarbush.paths import Roots, atomic_directory, atomic_file, find_input, make_private, require
from sugarbush.pipeline import entry_point as stage
from sugarbush.pipeline.budget import open_ledger, plan_for, record_l2_sensitivity, votes_of
from sugarbush.pipeline.dp_table import counts_of, dp_counts_of, dp_table_of, engine_of
from sugarbush.pipeline.encoders import open_encoder
from sugarbush.pipeline.release import read_release
from sugarbush.pipeline.settings import Method, ProjectSettings
from sugarbush.pipeline.skipping import write_skip_marker
from sugarbush.pipeline.texts import final_folder
from sugarbush.privacy.budget import BudgetPlan
from sugarbush.privacy.data_types import Released
from sugarbush.report.card import card_json, card_markdown, release_card, software_versions
from sugarbush.report.dp_table import dependence
from sugarbush.report.lineage import with_ancestors
from sugarbush.report.model import (
    EmbeddingMap,
    GeneratorFacts,
    InternalData,
    MethodData,
    PublicData,
    Release,
    RoundData,
    Spend,
    SyntheticText,
)
from sugarbush.report.page import render_internal_page, render_public_page
from sugarbush.report.projection import synthetic_projection
from sugarbush.report.tables import survivors_table, votes_table

NAME = "report"
ENCODERS = {"bundled": "all-MiniLM-L6-v2 (bundled)"}

Encode = Callable[[Sequence[str]], NDArray[np.float32]]


def release_of(base: Path, params: ProjectSettings, schema: Schema) -> Release:
    """What is promised, from the ledger entries that the released folders name."""
    roots = Roots(base)
    ledger = open_ledger(params, base)
    folders = [roots.released / "metadata"]
    folders += [final_folder(roots, method) for method in params.released]
    ids = [i for folder in folders for i in read_release(folder)["ledger_ids"]]
    donated = pd.read_parquet(roots.public / "donated" / "donated.parquet")
    return Release(
        title=params.report.title or f"Synthetic {schema.subject}",
        dataset=params.privacy.dataset,
        purpose=params.privacy.purpose,
        unit=params.privacy.unit,
        records_per_unit=params.privacy.records_per_user,
        delta=params.privacy.delta,
        entries=ledger.of(ids),
        dataset_epsilon=ledger.total(),
        cap=params.privacy.cap,
        plan=_plan(params, roots),
        schema=schema,
        donated=len(donated),
        generator=generator_facts(params),
        starts_from=Path(params.finetune.chosen.model).name if params.trains else None,
        encoder=ENCODERS.get(params.embedding.model, params.embedding.model),
        methods=tuple(m.value for m in params.released),
        software=software_versions(),
        created=datetime.now(UTC).date().isoformat(),
        engine=engine_of(base),
        labels_endpoint=params.extract_metadata.llm.base_url if schema.asked_of_llm else None,
        settings={
            "epsilon": params.privacy.epsilon,
            "shares": params.privacy.shares.model_dump(),
            "engine": params.synthesize_metadata.engine.value,
            "evolve": {
                m.value: params.evolve.of(m).model_dump(mode="json")
                for m in params.evolving
                if not m.stays_private
            },
            **_training_settings(params),
        },
    )


def _plan(params: ProjectSettings, roots: Roots) -> BudgetPlan:
    """The plan with everybody's noise."""
    if not params.trains:
        return plan_for(params)
    from sugarbush.pipeline.training import full_plan

    return full_plan(params, roots)


def _training_settings(params: ProjectSettings) -> dict[str, Any]:
    """What the card says of fine-tuning. Of a model's path only its name."""
    if not params.trains:
        return {}
    settings = params.finetune.chosen
    finetune = settings.model_dump(mode="json") | {"model": Path(settings.model).name}
    return {"finetune": finetune, "generate": params.generate.model_dump(mode="json")}


def generator_facts(params: ProjectSettings) -> GeneratorFacts | None:
    """Who wrote the candidates, if anybody. Of a pool's files only the names."""
    settings = params.generator
    if all(m.trains for m in params.released):
        return None
    match settings.provider:
        case Provider.POOL:
            return GeneratorFacts(
                provider="pool", sources=tuple(Path(s.file).name for s in settings.pool.sources)
            )
        case Provider.OPENAI:
            return GeneratorFacts(
                provider="openai", model=settings.openai.model,
                endpoint=settings.openai.base_url,
            )  # fmt: skip
        case Provider.HUGGINGFACE:
            return GeneratorFacts(
                provider="huggingface", model=Path(settings.huggingface.model).name
            )
        case _:
            return GeneratorFacts(provider=settings.provider.value)


def agreements_of(base: Path, schema: Schema) -> tuple[Agreement, ...]:
    """How well attributes are read off texts, on the donated examples."""
    folder = require(Roots(base).public / "donated", left_by="extract_metadata")
    rows = json.loads((folder / "agreement.json").read_text())
    return tuple(Agreement(**row) for row in rows)


def method_of(
    base: Path, params: ProjectSettings, method: Method, schema: Schema, *, encode: Encode
) -> MethodData:
    """A method's rounds, its final texts with their lineage, and what they cost."""
    folder = final_folder(Roots(base), method)
    ids = tuple(read_release(folder)["ledger_ids"])
    final = load_population(folder / "final.parquet", schema.names)
    rounds = tuple(_rounds(folder, params, method, schema, ids))
    return MethodData(
        name=method.value,
        final_texts=len(final),
        asked=Released(counts_of(final.codes, schema), ids),
        texts=Released(
            _texts(
                final, folder, schema, params.report.texts, record_l2_sensitivity(params, method)
            ),
            ids,
        ),
        rounds=rounds,
        scored=bool(rounds) and record_l2_sensitivity(params, method) > 1,
        spends=tuple(_spends(base, params, method)),
        map=Released(_map(final, encode), ids) if len(final) > 1 else None,
    )


def _map(final: Population, encode: Encode) -> EmbeddingMap:
    """The final texts in two dimensions, on axes of their own."""
    embeddings = encode(final.texts)
    return EmbeddingMap(points=synthetic_projection(embeddings)(embeddings), written=final.rounds)


def _rounds(
    folder: Path, params: ProjectSettings, method: Method, schema: Schema, ids: tuple[str, ...]
) -> Iterator[RoundData]:
    plan, part, unit = plan_for(params), votes_of(method), record_l2_sensitivity(params, method)
    for own in sorted(folder.glob("round_*")):
        population = load_population(own / "candidates.parquet", schema.names)
        yield RoundData(
            number=int(own.name.removeprefix("round_")),
            votes=Released(np.load(own / "votes.npy") / unit, ids),
            stddev=plan.of(part).stddev / unit,
            written=population.rounds,
            survivors=np.load(own / "survivors.npy"),
        )


def _texts(
    final: Population, folder: Path, schema: Schema, limit: int, unit: int
) -> tuple[SyntheticText, ...]:
    """The first `limit` final texts, and every candidate that they descend from."""
    votes = _last_votes(folder, schema, unit)
    shown = list(_described(final.take(np.arange(min(limit, len(final)))), votes))
    rounds = sorted(folder.glob("round_*"), reverse=True)
    candidates = [
        text
        for own in rounds
        for text in _described(load_population(own / "candidates.parquet", schema.names), {})
    ]
    return with_ancestors(shown, candidates)


def _described(population: Population, votes: dict[int, int]) -> Iterator[SyntheticText]:
    for place, text in enumerate(population.texts):
        own, parent = int(population.ids[place]), int(population.parents[place])
        yield SyntheticText(
            id=own,
            text=text,
            codes=tuple(int(c) for c in population.codes[place]),
            round=int(population.rounds[place]),
            parent=None if parent == NO_PARENT else parent,
            votes=votes.get(own),
        )


def _last_votes(folder: Path, schema: Schema, unit: int) -> dict[int, int]:
    """Candidate id to its noisy votes in the last round, which are saved in 1/`unit` of a vote."""
    rounds = sorted(folder.glob("round_*"))
    if not rounds:
        return {}
    population = load_population(rounds[-1] / "candidates.parquet", schema.names)
    counts = np.load(rounds[-1] / "votes.npy")
    return {int(i): round(v / unit) for i, v in zip(population.ids, counts, strict=True)}


def _spends(base: Path, params: ProjectSettings, method: Method) -> Iterator[Spend]:
    roots = Roots(base)
    steps = json.loads((final_folder(roots, method) / "usage.json").read_text())
    if not method.trains:
        first = (roots.released / "initial" / method.value / "usage.json").read_text()
        steps = {"first candidates": json.loads(first), **steps}
    for name, fields in steps.items():
        usage = Usage(**fields)
        cost = None if method.trains else _cost_of(usage, params)
        yield Spend(step=name.replace("_", " "), usage=usage, cost=cost)


def _cost_of(usage: Usage, params: ProjectSettings) -> float | None:
    endpoint = params.generator.openai
    if params.generator.provider is not Provider.OPENAI:
        return None
    return cost_of(
        endpoint.prices.get(endpoint.model),
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
    )


def public_metrics(data: PublicData) -> dict[str, Any]:
    """The figures of `dvc metrics`: released values alone."""
    card = release_card(data.release)
    found: dict[str, Any] = {
        "epsilon": card["promise"]["epsilon"],
        "dataset_total_epsilon": card["budget"]["dataset_total_epsilon"],
    }
    for method in data.methods:
        usage = [spend.usage for spend in method.spends]
        found[method.name] = {
            "texts": method.final_texts,
            "calls": sum(u.calls + u.cached_calls for u in usage),
            "prompt_tokens": sum(u.prompt_tokens for u in usage),
            "completion_tokens": sum(u.completion_tokens for u in usage),
            "unusable_answers": sum(sum(u.problems.values()) for u in usage),
        }
    return found


def internal_of(base: Path, params: ProjectSettings, schema: Schema) -> InternalData:
    """What was computed on real texts, for the internal page alone."""
    roots, settings = Roots(base), params.evaluate
    rows = pd.read_csv(require(roots.internal / "figures.csv", left_by="evaluate"))
    codes = {
        part: load_real_texts(roots.private, part, schema.names, 10**9, settings.seed).codes
        for part in ("train", "heldout")
    }
    read = json.loads(require(roots.internal / "read.json", left_by="evaluate").read_text())
    real = load_real_texts(
        roots.private, "heldout", schema.names, settings.max_texts, settings.seed
    )
    return InternalData(
        values=read_values({str(k): v for k, v in row.items()} for row in rows.to_dict("records")),
        heldout=counts_of(codes["heldout"], schema),
        train=counts_of(codes["train"], schema),
        dependence=dependence(codes["train"], schema.names),
        read={
            method: {name: np.array(counts) for name, counts in of.items()}
            for method, of in read.items()
        },
        heldout_map=maps_of(base, params, schema, real.texts),
    )


def maps_of(
    base: Path, params: ProjectSettings, schema: Schema, real: Sequence[str]
) -> dict[str, NDArray[np.float64]]:
    """Real texts on each method's map: (n, 2), on the axes of its synthetic texts."""
    roots, found = Roots(base), {}
    with (
        open_encoder(params, roots, private=True) as private,
        open_encoder(params, roots, private=False) as encoder,
    ):
        for method in params.released:
            final = load_population(final_folder(roots, method) / "final.parquet", schema.names)
            if len(final) > 1:
                axes = synthetic_projection(encoder.encode(final.texts))
                found[method.value] = axes(private.encode(real))
    return found


def run(base: Path, params: ProjectSettings) -> None:
    """Write the card and both pages, if there is a method whose texts are released."""
    if not params.released:
        write_skip_marker(Roots(base).published)
        return
    roots, schema = Roots(base), load_schema(find_input(base, params.prepare.schema_))
    with open_encoder(params, roots, private=False) as encoder:
        methods = tuple(
            method_of(base, params, m, schema, encode=encoder.encode) for m in params.released
        )
    data = PublicData(
        release=release_of(base, params, schema),
        methods=methods,
        metadata=dp_counts_of(base, schema),
        table=dp_table_of(base, schema),
        agreements=agreements_of(base, schema),
    )
    card = release_card(data.release)
    with atomic_directory(roots.published) as folder:
        (folder / "release_card.json").write_text(card_json(card), encoding="utf-8")
        (folder / "release_card.md").write_text(card_markdown(card), encoding="utf-8")
        (folder / "index.html").write_text(render_public_page(data), encoding="utf-8")
        (folder / "metrics.json").write_text(json.dumps(public_metrics(data), indent=1) + "\n")
        plots = folder / "plots"
        plots.mkdir()
        votes_table(data).to_csv(plots / "votes.csv", index=False)
        survivors_table(data).to_csv(plots / "survivors.csv", index=False)
    make_private(roots.internal)
    with atomic_file(roots.internal / "index.html") as path:
        path.write_text(
            render_internal_page(data, internal_of(base, params, schema)), encoding="utf-8"
        )


if __name__ == "__main__":
    stage.main(NAME, run)
