"""Tests that equal noise gives equal charges, tables, votes and texts as when the file was written.

Each case runs the stages of a small project in this process. The five functions of
`sugarbush.privacy.noise` are replaced by deterministic functions, the ids of ledger entries by a
counter, and the installation's key by fixed bytes. `golden.json` contains what a run left: ledger
entries, tables, scores, survivors, digests of the texts, and the numbers of the card. A change of
the code that should change no text must leave the file as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from sugarbush.pipeline.opening import open_project
from sugarbush.pipeline.stages.report import page_data
from sugarbush.report.card_values import release_card
from tests.integration.project import as_lines, letters
from tests.settings import ROOT
from tests.stand_ins import without_chance, write_key
from tests.unit.pipeline.small_project import run_stages, seed_everything, write_project

GOLDEN = json.loads((ROOT / "tests/fixtures/golden.json").read_text())
MADE_WITH = GOLDEN.pop("_made_with")


def same_arithmetic() -> bool:
    """Return whether torch computes exactly as on the machine that wrote the golden file.

    Only then are trained weights equal.
    """
    here = {"torch": torch.__version__, "cpu": torch.backends.cpu.get_cpu_capability()}
    return here == MADE_WITH


# Other CPUs round embeddings differently. With 119 records, sums of kernel scores then differ by
# less than 1/64 of one record's scores (RESOLUTION is 4096).
ROUNDING = {} if same_arithmetic() else {"kernel_herding": 64, "mosaic": 64, "mosaic_rounds": 64}
LABELLED = [
    {
        "text": f"Please call 555-010-{i:04d} soon",
        "spans": [{"start": 12, "end": 24, "label": "PHONE"}],
    }
    for i in range(40)
]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a state folder with a known key, and replace all randomness of the process."""
    without_chance(monkeypatch)
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    return write_key(tmp_path / "state")


@pytest.mark.slow
@pytest.mark.parametrize("case", GOLDEN)
def test_equal_noise_gives_equal_charges_votes_and_texts(
    tmp_path: Path, state: Path, case: str
) -> None:
    golden, base = GOLDEN[case], tmp_path / "project"
    write_project(base, **golden["settings"])
    if case == "user":
        rows = enumerate(letters(146)[6:])
        own = [row | {"writer": f"writer-{min(i % 60, 49)}"} for i, row in rows]
        (base / "letters.jsonl").write_text(as_lines(own))
    if case == "crt":
        (base / "labelled.jsonl").write_text(as_lines(LABELLED))
    run_stages(base, before=seed_everything)
    after = results(base, state, card=bool(golden["card"]))

    for kind in ("ledgers", "card", "model_card", "confidentiality"):
        found, expected = numbers(after[kind]), numbers(golden[kind])
        assert found.keys() == expected.keys(), kind
        for name, number in found.items():
            # A million steps of training compose the last bits, which depend on the CPU.
            error = 1e-6 if "epsilon" in name else 1e-9
            assert number == pytest.approx(expected[name], rel=error), f"{kind}: {name}"
    assert notes(after["ledgers"]) == notes(golden["ledgers"])
    for kind in ("rows", "labels", "survivors", "releases"):
        assert after[kind] == golden[kind], kind
    assert after["scores"].keys() == golden["scores"].keys()
    for name, drawn in after["scores"].items():
        assert drawn == pytest.approx(golden["scores"][name], abs=ROUNDING.get(case, 0)), name
    if same_arithmetic() or not (base / "data/public/pretrained/config.json").exists():
        populations = after["populations"]
        assert {name: populations[name] for name in golden["populations"]} == golden["populations"]


def results(base: Path, state: Path, *, card: bool) -> dict[str, Any]:
    """Return what a run left, in the form of the golden file."""
    data = base / "data"
    return {
        "ledgers": ledgers(state),
        "rows": found(data, "rows.parquet", table),
        "labels": found(data, "labels.npy", values),
        "scores": found(data, "scores.npy", values) | found(data, "class_sums.npz", totals),
        "survivors": found(data, "survivors.npy", values),
        "populations": found(data, "candidates.parquet", content)
        | found(data, "lineage.parquet", content),
        "releases": releases(data, state),
        "card": _card(base) if card else {},
        "model_card": read_numbers(data / "released/finetune/dpft/model_card.json"),
        "confidentiality": read_numbers(base / "reports/internal/confidentiality.json"),
    }


def _card(base: Path) -> Any:
    return shown(release_card(page_data(open_project(base)).release).to_json())


def ledgers(state: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the entries of every ledger, without dates, seals, fingerprints and random ids."""
    names = ("stage", "event", "delta", "unit", "whose")
    return {
        ledger: [
            {name: entry.get(name) for name in (("shown",) if "shown" in entry else names)}
            for entry in entries
        ]
        for ledger, entries in entries_of(state).items()
    }


def notes(ledgers: dict[str, list[dict[str, Any]]]) -> dict[str, dict[int, str]]:
    """Return the notes of shown figures by their places in each ledger."""
    return {
        ledger: {place: entry["shown"] for place, entry in enumerate(entries) if "shown" in entry}
        for ledger, entries in ledgers.items()
    }


def entries_of(state: Path) -> dict[str, list[dict[str, Any]]]:
    folder = state / "ledgers"
    return {
        str(path.relative_to(folder)): list(map(json.loads, path.read_text().splitlines()))
        for path in sorted(folder.rglob("*.jsonl"))
    }


def releases(data: Path, state: Path) -> dict[str, Any]:
    """Return each release.json, with the places of its charges in the ledgers."""
    places = {
        entry["id"]: f"{name}#{place}"
        for name, entries in entries_of(state).items()
        for place, entry in enumerate(entries)
        if "id" in entry  # a note on shown figures has none
    }

    def promise(path: Path) -> dict[str, Any]:
        fields: dict[str, Any] = json.loads(path.read_text())
        charges = fields.pop("charges")
        assert [charge["id"] for charge in charges] == fields["ledger_ids"] or not charges
        fields["ledger_ids"] = sorted(places[i] for i in fields["ledger_ids"])
        return {name: value for name, value in fields.items() if name not in {"seal", "run"}}

    return found(data, "release.json", promise)


def values(path: Path) -> list[Any]:
    return list(np.load(path).tolist())


def totals(path: Path) -> list[Any]:
    """Return the total of each noisy sum of embeddings by class."""
    return list(np.load(path)["sums"].sum(axis=1).tolist())


def found(data: Path, name: str, read: Any) -> dict[str, Any]:
    roots = [data / "released", data / "private" / "arms"]
    files = sorted(path for root in roots for path in root.rglob(name))
    return {str(path.relative_to(data)): read(path) for path in files}


def table(path: Path) -> list[Any]:
    frame = pd.read_parquet(path)
    return [list(frame.columns), frame.to_numpy().tolist()]


def content(path: Path) -> str:
    own = pd.read_parquet(path).drop(columns="examples", errors="ignore")
    written = own.to_json(orient="split")
    return hashlib.sha256(written.encode()).hexdigest()


def read_numbers(path: Path) -> dict[str, float]:
    return numbers(json.loads(path.read_text())) if path.exists() else {}


def shown(card: dict[str, Any]) -> dict[str, float]:
    """Return the numbers of the card without its settings, because a setting may be added."""
    other = ("made_by.settings",)
    return {name: value for name, value in numbers(card).items() if not name.startswith(other)}


def numbers(value: Any, place: str = "") -> dict[str, float]:
    """Return all numbers and booleans in `value`, by their dotted paths."""
    return dict(_numbers(value, place))


def _numbers(value: Any, place: str) -> Iterator[tuple[str, float]]:
    children = value.items() if isinstance(value, dict) else ()
    children = enumerate(value) if isinstance(value, list | tuple) else children
    for name, child in children:
        yield from _numbers(child, f"{place}{name}.")
    if isinstance(value, int | float):
        yield place[:-1], value
