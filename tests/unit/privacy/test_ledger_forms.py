"""Tests that ledgers of every form that a version ever wrote can be read, and that they count.

The forms are in `tests/fixtures/ledgers`. A ledger that cannot be read would let somebody spend the
budget of its dataset again.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from sugarbush.errors import BudgetExceededError, LedgerError
from sugarbush.privacy.events import DiscreteGaussian, DpSgdBound
from sugarbush.privacy.fingerprint import FingerprintBuilder
from sugarbush.privacy.key import state_key
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.unit import Unit
from tests.settings import ROOT

FORMS = ROOT / "tests/fixtures/ledgers"
CORPUS = [f"a letter about {i} boxes" for i in range(50)]
VOTE = DiscreteGaussian(stddev=8.0)


class Saved(NamedTuple):
    """A saved ledger: the number of its charges, and the total that its version computed.

    Versions 0.1 and 0.2 computed totals as if all settings had been fixed in advance. Their entries
    do not say so, so the present total is a bound for adaptive choices. It is larger by at most 6%.
    """

    folder: str
    dataset: str
    user_column: str | None
    charges: int
    total: float


SAVED = (
    Saved("0.1-record", "letters", None, 6, 3.9991540169871844),
    Saved("0.1-user", "letters", "writer", 3, 3.9999954979539942),
    Saved("0.2", "letters", None, 4, 2.0146369159662547),
    Saved("0.2", "letters-of-users", "writer", 1, 0.3969015893236413),
    Saved("present", "letters", None, 6, 2.2422917499207706),
)


def opened(saved: Saved, state: Path, *, cap: float | None = None) -> Ledger:
    """Copy the state folder of a saved ledger, and open the ledger."""
    if not state.exists():
        shutil.copytree(FORMS / saved.folder, state)
        (state / "key").chmod(0o600)
    return Ledger(
        state,
        dataset=saved.dataset,
        purpose="release",
        unit=Unit.RECORD if saved.user_column is None else Unit.USER,
        user_column=saved.user_column,
        cap=cap,
        delta=1e-6,
    )


@pytest.mark.parametrize("saved", SAVED, ids=lambda saved: f"{saved.folder}-{saved.dataset}")
class TestSavedLedger:
    def test_all_charges_count_in_the_total(self, saved: Saved, tmp_path: Path) -> None:
        ledger = opened(saved, tmp_path / "state")
        assert len(ledger.entries()) == saved.charges
        assert saved.total * (1 - 1e-9) <= ledger.total() <= 1.06 * saved.total

    def test_a_further_charge_is_appended_and_seals_the_old_lines(
        self, saved: Saved, tmp_path: Path
    ) -> None:
        ledger = opened(saved, tmp_path / "state", cap=50.0)
        before, old = ledger.total(), ledger.path.read_bytes()
        ledger.charge(VOTE, stage="evolve", run="r")
        assert ledger.total() > before
        assert ledger.path.read_bytes().startswith(old)
        _, *others = ledger.path.read_bytes().splitlines(keepends=True)
        ledger.path.write_bytes(b"".join(others))
        with pytest.raises(LedgerError, match="edited"):
            ledger.total()

    def test_the_old_charges_are_under_the_cap(self, saved: Saved, tmp_path: Path) -> None:
        ledger = opened(saved, tmp_path / "state", cap=1.01 * saved.total)
        with pytest.raises(BudgetExceededError):
            ledger.charge(DiscreteGaussian(stddev=2.0), stage="evolve", run="r")


@pytest.mark.parametrize("folder", ["0.2", "present"])
def test_the_corpus_of_a_saved_ledger_is_recognised_under_another_name(
    folder: str, tmp_path: Path
) -> None:
    saved = next(saved for saved in SAVED if saved.folder == folder)
    state = opened(saved, tmp_path / "state").state
    builder = FingerprintBuilder(key=state_key(state))
    builder.add(CORPUS)
    other = opened(saved._replace(dataset="others"), state, cap=50.0)
    with pytest.raises(LedgerError, match="known to the ledger as 'letters'"):
        other.charge(VOTE, stage="evolve", run="r", dataset_fingerprint=builder.values())


def test_lines_of_0_1_have_no_seal() -> None:
    """Otherwise the saved ledgers do not test what they should."""
    for folder in ("0.1-record", "0.1-user", "0.2"):
        for path in (FORMS / folder).rglob("*.jsonl"):
            assert not any("seal" in json.loads(line) for line in path.read_text().splitlines())


def test_the_present_form_has_a_plan_a_raised_cap_and_a_cancelled_charge(tmp_path: Path) -> None:
    ledger = opened(SAVED[-1], tmp_path / "state")
    table, votes, *_ = ledger.entries()
    assert table.group == votes.group and len(table.planned) == 3
    assert any(isinstance(entry.event, DpSgdBound) for entry in ledger.entries())
    assert ledger.cap == 6.0
    assert [(r.raised_from, r.raised_to) for r in ledger.cap_raises()] == [(4.0, 6.0)]
    assert [entry.id for entry in ledger.cancelled()] == ["accepted-1"]
