"""Writes the release card, a public page, and an internal page for the owner of the data.

Reads    data/released/, the schema, the ledger; for the internal page reports/internal/ and the
         private metadata
Writes   reports/public/     release_card.json, .md and .html, index.html, metrics.json, plots/,
                             and a copy of each method's texts
         reports/internal/   index.html: computed on real texts, not DP
         <state>/releases/   what the next report compares with (`release.history`)
Spends   nothing
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sugarbush.data.private_store import HELDOUT, TRAIN
from sugarbush.errors import PrivacyError
from sugarbush.evaluation.interface import read_values
from sugarbush.evolution.population import load_population
from sugarbush.methods.interface import Method
from sugarbush.paths import atomic_directory, atomic_file, make_private, require
from sugarbush.pipeline.dp_table import counts_of
from sugarbush.pipeline.graph import stage_named
from sugarbush.pipeline.page_data import public_data
from sugarbush.pipeline.renewal import renewal_of
from sugarbush.pipeline.stages.measure import releases_of
from sugarbush.privacy.settings import PrivacySettings
from sugarbush.quality.judge import FILE as VERDICTS
from sugarbush.quality.judge import judge
from sugarbush.quality.public_quality import require_same_texts
from sugarbush.registry import METHODS, plugin_names
from sugarbush.release.columns import typed_table
from sugarbush.release.figures import given_lines
from sugarbush.release.folders import (
    final_folder,
    methods_of_releases,
    read_release,
    write_records,
)
from sugarbush.release.own_charges import own_charges
from sugarbush.release.store import FolderRun, MethodTexts
from sugarbush.report.card_files import card_files
from sugarbush.report.card_values import release_card
from sugarbush.report.downloads import LINES, PARQUET, RECORDS, downloads_beside, texts_name
from sugarbush.report.dp_table import dependence
from sugarbush.report.json_fields import json_number
from sugarbush.report.model import (
    InternalData,
    PublicData,
)
from sugarbush.report.page import render_internal_page, render_public_page
from sugarbush.report.tables import (
    survivors_table,
    synthetic_projection,
    votes_table,
)
from sugarbush.report.verdict import Verdict
from sugarbush.run.context import Project
from sugarbush.run.records import private_store
from sugarbush.run.tools import label_reader

NAME = "report"


def public_metrics(data: PublicData) -> dict[str, Any]:
    """Return the values for `dvc metrics`. All values are released."""
    card = release_card(data.release)
    found: dict[str, Any] = {
        "epsilon": json_number(card.promise.epsilon),
        "epsilon_of_this_run": json_number(card.promise.epsilon_of_this_run),
        "dataset_total_epsilon": json_number(card.budget.dataset_total_epsilon),
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
    codes = {
        split: private_store(project).real_codes(schema.names, split=split)
        for split in (TRAIN, HELDOUT)
    }
    read = json.loads(require(roots.internal / "read.json", left_by="evaluate").read_text())
    real = private_store(project).real_texts(
        schema.names, split=HELDOUT, limit=settings.evaluate.max_texts, seed=settings.seed
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
        removed=private_store(project).tally().get("public", 0),
    )


def _audits(project: Project) -> dict[str, Any]:
    """Load the results of stage audit by method. The result is empty if the stage is disabled."""
    if not project.settings.audit.enabled:
        return {}
    found = require(project.roots.internal / "audit.json", left_by="audit").read_text()
    return dict(json.loads(found))


def maps_of(project: Project, real: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """Return the positions (n, 2) of real texts on each map, with axes from synthetic texts."""
    private, encoder = project.inputs.encoder(private=True), project.inputs.encoder(private=False)
    found = {}
    for method in project.settings.released:
        path = final_folder(project.roots, method) / "lineage.parquet"
        final = load_population(path, project.schema.names)
        if len(final) > 1:
            axes = synthetic_projection(encoder.encode(final.texts))
            found[method.name] = axes(private.encode(real))
    return found


def page_data(project: Project) -> PublicData:
    """Collect everything that the card and the public page show, from the project's folders."""
    released = FolderRun(project.roots, project.schema)
    folders = [project.roots.released / "metadata"]
    folders += [final_folder(project.roots, method) for method in project.settings.released]
    for folder in folders:
        _require_same_bounds(folder, project.settings.privacy)
    figures, metadata = released.figures(), released.metadata().values
    if figures is not None:
        require_same_texts(figures, releases_of(project))

    def verdict(method: Method, texts: MethodTexts) -> Verdict:
        return judge(
            texts.lineage,
            texts.labels,
            reader=label_reader(project, metadata, method),
            wanted=project.settings.release.size(metadata.count),
            measured=() if figures is None else figures.by_method.get(method.name, ()),
            look=project.look,
        )

    return public_data(
        released,
        settings=project.settings,
        schema=project.schema,
        ledger=project.ledger(),
        ledger_ids=own_charges(
            project.roots, project.settings.released, project.ledger(rehearse=False)
        ),
        plan=project.plan,
        looked=() if project.look is None else project.look.ledger_ids,
        encode=project.inputs.encoder(private=False).encode,
        verdict=verdict,
        earlier=_methods_of_earlier_runs(project),
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


def run(project: Project) -> None:
    """Write the card and both pages if a method has released texts."""
    roots = project.roots
    if not project.settings.released:
        stage_named(NAME).skip(project.base)
        return
    data = page_data(project)
    facts = replace(data.release, renewal=renewal_of(project, data.release))
    data = replace(data, release=facts)
    card = release_card(data.release)
    with atomic_directory(roots.published) as folder:
        for name, content in card_files(card).items():
            (folder / name).write_text(content, encoding="utf-8")
        (folder / "index.html").write_text(render_public_page(data), encoding="utf-8")
        verdicts = {m.name: m.verdict.value.to_json() for m in data.methods if m.verdict}
        (folder / VERDICTS).write_text(json.dumps(verdicts, indent=1, allow_nan=False) + "\n")
        (folder / "metrics.json").write_text(
            json.dumps(public_metrics(data), indent=1, allow_nan=False) + "\n"
        )
        for method in project.settings.released:
            lines = given_lines(final_folder(roots, method))
            (folder / texts_name(method.name, LINES)).write_bytes(lines)
            table = typed_table(lines.decode("utf-8"), project.schema)
            table.write(folder / texts_name(method.name, PARQUET))
            write_records(lines.decode("utf-8"), project.schema, folder, f"{RECORDS}_{method.name}")
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
