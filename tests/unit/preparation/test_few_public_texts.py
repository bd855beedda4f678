"""Tests that a pool which is too small for the release is named before a run spends budget."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sugarbush.examples.corpus import SCHEMA_FILE
from sugarbush.pipeline.opening import open_project
from sugarbush.rehearsal.preflight import few_public_texts
from sugarbush.run.context import Project
from tests.settings import params


def project(folder: Path, *, different: int, copies: int, wanted: int | None) -> Project:
    texts = [f"parcel {i} of order {i * i} came {i} days late, says {i}" for i in range(different)]
    rows = [json.dumps({"text": text}) for text in texts * copies]
    (folder / "pool.jsonl").write_text("\n".join(rows) + "\n")
    schema = folder / "data/public/example/schema.yaml"
    schema.parent.mkdir(parents=True, exist_ok=True)
    schema.write_bytes(SCHEMA_FILE.read_bytes())
    generator: dict[str, Any] = {
        "provider": "pool", "pool": {"sources": [{"file": "pool.jsonl", "text_column": "text"}]},
    }  # fmt: skip
    return open_project(folder, settings=params(generator=generator, release={"texts": wanted}))


@pytest.mark.parametrize(("different", "copies"), [(199, 1), (199, 5), (100, 1)])
def test_a_pool_with_fewer_than_two_texts_for_each_released_text_is_named(
    tmp_path: Path, different: int, copies: int
) -> None:
    """Copies of a text count once, because a release has no repeats."""
    notice = few_public_texts(project(tmp_path, different=different, copies=copies, wanted=100))
    assert notice is not None
    assert f"{different} different texts" in notice and f"at most {different // 2}" in notice


def test_a_large_pool_and_other_generators_have_no_notice(tmp_path: Path) -> None:
    assert few_public_texts(project(tmp_path, different=200, copies=1, wanted=100)) is None
    assert few_public_texts(project(tmp_path, different=10, copies=1, wanted=None)) is None
    assert (
        few_public_texts(open_project(tmp_path, settings=params(release={"texts": 9999}))) is None
    )
