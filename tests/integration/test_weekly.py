"""A corpus that grows: a run reuses the last release where the budget allows no new draw."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from sugarbush.errors import BudgetExceededError, ParamsError
from sugarbush.pipeline import draws
from sugarbush.project.check import checked_budget
from sugarbush.report.card import CARD_FILE, Card, read_card
from tests.integration.project import LOOK, Checkout, as_lines, letters, make_project
from tests.pipelines import copied, environment_of, opened, run_pipeline
from tests.unit.pipeline.small_project import write_project

pytestmark = pytest.mark.slow
MARK = "zqweek2"
RUN = len(LOOK) + 2  # charges of a run: the look, the metadata, one round of votes


SETTINGS: dict[str, Any] = {
    "methods": ["maple"],
    "embedding__model": "tiny",
    "prepare__id_column": "id",
    "privacy__cap": 1.2,
    "privacy__when_spent": "reuse",
}


def with_dvc(folder: Path) -> Checkout:
    return make_project(folder / "checkout", folder / "state", **SETTINGS)


def grow(project: Checkout, count: int = 30) -> None:
    """Append letters of another week, with a mark in each."""
    path = project.path / "letters.jsonl"
    had = path.read_text()
    first = had.count("\n") + 6
    new = [
        row | {"text": row["text"].replace("Dear shop", f"Dear {MARK}")}
        for row in letters(first + count)[first:]
    ]
    path.write_text(had + as_lines(new))


def card_of(project: Checkout) -> Card:
    return read_card(project.path / "reports/public" / CARD_FILE)


def released(project: Checkout) -> dict[str, bytes]:
    base = project.path / "data/released"
    return {str(p.relative_to(base)): p.read_bytes() for p in base.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def first_week(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A finished release of a project without git and DVC."""
    folder = tmp_path_factory.mktemp("weekly")
    project = Checkout(folder / "checkout", folder / "state")
    with environment_of(project):
        write_project(project.path, **SETTINGS)
    run_pipeline(project)
    return project


@pytest.fixture
def own(first_week: Checkout, tmp_path: Path) -> Checkout:
    return copied(first_week, tmp_path)


def test_dvc_reuses_a_release_and_runs_only_the_report_again(tmp_path: Path) -> None:
    project = with_dvc(tmp_path)
    project.repro()
    charges, files = project.charges(), released(project)
    assert len(charges) == RUN and card_of(project).renewal is None
    grow(project)
    assert project.repro() == ["make_example", "fingerprint", "report"]
    assert project.charges() == charges and released(project) == files
    renewal = card_of(project).renewal
    assert renewal is not None and renewal.reused == "the cap allows no new draw"
    assert renewal.learned == charges[-1].time and renewal.draws_left == 0
    grow(project)
    assert project.repro() == ["make_example", "fingerprint"]  # week after week
    project.change("privacy", cap=50.0)
    project.ledger.raise_cap(50.0)
    ran = project.repro()
    assert {"prepare", "evolve@maple", "report"} <= set(ran)
    renewal = card_of(project).renewal
    assert renewal is not None and renewal.reused is None
    assert set(renewal.drawn_again) == {"look", "synthesize_metadata", "evolve@maple"}
    assert len(project.charges()) == 2 * RUN


def test_a_reused_release_reads_no_later_record_and_its_pages_say_so(own: Checkout) -> None:
    grow(own)
    with (own.path / "letters.jsonl").open("a") as lines:
        lines.write("this line cannot be read\n")
    files, charges = released(own), own.charges()
    run_pipeline(own)
    assert own.charges() == charges
    for name in ("metadata/release.json", "evolve/maple/lineage.parquet"):
        assert released(own)[name] == files[name]
    for path in [*(own.path / "data").rglob("*"), *own.state.rglob("*")]:
        assert not path.is_file() or MARK.encode() not in path.read_bytes(), path
    folder = own.path / "reports/public"
    for name in ("release_card.md", "release_card.html", "index.html"):
        text = (folder / name).read_text()
        assert f"Nothing new was learned since {charges[-1].time}" in text
        assert "has no room for another such draw" in text


def test_without_the_setting_the_cap_stops_the_run(own: Checkout) -> None:
    own.change("privacy", when_spent="refuse")
    grow(own)
    with pytest.raises(BudgetExceededError, match="would bring epsilon"):
        run_pipeline(own)
    assert len(own.charges()) == RUN


def test_more_texts_of_old_scores_are_new_texts_and_charge_nothing(own: Checkout) -> None:
    grow(own)
    own.change("release", texts=11)
    run_pipeline(own)
    assert len(own.charges()) == RUN
    renewal = card_of(own).renewal
    assert renewal is not None and renewal.drawn_again == () and renewal.reused
    assert renewal.new_texts["maple"] >= 3
    page = (own.path / "reports/public/index.html").read_text()
    assert f"New texts of maple: {renewal.new_texts['maple']} of 11." in page


def test_a_changed_setting_that_needs_a_draw_is_refused_and_charges_nothing(own: Checkout) -> None:
    """The cap has room for this draw, but its date has not come."""
    own.change("privacy", days_between_draws=28, cap=50.0)
    own.ledger.raise_cap(50.0)
    grow(own)
    own.change(seed=7)
    with pytest.raises(BudgetExceededError, match="reuses the last release, because"):
        run_pipeline(own)
    with pytest.raises(BudgetExceededError):  # and when it is tried again
        run_pipeline(own)
    assert len(own.charges()) == RUN


def test_a_changed_schema_does_not_read_the_later_records(own: Checkout) -> None:
    grow(own)
    path = own.path / "letters.schema.yaml"
    fields = yaml.safe_load(path.read_text())
    fields["attributes"][1]["values"].append("repair")
    path.write_text(yaml.safe_dump(fields))
    with pytest.raises(ParamsError, match="keeps the records of the last run"):
        run_pipeline(own)
    assert len(own.charges()) == RUN
    fields["attributes"][1]["values"].pop()
    path.write_text(yaml.safe_dump(fields))
    run_pipeline(own)  # set back, all is as before


def test_days_between_draws_keep_a_release_until_its_date(
    own: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    own.change("privacy", when_spent="refuse", days_between_draws=28, cap=50.0)
    own.ledger.raise_cap(50.0)
    grow(own)
    run_pipeline(own)
    last = date.fromisoformat(own.charges()[-1].time)
    renewal = card_of(own).renewal
    assert renewal is not None and len(own.charges()) == RUN
    assert renewal.next_draw == str(last + timedelta(days=28)) and (renewal.draws_left or 0) > 10
    monkeypatch.setattr(draws, "_today", lambda: last + timedelta(days=28))
    run_pipeline(own)
    assert len(own.charges()) == 2 * RUN


def test_an_interrupted_run_is_finished_on_the_records_with_which_it_started(
    own: Checkout,
) -> None:
    own.change("privacy", cap=1.5)
    own.ledger.raise_cap(1.5)
    grow(own)
    run_pipeline(own, "fingerprint", "prepare", "extract_metadata", "look", "synthesize_metadata")
    assert len(own.charges()) == 2 * RUN - 1
    stamp = (own.path / "data/stamps/corpus.json").read_bytes()
    grow(own)
    run_pipeline(own)
    assert len(own.charges()) == 2 * RUN
    assert (own.path / "data/stamps/corpus.json").read_bytes() == stamp
    grow(own)
    run_pipeline(own)
    renewal = card_of(own).renewal
    assert renewal is not None and renewal.reused and len(own.charges()) == 2 * RUN


@pytest.mark.filterwarnings("default")  # DVC's
def test_a_look_at_the_project_also_says_that_a_run_spends_nothing(tmp_path: Path) -> None:
    project = with_dvc(tmp_path)
    project.repro()
    grow(project)
    with opened(project) as seen:
        assert "a run spends nothing" in checked_budget(seen).text
