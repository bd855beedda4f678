"""Tests that two corpora that differ in one unit give the same output, except for mechanisms.

The functions of `sugarbush.privacy.noise` are replaced by functions that return the same values for
any data, and that record their inputs. Then the released files, the pages, the card, the printed
lines and the number of calls must be equal byte for byte. The inputs of the noise functions may
differ by at most the sensitivity that was charged.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sugarbush.evolution.parts import Records
from sugarbush.methods.of_parts import PartsMethod
from sugarbush.pipeline.opening import open_project
from sugarbush.privacy.accounting import adaptive_epsilon
from sugarbush.privacy.accounting import epsilon as composed
from sugarbush.privacy.shards import Shards
from sugarbush.release.folders import read_metadata
from sugarbush.run.tools import method_inputs
from sugarbush.training.dpsgd.settings import CLIP_NORM
from tests.integration.project import LOOK, TINY_ENCODER, as_lines, letters
from tests.stand_ins import write_key
from tests.unit.audited import IMPORTS_NOISE
from tests.unit.pipeline.small_project import run_stages, seed_everything, write_project

LETTERS = letters(146)[6:]
PUBLIC = ("data/released", "data/public", "data/stamps", "reports/public")


@dataclass
class Inputs:
    """Replacements of the noise functions. `calls` records name, values and keywords of each call.

    `left_out` is the position of the removed unit in the sample of each DP-SGD step. It is None if
    the corpus has the unit.
    """

    left_out: int | None = None
    calls: list[tuple[str, NDArray[Any], dict[str, float]]] = field(default_factory=list)

    def discrete_gaussian(
        self, counts: NDArray[Any], *, stddev: float, sensitivity: float = 1.0
    ) -> NDArray[np.int64]:
        self._note("discrete_gaussian", counts, stddev=stddev, sensitivity=sensitivity)
        return np.random.default_rng(len(self.calls)).integers(5, 60, len(counts))

    def report_noisy_max(self, scores: NDArray[Any], *, epsilon: float, sensitivity: float) -> int:
        self._note("report_noisy_max", scores, epsilon=epsilon, sensitivity=sensitivity)
        return len(self.calls) % len(scores)

    def poisson_sample(self, size: int, *, rate: float) -> NDArray[np.int64]:
        """Return the first twelve units. If one of these was removed, return the other eleven."""
        self._note("poisson_sample", np.zeros(0), rate=rate)
        return np.arange(12 if self.left_out is None else 11)

    def secret_choice(self, size: int) -> int:
        return 0

    def secret_order(self, size: int) -> list[int]:
        return list(range(size))

    def add_gaussian(self, tensors: Any, *, stddev: float) -> None:
        tensors = list(tensors)
        sums = torch.cat([t.detach().reshape(-1).double() for t in tensors]).numpy().copy()
        self._note("add_gaussian", sums, stddev=stddev)
        rng = np.random.default_rng(len(self.calls))
        for tensor in tensors:
            noise = torch.from_numpy(rng.standard_normal(tensor.numel()) * stddev)
            tensor.detach().view(-1).copy_(noise.to(tensor.dtype))

    def _note(self, name: str, values: NDArray[Any], **keywords: float) -> None:
        self.calls.append((name, np.array(values, dtype=np.float64), keywords))


@dataclass
class Run:
    """The result of a run: all public files, printed lines, inputs of mechanisms, and charges."""

    files: dict[str, bytes]
    printed: str
    inputs: Inputs
    charged: list[dict[str, Any]]


def run(
    folder: Path,
    rows: list[dict[str, Any]],
    inputs: Inputs,
    capfd: pytest.CaptureFixture[str],
    **changes: Any,
) -> Run:
    with pytest.MonkeyPatch.context() as patch:
        for module, names in IMPORTS_NOISE.items():
            for name in names:
                patch.setattr(import_module(module), name, getattr(inputs, name))
        ids = iter(range(10**9))
        patch.setattr("secrets.token_hex", lambda n=32: f"{next(ids):0{2 * n}x}")
        patch.setenv("SUGARBUSH_STATE", str(write_key(folder.parent / f"state-{folder.name}")))
        patch.delenv("DVC_STAGE", raising=False)
        patch.syspath_prepend(TINY_ENCODER)
        write_project(folder, **changes)
        (folder / "letters.jsonl").write_text(as_lines(rows))
        capfd.readouterr()
        run_stages(folder, without=frozenset(), before=seed_everything)
        shown = capfd.readouterr()
        ledger = open_project(folder).ledger()
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for name in PUBLIC
        for path in sorted((folder / name).rglob("*"))
        if path.is_file()
    }
    charged = [entry.public_fields() for entry in ledger.entries()]
    return Run(files, (shown.out + shown.err).replace(str(folder), ""), inputs, charged)


def train_places(folder: Path) -> list[str]:
    """Return the ids of the training records, in order."""
    import pandas as pd

    return list(pd.read_parquet(folder / "data/private/prepared/train.parquet")["id"])


def assert_only_mechanisms_differ(one: Run, other: Run) -> float:
    """Check that only the inputs of mechanisms differ, each by at most its sensitivity.

    Return the largest difference divided by its sensitivity.
    """
    assert one.files.keys() == other.files.keys()
    assert [name for name in one.files if one.files[name] != other.files[name]] == []
    assert one.printed == other.printed
    assert one.charged == other.charged
    calls = list(zip(one.inputs.calls, other.inputs.calls, strict=True))
    largest = 0.0
    # A record is in several cells of one draw, such as one for each attribute. Then the charge
    # counts the draw as often (`noisy_counts`). The noise of each mechanism has its own width.
    cells = {e["event"].get("stddev"): e["event"].get("count", 1) for e in one.charged}
    for (name, values, keywords), (other_name, other_values, other_keywords) in calls:
        assert (name, keywords, values.shape) == (other_name, other_keywords, other_values.shape)
        moved = values - other_values
        if name == "add_gaussian":
            share = float(np.linalg.norm(moved)) / CLIP_NORM
        elif name == "report_noisy_max":
            share = float(np.abs(moved).max()) / keywords["sensitivity"]
        elif name == "discrete_gaussian":
            most = keywords["sensitivity"] * np.sqrt(cells.get(keywords["stddev"], 1))
            share = float(np.linalg.norm(moved) / most)
        else:
            continue
        assert share <= 1 + 1e-5, (name, share)
        largest = max(largest, share)
    return largest


CASES: dict[str, dict[str, Any]] = {
    "votes": {"methods": ["maple"]},
    "kernel_scores": {"methods": ["maple"], "methods__maple__scorer": "kernel"},
    "mosaic": {"methods": ["mosaic"], "methods__mosaic__candidates": 16, "release__texts": 20},
    "labels": {"methods": ["augpe"]},
    "dpft": {"methods": ["dpft"]},
    "user": {
        "methods": ["maple"],
        "privacy__unit": "user",
        "privacy__records_per_user": 3,
        "prepare__user_column": "writer",
    },
}


def written_by_users(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row | {"writer": f"writer-{i // 3}"} for i, row in enumerate(rows)]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_one_unit_changes_the_inputs_of_mechanisms_within_their_sensitivity_and_nothing_else(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], case: str
) -> None:
    settings = {"embedding__model": "tiny", "prepare__id_column": "id"} | CASES[case]
    rows = written_by_users(LETTERS)
    one = run(tmp_path / "one", rows, Inputs(), capfd, **settings)
    gone = train_places(tmp_path / "one")[11]  # the removed unit is in the sample of every step
    if case == "user":
        (writer,) = {row["writer"] for row in rows if row["id"] == gone}
        fewer = [row for row in rows if row["writer"] != writer]
    else:
        fewer = [row for row in rows if row["id"] != gone]
    assert 0 < len(rows) - len(fewer) <= 3
    other = run(tmp_path / "other", fewer, Inputs(left_out=11), capfd, **settings)
    reached = assert_only_mechanisms_differ(one, other)
    assert reached > 0.3  # the mechanisms saw the unit
    assert len(one.files) > 20
    assert one.charged


@pytest.mark.slow
def test_a_held_out_record_changes_nothing_that_leaves(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = {"embedding__model": "tiny", "prepare__id_column": "id", "methods": ["maple"]}
    one = run(tmp_path / "one", LETTERS, Inputs(), capfd, **settings)
    train = set(train_places(tmp_path / "one"))
    heldout = next(row["id"] for row in LETTERS if row["id"] not in train)
    fewer = [row for row in LETTERS if row["id"] != heldout]
    other = run(tmp_path / "other", fewer, Inputs(), capfd, **settings)
    assert assert_only_mechanisms_differ(one, other) == 0.0


def drawn_numbers(path: Path) -> NDArray[np.int64]:
    """Return all numbers of the noisy sum in the folder of `scores.npy`: scores, then sums by
    class."""
    scores = np.load(path)
    if not path.with_name("class_sums.npz").exists():
        return np.asarray(scores)
    stddev = json.loads(path.with_name("scores.json").read_text())["stddev"]
    with np.load(path.with_name("class_sums.npz")) as arrays:
        sums = np.rint(arrays["sums"].ravel() * (stddev / arrays["stddev"]))
    return np.concatenate([scores, sums.astype(np.int64)])


@pytest.mark.slow
def test_the_noise_is_in_what_was_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise in released tables, labels, votes and scores has the planned stddev.

    The noise is the released value minus the exact value. More than 220 values of a few runs are
    divided by their planned stddev. The mean of the squares must be within six standard errors
    of 1. A false alarm has probability 1e-7.
    """
    noted: list[tuple[NDArray[Any], NDArray[Any], float]] = []

    def watched(module: str) -> None:
        real = import_module(module).discrete_gaussian

        def noisy(counts: Any, *, stddev: float, sensitivity: float = 1.0) -> Any:
            result = real(counts, stddev=stddev, sensitivity=sensitivity)
            noted.append((np.array(counts), np.array(result), stddev))
            return result

        monkeypatch.setattr(f"{module}.discrete_gaussian", noisy)

    for module in ("sugarbush.privacy.mechanisms", "sugarbush.tables.marginal_measurer"):
        watched(module)
    monkeypatch.syspath_prepend(TINY_ENCODER)
    monkeypatch.delenv("DVC_STAGE", raising=False)
    released: list[NDArray[Any]] = []
    planned: set[float] = set()
    for number, changes in enumerate(
        [
            {"methods": ["maple", "augpe"]},
            {"methods": ["maple"], "methods__maple__scorer": "kernel"},
            {"methods": ["mosaic"], "methods__mosaic__candidates": 40},
        ]
    ):
        folder = tmp_path / str(number)
        monkeypatch.setenv("SUGARBUSH_STATE", str(folder / "state"))
        project = write_project(folder, embedding__model="tiny", **changes)
        run_stages(folder)
        released += [drawn_numbers(path) for path in (folder / "data/released").rglob("scores.npy")]
        released += [np.load(path) for path in (folder / "data/released").rglob("labels.npy")]
        table = json.loads((folder / "data/released/metadata/table.json").read_text())
        released += [np.array(m["counts"]).ravel() for m in table["measurements"]]
        planned |= {
            float(entry.event.as_dict()["stddev"])
            for entry in project.ledger().entries()
            if "stddev" in entry.event.as_dict()
        }
    drawn = {result.tobytes(): (counts, stddev) for counts, result, stddev in noted}
    z = []
    for values in released:
        # These counts are released without further processing.
        counts, stddev = drawn[values.astype(np.int64).tobytes()]
        z.append((values - counts) / stddev)
    used = {stddev for _, _, stddev in noted}
    assert planned <= used
    whole = np.concatenate(z)
    assert len(released) >= 8 and len(whole) > 100
    assert abs((whole**2).mean() - 1) < 6 * np.sqrt(2 / len(whole))
    assert abs(whole.mean()) < 6 / np.sqrt(len(whole))


@pytest.mark.slow
def test_the_card_states_the_totals_of_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test makes two releases with different settings.

    The card of the second states its own epsilon, and first the total of both.
    """
    monkeypatch.syspath_prepend(TINY_ENCODER)
    monkeypatch.delenv("DVC_STAGE", raising=False)
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    for epsilon in (1.0, 0.5):
        project = write_project(
            tmp_path / "project",
            embedding__model="tiny",
            methods=["maple"],
            privacy__epsilon=epsilon,
        )
        run_stages(tmp_path / "project", without=frozenset())
        card = json.loads((tmp_path / "project/reports/public/release_card.json").read_text())
        entries = project.ledger().entries()
        ids = {event["id"] for event in card["budget"]["events"]}
        own = [entry.event for entry in entries if entry.id in ids]
        assert len(own) == len(LOOK) + 2
        promise = card["promise"]
        assert promise["epsilon_of_this_run"] == pytest.approx(composed(own, delta=1e-6), rel=1e-9)
        assert promise["epsilon_of_this_run"] == pytest.approx(epsilon, rel=1e-3)
        several = len(entries) > len(own)  # the second run may depend on the first release
        bound = adaptive_epsilon if several else composed
        total = bound([entry.event for entry in entries], delta=1e-6)
        assert card["budget"]["dataset_total_epsilon"] == pytest.approx(total, rel=1e-9)
        assert promise["epsilon"] == card["budget"]["dataset_total_epsilon"]
    assert len(entries) == 2 * (len(LOOK) + 2)
    assert total > 1.1


@pytest.mark.slow
@pytest.mark.parametrize("method_name", ["maple", "augpe", "mosaic"])
def test_what_a_record_votes_with_depends_on_that_record_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method_name: str
) -> None:
    """If four records are removed, the embedding and the label of every other record do not change,
    bit for bit.
    """
    monkeypatch.syspath_prepend(TINY_ENCODER)
    monkeypatch.delenv("DVC_STAGE", raising=False)
    seen = []
    for name, rows in (("one", LETTERS), ("other", LETTERS[:40] + LETTERS[44:])):
        monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / f"state-{name}"))
        project = write_project(
            tmp_path / name, embedding__model="tiny", prepare__id_column="id", methods=[method_name]
        )
        (tmp_path / name / "letters.jsonl").write_text(as_lines(rows))
        run_stages(tmp_path / name, without=frozenset({"evolve", "enlarge", "evaluate", "report"}))
        (method,) = project.settings.chosen
        assert isinstance(method, PartsMethod)
        inputs = method_inputs(
            project, method, stage="evolve", metadata=read_metadata(project.roots)
        )
        scorer = method.parts().scorer
        assert scorer is not None
        shards = method._records(inputs, reads_codes=scorer.reads_codes)._per_unit
        assert isinstance(shards, Shards)
        read: list[Records] = [shards.read(shard) for shard in shards.shards]
        votes = [
            vote for own in read for vote in zip(own.embeddings, own.labels.tolist(), strict=True)
        ]
        seen.append(
            {
                i: (vector.tobytes(), label)
                for i, (vector, label) in zip(train_places(tmp_path / name), votes, strict=True)
            }
        )
    one, other = seen
    assert len(one) - 4 <= len(other) < len(one)
    assert {i: one[i] for i in other} == other
