"""dpft with candidates: the model writes more texts, the records score them, herding chooses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from sugarbush.evolution.kernel_scores import RESOLUTION
from sugarbush.methods.dpft import DPFT
from sugarbush.methods.interface import TRAINING
from sugarbush.methods.plan import plan_for
from sugarbush.pipeline.opening import open_project
from sugarbush.pipeline.stages import generate
from sugarbush.privacy.accounting import epsilon
from sugarbush.privacy.entries import Entry
from sugarbush.privacy.events import DiscreteGaussian
from sugarbush.release.folders import method_folder
from sugarbush.run.context import Project
from sugarbush.training.dpsgd import generate as writing
from tests.settings import params
from tests.unit.pipeline.small_project import run_stages, write_project

TEXTS, CANDIDATES = 10, 25


class Finished(NamedTuple):
    """A project in which all stages up to the release have run, and its charges at this time."""

    project: Project
    entries: tuple[Entry, ...]
    folder: Path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    folder = tmp_path_factory.mktemp("scored")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUGARBUSH_STATE", str(folder / "state"))
        written = write_project(
            folder / "project",
            methods=["dpft"],
            methods__dpft__scored_texts=CANDIDATES,
            release__texts=TEXTS,
        )
        run_stages(written.base)
        project = open_project(written.base)
        release = method_folder(project.roots, project.settings.chosen[0], "generate")
        yield Finished(project, project.ledger().entries(), release)


def as_lines(folder: Path) -> list[str]:
    return (folder / "synthetic.jsonl").read_text().splitlines()


def run_generate(project: Project) -> None:
    method = project.settings.chosen[0]
    assert isinstance(method, DPFT)
    generate.run(project, method)


@pytest.mark.slow
def test_the_sum_of_scores_is_charged_and_the_release_names_its_charge(finished: Finished) -> None:
    project, entries, folder = finished
    (scores,) = [entry for entry in entries if entry.stage == "generate@dpft"]
    assert isinstance(scores.event, DiscreteGaussian)
    assert (scores.event.count, scores.event.sensitivity) == (1, RESOLUTION)
    release = json.loads((folder / "release.json").read_text())
    assert set(release["ledger_ids"]) == {entry.id for entry in entries}
    texts = [json.loads(line)["text"] for line in as_lines(folder)]
    assert len(set(texts)) == TEXTS
    total = epsilon([entry.event for entry in entries], delta=project.settings.privacy.delta)
    assert total <= project.settings.privacy.epsilon


def test_a_second_run_of_the_stage_restores_texts_and_scores(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, _, folder = finished
    before, charges = (folder / "synthetic.jsonl").read_bytes(), project.ledger().entries()

    def not_again(*_: object, **__: object) -> None:
        raise AssertionError("the texts were written again")

    monkeypatch.setattr(writing, "generate", not_again)
    run_generate(project)
    assert (folder / "synthetic.jsonl").read_bytes() == before
    assert project.ledger().entries() == charges


def test_a_new_draw_is_charged_again(finished: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = finished.project.ledger()
    number, spent = len(ledger.entries()), ledger.total()
    monkeypatch.setattr(generate, "wants_new_draw", lambda: True)
    run_generate(finished.project)
    again = finished.project.ledger()
    assert [entry.stage for entry in again.entries()[number:]] == ["generate@dpft"]
    assert again.total() > spent


def test_the_scores_take_half_of_what_training_had() -> None:
    privacy = params(methods=["dpft"]).privacy
    alone, scored = (plan_for(privacy, [DPFT(scored_texts=n, records=5000)]) for n in (None, 100))
    assert scored.of("votes:dpft").mu ** 2 == pytest.approx(
        alone.of(TRAINING).mu ** 2 / 2, rel=1e-3
    )
    assert scored.of(TRAINING).mu == pytest.approx(scored.of("votes:dpft").mu)
    noise = [plan.of(TRAINING).subsampled for plan in (alone, scored)]
    assert noise[0] is not None and noise[1] is not None
    assert noise[1].noise_multiplier > noise[0].noise_multiplier
