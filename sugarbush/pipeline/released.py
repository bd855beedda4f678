"""Released folders: how they are written and read, and what their release.json contains."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from sugarbush.data.private_store import PrivateStore
from sugarbush.data.schema import Schema
from sugarbush.evolution.evolve import Evolution
from sugarbush.evolution.initialisation import Donated
from sugarbush.evolution.population import NO_CODE, Population, load_population, save_population
from sugarbush.methods.interface import MetadataRelease, Method
from sugarbush.paths import Roots, require
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.settings import PrivacySettings, Purpose

T = TypeVar("T")
FILE = "release.json"
# The folders that version 0.1 used for the texts and the model of `dpft`.
_FOLDERS_OF_0_1 = {"generate": "generated", "finetune": "finetuned"}


def write_release(
    folder: Path,
    *,
    stage: str,
    privacy: PrivacySettings,
    ledger_ids: Iterable[str],
    run: str,
    has_guarantee: bool = True,
) -> None:
    """Write release.json: the stage, the guarantee, and the ids of its ledger entries.

    Without a DP guarantee the folder must never be published.
    """
    fields = {
        "stage": stage,
        "dataset": privacy.dataset,
        "purpose": privacy.purpose.value,
        "publishable": has_guarantee and privacy.purpose is Purpose.RELEASE,
        "unit": privacy.unit.value,
        "records_per_unit": privacy.records_per_user,
        "delta": privacy.delta,
        "ledger_ids": list(dict.fromkeys(ledger_ids)),
        "run": run,
    }
    (folder / FILE).write_text(json.dumps(fields, indent=1) + "\n")


def read_release(folder: Path) -> dict[str, Any]:
    """The release.json of a folder."""
    fields: dict[str, Any] = json.loads((folder / FILE).read_text())
    return fields


def read_ledger_ids(folder: Path) -> tuple[str, ...]:
    """The ids of the ledger entries that were charged for the content of a folder."""
    return tuple(read_release(folder)["ledger_ids"])


def restored(value: T, folder: Path) -> Released[T]:
    """A value that was read from a released folder."""
    return Released(value, read_ledger_ids(folder))


def read_metadata(roots: Roots) -> MetadataRelease:
    """What stage synthesize_metadata released."""
    folder = require(roots.released / "metadata", left_by="synthesize_metadata")
    described = json.loads((folder / "metadata.json").read_text())
    rows = labels = record_count = None
    if (folder / "rows.parquet").exists():
        rows = pd.read_parquet(folder / "rows.parquet").to_numpy(dtype=np.int64)
        record_count = float(json.loads((folder / "table.json").read_text())["record_count"])
    if (folder / "labels.npy").exists():
        labels = np.load(folder / "labels.npy")
    return MetadataRelease(
        rows=rows,
        record_count=record_count,
        labels=labels,
        label=described["label"],
        ledger_ids=read_ledger_ids(folder),
    )


def read_record_count(roots: Roots) -> float | None:
    """The DP record count, if the metadata stage has released one."""
    path = roots.released / "metadata" / "table.json"
    return float(json.loads(path.read_text())["record_count"]) if path.exists() else None


def donated_frame(roots: Roots) -> pd.DataFrame:
    """The donated examples with their codes (public)."""
    path = require(roots.public / "donated" / "donated.parquet", left_by="extract_metadata")
    return pd.read_parquet(path)


def read_donated_codes(roots: Roots, schema: Schema) -> Donated | None:
    """The donated examples with their codes; None without any."""
    frame = donated_frame(roots)
    if frame.empty:
        return None
    codes = frame[list(schema.names)].to_numpy(dtype=np.int64)
    return Donated(texts=tuple(frame["text"]), codes=codes)


def method_folder(roots: Roots, method: Method, stage: str) -> Path:
    """The folder of the results of a method's stage.

    Results without a DP guarantee are in the private root. A folder that version 0.1 wrote is used
    while there is no newer one.
    """
    if method.stays_private:
        folder = PrivateStore(roots.private).method_folder(method.name)
        return folder / "initial" if stage == "initialise" else folder
    name = "initial" if stage == "initialise" else stage
    folder = roots.released / name / method.name
    older = roots.released / _FOLDERS_OF_0_1.get(stage, "")
    return older if not folder.exists() and (older / FILE).exists() else folder


def final_folder(roots: Roots, method: Method) -> Path:
    """The folder with a method's final texts. Raises MissingInputError that names its stage."""
    stage = method.stages[-1]
    folder = method_folder(roots, method, stage)
    return require(folder / "synthetic.jsonl", left_by=f"{stage}@{method.name}").parent


def first_folder(roots: Roots, method: Method) -> Path | None:
    """The folder with a method's first candidates; None if it has no such stage."""
    if "initialise" not in method.stages:
        return None
    folder = method_folder(roots, method, "initialise")
    return require(folder / "candidates.parquet", left_by=f"initialise@{method.name}").parent


def first_candidates(roots: Roots, method: Method, schema: Schema) -> Released[Population] | None:
    """A method's first candidates, and the ids of their ledger entries."""
    folder = first_folder(roots, method)
    if folder is None:
        return None
    return restored(load_population(folder / "candidates.parquet", schema.names), folder)


def write_texts(evolution: Evolution, schema: Schema, folder: Path) -> None:
    """The final set for readers, and every round for the report."""
    usage: dict[str, Any] = {}
    for finished in evolution.rounds:
        own = folder / f"round_{finished.number:03d}"
        own.mkdir()
        save_population(finished.population, schema.names, own / "candidates.parquet")
        np.save(own / "votes.npy", finished.votes.value)
        np.save(own / "survivors.npy", finished.survivors)
        usage[own.name] = asdict(finished.usage)
    usage["final"] = asdict(evolution.usage)
    (folder / "usage.json").write_text(json.dumps(usage, indent=1))
    save_population(evolution.final, schema.names, folder / "final.parquet")
    readable(evolution.final, schema).to_json(
        folder / "synthetic.jsonl", orient="records", lines=True, force_ascii=False
    )


def readable(population: Population, schema: Schema) -> pd.DataFrame:
    """One row per text: id, text, the requested values, parent and round."""
    columns: dict[str, Any] = {"id": population.ids, "text": list(population.texts)}
    for place, attribute in enumerate(schema.attributes):
        codes = population.codes[:, place]
        if (codes != NO_CODE).any():
            columns[attribute.name] = [
                attribute.domain[code] if code != NO_CODE else None for code in codes
            ]
    columns |= {"parent": population.parents, "round": population.rounds}
    return pd.DataFrame(columns)
