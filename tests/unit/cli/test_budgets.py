"""The number of runs that a cap still allows."""

from pathlib import Path

import pytest

from sugarbush.cli import budgets
from sugarbush.privacy.events import GaussianDp
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.unit import Unit

RUN = (GaussianDp(mu=0.2),)


def ledger_in(folder: Path, *, cap: float) -> Ledger:
    return Ledger(
        folder, dataset="tickets", purpose="release", unit=Unit.RECORD, cap=cap, delta=1e-6
    )


@pytest.mark.parametrize("cap", [0.5, 1.5, 2.2])
def test_so_many_runs_fit_and_not_one_more(tmp_path: Path, cap: float) -> None:
    ledger = ledger_in(tmp_path, cap=cap)
    left = budgets.runs_within_cap(ledger, RUN)
    assert ledger.total(*RUN * left) <= cap < ledger.total(*RUN * (left + 1))
    if left:
        ledger.charge(*RUN, stage="evolve", run="r")
    assert budgets.runs_within_cap(ledger, RUN) == max(0, left - 1)


def test_many_runs_are_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "_MANY", 4)
    assert budgets.runs_within_cap(ledger_in(tmp_path, cap=4), RUN) == 4
