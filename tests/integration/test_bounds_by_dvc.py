"""Tests DVC and the stages' commands after a change of the records per user."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from sugarbush.pipeline.dvc import dvc_yaml
from tests.integration.project import Checkout, make_project
from tests.pipelines import copied, run_pipeline, write_persons


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Return a project in which only prepare has run. Tests must not change it."""
    folder = tmp_path_factory.mktemp("prepared")
    checkout = make_project(
        folder / "checkout",
        folder / "state",
        methods=["maple"],
        embedding__model="tiny",
        privacy__unit="user",
        privacy__records_per_user=3,
        prepare__user_column="writer",
    )
    write_persons(checkout.path)
    run_pipeline(checkout, "fingerprint", "prepare")
    return checkout


def charged(checkout: Checkout) -> list[bytes]:
    """Return the content of every ledger."""
    files = sorted((checkout.state / "ledgers").rglob("*.jsonl"))
    return [path.read_bytes() for path in files]


def test_the_command_of_a_stage_refuses_without_a_traceback(
    prepared: Checkout, tmp_path: Path
) -> None:
    checkout = copied(prepared, tmp_path)
    run_pipeline(checkout, "look", "extract_metadata")
    before = charged(checkout)
    checkout.change("privacy", records_per_user=1)
    for command in (
        ("python", "-m", "tasks.synthesize_metadata"),
        ("dvc", "repro", "-s", "synthesize_metadata"),
    ):
        said = checkout.run(*command, code=None)
        assert said.returncode != 0
        assert "with at most 3 records per user" in said.stdout + said.stderr
        assert "Traceback" not in said.stdout + said.stderr
    assert charged(checkout) == before


def test_a_run_after_a_change_prepares_the_records_again(
    prepared: Checkout, tmp_path: Path
) -> None:
    """dvc.yaml is written again, so an old dvc.yaml cannot hide a missing setting."""
    checkout = copied(prepared, tmp_path)
    (checkout.path / "dvc.yaml").write_text(dvc_yaml())
    assert "prepare" in checkout.repro("prepare")
    assert "prepare" not in checkout.repro("prepare")
    checkout.change("privacy", records_per_user=1)
    assert "prepare" in checkout.repro("prepare")
    kept = pd.read_parquet(checkout.path / "data/private/prepared/train.parquet")
    assert kept["user"].value_counts().max() == 1
    run_pipeline(checkout, "extract_metadata", "synthesize_metadata")


def test_records_of_an_earlier_version_are_prepared_again(
    prepared: Checkout, tmp_path: Path
) -> None:
    checkout = copied(prepared, tmp_path)
    bounds = checkout.path / "data/private/prepared/bounds.json"
    checkout.repro("prepare")
    bounds.unlink()
    assert "prepare" in checkout.repro("prepare")
    assert bounds.exists()


def test_attribute_values_of_records_that_were_prepared_otherwise_are_refused(
    prepared: Checkout, tmp_path: Path
) -> None:
    """The values would have more records of a user than the noise covers."""
    checkout = copied(prepared, tmp_path)
    run_pipeline(checkout, "look", "extract_metadata")
    before = charged(checkout)
    checkout.change("privacy", records_per_user=1)
    checkout.run("dvc", "repro", "-s", "prepare")
    said = checkout.run("dvc", "repro", "-s", "synthesize_metadata", code=None)
    assert said.returncode != 0
    assert "belong to other records" in said.stdout + said.stderr
    assert charged(checkout) == before
    checkout.run("dvc", "repro", "synthesize_metadata")
