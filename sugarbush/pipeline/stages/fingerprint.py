"""Checks in every run whether the files in the settings have changed.

Reads    prepare.file, prepare.donated, the schema, the generator's and the methods' public files
Writes   data/stamps/                corpus.json, policy.json: random names of private files (the
                                     corpus, the files of crt), which change with the files;
                                     schema.json, donated.json, pool.json: keyed digests of public
                                     files
         data/stamps/settings.json   the resolved settings that affect an output, the planned noise
                                     of each mechanism, a digest of the code
Spends   nothing

DVC compares these stamps instead of the files. So DVC sees no hash and no size of a private file.
If the private files of a later stage are missing, this stage removes their stamp, so that DVC runs
the later stage again. A forced run gives the corpus a new name, so all results are drawn again. A
run that reuses the last release (`pipeline.draws`) does not read the corpus, which keeps its name.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sugarbush.data.private_store import HELDOUT, TRAIN, read_stamp, write_stamp
from sugarbush.data.reading import digest_of_files, digest_of_source
from sugarbush.data.remote import Database, source_of
from sugarbush.evaluation.first_look import NAMES as LOOK
from sugarbush.evolution.starts import LABELS, METADATA
from sugarbush.paths import atomic_file
from sugarbush.pipeline.code import code_digest
from sugarbush.pipeline.draws import Draws, decide_draws
from sugarbush.pipeline.dvc_lock import code_of_last_run, stages_of_new_version
from sugarbush.pipeline.graph import STAGES
from sugarbush.pipeline.plan import requests_of_figures, store_plan
from sugarbush.pipeline.renewal import states_other_draws
from sugarbush.privacy.budget import BudgetAllocation, BudgetPlan
from sugarbush.release.card_state import has_old_card
from sugarbush.report.card import CARD_FILE
from sugarbush.run.choices import wants_new_draw
from sugarbush.run.context import Project
from sugarbush.run.records import key_of, private_store, snapshots_of
from sugarbush.settings import Section

NAME = "fingerprint"
_KEEPS = {
    Draws.NONE: "the last release is reused and nothing is charged. Later records are not in it",
    Draws.REST: "the last run is continued on the records with which it started",
}


def run(project: Project, *, only_look: bool = False) -> None:
    """Write the stamps and the resolved settings. With `only_look`, a changed corpus gets no new
    name in the state folder. So results of the former corpus stay valid if the former corpus
    returns."""
    settings = project.settings
    if not only_look:
        _warn_of_another_project(project)
        _say_if_code_changed(project.base)
    decision = decide_draws(project)
    if not (only_look or decision.is_new):
        print(f"{NAME}: {_KEEPS[decision.draws]}: {decision.reason}", flush=True)
    donated = [] if settings.prepare.donated is None else [settings.prepare.donated]
    public = list(settings.generator.chosen.public_files())
    which: list[Section] = [settings.generator.chosen]
    if any(method.facts.pretrained for method in settings.chosen):
        public += [source.file for source in settings.pretrain.sources]
        which.append(settings.pretrain)
    policy = [named for method in settings.chosen for named in method.facts.files]
    digests = {
        "corpus": _digest_of_corpus(project) if decision.is_new else b"",
        "schema": hashlib.sha256(project.schema.model_dump_json().encode()).digest(),
        "donated": _digest(project, donated, "prepare.donated"),
        "pool": _digest(project, public, "generator.pool.sources") + _selections(which),
        "policy": _digest(
            project, [name for name, _ in policy], ", ".join(setting for _, setting in policy)
        ),
    }
    key = key_of(project)
    for name, digest in digests.items():
        keyed = hmac.digest(key, name.encode() + digest, "sha256").hex()
        if name == "corpus" and not decision.is_new:
            keyed = str(snapshots_of(project).now(name))
        elif name in ("corpus", "policy"):
            keyed = (
                snapshots_of(project).seen(name, digest=keyed)
                if only_look
                else snapshots_of(project).of(name, digest=keyed, renew=wants_new_draw())
            )
        write_stamp(project.roots.stamps / f"{name}.json", keyed)
    with atomic_file(project.roots.stamps / "settings.json", public=True) as path:
        path.write_text(
            json.dumps(resolved_settings(project) | decision.to_json(), indent=1, sort_keys=True)
            + "\n"
        )
    forget_digests_without_files(project)
    if not only_look and has_old_card(project.roots, settings.privacy, project.ledger()):
        # without a card, DVC writes the report again
        (project.roots.published / CARD_FILE).unlink(missing_ok=True)
    if not only_look and states_other_draws(project, decision):
        (project.roots.published / "index.html").unlink(missing_ok=True)  # so is it without a page


def _warn_of_another_project(project: Project) -> None:
    """Print a warning if another project has changed the name of the training texts."""
    stamp = project.roots.stamps / "train_texts.json"
    own = read_stamp(stamp, left_by="prepare") if stamp.exists() else None
    if own is not None and snapshots_of(project).now("train_texts") not in (None, own):
        print(
            f"{NAME}: another project or experiment has run on dataset '{project.dataset}' with "
            "other files or settings since this project's last run. So this run draws new "
            "noise and is charged again. Use one project for a dataset",
            flush=True,
        )


def _say_if_code_changed(base: Path) -> None:
    """Print what an upgrade does to the results of this project, if its last run was before it."""
    if code_of_last_run(base) in (None, code_digest()):
        return
    new = stages_of_new_version(base)
    print(
        f"{NAME}: the code of Sugarbush or of a plug-in has changed since the last run. Stages "
        "that spend nothing run again. "
        + (f"Mechanisms of a new version draw and charge again: {', '.join(new)}. " if new else "")
        + f"{'Other stages' if new else 'Stages'} that spend keep their results. They draw and "
        "charge again only if one of their inputs comes out differently",
        flush=True,
    )


def resolved_settings(project: Project) -> dict[str, Any]:
    """Return the content of settings.json. All values are public, because DVC sees them."""
    return {
        "settings": project.settings.output_settings(),
        "plan": _plan(project),
        "code": code_digest(),
        "versions": {s.name: s.version for s in STAGES if s.version is not None},
    }


def forget_digests_without_files(project: Project) -> None:
    """Remove the stamps of missing private files, because DVC cannot see these files."""
    store, stamps = private_store(project), project.roots.stamps
    needs = {
        "prepare": store.bounds_file,
        "train_texts": store.prepared_file(TRAIN),
        "evaluate": project.roots.internal / "metrics.json",
    }
    if project.settings.reads_codes:
        needs["train_codes"] = store.codes_file(TRAIN)
        needs["extract_metadata"] = store.codes_file(HELDOUT)
    for name, file in needs.items():
        if not file.exists():
            (stamps / f"{name}.json").unlink(missing_ok=True)


def _digest(project: Project, names: list[str], setting: str) -> bytes:
    return digest_of_files(project.base, names, setting=setting)


def _digest_of_corpus(project: Project) -> bytes:
    settings, setting = project.settings.prepare, "prepare.file"
    source = source_of(project.base, settings.file, setting=setting)
    wanted: Mapping[str, str] = {}
    if isinstance(source, Database):
        from sugarbush.data.records import wanted_columns  # slow, and files do not need it

        wanted = dict(wanted_columns(settings, project.schema, private=True))
        shape = project.schema.shape
        if shape is not None and shape.reads_all_columns:  # the digest needs the columns' names
            wanted |= dict.fromkeys(shape.types, "text.json_schema of the schema")
    return digest_of_source(source, setting=setting, wanted=wanted, options=settings.read_options)


def _selections(sections: Iterable[Section]) -> bytes:
    """Return the settings that select public texts from the files of `sections`. The other texts of
    these files may be private."""
    fields = {"sources": {"__all__": {"text_column", "rows", "share"}}}
    found = [section.model_dump(mode="json", include=fields) for section in sections]
    return json.dumps(found).encode() if any(own.get("sources") for own in found) else b""


def _plan(project: Project) -> dict[str, Any]:
    """Return the planned noise of each stage that draws noise."""
    plan = store_plan(project)
    shared = [_allocation(plan, name) for name in (METADATA, LABELS)]
    by_method = {
        method.name: [
            _allocation(plan, request.name)
            for request in method.budget_requests()
            if request.name not in (METADATA, LABELS)
        ]
        for method in project.settings.chosen
    }
    figures = [_allocation(plan, request.name) for request in requests_of_figures(project)]
    look = [_allocation(plan, name) for name in LOOK if plan.holds(name)]
    return {"look": look, "metadata": shared, "by_method": by_method, "figures": figures}


def _allocation(plan: BudgetPlan, name: str) -> dict[str, Any] | None:
    if not plan.holds(name):
        return None
    allocation: BudgetAllocation = plan.of(name)
    return {
        "name": name,
        "mu": allocation.mu,
        "count": allocation.count,
        "sensitivity": allocation.sensitivity,
    }
