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
the later stage again. A forced run gives the corpus a new name, so all results are drawn again.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from sugarbush.data.private_store import HELDOUT, TRAIN, read_stamp, write_stamp
from sugarbush.data.reading import digest_of_files, digest_of_source
from sugarbush.data.remote import Database, source_of
from sugarbush.evaluation.first_look import NAMES as LOOK
from sugarbush.evolution.starts import LABELS, METADATA
from sugarbush.paths import atomic_file, reading
from sugarbush.pipeline.dvc_lock import code_of_last_run
from sugarbush.pipeline.graph import STAGES
from sugarbush.privacy.budget import BudgetAllocation, BudgetPlan
from sugarbush.privacy.results import digest_of
from sugarbush.registry import DETECTORS, ENCODERS, GENERATORS, METHODS, METRICS, packages_of
from sugarbush.release.folders import charges_of_releases
from sugarbush.run.choices import wants_new_draw
from sugarbush.run.context import Project
from sugarbush.settings import Section

NAME = "fingerprint"
CARD = "release_card.json"
ROUNDING = 1e-6  # another processor may compute an epsilon that differs by less
_SHOW_THE_CARD = (CARD, "release_card.md", "release_card.html", "index.html")


def run(project: Project, *, only_look: bool = False) -> None:
    """Write the stamps and the resolved settings. With `only_look`, a changed corpus gets no new
    name in the state folder. So results of the former corpus stay valid if the former corpus
    returns."""
    settings = project.settings
    if not only_look:
        _warn_of_another_project(project)
        _say_if_code_changed(project.base)
    donated = [] if settings.prepare.donated is None else [settings.prepare.donated]
    public = list(settings.generator.chosen.public_files())
    which: list[Section] = [settings.generator.chosen]
    if any(method.facts.pretrained for method in settings.chosen):
        public += [source.file for source in settings.pretrain.sources]
        which.append(settings.pretrain)
    policy = [named for method in settings.chosen for named in method.facts.files]
    digests = {
        "corpus": _digest_of_corpus(project),
        "schema": hashlib.sha256(project.schema.model_dump_json().encode()).digest(),
        "donated": _digest(project, donated, "prepare.donated"),
        "pool": _digest(project, public, "generator.pool.sources") + _selections(which),
        "policy": _digest(
            project, [name for name, _ in policy], ", ".join(setting for _, setting in policy)
        ),
    }
    key = project.key
    for name, digest in digests.items():
        keyed = hmac.digest(key, name.encode() + digest, "sha256").hex()
        if name in ("corpus", "policy"):
            keyed = (
                project.snapshots.seen(name, digest=keyed)
                if only_look
                else project.snapshots.of(name, digest=keyed, renew=wants_new_draw())
            )
        write_stamp(project.roots.stamps / f"{name}.json", keyed)
    with atomic_file(project.roots.stamps / "settings.json", public=True) as path:
        path.write_text(json.dumps(resolved_settings(project), indent=1, sort_keys=True) + "\n")
    forget_digests_without_files(project)
    if not only_look and has_old_card(project):
        # without a card, DVC writes the report again
        (project.roots.published / CARD).unlink(missing_ok=True)


def _warn_of_another_project(project: Project) -> None:
    """Print a warning if another project has changed the name of the training texts."""
    stamp = project.roots.stamps / "train_texts.json"
    own = read_stamp(stamp, left_by="prepare") if stamp.exists() else None
    if own is not None and project.snapshots.now("train_texts") not in (None, own):
        print(
            f"{NAME}: another project or experiment has run on dataset '{project.dataset}' with "
            "other files or settings since this project's last run. So this run draws new "
            "noise and is charged again. Use one project for a dataset",
            flush=True,
        )


def _say_if_code_changed(base: Path) -> None:
    """Print what an upgrade does to the results of this project, if its last run was before it."""
    if code_of_last_run(base) not in (None, code_digest()):
        print(
            f"{NAME}: the code of Sugarbush or of a plug-in has changed since the last run. Stages "
            "that spend nothing run again. Stages that spend keep their results. They draw and "
            "charge again only if one of their inputs comes out differently",
            flush=True,
        )


def has_old_card(project: Project) -> bool:
    """Return whether a public file shows a card of another state of the ledger, or of another
    ledger, or a card without a charge of a released folder. The totals on such a card may be too
    small. The times of the files say nothing: DVC and git restore old files with new times."""
    head, folder = project.ledger().head(), project.roots.published
    shown = {
        name: path.read_text("utf-8", "replace")
        for name in _SHOW_THE_CARD
        if (path := folder / name).exists()
    }
    charges = charges_of_releases(project.roots, project.settings.privacy)
    lacks_charge = CARD in shown and any(
        f'"id": "{i}"' not in shown[CARD] and f'"id": {i},' not in shown[CARD] for i in charges
    )
    return lacks_charge or any(head not in text for text in shown.values())


def states_too_little(project: Project) -> bool:
    """Return whether the card in reports/public states a smaller epsilon than the ledger gives.

    An earlier version may have counted less, or somebody changed the file. Computing the total may
    take seconds.
    """
    from sugarbush.pipeline.own_charges import spending_of_project  # slow

    path = project.roots.published / CARD
    spending = spending_of_project(project) if path.exists() else None
    if spending is None:
        return False
    with reading(path, advice="Write it again with: sugarbush run"):
        card = json.loads(path.read_text(encoding="utf-8"))
        stated = float(card["promise"]["epsilon"]), float(card["budget"]["dataset_total_epsilon"])
    computed = spending.epsilon, spending.total
    return any(
        not own >= exact * (1 - ROUNDING) for own, exact in zip(stated, computed, strict=True)
    )


def old_card_notice(project: Project) -> str | None:
    """Return a warning if the totals on the card may be too small, or None."""
    ledger = project.ledger()
    is_here = ledger.path.exists()
    if not has_old_card(project) and not (is_here and states_too_little(project)):
        return None
    if is_here:
        return (
            "this card is older than the ledger or belongs to another ledger, so its totals may be "
            "too small. For a new card, run: sugarbush run"
        )
    return (
        f"the ledger of dataset '{ledger.dataset}' is not on this machine, so it is unknown "
        "whether this card counts all charges"
    )


def resolved_settings(project: Project) -> dict[str, Any]:
    """Return the content of settings.json. All values are public, because DVC sees them."""
    return {
        "settings": project.settings.output_settings(),
        "plan": _plan(project),
        "code": code_digest(),
        "versions": {s.name: s.version for s in STAGES if s.version is not None},
    }


def code_digest() -> str:
    """Return a digest of all files of Sugarbush and of the packages with plug-ins, and of the
    versions of these packages.

    A list of the modules that a stage uses would be wrong after the next import. Almost every stage
    uses almost every module, so one digest makes no more stages stale than exact lists would.
    """
    plugins = {
        module: package
        for group in (GENERATORS, METHODS, ENCODERS, METRICS, DETECTORS)
        for module, package in packages_of(group).items()
    }
    whole = hashlib.sha256(json.dumps(plugins, sort_keys=True).encode())
    for module in sorted({"sugarbush", *plugins}):
        for name, path in sorted(_files(module)):
            content = path.read_bytes()
            whole.update(f"{module} {name} {len(content)}\0".encode() + content)
    return whole.hexdigest()[:16]


def forget_digests_without_files(project: Project) -> None:
    """Remove the stamps of missing private files, because DVC cannot see these files."""
    store, stamps = project.private, project.roots.stamps
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
    """Return the planned noise: a list for stage synthesize_metadata, and a list for each method.

    The last plan is stored in `.cache`, because planning takes most of the time of a run without
    changes. The stored plan only decides which stages are stale. A stage that draws noise computes
    its own plan.
    """
    key = digest_of(
        privacy=project.settings.privacy.model_dump(mode="json"),
        requests=[[asdict(r) for r in m.budget_requests()] for m in project.settings.chosen],
        methods={method.name: method.output_settings() for method in project.settings.chosen},
        measured=[asdict(request) for request in project.measured_requests],
        profile=project.profile_charges,
        code=code_digest(),
        library=version("dp-accounting"),
    )
    file = project.base / ".cache" / "plan.json"
    with suppress(OSError, ValueError, KeyError, TypeError):  # no plan is stored
        if (kept := json.loads(file.read_text()))["key"] == key:
            return cast(dict[str, Any], kept["plan"])
    plan = _computed_plan(project)
    with atomic_file(file) as path:
        path.write_text(json.dumps({"key": key, "plan": plan}))
    return plan


def _computed_plan(project: Project) -> dict[str, Any]:
    plan = project.plan
    shared = [_allocation(plan, name) for name in (METADATA, LABELS)]
    by_method = {
        method.name: [
            _allocation(plan, request.name)
            for request in method.budget_requests()
            if request.name not in (METADATA, LABELS)
        ]
        for method in project.settings.chosen
    }
    figures = [_allocation(plan, request.name) for request in project.figure_requests]
    look = [_allocation(plan, name) for name in LOOK if plan.holds(name)]
    return {"look": look, "metadata": shared, "by_method": by_method, "figures": figures}


def _allocation(plan: BudgetPlan, name: str) -> dict[str, Any] | None:
    if not plan.holds(name):
        return None
    part: BudgetAllocation = plan.of(name)
    return {"name": name, "mu": part.mu, "count": part.count, "sensitivity": part.sensitivity}


def _files(module: str) -> Iterator[tuple[str, Path]]:
    """Yield each file of a module or package with its name there: code, templates, word lists."""
    spec = find_spec(module)
    if spec is None:
        return
    for folder in map(Path, spec.submodule_search_locations or ()):
        for path in folder.rglob("*"):
            name = path.relative_to(folder)
            hidden = any(part.startswith((".", "__pycache__")) for part in name.parts)
            if path.is_file() and not hidden:
                yield name.as_posix(), path
    if spec.submodule_search_locations is None and spec.origin is not None:
        yield Path(spec.origin).name, Path(spec.origin)
