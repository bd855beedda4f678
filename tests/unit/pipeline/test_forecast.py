"""Tests of the forecast of a run, which measures the encoder but draws and charges nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from sugarbush.pipeline import forecast
from sugarbush.preparation.findings import corpus_findings
from sugarbush.rehearsal.rehearse import Rehearsal, rehearse
from sugarbush.run.context import Project
from tests.unit.pipeline.small_project import write_project

POOL = [f"I wrote to the library about my {n} card, and nobody answered." for n in range(12)]
METHODS = ("maple", "mosaic")


def project_with_pool(folder: Path, method: str) -> tuple[Project, Rehearsal]:
    generator = {"provider": "pool", "pool": {"texts": POOL}}
    project = write_project(folder, generator=generator, methods={method: {}})
    found = rehearse(project)
    assert found is not None
    return project, found


@pytest.mark.parametrize("method", METHODS)
def test_texts_of_a_pool_are_embedded_once_each(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecast, "_seconds_per_character", lambda settings: 60.0)
    project, rehearsal = project_with_pool(tmp_path, method)
    records = corpus_findings(project)
    found = forecast.forecast_run(project, rehearsal, records)
    assert rehearsal.forecast.calls > len(POOL)
    assert found.embeddings == records.characters + sum(map(len, POOL))
