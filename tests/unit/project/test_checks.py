"""Tests of the messages of `sugarbush check` about an endpoint, delta and the schema."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sugarbush.data.schema import Attribute, Schema
from sugarbush.embedding.class_sums import MOST_VALUES
from sugarbush.generators.openai.address import is_unencrypted, may_use_proxy
from sugarbush.methods.maple import Maple
from sugarbush.methods.mosaic import Mosaic
from sugarbush.preparation.findings import CorpusFindings
from sugarbush.project.check import checked_data, left_out_notes
from tests.unit.pipeline.small_project import write_project


@pytest.mark.parametrize(
    ("base_url", "clear"),
    [
        ("http://10.0.0.5:8000/v1", True),
        ("http://models.internal/v1", True),
        ("http://[2001:db8::1]:8000/v1", True),
        ("https://models.internal/v1", False),
        ("http://localhost:8000/v1", False),
        ("http://127.0.0.1:8000/v1", False),
        ("http://[::1]:8000/v1", False),
        ("HTTP://10.0.0.5:8000/v1", True),
        ("Http://MODELS.internal/v1", True),
        ("HTTPS://models.internal/v1", False),
        ("HTTP://127.0.0.1:8000/v1", False),
        ("Http://LOCALHOST:8000/v1", False),
        ("HTTP://[::1]:8000/v1", False),
    ],
)
def test_http_to_another_machine_is_unencrypted(base_url: str, clear: bool) -> None:
    assert is_unencrypted(base_url) is clear


@pytest.mark.parametrize("write", [str, str.upper, str.title])
@pytest.mark.parametrize(
    ("base_url", "public", "private"),
    [
        ("http://models.internal/v1", True, False),
        ("https://models.internal/v1", True, True),
        ("http://localhost:8000/v1", False, False),
        ("http://127.0.0.9:8000/v1", False, False),
        ("http://[::1]:8000/v1", False, False),
    ],
)
def test_a_proxy_is_used_only_where_it_may_read(
    write: Callable[[str], str], base_url: str, public: bool, private: bool
) -> None:
    written = write(base_url)
    assert may_use_proxy(written, reads_private_text=False) is public
    assert may_use_proxy(written, reads_private_text=True) is private


@pytest.mark.parametrize(
    ("records", "allowed", "is_said"),
    [(1_000_000, False, False), (1_000_001, False, True), (1_000_001, True, False)],
)
def test_a_delta_that_would_stop_a_run_is_said_before_it(
    tmp_path: Path, records: int, allowed: bool, is_said: bool
) -> None:
    project = write_project(tmp_path, privacy__delta=1e-6, privacy__allow_large_delta=allowed)
    findings = CorpusFindings(unmatched=(), tally={"train": records}, fingerprint=(), characters=0)
    said = " ".join(checked.lines for checked in checked_data(project, findings))
    assert ("privacy.delta" in said) is is_said


def test_attributes_with_too_many_values_for_sums_are_named() -> None:
    values = tuple(f"city {i}" for i in range(MOST_VALUES + 1))
    schema = Schema(
        subject="letters",
        attributes=(
            Attribute(name="city", column="city", values=values),
            Attribute(name="mood", column="mood", values=("angry", "calm")),
        ),
    )
    assert not list(left_out_notes([Maple()], schema))
    (note,) = left_out_notes([Mosaic(), Maple()], schema)
    assert "'city'" in note.text
    assert "mood" not in note.text
