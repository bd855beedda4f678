"""Tests of the first look: what it charges, what it stops, and what its form gives to prompts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sugarbush as sb
from sugarbush.errors import PoorFitError
from sugarbush.evaluation.first_look import CENTRE, FIT, KINDS, LENGTHS, NAMES, STYLE, FirstLook
from sugarbush.evaluation.fit import ShareInterval
from sugarbush.pipeline.opening import open_project
from sugarbush.quality import look as looking
from sugarbush.run.tools import first_length
from tests.integration.project import letters
from tests.synthesized import synthesize_frame
from tests.unit.pipeline.small_project import run_stages, write_project

pytestmark = pytest.mark.usefixtures("quick_encoder", "no_rehearsal")
SCHEMA = {
    "subject": "complaints to a shop",
    "attributes": [
        {"name": "product", "column": "product", "values": ["lamp", "chair", "kettle"]},
    ],
}
PRIVACY = {"epsilon": 1, "delta": 1e-6, "dataset": "letters"}


@pytest.fixture
def no_rehearsal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick encoder knows no subjects, so a rehearsal would refuse every text."""
    monkeypatch.setattr("sugarbush.rehearsal.rehearse.is_rehearsed", lambda project: False)


def frame(count: int = 1500, *, users: int | None = None) -> pd.DataFrame:
    found = pd.DataFrame(letters(count))[["text", "product"]]
    if users is not None:
        found["user"] = [f"user {i % users}" for i in range(count)]
    return found


def of_the_kind(count: int = 90) -> list[str]:
    """Return letters with other orders than those of `frame`."""
    return [row["text"].replace("order 1", "order 7") for row in letters(count)]


def foreign(count: int = 90) -> list[str]:
    return [
        f"court {i} of district {i % 7} decided against appeal number {i * 13} in spring"
        for i in range(count)
    ]


def synthesized(
    tmp_path: Path, texts: list[str], *, privacy: dict[str, Any] | None = None, **more: Any
) -> sb.Release:
    data, generator = more.pop("data", None), more.pop("generator", None)
    return synthesize_frame(
        frame() if data is None else data,
        schema=SCHEMA,
        generator=generator or sb.Pool(texts=texts),
        texts=12,
        method=sb.Mosaic(candidates=40),
        privacy=sb.Privacy(**(PRIVACY | (privacy or {}))),
        state=tmp_path / "state",
        **more,
    )


def stages_of(tmp_path: Path) -> list[str]:
    return [entry.stage for entry in sb.open_ledger("letters", state=tmp_path / "state").entries()]


def test_texts_of_another_kind_stop_the_run_before_its_other_charges(tmp_path: Path) -> None:
    records = frame(3000)  # of 1,500 records, no kind was named in about 1 of 60 draws
    with pytest.raises(PoorFitError) as stopped:
        synthesized(tmp_path, foreign(), data=records)
    assert stopped.value.exit_code == 3
    assert stages_of(tmp_path) == ["look"] * 5
    said = str(stopped.value)
    assert re.search(r"No near texts for: product (lamp|chair|kettle)", said)
    assert re.search(r"about as long as the records \(\d+ words\), so not their length but", said)
    assert "add public texts" in said and "accept_poor=True" in said
    assert "Dear shop" not in said
    ledger = sb.open_ledger("letters", state=tmp_path / "state")
    spent = ledger.total()
    assert 0 < spent < 0.25  # of 1
    second = synthesized(tmp_path, of_the_kind(), data=records)
    assert second.epsilon <= 1.05


def test_a_stopped_run_says_that_the_texts_have_another_length(tmp_path: Path) -> None:
    with pytest.raises(PoorFitError) as stopped:
        synthesized(tmp_path, [f"{text} and {text} " * 3 for text in foreign()])
    assert re.search(
        r"The first texts have about 75 words, the records about (1\d|2[0-4]), so at least their "
        r"form is at fault: use public texts of this length",
        str(stopped.value),
    )


POOR = FirstLook(
    fit=ShareInterval(value=0.02, low=0.0, high=0.05),
    kinds=(),
    texts=200,
    lengths={},
    text_words=80,
)
DECLARED = {"words": 80, "attribute": None, "words_by_value": None}


@pytest.mark.parametrize(
    ("released", "words", "changes", "said"),
    [
        ((8, 13, 20), 80, {"initialise__length": DECLARED},
         "80 words, the records about 13, so at least their form is at fault: set "
         "initialise.length.words: [8, 13, 20]"),
        ((8, 13, 20), 80, {"initialise__length": {}},
         "about 13, so at least their form is at fault: say in the schema's `style` how long"),
        ((8, 13, 20), 13, {"initialise__length": {}},
         "about as long as the records (13 words), so not their length but their content or style"),
        ((200, 300), 80, {"initialise__length": {}}, "80 words, the records about 250, so"),
        ((), 80, {"initialise__length": DECLARED},
         "have about 80 words. Nothing measured how long the records are, so check initialise.len"),
        ((), 80, {"initialise__length": {}, "prepare__donated": "donated.jsonl"},
         "80 words, the donated texts about 1"),
        ((), 18, {"initialise__length": {}, "prepare__donated": "donated.jsonl"},
         "about as long as the donated texts"),
    ],
)  # fmt: skip
def test_a_refusal_says_whether_form_or_content_is_at_fault(
    tmp_path: Path, released: tuple[int, ...], words: int, changes: dict[str, Any], said: str
) -> None:
    project = write_project(tmp_path / "own", **({"prepare__donated": None} | changes))
    look = replace(POOR, words=released, text_words=words)
    assert said in looking.refusal(project, look)
    assert FirstLook.from_json(look.to_json()) == look


@pytest.mark.parametrize("words", [None, 80])
def test_without_any_length_a_refusal_names_no_form(tmp_path: Path, words: int | None) -> None:
    project = write_project(tmp_path / "own", prepare__donated=None, initialise__length={})
    assert "words" not in looking.refusal(project, replace(POOR, text_words=words))


def test_at_least_nine_tenths_of_the_budget_are_left_after_a_look(tmp_path: Path) -> None:
    project = write_project(tmp_path / "own", methods=["mosaic"], prepare__donated=None)
    squares = {each.name: each.mu**2 for each in project.plan.allocations}
    assert set(NAMES) <= set(squares)
    look = sum(square for name, square in squares.items() if name in NAMES)
    assert 0.02 <= look / sum(squares.values()) <= 0.1


def test_who_goes_on_all_the_same_gets_a_release(tmp_path: Path) -> None:
    release = synthesized(tmp_path, foreign(), accept_poor=True)
    assert release.verdict.grade == "poor"
    assert "of the records have a text like them" in release.verdict.line()
    assert release.epsilon <= 1.001  # one run, and the bound for later adaptive choices


def test_a_second_try_with_other_texts_does_not_pay_for_the_form_of_the_records_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same try again pays for nothing. (Another pool pays for all: see first-look.md.)"""

    def stop(*_: Any, **__: Any) -> None:
        raise PoorFitError("stopped after the look")

    monkeypatch.setattr("sugarbush.pipeline.run_in_memory.require_fit", stop)
    for seed in (1, 2, 2):
        with pytest.raises(PoorFitError):
            synthesized(tmp_path, [], generator=sb.Simulator(any_texts=True), seed=seed)
    assert stages_of(tmp_path) == ["look"] * 8  # lengths and style once; centre, fit, kinds twice


def test_a_release_without_donated_texts_can_be_good_for_its_readers(tmp_path: Path) -> None:
    release = synthesized(tmp_path, of_the_kind(120))
    assert stages_of(tmp_path)[:5] == ["look"] * 5
    assert "nothing public shows" not in release.verdict.line()
    assert release.verdict.figures["coverage"] >= 0.5
    assert set(release.card["budget"]["events"][0]) >= {"stage", "kind"}


def test_one_record_of_a_user_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def counted(draw: Any) -> Any:
        def drawn(records: Any, **rest: Any) -> Any:
            read.append(len(records._per_unit))
            return draw(records, **rest)

        return drawn

    for name in ("noisy_counts", "noisy_sum"):
        monkeypatch.setattr(looking, name, counted(getattr(looking, name)))
    privacy = {"unit": "user", "records_per_user": 3, "epsilon": 4, "cap": 5}
    with pytest.raises(PoorFitError):
        synthesized(tmp_path, foreign(), data=frame(users=500), user="user", privacy=privacy)
    entries = sb.open_ledger("letters", state=tmp_path / "state").entries()
    assert {entry.event.sensitivity for entry in entries} == {1, 1024}
    assert len(read) == 5 and 300 < min(read) == max(read) <= 500


def test_a_look_that_stops_between_two_draws_charges_none_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = looking._LookGroups.counts

    def stops(self: Any, name: str, *rest: Any) -> Any:
        if name == KINDS:
            raise KeyboardInterrupt
        return draw(self, name, *rest)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(looking._LookGroups, "counts", stops)
        synthesized(tmp_path, foreign())
    before = stages_of(tmp_path)
    assert before == ["look"] * 4
    with pytest.raises(PoorFitError):
        synthesized(tmp_path, foreign())
    assert stages_of(tmp_path) == ["look"] * 5


def test_a_cap_that_the_whole_run_would_exceed_stops_it_before_the_look(tmp_path: Path) -> None:
    with pytest.raises(sb.BudgetExceededError):
        synthesized(tmp_path, foreign(), privacy={"cap": 0.5})
    assert not (tmp_path / "state" / "ledgers").exists() or stages_of(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("donated", [False, True])
def test_prompts_have_the_lengths_of_the_records_or_of_donated_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, donated: bool
) -> None:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    changes = {} if donated else {"prepare__donated": None}
    base = tmp_path / "own"
    write_project(
        base,
        methods=["mosaic"],
        privacy__epsilon=100,
        privacy__cap=150,
        initialise__length__words=None,
        report__accept_poor=True,
        **changes,
    )
    run_stages(base, without=frozenset({"evolve", "enlarge", "measure", "report", "evaluate"}))
    project = open_project(base)
    numbers = first_length(project).numbers
    true = [len(row["text"].split()) for row in letters(146)]
    # The noise of a bin is 1.4: no more in any of 20,000 simulated draws (epsilon 20: 1% of them).
    assert numbers and 80 not in numbers
    assert min(true) - 8 <= min(numbers) <= max(numbers) <= max(true) + 8
    names = {each.name for each in project.plan.allocations}
    assert {CENTRE, FIT, KINDS} <= names
    assert ({LENGTHS, STYLE} <= names) is not donated


def test_the_number_of_first_texts_does_not_depend_on_the_records(tmp_path: Path) -> None:
    counts = []
    for number, records in enumerate((146, 400)):
        base = tmp_path / str(number)
        project = write_project(base, methods=["mosaic"])
        (base / "letters.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in letters(records)[6:])
        )
        counts.append(looking.number_of_first_texts(project))
    assert counts[0] == counts[1] >= 40


@pytest.mark.slow
def test_a_later_stage_counts_the_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The charges of the look are on the card of a finished release, and in its ids."""
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    base = tmp_path / "own"
    write_project(
        base, methods=["mosaic"], release__texts=12, evaluate__show=False, evaluate__public=True
    )
    run_stages(base, without=frozenset({"evaluate", "audit"}))
    card = json.loads((base / "reports/public/release_card.json").read_text())
    stages = {event["stage"] for event in card["budget"]["events"]}
    assert {"look", "synthesize_metadata", "evolve@mosaic", "measure"} <= stages
    assert card["budget"]["events_of_others"] == []


def test_empty_and_equal_texts_are_measured(tmp_path: Path) -> None:
    """Ties and copies: every record has one cell, so the counts add up to the records."""
    data = frame(1500)
    data.loc[:999, "text"] = [f"Dear shop, the same words{' ' * (i % 2)}." for i in range(1000)]
    release = synthesized(tmp_path, of_the_kind(), data=data, accept_poor=True)
    assert 0 <= release.verdict.figures["coverage"] <= 1


def test_benchmarks_are_never_stopped(tmp_path: Path) -> None:
    release = synthesized(tmp_path, foreign(), privacy={"purpose": "benchmark"})
    assert len(release.texts) == 12
