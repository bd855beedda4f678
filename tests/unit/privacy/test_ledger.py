import contextlib
import json
import math
import multiprocessing
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sugarbush.errors import (
    BudgetExceededError,
    InvariantError,
    LedgerError,
    ParamsError,
    StorageError,
)
from sugarbush.privacy.accounting import epsilon
from sugarbush.privacy.entries import Entry
from sugarbush.privacy.events import DiscreteGaussian, Event, GaussianDp, NonPrivate
from sugarbush.privacy.fingerprint import FingerprintBuilder, make_dataset_fingerprint
from sugarbush.privacy.key import state_key
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.unit import Unit

VOTE = DiscreteGaussian(stddev=8.0)


def ledger_at(state: Path, **changes: object) -> Ledger:
    settings = {
        "dataset": "letters", "purpose": "release", "unit": Unit.RECORD, "cap": 1.0, "delta": 1e-6,
    }  # fmt: skip
    return Ledger(state, **(settings | changes))  # type: ignore[arg-type]


def charge(ledger: Ledger, event=VOTE, dataset_fingerprint: tuple[str, ...] = ()) -> str:
    return ledger.charge(event, stage="evolve", run="r", dataset_fingerprint=dataset_fingerprint)


def test_a_charge_is_on_disk_when_it_returns(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    first = charge(ledger)
    entries = ledger_at(tmp_path).entries()
    assert [entry.id for entry in entries] == [first]
    assert entries[0].event == VOTE


def test_an_entry_with_the_id_of_an_earlier_one_is_refused(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    for _ in range(3):
        charge(ledger)
    with ledger._locked():
        chain = ledger._chain()
        ledger._append(chain.entries[1].as_line(), chain)
    with pytest.raises(LedgerError, match="line 4: not an entry"):
        ledger.entries()


def test_a_refused_charge_leaves_the_ledger_as_it_was(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    charge(ledger)
    before = ledger.path.read_bytes()
    with pytest.raises(BudgetExceededError, match="cap 1"):
        charge(ledger, GaussianDp(mu=0.4))
    assert ledger.path.read_bytes() == before


def test_the_message_of_a_refusal_shows_delta_and_what_to_change(tmp_path: Path) -> None:
    with pytest.raises(BudgetExceededError) as refusal:
        charge(ledger_at(tmp_path), GaussianDp(mu=0.4))
    assert "delta=1e-6" in str(refusal.value)
    assert "privacy.epsilon" in str(refusal.value)


def test_charges_add_up_across_runs_until_the_cap_refuses(tmp_path: Path) -> None:
    totals = []
    with pytest.raises(BudgetExceededError):
        for _ in range(50):
            charge(ledger_at(tmp_path))
            totals.append(ledger_at(tmp_path).total())
    assert totals == sorted(totals)
    assert 1 < len(totals) < 50
    assert totals[-1] <= 1.0


def test_a_check_refuses_what_a_charge_would_and_charges_nothing(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    ledger.check([VOTE])
    assert ledger.entries() == ()
    with pytest.raises(BudgetExceededError):
        ledger.check([VOTE] * 60)


def test_an_incomplete_last_line_is_ignored(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    first = charge(ledger)
    whole, head = ledger.path.read_bytes(), ledger.path.with_suffix(".head").read_text()
    for cut in (1, 7, 40, len(whole) - 2):
        ledger.path.write_bytes(whole + whole[:cut])
        ledger.path.with_suffix(".head").write_text(head)
        assert [e.id for e in ledger.entries()] == [first]
        second = charge(ledger)
        assert [e.id for e in ledger.entries()] == [first, second]


def test_an_edited_ledger_stops_every_draw(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    charge(ledger)
    ledger.path.write_text('{"id":"x","spent":"nothing"}\n')
    with pytest.raises(LedgerError, match="line 1"):
        charge(ledger)


def test_an_event_with_an_unknown_kind_stops_every_draw(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    charge(ledger)
    fields = json.loads(ledger.path.read_text())
    fields["event"]["kind"] = "harmless"
    ledger.path.write_text(json.dumps(fields) + "\n")
    with pytest.raises(LedgerError):
        ledger.total()


def test_charges_per_user_are_not_added_to_charges_per_record(tmp_path: Path) -> None:
    charge(ledger_at(tmp_path))
    with pytest.raises(LedgerError, match="cannot be added"):
        charge(ledger_at(tmp_path, unit=Unit.USER))
    charge(ledger_at(tmp_path, unit=Unit.USER, dataset="other"))
    with pytest.raises(LedgerError, match="charges per user, which cannot be added"):
        charge(ledger_at(tmp_path, dataset="other"))


def test_who_a_person_is_stays_what_it_was(tmp_path: Path) -> None:
    """If a customer is removed, records of another customer of the household may be used instead.

    So the guarantee for customers does not imply a guarantee for households.
    """
    charge(ledger_at(tmp_path, unit=Unit.USER, user_column="customer"))
    charge(ledger_at(tmp_path, unit=Unit.USER, user_column="customer"))
    household = ledger_at(tmp_path, unit=Unit.USER, user_column="household")
    with pytest.raises(LedgerError, match=r"'customer', which cannot be added .* 'household'"):
        charge(household)
    assert len(household.entries()) == 2


def test_a_result_without_dp_has_an_infinite_epsilon(tmp_path: Path) -> None:
    with pytest.raises(BudgetExceededError, match="inf"):
        charge(ledger_at(tmp_path), NonPrivate())


@pytest.mark.parametrize("name", ["", "../other", "A", "a/b", "x" * 65])
def test_a_dataset_name_cannot_leave_the_ledger_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ParamsError, match=r"privacy\.dataset"):
        ledger_at(tmp_path, dataset=name)


def test_a_known_corpus_under_a_new_name_is_refused(tmp_path: Path) -> None:
    key = state_key(tmp_path)
    texts = [f"letter number {i}" for i in range(300)]
    charge(ledger_at(tmp_path), dataset_fingerprint=make_dataset_fingerprint(texts, key=key))
    changed = make_dataset_fingerprint([*texts[10:], "one more", "and another"], key=key)
    with pytest.raises(LedgerError, match="known to the ledger as 'letters'"):
        charge(ledger_at(tmp_path, dataset="fresh"), dataset_fingerprint=changed)
    with pytest.raises(LedgerError, match="known to the ledger as 'letters'"):
        charge(
            ledger_at(tmp_path, dataset="fresh", purpose="benchmark"), dataset_fingerprint=changed
        )
    grown = make_dataset_fingerprint([f"letter number {i}" for i in range(1500)], key=key)
    # The fingerprint fails to recognise 1 in 10^4 such corpora.
    with pytest.raises(LedgerError, match="known to the ledger as 'letters'"):
        charge(ledger_at(tmp_path, dataset="fresh"), dataset_fingerprint=grown)
    other = make_dataset_fingerprint([f"another corpus, line {i}" for i in range(300)], key=key)
    charge(ledger_at(tmp_path, dataset="fresh"), dataset_fingerprint=other)


def test_snapshots_of_a_dataset_share_its_cap(tmp_path: Path) -> None:
    key = state_key(tmp_path)
    charge(ledger_at(tmp_path), dataset_fingerprint=make_dataset_fingerprint(["a", "b"], key=key))
    before = ledger_at(tmp_path).total()
    charge(ledger_at(tmp_path), dataset_fingerprint=make_dataset_fingerprint(["c", "d"], key=key))
    assert ledger_at(tmp_path).total() > before


def test_a_sketch_depends_on_the_key_and_on_no_order(tmp_path: Path) -> None:
    key, other = state_key(tmp_path / "one"), state_key(tmp_path / "two")
    assert make_dataset_fingerprint(["a", "b", "a"], key=key) == make_dataset_fingerprint(
        ["b", "a"], key=key
    )
    assert not set(make_dataset_fingerprint(["a"], key=key)) & set(
        make_dataset_fingerprint(["a"], key=other)
    )


def test_the_state_is_closed_to_others(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path / "state")
    state_key(tmp_path / "state")
    charge(ledger)
    for path in (tmp_path / "state" / "key", ledger.path):
        assert path.stat().st_mode & 0o077 == 0
    assert ledger.folder.stat().st_mode & 0o077 == 0


def test_a_state_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="state folder"):
        state_key(tmp_path / "file" / "state")
    with pytest.raises(LedgerError):
        charge(ledger_at(tmp_path / "file"))


def test_an_id_that_the_ledger_does_not_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="SUGARBUSH_STATE"):
        ledger_at(tmp_path).of(["0123456789abcdef"])


def _charge_many(state: str, count: int) -> None:
    for _ in range(count):
        charge(ledger_at(Path(state), cap=100.0))


@pytest.mark.slow
def test_concurrent_charges_are_all_there(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_charge_many, args=(str(tmp_path), 5)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    entries = ledger_at(tmp_path).entries()
    assert len({entry.id for entry in entries}) == 15


def test_a_full_disk_refuses_the_charge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = ledger_at(tmp_path)
    charge(ledger)

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(LedgerError, match="No space left"):
        charge(ledger)


def test_a_larger_delta_makes_no_room_under_the_cap(tmp_path: Path) -> None:
    while True:
        try:
            charge(ledger_at(tmp_path))
        except BudgetExceededError:
            break
    with pytest.raises(BudgetExceededError):
        charge(ledger_at(tmp_path, delta=0.1))


@pytest.mark.parametrize(("first", "second"), [("benchmark", "release"), ("example", "benchmark")])
def test_a_purpose_has_no_budget_of_its_own_for_a_known_corpus(
    tmp_path: Path, first: str, second: str
) -> None:
    dataset_fingerprint = make_dataset_fingerprint(
        [f"letter {i}" for i in range(100)], key=state_key(tmp_path)
    )
    charge(ledger_at(tmp_path, purpose=first), dataset_fingerprint=dataset_fingerprint)
    with pytest.raises(LedgerError, match=f"known to the ledger as 'letters' .{first}."):
        charge(ledger_at(tmp_path, purpose=second), dataset_fingerprint=dataset_fingerprint)


def test_white_space_and_case_do_not_change_the_fingerprint(tmp_path: Path) -> None:
    key = state_key(tmp_path)
    assert make_dataset_fingerprint(["Dear  Shop\n"], key=key) == make_dataset_fingerprint(
        ["dear shop"], key=key
    )


def test_an_entry_without_its_line_end_is_not_lost(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    charge(ledger)
    charge(ledger)
    lines = ledger.path.read_bytes().split(b"\n")
    ledger.path.write_bytes(b"\n".join([lines[0][:-1], *lines[1:]]))
    with pytest.raises(LedgerError, match="line 1"):
        ledger.entries()


def test_the_state_is_for_its_owner_alone(tmp_path: Path) -> None:
    state = tmp_path / "deep" / "state"
    before = os.umask(0)
    try:
        charge(ledger_at(state))
        state_key(state)
    finally:
        os.umask(before)
    made = [state.parent, state, *(path for path in state.rglob("*") if path.is_dir())]
    assert {path.stat().st_mode & 0o777 for path in made} == {0o700}


def test_a_charge_far_below_the_cap_needs_no_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sugarbush.privacy.entries.epsilon", lambda *_, **__: 1 / 0)
    charge(ledger_at(tmp_path, cap=100.0))


def test_a_snapshot_does_not_see_later_charges_and_cannot_be_charged(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path, cap=100.0)
    charge(ledger)
    snapshot = ledger.snapshot()
    charge(ledger)
    assert (len(snapshot.entries()), len(ledger.entries())) == (1, 2)
    with pytest.raises(InvariantError, match="snapshot"):
        charge(snapshot)


def test_a_snapshot_has_no_fingerprint(tmp_path: Path) -> None:
    """A release has a snapshot and may be pickled; fingerprints in it show what changed between two
    releases."""
    ledger = ledger_at(tmp_path)
    charge(ledger, dataset_fingerprint=make_dataset_fingerprint(["a b"], key=bytes(32)))
    assert ledger.entries()[0].dataset_fingerprint
    assert not ledger.snapshot().entries()[0].dataset_fingerprint
    assert ledger.snapshot().total() == ledger.total()


def test_a_ledger_is_read_with_one_look_at_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reading of the key takes a lock.

    If the key is read for each line, 1,000 charges take five minutes.
    """
    ledger = ledger_at(tmp_path, cap=50.0)
    for _ in range(9):
        charge(ledger)
    looks = []

    def counted(state: Path) -> bytes:
        looks.append(state)
        return state_key(state)

    monkeypatch.setattr("sugarbush.privacy.ledger.state_key", counted)
    charge(ledger)
    assert len(looks) <= 2


@pytest.mark.parametrize(
    "event",
    [
        lambda: DiscreteGaussian(stddev=8.0, sensitivity=1.5),  # type: ignore[arg-type]
        lambda: DiscreteGaussian(stddev=8.0, sensitivity=True),
        lambda: DiscreteGaussian(stddev=8.0, count=2.0),  # type: ignore[arg-type]
        lambda: GaussianDp(mu="0.1"),  # type: ignore[arg-type]
    ],
)
def test_an_event_that_no_ledger_could_read_again_is_refused(event: Callable[[], Event]) -> None:
    """Before, such a charge was written, its noise was drawn, and the ledger was unreadable."""
    with pytest.raises(InvariantError, match="is not of type"):
        event()


@pytest.mark.parametrize(
    "changes", [{"delta": math.nan}, {"delta": 2.0}, {"cap": math.nan}, {"cap": -1.0}]
)
def test_a_ledger_refuses_a_delta_or_a_cap_that_limits_nothing(
    tmp_path: Path, changes: dict[str, float]
) -> None:
    with pytest.raises(ParamsError, match="a ledger needs a delta between 0 and 1"):
        ledger_at(tmp_path, **({"cap": math.inf} | changes))


def test_the_cap_counts_every_repetition_of_a_gaussian_dp_mechanism(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path, cap=4.0)
    with pytest.raises(BudgetExceededError):
        charge(ledger, GaussianDp(mu=0.5, count=3))
    charge(ledger, GaussianDp(mu=0.1, count=4))
    events = [entry.event for entry in ledger.entries()]
    assert ledger.total() == epsilon(events, delta=1e-6) == pytest.approx(1, abs=0.3)


def test_one_corpus_is_charged_under_one_purpose_also_by_two_processes_at_one_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process would see no charge of the other one if they had different locks."""
    fingerprint = make_dataset_fingerprint(
        [f"a letter about {i} boxes" for i in range(50)], key=state_key(tmp_path)
    )
    both, real = threading.Barrier(2), Ledger._refuse_other_names

    def looked(ledger: Ledger, own: tuple[str, ...]) -> None:
        real(ledger, own)
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(timeout=1)

    monkeypatch.setattr(Ledger, "_refuse_other_names", looked)
    ended: list[str] = []

    def run(purpose: str) -> None:
        try:
            charge(ledger_at(tmp_path, purpose=purpose), dataset_fingerprint=fingerprint)
            ended.append("charged")
        except LedgerError:
            ended.append("refused")

    threads = [threading.Thread(target=run, args=(p,)) for p in ("release", "benchmark")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ended) == ["charged", "refused"]


def test_a_ledger_of_0_2_that_cannot_be_compared_stops_every_charge(tmp_path: Path) -> None:
    """It was restored after the corpus was prepared, so the fingerprint lacks its values."""
    texts = [f"a letter about {i} boxes" for i in range(50)]
    key = state_key(tmp_path)
    builders = [FingerprintBuilder(key=key, of_0_2=of_0_2) for of_0_2 in (True, False)]
    for builder in builders:
        builder.add(texts)
    complete, without = (builder.values() for builder in builders)
    line = json.loads(
        Entry(
            id="1", time="2026-01-01", unit=Unit.RECORD, stage="evolve", run="r", event=VOTE,
            delta=1e-6, dataset_fingerprint=tuple(v[1:] for v in complete if v[0] == "m"),
        ).as_line()
    )  # fmt: skip
    folder = tmp_path / "ledgers/release"
    folder.mkdir(parents=True)
    (folder / "old.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(LedgerError, match="known to the ledger as"):
        charge(ledger_at(tmp_path), dataset_fingerprint=complete)
    with pytest.raises(LedgerError, match="private folder `prepared`"):
        charge(ledger_at(tmp_path), dataset_fingerprint=without)
    assert not ledger_at(tmp_path).entries()


def test_a_charge_records_what_its_settings_assume(tmp_path: Path) -> None:
    """Once, and only if the charge is accepted. The cards of later charges state it, too."""

    def ledger(**assumes: tuple[str, ...]) -> Ledger:
        return Ledger(
            tmp_path, dataset="tickets", purpose="release", unit=Unit.RECORD, cap=1.0, delta=1e-6,
            assumes=assumes,
        )  # fmt: skip

    small = DiscreteGaussian(stddev=20.0)
    ledger(apart=("a",)).charge(small, stage="s", run="r")
    ledger(apart=("a", "b"), rows=("",)).charge(small, stage="s", run="r")
    with pytest.raises(BudgetExceededError):
        ledger(other=("",)).charge(DiscreteGaussian(stddev=1.0), stage="s", run="r")
    ledger().charge(small, stage="s", run="r")
    assert ledger().declared() == {"apart": ("a", "b"), "rows": ("",)}
    assert ledger().snapshot().declared() == ledger().declared() and not ledger().shown()
    assert len(ledger().entries()) == 3 and ledger().path.read_text().count('"declared"') == 3
