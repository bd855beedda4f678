"""Tests of stage `audit` in a whole project: its figures are internal, and it charges nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sugarbush.pipeline.graph import STAGES
from sugarbush.pipeline.opening import open_project
from sugarbush.privacy.accounting import rounded_down
from tests.integration.project import TINY_ENCODER
from tests.unit.pipeline.small_project import run_stages, write_project

_LAST = frozenset({"audit", "evaluate", "report"})
_OTHERS = frozenset(stage.name for stage in STAGES) - _LAST


@pytest.mark.slow
def test_audits_are_on_the_internal_page_only_and_charge_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At epsilon 4 a false alarm is impossible: 70 right guesses of 70 give a bound of 3."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    monkeypatch.syspath_prepend(str(TINY_ENCODER))
    own = tmp_path / "own"
    settings = {"privacy__purpose": "benchmark", "privacy__epsilon": 4.0, "audit__enabled": True}
    write_project(own, methods=["mosaic"], embedding__model="tiny", **settings)
    run_stages(own, without=_LAST)
    before = [entry.id for entry in open_project(own).ledger().entries()]
    ledgers = list((tmp_path / "state/ledgers").rglob("*"))
    run_stages(own, without=_OTHERS)

    found = json.loads((own / "reports/internal/audit.json").read_text())["mosaic"]
    assert 0 <= found["lower_epsilon"] <= 3 < found["claimed_epsilon"]
    internal = (own / "reports/internal/index.html").read_text()
    assert (
        f"epsilon is at least {rounded_down(found['lower_epsilon'], 3)} by the attack" in internal
    )
    assert "An attack that finds nothing shows nothing" in internal
    ledger = open_project(own).ledger()
    assert [entry.id for entry in ledger.entries()] == before
    assert ledger.shown() == {"evaluation": 1, "audit": 1}
    card = json.loads((own / "reports/public/release_card.json").read_text())
    assert "evaluation (1), audit (1)" in card["tuning"]
    assert list((tmp_path / "state/ledgers").rglob("*")) == ledgers, "an audit has its own ledgers"

    for path in [*(own / "reports/public").rglob("*"), *(own / "data/released").rglob("*")]:
        assert "audit" not in path.name
        if path.is_file():
            content = path.read_bytes().lower()
            assert b"phantom" not in content and b"lower_epsilon" not in content
            assert b"by the attack" not in content
    attacks = internal.partition('id="attacks"')[2].partition("</section>")[0]
    assert "safe" not in attacks.lower() and "mosaic" in attacks
    assert (own / "reports/internal").stat().st_mode & 0o077 == 0
