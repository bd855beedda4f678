"""The requests of a rehearsal name only values that something public shows together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sugarbush.evolution.population import NO_CODE
from sugarbush.rehearsal.rehearse import first_inputs, public_inputs, rehearsed_method
from sugarbush.run.context import Project
from tests.integration.project import as_lines, letters
from tests.unit.pipeline.small_project import write_project

COUNT = 40


def requested(project: Project) -> Any:
    """Return the codes of the first requests, and the requests."""
    method = rehearsed_method(project)
    assert method is not None
    inputs = first_inputs(project, public_inputs(project, count=COUNT))
    targets, requests = method.first_requests(inputs, count=COUNT).value
    assert [len(r.attributes) for r in requests] == (targets.codes != NO_CODE).sum(axis=1).tolist()
    return targets.codes


@pytest.mark.parametrize("method", ["mosaic", "maple"])
def test_without_donated_texts_a_rehearsal_requests_one_attribute_at_a_time(
    tmp_path: Path, method: str
) -> None:
    """Nothing public says whether 'positive' goes with 'lost luggage'."""
    project = write_project(tmp_path, prepare__donated=None, methods=[method])
    codes = requested(project)
    assert ((codes != NO_CODE).sum(axis=1) == 1).all()
    uses = (codes != NO_CODE).sum(axis=0)
    assert uses.max() - uses.min() <= 1


def test_with_donated_texts_a_rehearsal_requests_the_values_of_donated_rows(
    tmp_path: Path,
) -> None:
    project = write_project(tmp_path)
    (tmp_path / "donated.jsonl").write_text(as_lines(letters(20)))
    codes = requested(project)
    donated = {tuple(row) for row in project.inputs.examples().codes.tolist()}
    assert {tuple(row) for row in codes.tolist()} <= donated


def test_a_pool_is_rehearsed_with_whole_rows(tmp_path: Path) -> None:
    project = write_project(
        tmp_path,
        prepare__donated=None,
        generator__provider="pool",
        generator__pool__texts=[f"letter {number}" for number in range(60)],
    )
    assert (requested(project) != NO_CODE).all()
