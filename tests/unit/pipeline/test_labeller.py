"""Tests of the endpoint that reads attributes, and of the folder with its answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from sugarbush.data.schema import Attribute, Schema
from sugarbush.errors import ParamsError
from sugarbush.pipeline.opening import open_project
from sugarbush.run.context import Project
from sugarbush.run.inputs import label_answers
from sugarbush.run.settings import ProjectSettings
from sugarbush.run.tools import labeller_of
from tests.settings import params

GIVEN = Attribute(name="item", values=("lamp",), column="item")
ENDPOINT = {"base_url": "http://localhost:8000/v1", "model": "my-model", "key_variable": None}
ASKED = Attribute(name="mood", values=("angry",), source="llm")


def project(base: Path, settings: ProjectSettings, *attributes: Attribute) -> Project:
    schema = Schema(subject="letters", attributes=attributes)
    return open_project(base, settings=settings, schema=schema)


def test_nobody_is_asked_where_no_attribute_wants_it(tmp_path: Path) -> None:
    assert labeller_of(project(tmp_path, params(), GIVEN)) is None
    assert not list(tmp_path.iterdir())


def test_an_endpoint_that_is_not_trusted_is_refused(tmp_path: Path) -> None:
    untrusted = params(extract_metadata__llm=ENDPOINT)
    with pytest.raises(ParamsError, match="mood"):
        labeller_of(project(tmp_path, untrusted, GIVEN, ASKED))


def test_an_endpoint_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match=r"extract_metadata\.llm is missing"):
        labeller_of(project(tmp_path, params(), GIVEN, ASKED))


def test_answers_lie_under_the_private_root_and_are_closed_to_others(tmp_path: Path) -> None:
    trusted = params(extract_metadata__llm=ENDPOINT | {"trusted": True})
    assert labeller_of(project(tmp_path, trusted, ASKED)) is not None
    folder = tmp_path / "data/private/labels"
    assert folder.stat().st_mode & 0o077 == 0
    assert folder.parent.stat().st_mode & 0o077 == 0


def test_an_experiments_copy_uses_the_answers_of_its_checkout(tmp_path: Path) -> None:
    copy = tmp_path / ".dvc/tmp/exps/tmp123"
    assert label_answers(copy) == label_answers(tmp_path)
    assert not list(tmp_path.iterdir())  # `label_answers` creates no folder
