"""Who is asked for labels, and where the answers lie."""

from __future__ import annotations

from pathlib import Path

import pytest
from sugarbush.pipeline.labeller import answers_folder, open_labeller

from sugarbush.data.schema import Attribute, Schema
from sugarbush.errors import ParamsError
from sugarbush.paths import Roots
from tests.settings import params

GIVEN = Attribute(name="item", values=("lamp",), column="item")
ASKED = Attribute(name="mood", values=("angry",), source="llm")


def schema(*attributes: Attribute) -> Schema:
    return Schema(subject="letters", attributes=attributes)


def test_nobody_is_asked_where_no_attribute_wants_it(tmp_path: Path) -> None:
    assert open_labeller(params(), Roots(tmp_path), schema(GIVEN)) is None
    assert not list(tmp_path.iterdir())


def test_an_endpoint_that_is_not_trusted_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="mood"):
        open_labeller(params(), Roots(tmp_path), schema(GIVEN, ASKED))


def test_answers_lie_under_the_private_root_and_are_closed_to_others(tmp_path: Path) -> None:
    trusted = params(extract_metadata__llm__trusted=True)
    assert open_labeller(trusted, Roots(tmp_path), schema(ASKED)) is not None
    folder = tmp_path / "data/private/labels"
    assert folder.stat().st_mode & 0o077 == 0
    assert folder.parent.stat().st_mode & 0o077 == 0


def test_an_experiments_copy_uses_the_answers_of_its_checkout(tmp_path: Path) -> None:
    copy = tmp_path / ".dvc/tmp/exps/tmp123"
    assert answers_folder(Roots(copy)) == answers_folder(Roots(tmp_path))
