"""Tests that `sugarbush budget --repair` adds no charge silently without a valid seal."""

from __future__ import annotations

import io
import json
import math
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sugarbush.cli import budgets as cli
from sugarbush.errors import LedgerError, ParamsError
from sugarbush.pipeline.opening import open_project
from sugarbush.privacy.entries import ACCEPTED, SEALED
from sugarbush.privacy.events import DiscreteGaussian, GaussianDp, PlannedEvents
from sugarbush.privacy.ledger import Ledger
from sugarbush.project import budget as budgets
from sugarbush.release.folders import write_release
from sugarbush.run.context import Project
from tests.settings import params

INVENTED = {
    "id": "invented", "time": "2026-11-22", "unit": "record", "stage": "evolve", "run": "r",
    "event": {"kind": "non_private"}, "delta": 1e-6,
}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with four charges and one released folder that names them."""
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    project = project_of(tmp_path)
    for i in range(4):
        project.ledger().charge(DiscreteGaussian(stddev=8.0 + i), stage="evolve", run="r")
    write(project)
    return project


def project_of(folder: Path, dataset: str = "letters", purpose: str = "release") -> Project:
    changes: dict[str, Any] = {"privacy__purpose": purpose, "privacy__dataset": dataset}
    changes |= {"prepare__file": "letters.jsonl", "prepare__donated": None}
    return open_project(folder / "project", settings=params(methods=["augpe"], **changes))


def write(project: Project, name: str = "evolve/maple") -> Path:
    """Write a released folder that names every charge of the ledger."""
    folder, ledger = project.roots.released / name, project.ledger()
    folder.mkdir(parents=True)
    write_release(
        folder,
        stage="evolve",
        privacy=project.settings.privacy,
        ledger_ids=[entry.id for entry in ledger.entries()],
        run="r",
        ledger=ledger,
    )
    return folder / "release.json"


def lose(project: Project) -> Ledger:
    shutil.rmtree(project.state / "ledgers")
    return project.ledger()


def repair(project: Project, accept: Collection[str] = ()) -> str:
    """Repair as without a terminal. Return what was printed."""
    printed = io.StringIO()
    try:
        cli.repair(project, Console(file=printed, width=200), accept=accept)
    except LedgerError as error:
        printed.write(f"refused: {error}")
    return printed.getvalue()


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    fields = json.loads(path.read_text())
    change(fields)
    path.write_text(json.dumps(fields))


def release_json(project: Project) -> Path:
    return project.roots.released / "evolve/maple/release.json"


def larger_noise(fields: dict[str, Any]) -> None:
    for charge in fields["charges"]:
        charge["event"]["stddev"] *= 1000


EDITS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "more noise": larger_noise,
    "a later day": lambda fields: fields["charges"][0].update(time="2026-12-01"),
    "another stage": lambda fields: fields.update(stage="initialise"),
    "no seal": lambda fields: fields.pop("seal"),
    "a seal of zeros": lambda fields: fields.update(seal="0" * 64),
    "a seal that is no text": lambda fields: fields.update(seal=[1]),
    "one more charge": lambda fields: fields["charges"].append(INVENTED),
    "one charge less": lambda fields: fields["charges"].pop(),
}


def test_a_sealed_release_repairs_a_lost_ledger_without_a_question(project: Project) -> None:
    before = project.ledger().total()
    ledger = lose(project)
    assert "Added 4 charges" in repair(project)
    assert ledger.total() == before
    assert {entry.repair for entry in ledger.entries()} == {SEALED}
    assert "Added 0 charges" in repair(project)


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_release_adds_no_charge_silently(project: Project, name: str) -> None:
    """Otherwise more noise in the file lowers the total of a lost ledger."""
    edit(release_json(project), EDITS[name])
    ledger = lose(project)
    assert "refused" in repair(project)
    assert ledger.entries() == ()
    with pytest.raises(LedgerError, match="lacks"):
        ledger.charge(GaussianDp(mu=0.1), stage="evolve", run="r")


def test_an_invented_charge_is_added_only_by_its_id(project: Project) -> None:
    """Otherwise one file in data/released makes the total infinite."""
    folder = project.roots.released / "evolve/other"
    folder.mkdir()
    fields = json.loads(release_json(project).read_text())
    fields |= {"ledger_ids": [INVENTED["id"]], "charges": [INVENTED]}
    (folder / "release.json").write_text(json.dumps(fields))
    before = project.ledger().total()
    printed = repair(project)
    for shown in ("invented", "2026-11-22", "evolve", "non private", "inf"):
        assert shown in printed, shown
    assert project.ledger().total() == before
    repair(project, ["invented"])
    assert project.ledger().total() == math.inf
    with pytest.raises(ParamsError, match="--accept invented"):
        repair(project, ["invented"])


def test_only_the_accepted_charges_of_a_file_are_added(project: Project) -> None:
    edit(release_json(project), EDITS["no seal"])
    ids = [entry.id for entry in project.ledger().entries()]
    ledger = lose(project)
    printed = repair(project, ids[1:3])
    assert [entry.id for entry in ledger.entries()] == ids[1:3]
    assert {entry.repair for entry in ledger.entries()} == {ACCEPTED}
    assert "still lacks 2 charges" in printed
    assert "Added 2 charges" in repair(project, [ids[0], ids[3]])


def test_on_a_terminal_each_charge_is_one_question(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(release_json(project), EDITS["no seal"])
    ids = [entry.id for entry in project.ledger().entries()]
    ledger, asked = lose(project), []

    def confirm(question: str) -> bool:
        asked.append(question)
        return ids[2] in question

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", confirm)
    repair(project)
    assert len(asked) == 4
    assert [entry.id for entry in ledger.entries()] == [ids[2]]


def test_a_sealed_release_of_another_dataset_or_purpose_proves_nothing(
    project: Project, tmp_path: Path
) -> None:
    """The same key sealed it, and it was copied into this project."""
    for dataset, purpose in (("parcels", "release"), ("letters", "benchmark")):
        other = project_of(tmp_path / dataset / purpose, dataset, purpose)
        other.ledger().charge(DiscreteGaussian(stddev=900.0), stage="evolve", run="r")
        copy = project.roots.released / f"evolve/{dataset}-{purpose}/release.json"
        copy.parent.mkdir()
        shutil.copy(write(other), copy)
        assert "Added 0 charges" in repair(project)
        edit(copy, lambda fields: fields.update(dataset="letters", purpose="release"))
        assert "Added 0 charges" in repair(project)
    assert len(project.ledger().entries()) == 4


def test_a_release_of_a_lost_key_needs_a_choice(project: Project) -> None:
    before = project.ledger().total()
    ids = [entry.id for entry in project.ledger().entries()]
    ledger = lose(project)
    (project.state / "key").unlink()
    assert "without a valid seal" in repair(project)
    assert ledger.entries() == ()
    repair(project, ids)
    assert ledger.total() == before


def test_of_several_unsealed_copies_of_a_charge_the_largest_epsilon_counts(
    project: Project,
) -> None:
    before = project.ledger().total()
    ids = [entry.id for entry in project.ledger().entries()]
    edit(release_json(project), EDITS["no seal"])
    for name in ("a", "z"):
        copy = project.roots.released / name
        shutil.copytree(release_json(project).parent, copy)
        edit(copy / "release.json", larger_noise)
    lose(project)
    repair(project, ids)
    assert project.ledger().total() == before


def test_a_sealed_copy_counts_more_than_an_edited_one(project: Project) -> None:
    before = project.ledger().total()
    copy = project.roots.released / "z"
    shutil.copytree(release_json(project).parent, copy)
    edit(copy / "release.json", larger_noise)
    lose(project)
    assert "valid seal" not in repair(project)
    assert project.ledger().total() == before


def test_an_accepted_charge_can_be_cancelled_and_stays_visible(project: Project) -> None:
    before = project.ledger().total()
    edit(release_json(project), EDITS["one more charge"])
    repair(project, ["invented"])
    assert project.ledger().total() == math.inf
    head = project.ledger().head()
    printed = io.StringIO()
    cli.undo_repair(project, ["invented"], Console(file=printed))
    assert project.ledger().total() == before
    assert project.ledger().head() != head
    assert [entry.id for entry in project.ledger().cancelled()] == ["invented"]
    project.ledger().charge(GaussianDp(mu=0.1), stage="evolve", run="r")
    assert project.ledger().total() > before
    assert [entry.id for entry in project.ledger().cancelled()] == ["invented"]
    repair(project, ["invented"])  # the user may change their mind
    assert project.ledger().total() == math.inf


def test_a_charge_before_a_draw_can_never_be_cancelled(project: Project) -> None:
    """Neither its own charge, nor one that a sealed release proves, nor one that is unknown."""
    own = [entry.id for entry in project.ledger().entries()]
    lose(project)
    repair(project)
    proven = own
    fresh = project.ledger().charge(GaussianDp(mu=0.1), stage="evolve", run="r")
    before = project.ledger().path.read_bytes()
    for i in (*proven, fresh, "unknown"):
        with pytest.raises(LedgerError, match="Only such a charge can be cancelled"):
            cli.undo_repair(project, [i], Console(file=io.StringIO()))
    edit(release_json(project), EDITS["one more charge"])
    repair(project, ["invented"])
    with pytest.raises(LedgerError, match=fresh):
        project.ledger().cancel_accepted(["invented", fresh])
    assert project.ledger().path.read_bytes().startswith(before)
    assert len(project.ledger().entries()) == 6


def test_a_line_that_cancels_a_charge_before_a_draw_is_refused(project: Project) -> None:
    """Even if somebody with the key sealed the line."""
    ledger = project.ledger()
    line = json.dumps({"cancel": [ledger.entries()[0].id]})
    ledger._append(line.encode(), ledger._chain())
    with pytest.raises(LedgerError, match="not an entry"):
        ledger.entries()


def test_a_result_of_a_cancelled_charge_stops_every_charge(project: Project) -> None:
    """A cancelled charge cannot lower the total while a folder names the charge."""
    ids = [entry.id for entry in project.ledger().entries()]
    edit(release_json(project), EDITS["no seal"])
    ledger = lose(project)
    repair(project, ids)
    ledger.cancel_accepted(ids[:1])
    with pytest.raises(LedgerError, match="lacks 1 charges"):
        ledger.check([GaussianDp(mu=0.1)])


def test_an_accepted_charge_stays_accepted_in_a_later_sealed_release(project: Project) -> None:
    """Otherwise a later release would prove what nobody proved."""
    edit(release_json(project), EDITS["one more charge"])
    repair(project, ["invented"])
    shutil.rmtree(project.roots.released)
    write(project)
    ledger = lose(project)
    repair(project)
    kinds = {entry.id: entry.repair for entry in ledger.entries()}
    assert kinds.pop("invented") == ACCEPTED
    assert set(kinds.values()) == {SEALED}
    ledger.cancel_accepted(["invented"])


def test_the_budget_shows_accepted_and_cancelled_charges(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgets, "would_spend", lambda project: True)

    def shown() -> str:
        printed = io.StringIO()
        cli.show_budget(project, Console(file=printed, width=200))
        return printed.getvalue()

    assert "seal" not in shown()
    edit(release_json(project), EDITS["one more charge"])
    repair(project, ["invented"])
    assert "sugarbush budget --undo-repair invented" in shown()
    project.ledger().cancel_accepted(["invented"])
    assert "Accepted and cancelled: invented" in shown()


def test_a_charge_per_another_unit_is_not_accepted(project: Project) -> None:
    """Otherwise the ledger could no longer be read."""
    invented = INVENTED | {"unit": "user", "whose": "writer"}
    edit(release_json(project), lambda fields: fields["charges"].append(invented))
    assert "cannot be added" in repair(project, ["invented"])
    assert len(project.ledger().entries()) == 4


def test_an_accepted_charge_never_lowers_the_total_or_the_cap(project: Project) -> None:
    """The invented charge names the plan of real charges, with a smaller cost."""
    ledger, plan = project.ledger(), PlannedEvents(id="p", events=(DiscreteGaussian(stddev=3.0),))
    for run in ("1", "2"):
        ledger.charge(plan.events[0], stage="evolve", run=run, plan=plan)
    before, cap = ledger.total(), ledger.cap
    weak = DiscreteGaussian(stddev=4.9).as_dict()
    for number, group in enumerate(("p.1", "p.2")):
        charge = INVENTED | {
            "id": f"invented-{number}", "event": weak, "plan": group, "planned": [weak],
            "slack": 2**40 - 1 - number, "cap": 0.01,
        }  # fmt: skip
        edit(release_json(project), lambda fields, c=charge: fields["charges"].append(c))
    repair(project, ["invented-0", "invented-1"])
    assert project.ledger().total() > before
    assert project.ledger().cap == cap
    cli.undo_repair(project, ["invented-0", "invented-1"], Console(file=io.StringIO()))
    assert project.ledger().total() == before


def test_a_sealed_charge_replaces_an_accepted_one_with_its_id(project: Project) -> None:
    before, file = project.ledger().total(), release_json(project)
    sealed = file.read_text()
    lose(project)
    edit(file, larger_noise)
    repair(project, [charge["id"] for charge in json.loads(sealed)["charges"]])
    assert project.ledger().total() < before / 2
    file.write_text(sealed)
    repair(project)
    assert project.ledger().total() >= before
    assert {entry.repair for entry in project.ledger().entries()} == {SEALED}
