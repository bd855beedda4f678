"""Tests of the forecast of a run, which measures the encoder but draws and charges nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.errors import ParamsError
from sugarbush.pipeline import forecast
from sugarbush.preparation.findings import corpus_findings
from sugarbush.rehearsal.rehearse import Rehearsal, rehearse
from sugarbush.run.context import Project
from tests.unit.pipeline.small_project import write_project

POOL = [f"I wrote to the library about my {n} card, and nobody answered." for n in range(12)]
METHODS = ("maple", "mosaic")


def project_with_pool(folder: Path, method: str, **changes: str) -> tuple[Project, Rehearsal]:
    generator = {"provider": "pool", "pool": {"texts": POOL}}
    project = write_project(folder, generator=generator, methods={method: {}}, **changes)
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


@pytest.mark.parametrize(
    ("model", "minutes", "advised"),
    [("bundled", 6, True), ("bundled", 4, False), ("light", 6, False)],
)
def test_the_light_encoder_is_named_where_embeddings_take_long(
    tmp_path: Path, model: str, minutes: float, advised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, rehearsal = project_with_pool(tmp_path, "mosaic", embedding__model=model)
    records = corpus_findings(project)
    characters = records.characters + sum(map(len, POOL))
    seconds = {"bundled": 60 * minutes / characters, "light": 6 * minutes / characters}
    monkeypatch.setattr(
        forecast, "_seconds_per_character", lambda settings: seconds[settings.model]
    )
    found = forecast.forecast_run(project, rehearsal, records)
    assert ("embedding.model=light about 0.6 min" in found.line()) == advised


def test_a_damaged_light_encoder_is_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seconds(settings: EmbeddingSettings) -> float:
        if settings.model == "light":
            raise ParamsError("damaged")
        return 60.0

    monkeypatch.setattr(forecast, "_seconds_per_character", seconds)
    project, rehearsal = project_with_pool(tmp_path, "mosaic")
    found = forecast.forecast_run(project, rehearsal, corpus_findings(project))
    assert found.embeddings > 5
    assert found.light is None


def test_the_light_encoder_is_not_named_for_another_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecast, "_seconds_per_character", lambda settings: 60.0)
    project, rehearsal = project_with_pool(tmp_path, "mosaic")
    german = project.schema.model_copy(update={"language": "de"})
    monkeypatch.setattr(type(project), "schema", german)
    found = forecast.forecast_run(project, rehearsal, corpus_findings(project))
    assert found.embeddings > 5
    assert found.light is None
