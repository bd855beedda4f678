"""Attacks the texts and the methods, and computes lower bounds on epsilon. The data is the example
or a benchmark.

Reads    data/private/, data/released/{enlarge,generate}/<method>/, data/private/arms/
Writes   reports/internal/audit.json; data/stamps/audit.json
Spends   nothing. The results are internal, because they are computed on real texts

The stage runs only if `audit.enabled` is true.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sugarbush.audits.phantoms import Marks, disclosure, phrases
from sugarbush.data.private_store import HELDOUT, TRAIN
from sugarbush.evolution.population import load_population
from sugarbush.paths import atomic_file, make_private
from sugarbush.pipeline.audit import audit
from sugarbush.pipeline.in_memory import corpus_of_project
from sugarbush.pipeline.method_audit import (
    audit_records,
    is_auditable,
    method_run,
    method_size,
    target_epsilon,
)
from sugarbush.pipeline.project import Project
from sugarbush.pipeline.released import final_folder
from sugarbush.training.crt.patterns import RegexDetector

NAME = "audit"


def _identifiers(texts: Sequence[str]) -> list[set[str]]:
    found = RegexDetector().find(texts)
    return [
        {text[one.start : one.end].casefold() for one in own}
        for text, own in zip(texts, found, strict=True)
    ]


MARKS: dict[str, Marks] = {"6 words": phrases(6), "identifiers": _identifiers}


def run(project: Project) -> None:
    """Audit every chosen method."""
    names = project.schema.names
    train, heldout = (project.private.real_texts(names, part=part) for part in (TRAIN, HELDOUT))
    corpus = corpus_of_project(project)
    found: dict[str, Any] = {}
    for method in project.settings.chosen:
        final = load_population(final_folder(project.roots, method) / "lineage.parquet", names)
        print(f"{NAME}: {method.name}", flush=True)
        found[method.name] = {
            name: asdict(
                disclosure(final.texts, training=train.texts, heldout=heldout.texts, marks=marks)
            )
            for name, marks in MARKS.items()
        }
        if is_auditable(method):
            records = audit_records(corpus, method)
            finding = audit(
                method.name,
                epsilon=target_epsilon(method, project.settings),
                size=method_size(method, records, runs=10),
                run=method_run(method, corpus, records),
            )
            found[method.name] |= {
                "claimed_epsilon": finding.claimed_epsilon,
                "lower_epsilon": finding.lower_epsilon,
                "confidence": finding.confidence,
            }
    with atomic_file(make_private(project.roots.internal) / "audit.json") as path:
        path.write_text(json.dumps(found, indent=1))
    project.renew_stamp(NAME)
