"""What is sent to MLflow and OpenLineage, without their packages. See integration/test_tracking."""

from __future__ import annotations

from pathlib import Path

import pytest

from sugarbush.pipeline.graph import STAGES
from sugarbush.tracking import receivers
from sugarbush.tracking import stages as tracking


@pytest.fixture(autouse=True)
def no_receiver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("MLFLOW_TRACKING_URI", "OPENLINEAGE_URL", "OPENLINEAGE_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def test_nothing_is_sent_unless_a_receiver_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not receivers.uses_lineage(tmp_path)
    assert not receivers.uses_mlflow()
    monkeypatch.setenv("OPENLINEAGE_URL", "")
    assert not receivers.uses_lineage(tmp_path)
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "console")
    assert receivers.uses_lineage(tmp_path)
    monkeypatch.delenv("OPENLINEAGE__TRANSPORT__TYPE")
    (tmp_path / "openlineage.yml").write_text("transport: {type: console}")
    assert receivers.uses_lineage(tmp_path)


def test_an_error_of_a_receiver_is_printed_without_its_message(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with tracking._never_fails("MLflow", "the release"):
        raise ConnectionError("http://user:secret-key@host")
    printed = capsys.readouterr().err
    assert "MLflow did not receive the release (ConnectionError)" in printed
    assert "secret-key" not in printed


def test_only_public_folders_of_a_stage_are_named() -> None:
    paths = [path for stage in STAGES for path in stage.inputs]
    paths += [output.path for stage in STAGES for output in stage.outputs]
    paths.append("data/private/prepared")
    named = tracking._public(path.format(method="mosaic") for path in paths)
    assert "data/released/evolve/mosaic" in named
    public = ("data/released", "data/public", "reports/public")
    assert all(path.startswith(public) for path in named)


def test_figures_are_numbers_of_the_card_and_parameters_are_texts() -> None:
    card = {
        "promise": {"unit": "record", "epsilon": 1, "epsilon_of_this_run": 0.5, "delta": 1e-6},
        "budget": {"dataset_total_epsilon": "infinity", "dataset_cap_epsilon": 4.0},
        "made_by": {"methods": ["maple", "mosaic"], "settings": {"a": {"b": None}, "x@y": True}},
    }
    figures = tracking.figures_of(card, {"mosaic": {"mean": 0.5, "ok": True, "none": None}})
    assert figures == {
        "epsilon": 1,
        "epsilon_of_this_run": 0.5,
        "delta": 1e-6,
        "dataset_cap_epsilon": 4,
        "mosaic.mean": 0.5,
    }
    assert tracking.parameters_of(card) == {
        "unit": "record",
        "methods": "maple, mosaic",
        "settings.a.b": "None",
        "settings.x_y": "True",
    }
