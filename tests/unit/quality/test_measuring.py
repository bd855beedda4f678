"""Tests of the plan, the charges and the decisions of public figures."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import sugarbush as sb
from sugarbush.attributes.reader import Labels
from sugarbush.cli.main import app
from sugarbush.errors import ParamsError, PrivacyError, RefusedReleaseError
from sugarbush.evaluation.figures_plan import REQUESTS, figure_requests, request_name
from sugarbush.paths import Roots
from sugarbush.pipeline.graph import STAGES
from sugarbush.pipeline.opening import open_project
from sugarbush.pipeline.stages import measure as stage
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.events import DiscreteGaussian
from sugarbush.publication.publish import publish_project
from sugarbush.quality import measure as measuring
from sugarbush.quality.judge import require_accepted
from sugarbush.release.figures import MeasuredRelease
from tests.integration.project import SCHEMA, as_lines, letters
from tests.publication import COMPLETE
from tests.synthesized import synthesize_frame
from tests.unit.pipeline.small_project import run_stages, write_project

pytestmark = pytest.mark.usefixtures("quick_encoder")
NO_STAGE = frozenset({"evaluate", "audit"})
ALL_BUT_REPORT = frozenset(stage.name for stage in STAGES) - {"report"}
MEASURED: dict[str, Any] = {
    "methods": ["mosaic"],
    "methods__mosaic__candidates": 16,
    "release__texts": 30,
    "evaluate__public": 0.3,
    "evaluate__show": False,
}
REFUSED = {**MEASURED, "release__accept_if": {"coverage": ">= 0.7", "topics": "<= 0.000"}}


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def card_of(base: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((base / "reports/public/release_card.json").read_text())
    return found


def charges_on(card: Mapping[str, Any]) -> set[str]:
    """Return the ids of all charges that a card names."""
    budget = card["budget"]
    return {event["id"] for event in (*budget["events"], *budget["events_of_others"])}


def finished(base: Path, **changes: Any) -> dict[str, Any]:
    """Run all stages of a small project, and return its card."""
    write_project(base, **changes)
    run_stages(base, without=NO_STAGE)
    return card_of(base)


def with_figures(coverage: float) -> Any:
    """Replace the counts of held-out records by counts with a large number of records."""

    def counts(cells: Any, *, size: int, session: Any, stddev: float, **_: Any) -> Any:
        event = DiscreteGaussian(stddev=stddev, count=3)  # one for coverage, one per attribute
        session.check([event])
        numbers = np.full(size, 10_000)
        numbers[:2] = 100_000 * np.array([1 - coverage, coverage])
        return Released(numbers, (session.charge(event),))

    return mock.patch.object(measuring, "noisy_counts", counts)


def test_the_figures_are_charged_within_the_epsilon_of_the_run(tmp_path: Path, state: Path) -> None:
    card = finished(tmp_path / "own", **MEASURED)
    charged = [event for event in card["budget"]["events"] if event["stage"] == "measure"]
    kinds = [(event["kind"], event["sensitivity"]) for event in charged]
    assert kinds == [("discrete_gaussian", 1)] * 3
    assert card["promise"]["epsilon"] <= 1.0
    assert card["promise"]["epsilon"] > 0.99
    figures = card["public_figures"]["methods"]["mosaic"]["figures"]
    names = {figure["name"] for figure in figures}
    assert {"coverage", "topics", "marginals", "accuracy"} <= names
    assert ("pairs" in names) == (len(SCHEMA["attributes"]) > 1)
    assert all(figure["low"] <= figure["value"] <= figure["high"] for figure in figures)


def test_the_plan_has_one_event_for_each_number(tmp_path: Path, state: Path) -> None:
    project = write_project(tmp_path / "own", **MEASURED)
    attributes = len(project.schema.names)
    plan = project.plan
    counts = [plan.of(request_name("mosaic", request)).count for request in REQUESTS]
    assert counts == [1 + attributes + (attributes > 1), 1 + attributes, 1]
    shares = [plan.of(request_name("mosaic", request)).mu ** 2 for request in REQUESTS]
    whole = sum(allocation.mu**2 for allocation in plan.allocations)
    assert sum(shares) / whole == pytest.approx(0.3, abs=0.001)
    assert plan.epsilon <= 1.0


@pytest.mark.parametrize("figure", ["marginals.topics", "gain.nothing"])
def test_a_rule_about_an_unknown_attribute_is_refused_before_any_charge(
    tmp_path: Path, state: Path, figure: str
) -> None:
    changes = {**MEASURED, "release__accept_if": {figure: ">= 0"}}
    project = write_project(tmp_path / "own", **changes)
    with pytest.raises(ParamsError, match=f"no figure '{figure}'"):
        _ = project.plan
    assert not list(state.rglob("ledgers"))


def test_without_the_setting_nothing_is_planned_or_measured(tmp_path: Path, state: Path) -> None:
    changes = {**MEASURED, "evaluate__public": False}
    card = finished(tmp_path / "own", **changes)
    assert card["public_figures"] is None
    assert not [event for event in card["budget"]["events"] if event["stage"] == "measure"]
    markdown = (tmp_path / "own/reports/public/release_card.md").read_text()
    page = (tmp_path / "own/reports/public/index.html").read_text()
    for text in (markdown, page):
        assert "Nothing about the quality of the texts was measured inside the guarantee" in text
    assert not figure_requests(write_project(tmp_path / "own", **changes).schema, ["m"], share=0)


@pytest.mark.slow
def test_a_second_run_restores_the_figures_and_charges_nothing(tmp_path: Path, state: Path) -> None:
    first = finished(tmp_path / "own", **MEASURED)
    run_stages(tmp_path / "own", without=NO_STAGE)
    second = card_of(tmp_path / "own")
    assert second["public_figures"] == first["public_figures"]
    assert second["budget"]["events"] == first["budget"]["events"]


def test_the_instruments_are_built_before_the_first_charge(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An encoder that fails on the records costs nothing."""
    project = write_project(tmp_path / "own", **MEASURED)
    run_stages(tmp_path / "own", without=NO_STAGE | {"measure", "report"})
    before = len(project.ledger(rehearse=False).entries())

    def fails(*_: Any, **__: Any) -> Any:
        raise PrivacyError("the encoder failed")

    monkeypatch.setattr("sugarbush.data.private_store.PrivateStore.embeddings", fails)
    with pytest.raises(PrivacyError, match="the encoder failed"):
        stage.run(project)
    assert len(project.ledger(rehearse=False).entries()) == before


def test_one_record_of_a_user_is_measured_but_all_count_for_the_marginals(
    tmp_path: Path, state: Path
) -> None:
    changes = {
        **MEASURED,
        "privacy__unit": "user",
        "privacy__records_per_user": 2,
        "prepare__user_column": "writer",
    }
    write_project(tmp_path / "own", **changes)
    rows = [r | {"writer": f"writer-{min(i % 60, 49)}"} for i, r in enumerate(letters(146)[6:])]
    (tmp_path / "own/letters.jsonl").write_text(as_lines(rows))
    run_stages(tmp_path / "own", without=NO_STAGE)
    events = card_of(tmp_path / "own")["budget"]["events"]
    assert sorted(e["sensitivity"] for e in events if e["stage"] == "measure") == [1, 1, 2]


def test_a_refused_release_says_so_everywhere_and_cannot_be_published(
    tmp_path: Path, state: Path
) -> None:
    with with_figures(0.4):
        card = finished(tmp_path / "own", publication=COMPLETE, **REFUSED)
    assert not card["publishable"]
    said = "REFUSED by release.accept_if: mosaic: coverage >= 0.7 (measured: 0.40)"
    assert said in card["heading"]
    assert "epsilon 1" in card["heading"]  # what was spent
    assert "REFUSED" in (tmp_path / "own/reports/public/index.html").read_text()
    with pytest.raises(RefusedReleaseError, match="Do not publish"):
        require_accepted(Roots(tmp_path / "own"))
    assert RefusedReleaseError.exit_code == 4
    with pytest.raises(PrivacyError, match="cannot be published"):
        publish_project(
            write_project(tmp_path / "own", publication=COMPLETE, **REFUSED),
            tmp_path / "target",
            another=False,
        )


@pytest.mark.slow
def test_the_card_after_a_refusal_counts_both_releases(tmp_path: Path, state: Path) -> None:
    rule = {"coverage": ">= 0.7"}
    base = tmp_path / "own"
    with with_figures(0.4):
        refused = finished(base, **{**MEASURED, "release__accept_if": rule})
    with with_figures(0.9):
        accepted = finished(base, **{**MEASURED, "release__accept_if": rule, "seed": 2})
    assert accepted["publishable"]
    assert charges_on(refused) < charges_on(accepted)
    assert accepted["promise"]["epsilon"] > 1.2
    assert any("public figures (3)" in each for each in accepted["budget"]["others"])
    assert accepted["promise"]["epsilon"] == accepted["budget"]["dataset_total_epsilon"]


@pytest.mark.slow
def test_a_refused_release_without_its_rule_and_figures_counts_the_figures(
    tmp_path: Path, state: Path
) -> None:
    """Whoever removes the rule after a refusal has seen the figures, so they stay on the card."""
    rule = {"coverage": ">= 0.7"}
    base = tmp_path / "own"
    with with_figures(0.4):
        refused = finished(base, **{**MEASURED, "release__accept_if": rule})
    card = finished(base, **{**MEASURED, "evaluate__public": False})
    assert card["public_figures"] is None
    assert charges_on(refused) <= charges_on(card)
    assert any("public figures (3)" in each for each in card["budget"]["others"])


def test_figures_of_other_texts_are_refused(tmp_path: Path, state: Path) -> None:
    base, other = tmp_path / "own", tmp_path / "other"
    finished(base, **MEASURED)
    finished(other, **{**MEASURED, "seed": 2})
    shutil.rmtree(base / "data/released/figures")
    shutil.copytree(other / "data/released/figures", base / "data/released/figures")
    with pytest.raises(PrivacyError, match="measured on other texts"):
        run_stages(base, without=ALL_BUT_REPORT)


def test_an_interrupted_stage_has_charged_its_figures(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = write_project(tmp_path / "own", **REFUSED)
    run_stages(tmp_path / "own", without=NO_STAGE | {"measure", "report"})
    monkeypatch.setattr(stage, "write_release", mock.Mock(side_effect=KeyboardInterrupt))
    with with_figures(0.4), pytest.raises(KeyboardInterrupt):
        stage.run(project)
    assert not (tmp_path / "own/data/released/figures").exists()
    entries = open_project(tmp_path / "own").ledger().entries()
    assert "measure" in [entry.stage for entry in entries]


def test_a_card_by_public_figures_alone_says_that_no_exact_figures_were_shown(
    tmp_path: Path, state: Path
) -> None:
    card = finished(tmp_path / "own", **MEASURED)
    assert "Sugarbush showed no exact figures" in card["tuning"]


def test_a_release_in_memory_has_the_same_figures_and_counts_refusals(state: Path) -> None:
    frame = pd.DataFrame(letters(146)[6:])
    arguments: dict[str, Any] = {
        "text": "text",
        "schema": SCHEMA,
        "method": sb.Mosaic(candidates=16, prompt="metadata"),
        "generator": sb.Simulator(any_texts=True),
        "privacy": sb.Privacy(epsilon=1, dataset="letters"),
        "texts": 20,
        "accept_poor": True,
    }
    settings = {
        "evaluate": {"public": True},
        "release": {"accept_if": {"coverage": ">= 0.7"}},
        "prepare": {"min_records": 20},
    }
    with with_figures(0.4):
        refused = synthesize_frame(frame, settings=settings, **arguments)
    assert refused.card is not None and not refused.card["publishable"]
    with with_figures(0.9):
        release = synthesize_frame(frame, settings=settings, new_draw=True, **arguments)
    assert release.card is not None
    assert not set(refused.ledger_ids) & set(release.ledger_ids)
    assert charges_on(refused.card) == charges_on(release.card)
    assert release.epsilon == refused.epsilon > 1.2
    assert "coverage" in release.report().html


def test_the_plan_of_an_example_that_is_not_written_yet_says_what_to_do(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["init", "demo"]).exit_code == 0
    monkeypatch.chdir(tmp_path / "demo")
    done = CliRunner().invoke(app, ["budget", "-S", "evaluate.public=true"])
    assert done.exit_code == 2
    assert "the example does not exist yet. Write it with: sugarbush run" in done.output


def test_the_same_texts_with_new_figures_are_another_publication(
    tmp_path: Path, state: Path
) -> None:
    base = tmp_path / "own"
    finished(base, publication=COMPLETE, **MEASURED)
    publish_project(open_project(base), tmp_path / "first", another=False)
    for folder in state.glob("draws/*/measure-*"):
        shutil.rmtree(folder)
    finished(base, publication=COMPLETE, **MEASURED)  # the figures are drawn again
    texts = [path.read_bytes() for path in sorted(base.rglob("reports/public/synthetic_*.jsonl"))]
    with pytest.raises(PrivacyError, match="was published before"):
        publish_project(open_project(base), tmp_path / "second", another=False)
    publish_project(open_project(base), tmp_path / "second", another=True)
    card = json.loads((tmp_path / "second/release_card.json").read_text())
    assert card["published"]["number"] == 2
    assert texts == [p.read_bytes() for p in sorted(base.rglob("reports/public/synthetic_*.jsonl"))]


@pytest.mark.parametrize("in_memory", [False, True])
def test_a_publication_counts_every_charge_of_its_texts_and_figures(
    tmp_path: Path, state: Path, in_memory: bool
) -> None:
    if in_memory:
        release = synthesize_frame(
            pd.DataFrame(letters(146)[6:]),
            text="text",
            schema=SCHEMA,
            method=sb.Mosaic(candidates=16, prompt="metadata"),
            generator=sb.Simulator(any_texts=True),
            privacy=sb.Privacy(epsilon=1, dataset="letters"),
            texts=20,
            accept_poor=True,
            settings={"evaluate": {"public": True}, "prepare": {"min_records": 20}},
        )
        assert release.card is not None
        events = release.card["budget"]["events"]
        release.publish(tmp_path / "out", publication=COMPLETE)
    else:
        events = finished(tmp_path / "own", publication=COMPLETE, **MEASURED)["budget"]["events"]
        publish_project(open_project(tmp_path / "own"), tmp_path / "out", another=False)
    (record,) = state.glob("publications/*.json")
    (published,) = json.loads(record.read_text())
    measured = {event["id"] for event in events if event["stage"] == "measure"}
    assert measured and measured <= set(published["ledger_ids"])
    assert set(published["ledger_ids"]) == {event["id"] for event in events}


@pytest.mark.parametrize("changed", ["texts", "codes", "weights"])
def test_figures_are_measured_again_if_texts_labels_or_weights_change(changed: str) -> None:
    """Charges do not matter: the same texts with other ledger entries have the same figures."""

    def digest(**changes: Any) -> str:
        labels = Labels(
            codes=changes.get("codes", np.array([[0, 1], [1, -1]])),
            confidence=np.ones((2, 2)),
            weights=changes.get("weights", np.array([1.0, 2.0])),
            attributes=(),
        )
        texts = changes.get("texts", ("a", "b"))
        ids = changes.get("ledger_ids", ("i",))
        return MeasuredRelease(texts=texts, labels=labels, ledger_ids=ids).digest()

    others = {
        "texts": ("b", "a"),
        "codes": np.array([[1, 1], [0, -1]]),
        "weights": np.array([2.0, 1.0]),
    }
    assert digest(**{changed: others[changed]}) != digest()
    assert digest(ledger_ids=("j",)) == digest()
