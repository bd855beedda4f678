"""Tests the profile of a project's file: its charges, its unit, its cap, and what it leaves."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import sugarbush as sb
from sugarbush.cli.new_projects import make_project
from sugarbush.cli.profiles import draft_schema, make_profile
from sugarbush.data.quantities import Kind
from sugarbush.data.schema import Schema, load_schema
from sugarbush.data.shapes.one_text import OneText
from sugarbush.errors import BudgetExceededError, InputError, ParamsError
from sugarbush.pipeline.opening import open_project
from sugarbush.privacy import mechanisms
from sugarbush.privacy.accounting import slack_fraction
from sugarbush.privacy.events import DiscreteGaussian, ThresholdedGaussian
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.spending import spending_of
from sugarbush.profiling import requests as profiling
from sugarbush.profiling.draft import draft_from_profile, schema_text, style_of, word_counts
from sugarbush.profiling.page import render_profile
from sugarbush.profiling.release import ReleasedProfile
from sugarbush.profiling.requests import profile_of_project
from sugarbush.profiling.view import share_tables
from sugarbush.project.create import OwnData
from sugarbush.project.drafts import write_draft
from sugarbush.project.profiles import read_profile
from sugarbush.run.context import Project
from sugarbush.run.ledgers import profile_charges
from tests.settings import params
from tests.synthesized import synthesize_frame

SECRET = "zanzibarine"
SHOPS = ("north", "south", "west")


def table(records: int = 4000, *, per_user: int = 1) -> pd.DataFrame:
    """Return invented letters, three of them with a secret word and a secret shop."""
    rng = np.random.default_rng(1)
    rows = []
    for number in range(records):
        shop = SHOPS[rng.choice(3, p=[0.5, 0.3, 0.2])]
        words = " ".join(["word"] * int(rng.integers(3, 30)))
        text = f"@shop the parcel {number} of the lamp came late {words}. Where is it?"
        rows.append(
            {
                "message": f"{text} {SECRET}" if number < 3 else text,
                "shop": SECRET if number < 3 else shop,
                "stars": int(rng.integers(1, 6)),
                "price": float(rng.lognormal(3, 0.5)),
                "day": f"2026-{rng.integers(1, 13):02d}-{rng.integers(1, 28):02d}",
                "writer": f"user {number // per_user}",
            }
        )
    return pd.DataFrame(rows)


def project_of(folder: Path, frame: pd.DataFrame, **changes: Any) -> Project:
    folder.mkdir(exist_ok=True)
    frame.to_csv(folder / "letters.csv", index=False)
    fields: dict[str, Any] = {
        "methods": ["mosaic"],
        "prepare__file": "letters.csv",
        "prepare__text_column": "message",
        "prepare__donated": None,
        "prepare__schema": "letters.schema.yaml",
        "privacy__purpose": "release",
        "privacy__dataset": "letters",
        "profile__epsilon": 0.5,
        "profile__columns": ["shop", "stars", "price", "day"],
        "embedding__model": "bundled",
    }
    return open_project(folder, settings=params(**fields | changes))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return project_of(tmp_path / "project", table())


@pytest.mark.slow
def test_a_profile_finds_what_is_frequent_and_proposes_a_schema(project: Project) -> None:
    """The noise of a count is below 25, so each assertion fails with a probability below 1e-6."""
    profile = profile_of_project(project)
    assert abs(profile.records - 3400) < 500
    shop = profile.column("shop")
    assert set(shop.values) == set(SHOPS)
    assert profile.share(shop.values["north"], group="values").share == pytest.approx(0.5, abs=0.1)
    draft = draft_from_profile(profile, subject="letters")
    assert draft.schema.attribute("shop").values == ("north", "south", "west")
    assert draft.schema.attribute("stars").values == ("1", "2", "3", "4", "5")
    price = draft.schema.attribute("price")
    assert price.bins is not None and price.span is not None and price.type is Kind.NUMBER
    assert 5 < price.bins[0] < price.bins[-1] < 60  # type: ignore[operator]
    assert 0 <= price.span[0] < price.bins[0] and price.bins[-1] < price.span[1] <= 300  # type: ignore[operator]
    assert draft.schema.attribute("day").kind is Kind.DATE
    assert not draft.left_out
    assert "begin with a mention" in style_of(profile)
    assert "ask a question" in style_of(profile)
    words = word_counts(profile)
    assert 8 < words[0] < words[-1] < 60
    assert "late" in profile.term_counts()
    assert not draft.schema.attributes[0].has_value(SECRET)


@pytest.mark.slow
def test_the_days_of_a_year_are_divided_by_quarters(project: Project) -> None:
    """Four columns share the noise, so an end may leave out some weeks of the year.

    In 524 of 20,000 simulated profiles, an end was outside these limits, so two profiles may be
    drawn again: a false alarm in 1 of 50,000 tests.
    """
    spans = []
    for forced in (False, True, True):
        draft = draft_from_profile(profile_of_project(project, forced=forced), subject="letters")
        day = draft.schema.attribute("day")
        assert day.span is not None
        first, last = day.span
        spans.append((first, last))
        if (
            date(2025, 12, 1) <= first < date(2026, 4, 1)  # type: ignore[operator]
            and date(2026, 10, 1) < last <= date(2027, 1, 31)  # type: ignore[operator]
        ):
            assert day.bins == (date(2026, 4, 1), date(2026, 7, 1), date(2026, 10, 1))
            return
    pytest.fail(f"no span is nearly a year: {spans}")


@pytest.mark.slow
def test_the_schema_can_be_edited_and_loaded_again(project: Project, tmp_path: Path) -> None:
    profile = profile_of_project(project)
    draft = draft_from_profile(profile, subject="letters: of a shop # 1")
    path = tmp_path / "schema.yaml"
    path.write_text(schema_text(draft, profile), encoding="utf-8")
    assert load_schema(path) == draft.schema
    assert "% to " in path.read_text()


@pytest.mark.slow
def test_nothing_rare_is_in_any_file(project: Project, capfd: pytest.CaptureFixture[str]) -> None:
    console = Console(file=io.StringIO(), width=120)
    make_profile(project, console)
    draft_schema(project, subject=None, output=project.base / "draft.yaml", seed=1, console=console)
    written = [p for p in project.base.rglob("*") if p.is_file() and p.name != "letters.csv"]
    written += [p for p in project.state.rglob("*") if p.is_file()]
    assert any(path.name == "profile.json" for path in written)
    assert any(path.name == "profile.html" for path in written)
    for path in written:
        assert SECRET.encode() not in path.read_bytes(), path
    shown = console.file.getvalue() + "".join(capfd.readouterr())  # type: ignore[attr-defined]
    assert SECRET not in shown
    assert "north" in shown


def test_a_second_profile_costs_nothing_and_a_forced_one_is_charged(project: Project) -> None:
    first = profile_of_project(project)
    charged = len(project.ledger().entries())
    assert charged == 8
    assert profile_of_project(project) == first
    assert len(project.ledger().entries()) == charged
    assert first.epsilon <= 0.5
    assert project.ledger().total() <= 0.5
    again = profile_of_project(project, forced=True)
    assert len(project.ledger().entries()) == 2 * charged
    assert again.records != first.records or again.style != first.style


@pytest.mark.slow
def test_a_changed_file_is_a_new_profile(project: Project) -> None:
    profile_of_project(project)
    table(4001).to_csv(project.base / "letters.csv", index=False)
    profile_of_project(project)
    assert len(project.ledger().entries()) == 16


@pytest.mark.slow
@pytest.mark.parametrize("stop", range(1, 9))
def test_a_stop_between_two_draws_charges_nothing_twice(
    project: Project, stop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = 0
    draw = mechanisms.discrete_gaussian

    def dies(*arguments: Any, **named: Any) -> Any:
        nonlocal draws
        draws += 1
        if draws == stop:
            raise KeyboardInterrupt
        return draw(*arguments, **named)

    monkeypatch.setattr(mechanisms, "discrete_gaussian", dies)
    with pytest.raises(KeyboardInterrupt):
        profile_of_project(project)
    assert read_profile(project.base) is None, "a half-written profile"
    profile = profile_of_project(project)
    # The mechanism that died was charged before its draw, so it is charged again, and no other.
    assert len(project.ledger().entries()) == 9
    assert len(profile.ledger_ids) == 8
    assert profile.epsilon <= 0.5


@pytest.mark.slow
@pytest.mark.parametrize("stop", [1, 5])
def test_a_stop_before_a_charge_costs_nothing(
    project: Project, stop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also between two steps with equal events."""
    charge, charges = Ledger.charge, list[str]()

    def dies(ledger: Ledger, *arguments: Any, **named: Any) -> str:
        if len(charges) == stop - 1:
            raise KeyboardInterrupt
        charges.append(charge(ledger, *arguments, **named))
        return charges[-1]

    monkeypatch.setattr(Ledger, "charge", dies)
    with pytest.raises(KeyboardInterrupt):
        profile_of_project(project)
    monkeypatch.setattr(Ledger, "charge", charge)
    profile = profile_of_project(project)
    assert len(project.ledger().entries()) == len(profile.ledger_ids) == 8
    assert len({entry.group for entry in project.ledger().entries()}) == 1
    assert project.ledger().total() <= 0.5


def test_a_profile_whose_slack_was_taken_gets_a_new_one(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The profile stops before its first charge, and other sets take eight slacks."""
    read = profiling.ProfileRequest._read

    def stops(request: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(profiling.ProfileRequest, "_read", stops)
    with pytest.raises(KeyboardInterrupt):
        profile_of_project(project)
    monkeypatch.setattr(profiling.ProfileRequest, "_read", read)
    ledger = project.ledger(rehearse=False)
    for number in range(8):
        ledger.charge(
            ThresholdedGaussian(stddev=1000.0, delta=1e-15), stage="other", run=str(number)
        )
    assert profile_of_project(project).column("stars").values
    assert ledger.total() < 0.6


def test_a_cap_too_small_for_both_is_refused_with_both_numbers(tmp_path: Path) -> None:
    project = project_of(tmp_path / "project", table(300), privacy__cap=0.9)
    with pytest.raises(BudgetExceededError) as error:
        profile_of_project(project)
    assert "epsilon 0.5" in str(error.value)
    assert "together 1" in str(error.value)
    assert "Nothing was spent" in str(error.value)
    assert not project.ledger().entries()


def test_a_profile_above_the_run_is_refused_before_it_costs(tmp_path: Path) -> None:
    project = project_of(tmp_path / "project", table(300), profile__epsilon=1.5)
    with pytest.raises(ParamsError, match=r"privacy\.epsilon=1 is for a run together"):
        profile_of_project(project)
    assert not project.ledger().entries()


def test_a_run_with_the_schema_stays_within_epsilon_together_with_the_profile(
    project: Project,
) -> None:
    profile = profile_of_project(project)
    schema = draft_from_profile(profile, subject="letters").schema
    run = project.with_settings(project.settings, schema=schema)
    other = run.settings.privacy.model_copy(update={"dataset": "others"})
    settings = run.settings.model_copy(update={"privacy": other})
    alone = project.with_settings(settings, schema=schema)
    assert run.plan.epsilon < 0.86 < alone.plan.epsilon <= 1
    for allocation in run.plan.allocations:
        run.ledger(rehearse=False).charge(
            allocation.event, stage="s", run="r", plan=run.plan.planned
        )
    assert 0.99 < run.ledger().total() <= 1


@pytest.mark.slow
def test_every_profile_counts_whatever_the_schema_says(project: Project) -> None:
    """Somebody may write the values of a profile into a schema by hand."""
    profile_of_project(project)
    by_hand = Schema.model_validate(
        {
            "subject": "letters",
            "attributes": [{"name": "shop", "column": "shop", "values": ["north"]}],
        }
    )
    run = project.with_settings(project.settings, schema=by_hand)
    assert profile_charges(run) == tuple(e.id for e in project.ledger().entries())
    first = run.plan.epsilon
    profile_of_project(project, forced=True)
    again = project.with_settings(project.settings, schema=by_hand)
    assert again.plan.epsilon < first < 0.86


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "of_profile"), [(1.0, 0.9), (2.0, 1.9), (6.0, 5.0)])
def test_a_profile_that_needs_most_of_epsilon_leaves_the_rest(
    tmp_path: Path, epsilon: float, of_profile: float
) -> None:
    project = project_of(
        tmp_path / "project",
        table(300),
        privacy__epsilon=epsilon,
        privacy__cap=20.0,
        profile__epsilon=of_profile,
    )
    profile_of_project(project)
    by_hand = Schema.model_validate(
        {"subject": "x", "attributes": [{"name": "s", "column": "shop", "values": ["north"]}]}
    )
    run = project.with_settings(project.settings, schema=by_hand)
    planned = run.plan.planned
    ledger = run.ledger(rehearse=False)
    total = ledger.epsilon_with(profile_charges(run), (planned.events, planned))
    assert 0.9 * epsilon < total <= epsilon


@pytest.mark.slow
def test_a_delta_above_one_over_the_count_is_refused_after_the_first_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A smaller delta after the sets were drawn would be below their share of delta."""
    project = project_of(tmp_path / "project", table(3000), privacy__delta=1e-5)
    monkeypatch.setattr(mechanisms, "discrete_gaussian", lambda counts, **_: counts + 10**6)
    with pytest.raises(ParamsError, match="is above 1 / "):
        profile_of_project(project)
    assert len(project.ledger().entries()) == 1


def test_a_user_with_many_records_counts_once(tmp_path: Path) -> None:
    """1,000 users of four records. The noise of the count is below 60."""
    project = project_of(
        tmp_path / "project",
        table(4000, per_user=4),
        privacy__unit="user",
        privacy__records_per_user=4,
        prepare__user_column="writer",
        profile__columns=["shop"],
    )
    profile = profile_of_project(project)
    assert abs(profile.records - 850) < 450
    assert profile.users == profile.records
    assert profile.records_of_users()[2] == pytest.approx(4.5, abs=1)
    events = {entry.event for entry in project.ledger().entries()}
    assert all(e.sensitivity == 1 for e in events if isinstance(e, DiscreteGaussian))
    assert {entry.records_per_unit for entry in project.ledger().entries()} == {1}


def test_the_events_are_those_of_the_plan(project: Project) -> None:
    profile = profile_of_project(project)
    events = [entry.event for entry in project.ledger().entries()]
    counts = [e.count for e in events if isinstance(e, DiscreteGaussian)]
    assert counts == [5, 16, 8, 4, 4, 4]
    sets = [e for e in events if isinstance(e, ThresholdedGaussian)]
    assert [e.count for e in sets] == [4, 18]
    assert sum(e.delta for e in sets) <= slack_fraction(1) * 1e-6
    assert len({entry.group for entry in project.ledger().entries()}) == 1
    assert {entry.stage for entry in project.ledger().entries()} == {"profile"}
    assert profile.threshold["values"] > 5 * profile.stddev["values"]


def test_a_small_corpus_says_what_it_cannot_see(tmp_path: Path) -> None:
    project = project_of(tmp_path / "project", table(40))
    profile = profile_of_project(project)
    draft = draft_from_profile(profile, subject="letters")
    assert [a.name for a in draft.schema.attributes] == ["tone"]
    assert not word_counts(profile)
    assert len(draft.left_out) == 4
    spending = spending_of(project.ledger().snapshot(), profile.ledger_ids)
    page = render_profile(profile, title="letters", spending=spending)
    assert "too small" in page


@pytest.mark.slow
def test_a_style_within_the_noise_is_not_in_the_schema(project: Project) -> None:
    """The page says that there are too few records for the form, so prompts must not state one."""
    profile = profile_of_project(project)
    noise = {**profile.stddev, "style": 12.0, "sizes": 1.0}
    few = replace(
        profile,
        records=40,
        stddev=noise,
        style=dict.fromkeys(profile.style, 40),
        languages={"German": 40},
    )
    assert any(t.note.startswith("Too few records for the form") for t in share_tables(few))
    draft = draft_from_profile(few, subject="letters").schema
    assert (draft.style, draft.language) == ("", "en")


@pytest.mark.slow
def test_the_share_of_each_kind_of_cell_has_its_interval(project: Project) -> None:
    profile = profile_of_project(project)
    note = next(t.note for t in share_tables(profile) if t.title == "shop")
    assert re.search(r"Cells: texts [\d.]+% \([\d.]+% to [\d.]+%\)", note)


@pytest.mark.parametrize(
    ("columns", "error", "what"),
    [
        (["shop", "shoe"], InputError, "has no column 'shoe', which profile.columns names"),
        (["message"], ParamsError, "'message' is the column of the texts"),
        ([f"c{n}" for n in range(21)], ParamsError, "names 21 columns"),
    ],
)
def test_wrong_columns_are_refused_before_anything_is_spent(
    tmp_path: Path, columns: list[str], error: type[Exception], what: str
) -> None:
    project = project_of(tmp_path / "project", table(300), profile__columns=columns)
    with pytest.raises(error, match=what):
        profile_of_project(project)
    assert not project.ledger().entries()


@pytest.mark.slow
def test_more_values_than_a_schema_lists_are_other(tmp_path: Path) -> None:
    frame = table(6000).assign(code=[f"c{n % 60}" for n in range(6000)], number=range(6000))
    frame["number"] = frame["number"] % 60
    project = project_of(
        tmp_path / "project", frame, profile__columns=["code", "number"], profile__epsilon=8.0,
        privacy__epsilon=10.0, privacy__cap=30.0,
    )  # fmt: skip
    profile = profile_of_project(project)
    assert len(profile.column("code").values) == 60
    assert profile.other(profile.column("code")).share == pytest.approx(0.5, abs=0.03)
    # Without the noise of the other kinds of cells, which gives 1 of 150 columns another type.
    kept = [
        replace(column, kinds={kind: n if n > 999 else 0 for kind, n in column.kinds.items()})
        for column in profile.columns
    ]
    profile = replace(profile, columns=tuple(kept))
    draft = draft_from_profile(profile, subject="letters")
    schema = draft.schema
    assert len(schema.attribute("code").values) == 30
    number = schema.attribute("number")
    # The bin of 0 has 80 records, 13 standard deviations of the noise.
    assert number.type is Kind.INTEGER and number.span == (0, 59)
    assert "span: [0, 59]" in schema_text(draft, profile)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("day", "span", "bins"),
    [
        (lambda n: f"{2022 + n % 3}-05-01", ("2022", "2024"), 9),
        (lambda n: f"{2001 + n % 20}-05-01 10:00", ("2001", "2020"), 7),
    ],
)
def test_dates_have_bins_that_fit_their_years(
    tmp_path: Path, day: Callable[[int], str], span: tuple[str, str], bins: int
) -> None:
    frame = table(6000).assign(day=[day(n) for n in range(6000)])
    project = project_of(
        tmp_path / "project", frame, profile__columns=["day"], profile__epsilon=8.0,
        privacy__epsilon=10.0, privacy__cap=30.0,
    )  # fmt: skip
    profile = profile_of_project(project)
    found = draft_from_profile(profile, subject="letters").schema.attribute("day")
    assert found.span is not None
    assert tuple(str(end)[:4] for end in found.span) == span
    assert len(found.domain) - 1 == bins
    years = next(t for t in share_tables(profile) if t.title == "day, by year")
    assert years.shares[0][0] == span[0] and years.shares[-1][0] == span[1]


@pytest.mark.slow
def test_a_column_with_other_cells_has_no_type(tmp_path: Path) -> None:
    """A cell that is no number would be a bad row of an attribute with a type."""
    frame = table(6000)
    frame["price"] = [f"about {n}" if n % 5 == 0 else n + 0.5 for n in range(6000)]
    frame["day"] = [f"day {n}" if n % 5 == 0 else "2024-05-01" for n in range(6000)]
    project = project_of(tmp_path / "project", frame, profile__columns=["price", "day"])
    profile = profile_of_project(project)
    draft = draft_from_profile(profile, subject="letters")
    price = draft.schema.attribute("price")
    assert price.type is None and price.bins and "# type: number" in schema_text(draft, profile)
    assert [name for name, _ in draft.left_out] == ["day"]


@pytest.mark.slow
def test_strange_values_and_numbers_leave_a_schema_that_loads(tmp_path: Path) -> None:
    frame = table(3000).assign(
        ansi="a\x1b[31mb", low=[-3e12 - n for n in range(3000)], colon="x: y # z", quote="'\""
    )
    project = project_of(
        tmp_path / "project", frame, profile__columns=["ansi", "low", "colon", "quote"]
    )
    profile = profile_of_project(project)
    assert "\x1b" not in profile.to_json()
    path = tmp_path / "schema.yaml"
    path.write_text(schema_text(draft_from_profile(profile, subject="x"), profile))
    load_schema(path)


@pytest.mark.slow
def test_the_interval_of_other_contains_the_truth(tmp_path: Path) -> None:
    """20 profiles with a true share of other of 20%. Fewer than 15 intervals with a coverage of 95%
    contain it with a probability below 1e-4."""
    frame = pd.DataFrame(
        {"message": [f"letter {n}" for n in range(3000)],
         "shop": [("a", "b", "c", "d", f"rare {n}")[n % 5] for n in range(3000)]}
    )  # fmt: skip
    privacy = sb.Privacy(epsilon=50, delta=1e-6, dataset="letters", cap=900)
    right = 0
    for draw in range(20):
        values = sb.profile(
            frame, text="message", columns=["shop"], privacy=privacy, epsilon=0.5,
            state=tmp_path / str(draw), settings={"prepare": {"heldout_share": 1e-9}},
        ).values  # fmt: skip
        other = values.other(values.column("shop"))
        right += other.low <= 0.2 <= other.high
    assert right >= 15


@pytest.mark.slow
def test_an_unedited_schema_is_replaced_by_the_draft_of_a_profile(project: Project) -> None:
    path = project.base / "letters.schema.yaml"
    path.write_text(
        "subject: texts\nattributes:\n"
        "  - {name: shop, column: shop, values: [first value, second value]}\n"
    )
    (project.base / "params.yaml").write_text("methods: {mosaic: {}}\n")
    profile_of_project(project)
    write_draft(project, subject="letters", output=None, seed=1)
    assert load_schema(path).attribute("shop").values == ("north", "south", "west")
    with pytest.raises(ParamsError, match="exists already"):
        write_draft(project, subject="letters", output=path, seed=1)


@pytest.mark.slow
def test_columns_with_one_value_with_too_many_and_with_lists(tmp_path: Path) -> None:
    frame = table(3000).assign(
        constant="always", identifier=[f"id {n}" for n in range(3000)], lists="[1, 2]", nothing=None
    )
    names = ["constant", "identifier", "lists", "nothing"]
    project = project_of(tmp_path / "project", frame, profile__columns=names)
    draft = draft_from_profile(profile_of_project(project), subject="letters")
    reasons = dict(draft.left_out)
    assert "one value, 'always'" in reasons["constant"]
    assert "no frequent value" in reasons["identifier"]
    assert "lists or records" in reasons["lists"]
    assert "empty" in reasons["nothing"]


def test_keys_of_jsonl_records_are_not_profiled_without_their_names(tmp_path: Path) -> None:
    project = project_of(tmp_path / "project", table(300), profile__columns=None)
    shape = OneText("message")
    assert profiling.profiled_columns(project.settings, base=project.base, shape=shape) == (
        "shop", "stars", "price", "day", "writer",
    )  # fmt: skip
    table(300).to_json(project.base / "letters.jsonl", orient="records", lines=True)
    lines = project_of(
        project.base, table(300), profile__columns=None, prepare__file="letters.jsonl"
    )
    assert profiling.profiled_columns(lines.settings, base=lines.base, shape=shape) == ()


def test_held_out_records_are_not_read(tmp_path: Path) -> None:
    project = project_of(tmp_path / "project", table(3000), prepare__heldout_share=0.5)
    assert abs(profile_of_project(project).records - 1500) < 350


@pytest.mark.slow
def test_the_api_profiles_a_frame(tmp_path: Path) -> None:
    privacy = sb.Privacy(epsilon=1, delta=1e-6, dataset="letters")
    arguments: dict[str, Any] = {
        "text": "message", "privacy": privacy, "columns": ["shop"], "epsilon": 0.5,
        "state": tmp_path / "other",
    }  # fmt: skip
    profile = sb.profile(table(), **arguments)
    assert set(profile.schema("letters").attribute("shop").values) == set(SHOPS)
    assert sb.profile(table(), **arguments).values == profile.values
    assert sb.profile(table(), **arguments, new_draw=True).values != profile.values
    assert SECRET not in profile.frame.to_csv()
    assert "Profile of letters" in profile._repr_html_()
    profile.save(tmp_path / "saved")
    assert load_schema(tmp_path / "saved" / "schema.yaml").attribute("shop").values
    read = ReleasedProfile.from_json((tmp_path / "saved" / "profile.json").read_text())
    assert read == profile.values
    with pytest.raises(InputError, match="no column 'shoe'"):
        sb.profile(table(), **arguments | {"columns": ["shoe"]})


def test_a_release_counts_the_profile_of_its_schema(tmp_path: Path) -> None:
    privacy = sb.Privacy(epsilon=1, delta=1e-6, dataset="letters")
    frame = table(1500)
    profile = sb.profile(
        frame, text="message", privacy=privacy, columns=["shop"], epsilon=0.5, state=tmp_path
    )
    release = synthesize_frame(
        frame,
        text="message",
        schema=profile.schema("letters"),
        method=sb.Mosaic(candidates=12, prompt="metadata"),
        generator=sb.Simulator(any_texts=True),
        privacy=privacy,
        texts=6,
        state=tmp_path,
        accept_poor=True,
    )
    assert set(profile.ledger_ids) <= set(release.ledger_ids)
    assert 0.99 < release.epsilon <= 1
    events = release.card["budget"]["events"]
    assert [event["stage"] for event in events].count("profile") == 8
    assumed = " ".join(release.card["assumed_public"])
    assert "beside the DP profile" in assumed
    assert json.dumps(release.card)


def test_init_says_what_its_profile_charged(tmp_path: Path) -> None:
    table(300).to_csv(tmp_path / "letters.csv", index=False)
    console = Console(file=io.StringIO(), width=200)
    folder = tmp_path / "made"
    own = OwnData(file=str(tmp_path / "letters.csv"), text_column="message", columns="shop")
    make_project(folder, own, console, profile=True)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "ledger: charged; epsilon 0.2 of the dataset" in shown
    assert "restored" not in shown
    console = Console(file=io.StringIO(), width=200)
    make_profile(open_project(folder), console)
    assert "nothing charged" in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("private", ["user", "record_id"])
def test_no_profile_counts_the_values_of_users_ids_or_texts(tmp_path: Path, private: str) -> None:
    frame = pd.DataFrame(
        {
            "message": [f"Order {i % 3} arrived late" for i in range(1500)],
            "shop": ["north", "south"] * 750,
            "who": [f"{i % 700 if private == 'user' else i}" for i in range(1500)],
        }
    )
    unit: dict[str, Any] = {"unit": "user", "records_per_user": 1} if private == "user" else {}
    asked: dict[str, Any] = {
        "text": "message",
        "privacy": sb.Privacy(epsilon=10, cap=20, delta=1e-6, dataset="letters", **unit),
        "epsilon": 5,
        "state": tmp_path,
        private: "who",
    }
    for named in ("who", "message"):
        with pytest.raises(ParamsError, match=f"columns: '{named}' is the column of the texts"):
            sb.profile(frame, columns=["shop", named], **asked)
    found = sb.profile(frame, **asked)
    assert [column.name for column in found.values.columns] == ["shop"]


@pytest.mark.slow
def test_init_with_users_writes_how_many_records_of_a_user_are_used(tmp_path: Path) -> None:
    """1,500 users with four records each."""
    frame = table(6000, per_user=4)[["message", "writer"]]
    frame.to_csv(tmp_path / "letters.csv", index=False)
    console, folder = Console(file=io.StringIO(), width=300), tmp_path / "made"
    own = OwnData(
        file=str(tmp_path / "letters.csv"), text_column="message", user_column="writer", columns=""
    )
    make_project(folder, own, console, profile=True)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    project = open_project(folder)
    limit = project.settings.privacy.records_per_user
    assert limit > 1
    assert f"privacy.records_per_user: {limit}: about " in shown
    assert f"the noise of every count is {limit} times as large" in shown
    charged = len(project.ledger(rehearse=False).entries())
    profile_of_project(project)
    assert len(project.ledger(rehearse=False).entries()) == charged, "the number changes no profile"


def test_init_with_users_and_no_profile_says_that_one_record_is_used(tmp_path: Path) -> None:
    table(30, per_user=3).to_csv(tmp_path / "letters.csv", index=False)
    console = Console(file=io.StringIO(), width=300)
    own = OwnData(file=str(tmp_path / "letters.csv"), text_column="message", user_column="writer")
    make_project(tmp_path / "made", own, console)
    assert "One record of each user is used" in console.file.getvalue()  # type: ignore[attr-defined]
