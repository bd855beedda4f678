"""Writes the release card, a public page, and an internal page for the owner of the data.

Reads    data/released/, the schema, the ledger; for the internal page reports/internal/ and the
         private metadata
Writes   reports/public/     release_card.json, .md and .html, index.html, metrics.json, plots/,
                             and a copy of each method's texts
         reports/internal/   index.html: computed on real texts, not DP
Spends   nothing
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sugarbush.attributes.agreement import Agreement
from sugarbush.attributes.reader import Labels
from sugarbush.data.private_store import HELDOUT, TRAIN
from sugarbush.errors import PrivacyError
from sugarbush.evaluation.interface import read_values
from sugarbush.evolution.parts import Lineage, Scored
from sugarbush.evolution.population import NO_PARENT, Population, load_population
from sugarbush.generators.interface import Embed, Usage
from sugarbush.generators.prices import cost_of
from sugarbush.methods.interface import Method
from sugarbush.paths import Roots, atomic_directory, atomic_file, make_private, require
from sugarbush.pipeline.dp_table import counts_of, dp_counts_of, dp_table_of
from sugarbush.pipeline.graph import stage_named
from sugarbush.pipeline.own_charges import own_charges
from sugarbush.pipeline.release_facts import ReleaseContents, release_facts, text_counts
from sugarbush.pipeline.stages.measure import releases_of
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.settings import PrivacySettings
from sugarbush.quality.judge import FILE as VERDICTS
from sugarbush.quality.judge import judge
from sugarbush.quality.public_quality import (
    given_labels,
    given_lines,
    quality_of,
    read_figures,
    require_same_texts,
)
from sugarbush.registry import METHODS, plugin_names
from sugarbush.release.columns import typed_table
from sugarbush.release.folders import (
    donated_frame,
    final_folder,
    first_folder,
    methods_of_releases,
    read_ledger_ids,
    read_lineage,
    read_metadata,
    read_release,
)
from sugarbush.report.card import card_files, release_card
from sugarbush.report.downloads import LINES, PARQUET, downloads_beside, texts_name
from sugarbush.report.dp_table import dependence
from sugarbush.report.model import (
    EmbeddingMap,
    InternalData,
    MethodData,
    PublicData,
    RoundData,
    ScoredData,
    Spend,
    SyntheticText,
)
from sugarbush.report.page import render_internal_page, render_public_page
from sugarbush.report.tables import (
    survivors_table,
    synthetic_projection,
    votes_table,
    with_ancestors,
)
from sugarbush.report.verdict import Verdict
from sugarbush.run.context import Project

NAME = "report"
MOST_SHOWN = 5000  # texts per method on the pages; 5,000 texts of 100 words need about 4 MB


def agreements_of(roots: Roots) -> tuple[Agreement, ...]:
    """Load the agreement between extracted attributes and the labels of the donated examples."""
    folder = require(roots.public / "donated", left_by="extract_metadata")
    rows = json.loads((folder / "agreement.json").read_text())
    return tuple(Agreement(**row) for row in rows)


def method_of(project: Project, method: Method, *, encode: Embed) -> MethodData:
    """Collect a method's rounds, its final texts with their lineage, and their cost."""
    schema, folder = project.schema, final_folder(project.roots, method)
    ids = read_ledger_ids(folder)
    lineage, labels = read_lineage(folder, schema), given_labels(folder)
    final, rounds = lineage.final, lineage.rounds
    texts = _texts(lineage, labels, MOST_SHOWN)
    return MethodData(
        name=method.name,
        final_texts=len(final),
        written_afterwards=text_counts(lineage)["written_afterwards"],
        asked=Released(counts_of(final.codes, schema), ids),
        labels=Released(labels.attributes, ids),
        verdict=_verdict(project, method, lineage, labels, ids=ids),
        texts=Released(texts, ids),
        rounds=tuple(
            RoundData(**vars(_scored_data(each)), number=each.number, survivors=each.survivors)
            for each in rounds
        ),
        scored=None if lineage.scored is None else _scored_data(lineage.scored),
        spends=tuple(_spends(project, method)),
        map=Released(_map(final, encode), ids) if len(final) > 1 else None,
    )


def _scored_data(scored: Scored) -> ScoredData:
    assert scored.stddev is not None
    return ScoredData(
        name=scored.name,
        votes=scored.scores.map(lambda scores: scores / scored.unit),
        stddev=scored.stddev / scored.unit,
        written=scored.population.rounds,
    )


def _verdict(
    project: Project, method: Method, lineage: Lineage, labels: Labels, *, ids: Sequence[str]
) -> Released[Verdict]:
    metadata, figures = read_metadata(project.roots), read_figures(project.roots)
    verdict = judge(
        lineage,
        labels,
        reader=project.label_reader(metadata, method),
        wanted=project.settings.release.size(metadata.count),
        measured=() if figures is None else figures.by_method.get(method.name, ()),
        look=project.look,
    )
    looked = () if project.look is None else project.look.ledger_ids
    measured = () if figures is None else figures.ledger_ids
    return Released(verdict, tuple(dict.fromkeys((*ids, *measured, *looked))))


def _map(final: Population, encode: Embed) -> EmbeddingMap:
    """Project the final texts to two dimensions. The axes are computed from these texts."""
    embeddings = encode(final.texts)
    return EmbeddingMap(points=synthetic_projection(embeddings)(embeddings), written=final.rounds)


def _texts(lineage: Lineage, labels: Labels, limit: int) -> tuple[SyntheticText, ...]:
    """Return the first `limit` final texts with the values that were read from them, and all their
    ancestors with the values that were requested."""
    final, rounds = lineage.final, lineage.rounds
    votes = {} if lineage.last is None else _votes(lineage.last)
    read = replace(final, codes=labels.given_codes).take(np.arange(min(limit, len(final))))
    candidates = [text for each in reversed(rounds) for text in _described(each.population, {})]
    return with_ancestors(tuple(_described(read, votes)), candidates)


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
            examples=population.examples[place],
        )


def _votes(last: Scored) -> dict[int, int]:
    """Return noisy votes by candidate id. A stored score is `unit` times one vote."""
    scores = zip(last.population.ids, last.scores.value, strict=True)
    return {int(i): round(score / last.unit) for i, score in scores}


def _spends(project: Project, method: Method) -> Iterator[Spend]:
    folder = final_folder(project.roots, method)
    steps = json.loads((folder / "usage.json").read_text())
    first = first_folder(project.roots, method)
    if first is not None:
        steps = {"first candidates": json.loads((first / "usage.json").read_text()), **steps}
    price = project.settings.generator.chosen.price if method.facts.asks_generator else None
    for name, fields in steps.items():
        usage = Usage(**fields)
        cost = cost_of(
            price,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cached_prompt_tokens=usage.cached_prompt_tokens,
        )
        yield Spend(step=name.replace("_", " "), usage=usage, cost=cost)


def public_metrics(data: PublicData) -> dict[str, Any]:
    """Return the values for `dvc metrics`. All values are released."""
    card = release_card(data.release)
    found: dict[str, Any] = {
        "epsilon": card["promise"]["epsilon"],
        "epsilon_of_this_run": card["promise"]["epsilon_of_this_run"],
        "dataset_total_epsilon": card["budget"]["dataset_total_epsilon"],
    }
    for method in data.methods:
        usage = [spend.usage for spend in method.spends]
        found[method.name] = {
            "texts": method.final_texts,
            "calls": sum(u.calls + u.cached_calls for u in usage),
            "prompt_tokens": sum(u.prompt_tokens for u in usage),
            "completion_tokens": sum(u.completion_tokens for u in usage),
            "cached_prompt_tokens": sum(u.cached_prompt_tokens for u in usage),
            "unusable_answers": sum(sum(u.problems.values()) for u in usage),
        }
        if (quality := data.release.quality) is not None:
            figures = quality.figures.value.get(method.name, ())
            found[method.name]["figures"] = {f.title: round(f.value, 4) for f in figures}
        if method.verdict is not None:
            verdict = method.verdict.value
            found[method.name] |= {"verdict": verdict.grade, **verdict.figures}
    return found


def internal_of(project: Project) -> InternalData:
    """Collect the values for the internal page. These values are computed on real texts."""
    roots, schema, settings = project.roots, project.schema, project.settings
    rows = pd.read_csv(require(roots.internal / "figures.csv", left_by="evaluate"))
    codes = {part: project.private.real_codes(schema.names, part=part) for part in (TRAIN, HELDOUT)}
    read = json.loads(require(roots.internal / "read.json", left_by="evaluate").read_text())
    real = project.private.real_texts(
        schema.names, part=HELDOUT, limit=settings.evaluate.max_texts, seed=settings.seed
    )
    sizes = roots.internal / "by_texts.json"
    by_texts = json.loads(sizes.read_text()) if sizes.exists() else {}
    return InternalData(
        values=read_values({str(k): v for k, v in row.items()} for row in rows.to_dict("records")),
        by_texts={int(count): read_values(values) for count, values in by_texts.items()},
        heldout=counts_of(codes[HELDOUT], schema),
        train=counts_of(codes[TRAIN], schema),
        dependence=dependence(codes[TRAIN], schema.names),
        read={
            method: {name: np.array(counts) for name, counts in of.items()}
            for method, of in read.items()
        },
        heldout_map=maps_of(project, real.texts),
        audits=_audits(project),
        removed=project.private.tally().get("public", 0),
    )


def _audits(project: Project) -> dict[str, Any]:
    """Load the results of stage audit by method. The result is empty if the stage is disabled."""
    if not project.settings.audit.enabled:
        return {}
    found = require(project.roots.internal / "audit.json", left_by="audit").read_text()
    return dict(json.loads(found))


def maps_of(project: Project, real: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """Return the positions (n, 2) of real texts on each map, with axes from synthetic texts."""
    private, encoder = project.encoder(private=True), project.encoder(private=False)
    found = {}
    for method in project.settings.released:
        path = final_folder(project.roots, method) / "lineage.parquet"
        final = load_population(path, project.schema.names)
        if len(final) > 1:
            axes = synthetic_projection(encoder.encode(final.texts))
            found[method.name] = axes(private.encode(real))
    return found


def public_data(project: Project) -> PublicData:
    """Collect everything that the card and the public page show."""
    encode = project.encoder(private=False).encode
    folders = [project.roots.released / "metadata"]
    folders += [final_folder(project.roots, method) for method in project.settings.released]
    for folder in folders:
        _require_same_bounds(folder, project.settings.privacy)
    donated = tuple(donated_frame(project.roots)["text"])
    table = dp_table_of(project.base)
    figures, metadata = read_figures(project.roots), read_metadata(project.roots)
    if figures is not None:
        require_same_texts(figures, releases_of(project))
    return PublicData(
        release=release_facts(
            project.settings,
            project.schema,
            ReleaseContents(
                texts={m.name: _text_counts(project, m) for m in project.settings.released},
                donated=len(donated),
                engine=None if table is None else table.engine,
                earlier=_methods_of_earlier_runs(project),
            ),
            ledger=project.ledger(),
            ledger_ids=own_charges(project),
            plan=project.plan,
            quality=quality_of(
                project.settings,
                project.schema,
                figures,
                labels={
                    method.name: given_labels(final_folder(project.roots, method))
                    for method in project.settings.released
                },
                counts=metadata.counts_of(project.schema),
            ),
        ),
        methods=tuple(method_of(project, m, encode=encode) for m in project.settings.released),
        metadata=dp_counts_of(project.base, project.schema),
        table=table,
        agreements=agreements_of(project.roots),
        donated=donated,
        downloads=downloads_beside([m.name for m in project.settings.released]),
    )


def _require_same_bounds(folder: Path, privacy: PrivacySettings) -> None:
    """Raise PrivacyError if a released folder has another unit or number of records per user."""
    fields = read_release(folder)
    made = (fields["unit"], fields["records_per_unit"])
    if made != (privacy.unit.value, privacy.records_per_user):
        raise PrivacyError(
            f"{folder}: was made for unit {made[0]} with at most {made[1]} records per user, but "
            f"the settings say unit {privacy.unit} with at most {privacy.records_per_user}. Run "
            "`sugarbush run`, or set privacy.unit and privacy.records_per_user back"
        )


def _methods_of_earlier_runs(project: Project) -> list[Method]:
    """Return the installed methods of the other folders of data/released, for their remarks."""
    settings = project.settings
    names = methods_of_releases(project.roots, settings.privacy) - set(settings.methods.by_name)
    return [settings.method(name) for name in plugin_names(METHODS) if name in names]


def _text_counts(project: Project, method: Method) -> dict[str, int]:
    folder = final_folder(project.roots, method)
    return text_counts(read_lineage(folder, project.schema))


def run(project: Project) -> None:
    """Write the card and both pages if a method has released texts."""
    roots = project.roots
    if not project.settings.released:
        stage_named(NAME).skip(project.base)
        return
    data = public_data(project)
    card = release_card(data.release)
    with atomic_directory(roots.published) as folder:
        for name, content in card_files(card).items():
            (folder / name).write_text(content, encoding="utf-8")
        (folder / "index.html").write_text(render_public_page(data), encoding="utf-8")
        verdicts = {m.name: m.verdict.value.as_dict() for m in data.methods if m.verdict}
        (folder / VERDICTS).write_text(json.dumps(verdicts, indent=1, allow_nan=False) + "\n")
        (folder / "metrics.json").write_text(
            json.dumps(public_metrics(data), indent=1, allow_nan=False) + "\n"
        )
        for method in project.settings.released:
            lines = given_lines(final_folder(roots, method))
            (folder / texts_name(method.name, LINES)).write_bytes(lines)
            table = typed_table(lines.decode("utf-8"), project.schema)
            table.write(folder / texts_name(method.name, PARQUET))
        plots = folder / "plots"
        plots.mkdir()
        votes_table(data).to_csv(plots / "votes.csv", index=False)
        survivors_table(data).to_csv(plots / "survivors.csv", index=False)
    page = make_private(roots.internal) / "index.html"
    if not project.settings.evaluate.show:
        page.unlink(missing_ok=True)
        return
    names = [method.name for method in data.methods]
    data = replace(data, downloads=downloads_beside(names, folder="../public/"))
    with atomic_file(page) as path:
        path.write_text(render_internal_page(data, internal_of(project)), encoding="utf-8")
