"""Every statement of an epsilon counts all charges of the dataset, by the ledger of its moment."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd
import pytest
import yaml
from rich.console import Console

import sugarbush as sb
from sugarbush.app.step import App
from sugarbush.app.step_run import ReportStep
from sugarbush.cli.budgets import show_budget
from sugarbush.cli.profiles import make_profile
from sugarbush.cli.runs import print_results
from sugarbush.cli.shows import show_report, show_stage
from sugarbush.errors import LedgerError
from sugarbush.methods.nonprivate import NonPrivatePE
from sugarbush.pipeline.artifacts import Artifacts
from sugarbush.pipeline.opening import open_project
from sugarbush.privacy.accounting import gaussian_epsilon, rounded_up
from sugarbush.privacy.budget import mu_of
from sugarbush.privacy.events import GaussianDp
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.spending import spending_of
from sugarbush.privacy.unit import Unit
from sugarbush.project import budget as budgets
from sugarbush.project.check import checked_spelling
from sugarbush.project.run import results
from sugarbush.quality import measure as measuring
from sugarbush.release.card_state import has_old_card
from sugarbush.run.context import Project
from sugarbush.run.ledgers import uncapped_ledger
from tests.publication import COMPLETE
from tests.synthesized import synthesize_frame
from tests.unit.pipeline.small_project import run_stages, write_project

pytestmark = pytest.mark.usefixtures("quick_encoder")
CHOICE = "and that is what you must count if you chose among them"
FRAME = pd.DataFrame(
    {
        "message": [f"Order {i} of my lamp arrived late" for i in range(150)],
        "stars": [1 + i % 3 for i in range(150)],
        "writer": [f"writer {i // 2}" for i in range(150)],
    }
)
SCHEMA = {
    "subject": "letters",
    "attributes": [{"name": "stars", "column": "stars", "values": [1, 2, 3]}],
}
POOL = [f"The parcel number {i} was {word}" for i in range(40) for word in ("broken", "late")]
MEASURED = {"evaluate": {"public": True}}
UNMEASURED = {"evaluate": {"public": False}}


def is_old(project: Project) -> bool:
    return has_old_card(project.roots, project.settings.privacy, project.ledger())


def draw(state: Path, **more: Any) -> sb.Release:
    more.setdefault("privacy", sb.Privacy(epsilon=1, dataset="letters"))
    return synthesize_frame(
        FRAME,
        text="message",
        schema=SCHEMA,
        method=sb.Mosaic(candidates=30, prompt="metadata"),
        generator=sb.Pool(texts=POOL),
        texts=10,
        state=state,
        accept_poor=True,
        **more,
    )


def histogram(state: Path) -> None:
    sb.private_histogram(
        ["a"] * 9,
        categories=["a", "b"],
        privacy=sb.Privacy(epsilon=0.2, delta=1e-6, dataset="letters"),
        state=state,
    )


def statements(release: sb.Release, folder: Path) -> Iterator[str]:
    """Yield everything that a release states: its card and its pages, saved and in the notebook."""
    saved = release.save(folder)
    for name in ("release_card.json", "release_card.md", "release_card.html", "index.html"):
        yield re.sub(r"<script.*?</script>", "", (saved / name).read_text(), flags=re.S)
    yield re.sub(r"<script.*?</script>", "", release.report().html, flags=re.S)
    yield release._repr_html_()


def ids_on(card: Mapping[str, Any]) -> list[str]:
    budget = card["budget"]
    return [event["id"] for event in (*budget["events"], *budget["events_of_others"])]


def require_all_charges(card: Mapping[str, Any], ledger: Ledger) -> None:
    assert card["promise"]["epsilon"] == ledger.total() > card["promise"]["epsilon_of_this_run"]
    assert card["budget"]["dataset_total_epsilon"] == ledger.total()
    assert sorted(ids_on(card)) == sorted(entry.id for entry in ledger.entries())
    assert card["budget"]["ledger_head"] == ledger.head()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def ledger_of(state: Path, **more: Any) -> Ledger:
    return sb.open_ledger("letters", state=state, **more)


@pytest.mark.parametrize("settings", [MEASURED, UNMEASURED], ids=["measured", "not measured"])
def test_each_of_several_draws_states_all_of_them(
    state: Path, tmp_path: Path, settings: dict[str, Any]
) -> None:
    """Also the first one, and for charges of other kinds after it."""
    drawn = [draw(state, new_draw=number > 0, settings=settings) for number in range(3)]
    histogram(state)
    ledger = ledger_of(state)
    total, own = rounded_up(ledger.total()), rounded_up(drawn[0].epsilon_of_this_run)
    assert 1.8 < ledger.total() < 1.9  # composed, and not 3.2
    for number, release in enumerate(drawn):
        card = release.card
        assert card is not None
        require_all_charges(card, ledger)
        assert release.epsilon == ledger.total()
        said = f"this run {own}; all runs on this dataset {total}, {CHOICE}"
        for statement in statements(release, tmp_path / str(number)):
            assert said in statement
        kinds = " ".join(card["budget"]["others"])
        assert "a histogram of sb.private_histogram (1)" in kinds
        assert ("Charged before this run: " in kinds) == (number > 0)
        assert "Charged after this run: " in kinds
        assert ("public figures" in kinds) == (settings is MEASURED)


@pytest.mark.slow
def test_a_release_for_users_and_its_publication_state_the_ledger_of_now(
    state: Path, tmp_path: Path
) -> None:
    privacy = sb.Privacy(epsilon=1, dataset="letters", unit="user", records_per_user=2)
    release = draw(state, privacy=privacy, user="writer")
    draw(state, privacy=privacy, user="writer", new_draw=True)
    folder = release.publish(tmp_path / "out", publication=COMPLETE)
    ledger = ledger_of(state, unit="user", user_column="writer")
    card = json.loads((folder / "release_card.json").read_text())
    require_all_charges(card, ledger)
    said = f"all runs on this dataset {rounded_up(ledger.total())}, {CHOICE}"
    record = yaml.safe_load((folder / "registry.yaml").read_text())["deployment"]["privacy_loss"]
    assert record["privacy_parameters"]["epsilon"] == ledger.total()
    assert said in record["privacy_parameters_details"]
    for name in ("README.md", "release_card.md", "metadata.json", "croissant.json"):
        assert said in (folder / name).read_text(), name
    assert card["published"]["epsilon_of_all"] == ledger.total()


def test_one_run_has_one_number(state: Path, tmp_path: Path) -> None:
    release = draw(state, settings=MEASURED)
    card = release.card
    assert card is not None
    assert card["promise"]["epsilon"] == card["promise"]["epsilon_of_this_run"]
    assert release.epsilon == release.epsilon_of_this_run == ledger_of(state).total() <= 1
    assert card["budget"]["others"] == card["budget"]["events_of_others"] == []
    assert any("with another state folder" in each for each in card["not_covered"])
    for statement in statements(release, tmp_path / "out"):
        assert "all runs on this dataset" not in statement and "this run alone" not in statement


def test_the_epsilon_of_several_runs_is_their_composition(state: Path) -> None:
    ledger, mu = ledger_of(state, cap=4.0), mu_of(epsilon=1.0, delta=1e-6)
    for runs_so_far in range(1, 6):
        own = ledger.charge(GaussianDp(mu=mu), stage="evolve", run=str(runs_so_far))
        found = spending_of(ledger.snapshot(), [own])
        assert found.of_run == pytest.approx(1.0, abs=1e-6)
        expected = gaussian_epsilon(mu * runs_so_far**0.5, delta=1e-6)
        assert found.epsilon == pytest.approx(expected, rel=0.01) and found.epsilon >= expected


def test_a_charge_is_before_or_after_the_last_charge_of_the_run(state: Path) -> None:
    ledger = ledger_of(state)
    ids = [ledger.charge(GaussianDp(mu=0.1), stage="measure", run="r") for _ in range(5)]
    found = spending_of(ledger.snapshot(), [ids[1], ids[3]])
    assert [entry.id for entry in found.before] == [ids[0], ids[2]]
    assert [entry.id for entry in found.after] == [ids[4]]
    assert spending_of(ledger.snapshot(), []).of_run == 0
    with pytest.raises(LedgerError, match="has no entry 'gone'"):
        spending_of(ledger.snapshot(), ["gone"])


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["measure", "synthesize_metadata", "evolve"])
def test_results_that_were_deleted_and_drawn_again_count(
    state: Path, tmp_path: Path, stage: str
) -> None:
    """The new charges may have the run id of the deleted ones."""
    first = draw(state, settings=MEASURED)
    found = list((state / "draws").glob(f"*/{stage}*/generation-*/*/ledger_ids.json"))
    assert found
    for path in found:
        shutil.rmtree(path.parent)
    second = draw(state, settings=MEASURED)
    ledger = ledger_of(state)
    assert ledger.total() > first.epsilon_of_this_run + 0.01
    for release in (first, second):
        assert release.card is not None
        require_all_charges(release.card, ledger)
        for statement in statements(release, tmp_path / release.ledger_ids[-1]):
            assert CHOICE in statement


def test_a_run_that_stopped_after_a_charge_counts(state: Path) -> None:
    with (
        mock.patch.object(measuring, "noisy_counts", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        draw(state, settings=MEASURED)
    ledger_of(state).charge(GaussianDp(mu=0.2), stage="measure", run="crashed")
    release = draw(state, settings=MEASURED)
    assert release.card is not None
    require_all_charges(release.card, ledger_of(state))


def test_without_its_ledger_a_release_states_no_epsilon(state: Path, tmp_path: Path) -> None:
    release = draw(state)
    shutil.rmtree(state / "ledgers")
    for states in (lambda: release.card, release.report, lambda: release.save(tmp_path / "out")):
        with pytest.raises(LedgerError, match="charges that results name"):
            states()
    with pytest.raises(LedgerError, match="charges that results name"):
        sb.evaluate(release, real=list(FRAME["message"]))
    assert not (tmp_path / "out").exists() and not list(state.rglob("*.jsonl"))
    assert release.epsilon_of_this_run <= 1


def test_an_older_copy_of_the_ledger_states_no_epsilon(state: Path, tmp_path: Path) -> None:
    """Its seals are valid, but results of the state folder name later charges."""
    release = draw(state)
    shutil.copytree(state / "ledgers", tmp_path / "older")
    draw(state, new_draw=True)
    shutil.copytree(state / "ledgers", tmp_path / "newer")
    shutil.rmtree(state / "ledgers")
    shutil.copytree(tmp_path / "older", state / "ledgers")
    for states in (
        lambda: release.card,
        lambda: release.epsilon,
        release._repr_html_,
        release.report,
        lambda: release.save(tmp_path / "saved"),
        lambda: release.publish(tmp_path / "out", publication=COMPLETE),
        lambda: spending_of(ledger_of(state).snapshot(), release.ledger_ids),
    ):
        with pytest.raises(LedgerError, match=r"charges that results name.* restore the ledger"):
            states()
    assert not (tmp_path / "out").exists() and not (state / "publications").exists()
    shutil.rmtree(state / "ledgers")
    shutil.copytree(tmp_path / "newer", state / "ledgers")
    assert release.epsilon == ledger_of(state).total() > 1.4


def test_a_profile_that_was_drawn_again_states_both(state: Path, tmp_path: Path) -> None:
    frame = pd.concat([FRAME] * 10, ignore_index=True)
    arguments: dict[str, Any] = {
        "text": "message",
        "columns": ["stars"],
        "privacy": sb.Privacy(epsilon=1, dataset="letters"),
        "state": state,
    }
    first = sb.profile(frame, **arguments)
    assert first.epsilon == first.epsilon_of_this_profile <= 0.2
    assert "all runs" not in first._repr_html_()
    again = sb.profile(frame, new_draw=True, **arguments)
    total = ledger_of(state).total()
    assert total > 0.25
    for number, profile in enumerate((first, again)):
        assert profile.epsilon == total > profile.epsilon_of_this_profile
        profile.save(tmp_path / str(number))
        page = (tmp_path / str(number) / "profile.html").read_text()
        for said in (page, profile._repr_html_()):
            assert f"all runs on this dataset {rounded_up(total)}, {CHOICE}" in said


def printed(write: Any) -> str:
    console = Console(file=io.StringIO(), width=400)
    write(console)
    return str(console.file.getvalue())  # type: ignore[attr-defined]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    changes: dict[str, Any] = {"methods": ["mosaic"], "methods__mosaic__candidates": 16}
    changes |= {"release__texts": 30, "evaluate__show": False}
    base = tmp_path / "own"
    write_project(base, **changes)
    run_stages(base, without=frozenset({"audit"}))
    return open_project(base)


@pytest.mark.slow
def test_commands_and_the_form_state_the_ledger_of_now(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the card in reports/public is older."""
    monkeypatch.setattr(budgets, "would_spend", lambda project: False)

    def said() -> list[str]:
        context = ReportStep().context(App(base=project.base), None)
        summary = printed(
            lambda console: print_results(results(project.base, project.settings), console)
        )
        budget = printed(lambda console: show_budget(project, console))
        return [" ".join(context["spent"]), summary, budget]

    for text in said():
        assert "epsilon 1" in text and "all runs on this dataset" not in text
    ledger = project.ledger(rehearse=False)
    ledger.charge(GaussianDp(mu=0.2), stage="evolve", run="another")
    for text in said():
        assert (
            f"this run 1; all runs on this dataset {rounded_up(ledger.total())}, {CHOICE}" in text
        )
    assert is_old(project)


@pytest.mark.slow
def test_a_card_and_a_model_card_that_lack_later_charges_come_with_a_warning(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are files, so they cannot count what was charged after they were written."""
    base, ledger = project.base, project.ledger(rehearse=False)
    model = project.roots.released / "finetune/dpft/model_card.json"
    model.parent.mkdir(parents=True)
    model.write_text(json.dumps({"epsilon": 1, "dataset_total_epsilon": ledger.total()}))

    def show_model(console: Console) -> None:
        show_stage(base, "model", method="dpft", rows=1, internal=False, console=console)

    assert Artifacts(base).card()["promise"]["epsilon"] == ledger.total()
    assert '"epsilon": 1' in printed(show_model) and not capsys.readouterr().err
    ledger.charge(GaussianDp(mu=0.2), stage="evolve", run="another")
    with pytest.warns(UserWarning, match="older than the ledger"):
        Artifacts(base).card()
    printed(show_model)
    said = f"All charges on the dataset have epsilon {rounded_up(ledger.total())} now"
    assert said in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", ["verdict.json", "release_card.json"])
@pytest.mark.parametrize("content", ["", "[]", '{"maple": {}}'])
def test_report_names_a_damaged_file_and_what_to_do(
    project: Project, capsys: pytest.CaptureFixture[str], name: str, content: str
) -> None:
    file = project.roots.published / name
    before = file.read_text(encoding="utf-8")
    file.write_text(content)
    printed(
        lambda console: show_report(project.base, open_page=False, internal=False, console=console)
    )
    file.write_text(before)
    said = capsys.readouterr().err
    assert f"{name}: is damaged" in said and "again with: sugarbush run" in said
    assert "older than" not in said


@pytest.mark.slow
def test_the_command_prints_both_epsilons_of_a_profile_that_was_drawn_again(
    project: Project,
) -> None:
    ledger = project.ledger(rehearse=False)
    printed(lambda console: make_profile(project, console))
    said = printed(lambda console: make_profile(project, console, force=True))
    total = f"all runs on this dataset {rounded_up(ledger.total())}, {CHOICE}"
    assert total in said
    page = (project.roots.published / "profile.html").read_text()
    assert total in page and "when this page was written. Later charges are in the ledger" in page


@pytest.mark.slow
def test_figures_on_real_texts_are_noted_and_make_an_older_card_stale(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = project.ledger(rehearse=False)
    assert not is_old(project) and not ledger.shown()
    assert list(checked_spelling(project))
    assert ledger.shown() == {"check --internal": 1} and is_old(project)
    uncapped_ledger(project, "confidentiality")
    run_stages(project.base, without=frozenset({"audit", "prepare", "extract_metadata"}))
    card = json.loads((project.roots.published / "release_card.json").read_text())
    noted = "for this dataset: check --internal (1), results without DP (1)."
    assert noted in card["tuning"] and any(noted in each for each in card["not_covered"])
    assert len(ledger.entries()) == len(ids_on(card))  # a note charges nothing


def test_an_evaluation_of_a_release_is_on_every_card_of_its_dataset(state: Path) -> None:
    release, other = draw(state), draw(state, new_draw=True)
    for made in (release, other):
        assert made.card is not None
        assert "Sugarbush showed no exact figures of quality on real texts" in made.card["tuning"]
        assert "cannot know figures that other code computed" in made.card["tuning"]
    sb.evaluate(list(release.texts), real=list(FRAME["message"]))  # nobody knows the dataset
    assert not ledger_of(state).shown()
    for _ in range(2):
        sb.evaluate(release, real=list(FRAME["message"]))
    for made in (release, other):
        assert made.card is not None
        assert "for this dataset: evaluation (1)." in made.card["tuning"]
        assert any("evaluation" in each for each in made.card["unprotected_quantities"])
    assert ledger_of(state).unit is Unit.RECORD


def test_figures_shown_while_the_data_was_declared_public_are_on_the_card(state: Path) -> None:
    """Texts without DP and their evaluation, by another purpose, leave no charge in this ledger."""
    public = synthesize_frame(
        FRAME,
        text="message",
        schema=SCHEMA,
        method=NonPrivatePE(rounds=1, candidates=8, variations=2),
        generator=sb.Pool(texts=POOL),
        texts=10,
        state=state,
        accept_poor=True,
        privacy=sb.Privacy(epsilon=1, dataset="letters", purpose="benchmark"),
    )
    sb.evaluate(public, real=list(FRAME["message"]))
    release = draw(state)
    assert release.card is not None
    assert "for this dataset: results without DP (1), evaluation (1)." in release.card["tuning"]
    assert ledger_of(state).shown() == {"evaluation": 1, "results without DP": 1}
    assert not [line for line in ledger_of(state).path.read_text().splitlines() if "shown" in line]
