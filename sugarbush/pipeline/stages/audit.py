"""Attacks the texts and the methods, and computes lower bounds on epsilon. The data is the example
or a benchmark.

Reads    data/private/, data/released/{enlarge,generate}/<method>/, data/private/arms/
Writes   reports/internal/audit.json; data/stamps/audit.json
Spends   nothing. The results are internal, because they are computed on real texts

The stage runs only if `audit.enabled` is true.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from typing import Any

from sugarbush.audits.canary_audit import audit
from sugarbush.audits.method_audit import (
    AuditCorpus,
    audit_records,
    is_auditable,
    method_run,
    method_size,
    target_epsilon,
)
from sugarbush.audits.phantoms import MARKS, disclosure
from sugarbush.data.private_store import HELDOUT, TRAIN
from sugarbush.evolution.population import load_population
from sugarbush.paths import atomic_file, make_private
from sugarbush.pipeline.in_memory import corpus_of_project
from sugarbush.pipeline.stamps import renew_stamp
from sugarbush.release.folders import final_folder
from sugarbush.run.context import Project
from sugarbush.run.tools import label_of

NAME = "audit"


def audit_corpus(project: Project) -> AuditCorpus:
    """Return the prepared corpus of a project, for audits of its methods."""
    corpus = corpus_of_project(project)
    return AuditCorpus(
        schema=corpus.schema,
        privacy=corpus.settings.privacy,
        label=label_of(project),
        real_texts=corpus.real_texts,
        encode=partial(corpus.encode, private=True),
    )


def run(project: Project) -> None:
    """Audit every chosen method."""
    project.ledger(rehearse=False).note_shown("audit")
    names = project.schema.names
    corpus = audit_corpus(project)
    train, heldout = (corpus.real_texts(split).texts for split in (TRAIN, HELDOUT))
    found: dict[str, Any] = {}
    for method in project.settings.chosen:
        final = load_population(final_folder(project.roots, method) / "lineage.parquet", names)
        print(f"{NAME}: {method.name}", flush=True)
        found[method.name] = {
            name: asdict(disclosure(final.texts, training=train, heldout=heldout, marks=marks))
            for name, marks in MARKS.items()
        }
        if is_auditable(method):
            records = audit_records(corpus, method)
            finding = audit(
                method.name,
                epsilon=target_epsilon(method, corpus.privacy),
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
    renew_stamp(project, NAME)
