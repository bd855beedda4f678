"""Tests of the endpoint that reads attributes, and of the folder with its answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from sugarbush.data.schema import Attribute, Schema
from sugarbush.errors import ParamsError
from sugarbush.pipeline.opening import open_project
from sugarbush.run.context import Project
from sugarbush.run.settings import ProjectSettings
from tests.settings import params

GIVEN = Attribute(name="item", values=("lamp",), column="item")
ENDPOINT = {"base_url": "http://localhost:8000/v1", "model": "my-model", "key_variable": None}
ASKED = Attribute(name="mood", values=("angry",), source="llm")


def project(base: Path, settings: ProjectSettings, *attributes: Attribute) -> Project:
    own = open_project(base, settings=settings)
    own.__dict__["schema"] = Schema(subject="letters", attributes=attributes)
    return own


def test_nobody_is_asked_where_no_attribute_wants_it(tmp_path: Path) -> None:
    assert project(tmp_path, params(), GIVEN).labeller() is None
    assert not list(tmp_path.iterdir())


def test_an_endpoint_that_is_not_trusted_is_refused(tmp_path: Path) -> None:
    untrusted = params(extract_metadata__llm=ENDPOINT)
    with pytest.raises(ParamsError, match="mood"):
        project(tmp_path, untrusted, GIVEN, ASKED).labeller()


def test_an_endpoint_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match=r"extract_metadata\.llm is missing"):
        project(tmp_path, params(), GIVEN, ASKED).labeller()


def test_answers_lie_under_the_private_root_and_are_closed_to_others(tmp_path: Path) -> None:
    trusted = params(extract_metadata__llm=ENDPOINT | {"trusted": True})
    assert project(tmp_path, trusted, ASKED).labeller() is not None
    folder = tmp_path / "data/private/labels"
    assert folder.stat().st_mode & 0o077 == 0
    assert folder.parent.stat().st_mode & 0o077 == 0


def test_an_experiments_copy_uses_the_answers_of_its_checkout(tmp_path: Path) -> None:
    copy = tmp_path / ".dvc/tmp/exps/tmp123"
    assert open_project(copy).label_answers == open_project(tmp_path).label_answers
    assert not list(tmp_path.iterdir())  # `label_answers` creates no folder
