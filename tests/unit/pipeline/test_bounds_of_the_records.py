"""Tests that no stage charges noise for fewer records per user than stage prepare kept.

The settings change between two stages. Every stage that reads the records must refuse before any
charge.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sugarbush.errors import MissingInputError, PrivacyError, SugarbushError
from sugarbush.pipeline.graph import STAGES
from sugarbush.privacy.events import DiscreteGaussian
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.unit import Unit
from sugarbush.run.records import corpus_of
from tests.integration.project import SMALL_EVOLUTION, Checkout
from tests.pipelines import copied, opened, run_pipeline, write_persons
from tests.unit.pipeline.small_project import write_project

AT_MOST = 3
# Changes of the settings after stage prepare, and what the refusal names.
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "fewer records": ({"records_per_user": 1}, {}, "with at most 1 records per user"),
    "more records": ({"records_per_user": 10}, {}, "with at most 10 records per user"),
    "another column": ({}, {"user_column": "id"}, "unit user by column 'id'"),
    "records as units": (
        {"unit": "record", "records_per_user": 1}, {"user_column": None}, "say unit record"
    ),
}  # fmt: skip
# The stages that use the records after stage prepare, in order.
LATER = (
    "extract_metadata", "synthesize_metadata", "initialise", "evolve", "enlarge", "measure",
    "evaluate",
)  # fmt: skip


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Return a project in which only prepare has run. Tests must not change it."""
    folder = tmp_path_factory.mktemp("prepared")
    checkout = Checkout(folder / "checkout", folder / "state")
    write_project(
        checkout.path,
        methods=["maple", "dpft"],
        embedding__model="tiny",
        privacy__unit="user",
        privacy__records_per_user=AT_MOST,
        privacy__metadata_share=0.3,
        prepare__user_column="writer",
        methods__dpft__records=60,
        evaluate__public=True,
    )
    write_persons(checkout.path)
    run_pipeline(checkout, "fingerprint", "prepare")
    return checkout


@pytest.fixture(scope="module")
def trained(prepared: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Return the project after all stages except evaluate and report. Tests must not change it."""
    checkout = copied(prepared, tmp_path_factory.mktemp("trained"))
    run_pipeline(checkout, *LATER[:-2], "pretrain", "finetune", "generate")
    return checkout


def charges(checkout: Checkout) -> bytes:
    """Return the bytes of all ledgers."""
    found = sorted((checkout.state / "ledgers").rglob("*.jsonl"))
    return b"".join(path.read_bytes() for path in found)


@contextmanager
def changed(checkout: Checkout, case: str) -> Iterator[str]:
    """Change the settings, and yield what the refusal must contain."""
    privacy, prepare, said = CHANGES[case]
    before = (checkout.path / "params.yaml").read_text()
    checkout.change("privacy", **privacy)
    checkout.change("prepare", **prepare)
    yield said
    (checkout.path / "params.yaml").write_text(before)


def require_refused(checkout: Checkout, stage: str, said: str) -> None:
    before = charges(checkout)
    with pytest.raises(PrivacyError) as raised:
        run_pipeline(checkout, stage)
    message = str(raised.value)
    assert said in message
    assert f"unit user by column 'writer' with at most {AT_MOST} records per user" in message
    assert "sugarbush run" in message
    assert "dvc repro prepare" in message
    assert charges(checkout) == before


@pytest.mark.slow
@pytest.mark.parametrize("case", CHANGES)
def test_each_later_stage_refuses_after_each_stage_boundary(
    prepared: Checkout, tmp_path: Path, case: str
) -> None:
    """Run the stages one by one. Before each stage, change the settings: this stage and all later
    stages refuse, and the ledger is unchanged. Then set the settings back, and run the stage.
    """
    checkout = copied(prepared, tmp_path)
    checkout.change(methods={"maple": SMALL_EVOLUTION})
    boundaries = LATER if case == "fewer records" else LATER[:2]
    for index, name in enumerate(boundaries):
        with changed(checkout, case) as said:
            for later in LATER[index:]:
                require_refused(checkout, later, said)
        run_pipeline(checkout, name)
    lines = charges(checkout).splitlines()
    notes = [line for line in lines if b'"shown":' in line]  # stage evaluate showed exact figures
    # the table, the votes, and three mechanisms of the public figures
    assert len(lines) - len(notes) == (5 if len(boundaries) == len(LATER) else 1)


@pytest.mark.slow
@pytest.mark.parametrize("case", CHANGES)
def test_training_refuses_the_records_of_other_settings(
    trained: Checkout, tmp_path: Path, case: str
) -> None:
    checkout = copied(trained, tmp_path)
    shutil.rmtree(checkout.path / "data/released")  # would be refused before
    with changed(checkout, case) as said:
        require_refused(checkout, "finetune@dpft", said)


def test_noise_covers_every_record_of_a_user(trained: Checkout) -> None:
    checkout = trained
    with opened(checkout) as project:
        corpus = corpus_of(project)
        session = corpus.session(ledger=project.ledger(), stage="s", run="r")
        most = max(pd.Series(corpus.users()._per_unit).value_counts())
    assert most <= session.records_per_unit == AT_MOST
    ledger = Ledger(
        checkout.state, dataset="letters", purpose="release", unit=Unit.USER, cap=50.0,
        delta=1e-6, user_column="writer",
    )  # fmt: skip
    counts = [e.event for e in ledger.entries() if isinstance(e.event, DiscreteGaussian)]
    assert counts
    assert all(event.sensitivity >= most for event in counts)


@pytest.mark.parametrize("content", [None, "", "{}", '{"unit": "user"}'])
def test_records_without_bounds_are_prepared_again(
    prepared: Checkout, tmp_path: Path, content: str | None
) -> None:
    """Earlier versions stored no bounds."""
    checkout = copied(prepared, tmp_path)
    path = checkout.path / "data/private/prepared/bounds.json"
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(MissingInputError, match="Run `sugarbush run`"):
        run_pipeline(checkout, "extract_metadata")
    run_pipeline(checkout, "prepare", "extract_metadata")
    assert json.loads(path.read_text())["records_per_unit"] == AT_MOST


def test_the_ledger_must_have_the_unit_of_the_records(prepared: Checkout) -> None:
    with opened(prepared) as project:
        for unit, column in ((Unit.RECORD, None), (Unit.USER, None), (Unit.USER, "id")):
            ledger = Ledger(
                project.state, dataset="letters", purpose="release", unit=unit, cap=50.0,
                delta=1e-6, user_column=column,
            )  # fmt: skip
            with pytest.raises(PrivacyError, match="but the records were prepared for unit user"):
                corpus_of(project).session(ledger=ledger, stage="s", run="r")


def test_the_card_describes_the_units_of_the_released_folders(
    trained: Checkout, tmp_path: Path
) -> None:
    checkout = copied(trained, tmp_path)
    checkout.change(evaluate={"show": False})
    run_pipeline(checkout, "report")
    checkout.change("privacy", records_per_user=1)
    with pytest.raises(SugarbushError, match="at most 3 records per user"):
        run_pipeline(checkout, "report")


def test_every_stage_between_prepare_and_report_is_in_this_test() -> None:
    reading = {stage.name for stage in STAGES if stage.reads_records}
    assert reading == {*LATER, "look", "finetune", "generate", "audit"}
