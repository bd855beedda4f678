"""Tests that an edited or replaced ledger refuses charges, so no charge is lost unnoticed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sugarbush.errors import LedgerError, StorageError
from sugarbush.paths import Roots, atomic_file
from sugarbush.privacy.entries import Entry
from sugarbush.privacy.events import DiscreteGaussian
from sugarbush.privacy.fingerprint import make_dataset_fingerprint
from sugarbush.privacy.key import state_key
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.settings import PrivacySettings
from sugarbush.privacy.unit import Unit
from sugarbush.release.folders import charges_of_releases, entries_of_releases, write_release
from tests.settings import params
from tests.stand_ins import KEY, write_key


def ledger_at(state: Path, dataset: str = "letters", **more: object) -> Ledger:
    return Ledger(
        state, dataset=dataset, purpose="release", unit=Unit.RECORD, cap=50.0, delta=1e-6, **more
    )  # type: ignore[arg-type]


def charged(state: Path, count: int = 4, dataset: str = "letters") -> Ledger:
    ledger = ledger_at(state, dataset)
    for i in range(count):
        ledger.charge(DiscreteGaussian(stddev=8.0 + i), stage="evolve", run="r")
    return ledger


def lines(ledger: Ledger) -> list[str]:
    return ledger.path.read_text().splitlines()


def rewrite(ledger: Ledger, changed: list[str]) -> None:
    ledger.path.write_text("".join(line + "\n" for line in changed))


def without_seal(line: str) -> str:
    fields = json.loads(line)
    del fields["seal"]
    return json.dumps(fields, separators=(",", ":"))


EDITS = {
    "a stddev": lambda old: [old[0], old[1].replace('"stddev":9.0', '"stddev":90.0'), *old[2:]],
    "a deleted line": lambda old: [old[0], *old[2:]],
    "a deleted first line": lambda old: old[1:],
    "a deleted last line": lambda old: old[:-1],
    "two deleted last lines": lambda old: old[:-2],
    "every line deleted": lambda old: [],
    "two lines exchanged": lambda old: [old[0], old[2], old[1], old[3]],
    "a repeated line": lambda old: [*old, old[-1]],
    "a line without a seal": lambda old: [*old[:-1], without_seal(old[-1])],
    "a line more, without a seal": lambda old: [old[0], without_seal(old[1]), *old[1:]],
    "no line with a seal": lambda old: [without_seal(line) for line in old],
    "a seal of zeros": lambda old: [*old[:-1], old[-1][:-66] + "0" * 64 + '"}'],
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_ledger_is_refused_for_reading_and_charging(tmp_path: Path, edit: str) -> None:
    ledger = charged(tmp_path)
    old = lines(ledger)
    rewrite(ledger, EDITS[edit](old))
    assert lines(ledger) != old
    for use in (ledger.total, ledger.entries, lambda: charged(tmp_path, 1)):
        with pytest.raises(LedgerError, match="edited"):
            use()


def test_a_deleted_ledger_is_refused(tmp_path: Path) -> None:
    ledger = charged(tmp_path)
    ledger.path.unlink()
    with pytest.raises(LedgerError, match="edited"):
        charged(tmp_path, 1)


def test_a_line_of_another_ledger_is_refused(tmp_path: Path) -> None:
    """Both ledgers have the same number of lines and the same key."""
    ledger, other = charged(tmp_path), charged(tmp_path, dataset="other")
    rewrite(ledger, lines(other))
    ledger.path.with_suffix(".head").write_text(other.path.with_suffix(".head").read_text())
    with pytest.raises(LedgerError, match="edited"):
        ledger.entries()


def test_another_key_is_refused(tmp_path: Path) -> None:
    ledger = charged(tmp_path)
    (tmp_path / "key").write_bytes(bytes(32))
    with pytest.raises(LedgerError, match="another key"):
        ledger.total()


@pytest.mark.parametrize("died", ["before the head", "before the second head"])
def test_a_crash_between_an_entry_and_its_stored_seal_stops_nothing(
    tmp_path: Path, died: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = charged(tmp_path, 3)
    head = ledger.path.with_suffix(".head")
    if died == "before the head":
        ledger.path.unlink()
        head.unlink()
        stop_storing_seals(monkeypatch, after=1)
        for _ in range(2):  # as if the disk were full
            with pytest.raises(StorageError):
                charged(tmp_path, 1)
        monkeypatch.undo()
        assert len(lines(ledger)) == 2
    else:
        head.write_text(json.loads(lines(ledger)[1])["seal"])
    assert len(charged(tmp_path, 1).entries()) == len(lines(ledger))
    ledger.path.write_text("")
    with pytest.raises(LedgerError, match="edited"):
        ledger.entries()


def stop_storing_seals(monkeypatch: pytest.MonkeyPatch, *, after: int) -> None:
    """Simulate a disk that can store `after` more files, and after that only lines that are
    appended to existing files."""
    left = [None] * after

    @contextmanager
    def full(target: Path) -> Iterator[Path]:
        if not left:
            raise StorageError(f"{target}: no space left")
        left.pop()
        with atomic_file(target) as path:
            yield path

    monkeypatch.setattr("sugarbush.privacy.ledger.atomic_file", full)


def test_a_first_line_without_its_stored_seal_is_refused(tmp_path: Path) -> None:
    """If such a line were accepted, somebody could delete the stored seal and all lines except the
    first, and get a smaller total.
    """
    ledger = charged(tmp_path)
    rewrite(ledger, lines(ledger)[:1])
    ledger.path.with_suffix(".head").unlink()
    with pytest.raises(LedgerError, match="edited"):
        ledger.total()


def test_a_ledger_whose_first_charge_is_written_while_it_is_read_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, read = ledger_at(tmp_path), Path.read_bytes

    def charged_first(path: Path) -> bytes:
        if path == ledger.path:
            monkeypatch.setattr(Path, "read_bytes", read)
            charged(tmp_path, 1)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", charged_first)
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize("content", ["", '["a', "7"])
def test_a_result_that_another_process_is_writing_stops_nothing(
    tmp_path: Path, content: str
) -> None:
    own = tmp_path / "draws/release-letters/evolve-abc/generation-1"
    for name in (".votes.x1", "votes"):
        (own / name).mkdir(parents=True)
    (own / ".votes.x1" / "ledger_ids.json").write_text(content)
    charged(tmp_path, 1)
    (own / "votes" / "ledger_ids.json").write_text(content)
    with pytest.raises(LedgerError, match="damaged"):
        charged(tmp_path, 1)


@pytest.mark.parametrize("content", ["", '{"dataset', "[]", "{}"])
def test_a_release_that_another_process_is_writing_stops_nothing(
    tmp_path: Path, content: str
) -> None:
    ledger = charged(tmp_path)
    roots, privacy = released(tmp_path, ledger)
    named = charges_of_releases(roots, privacy)
    own = roots.released / "evolve"
    (own / ".maple.x1").mkdir()
    (own / ".maple.x1" / "release.json").write_text(content)
    assert charges_of_releases(roots, privacy) == named
    assert len(sealed_entries(roots, privacy, tmp_path)) == 4
    (own / "maple" / "release.json").write_text(content)
    for read in (
        lambda: charges_of_releases(roots, privacy),
        lambda: sealed_entries(roots, privacy, tmp_path),
    ):
        with pytest.raises(LedgerError, match="damaged"):
            read()


def test_a_damaged_charge_of_a_release_cannot_be_repaired_from(tmp_path: Path) -> None:
    roots, privacy = released(tmp_path, charged(tmp_path))
    path = roots.released / "evolve/maple/release.json"
    path.write_text(path.read_text().replace("discrete_gaussian", "no_such_noise"))
    with pytest.raises(LedgerError, match="damaged"):
        sealed_entries(roots, privacy, tmp_path)


def test_a_finished_result_whose_charge_is_missing_stops_every_charge(tmp_path: Path) -> None:
    result = tmp_path / "draws/release-letters/evolve-abc/generation-1/votes"
    result.mkdir(parents=True)
    ledger = charged(tmp_path)
    ids = [entry.id for entry in ledger.entries()]
    (result / "ledger_ids.json").write_text(json.dumps(ids))
    charged(tmp_path, 1)
    (result / "ledger_ids.json").write_text(json.dumps([*ids, "gone"]))
    with pytest.raises(LedgerError, match="lacks 1 charges"):
        charged(tmp_path, 1)
    with pytest.raises(LedgerError, match="lacks 1 charges"):
        ledger.check([DiscreteGaussian(stddev=9.0)])


def sealed_entries(roots: Roots, privacy: PrivacySettings, state: Path) -> tuple[Entry, ...]:
    found = entries_of_releases(roots, privacy, key=state_key(state))
    assert not found.unsealed
    return tuple(found.sealed.values())


def released(tmp_path: Path, ledger: Ledger) -> tuple[Roots, PrivacySettings]:
    privacy = params(privacy__dataset="letters", privacy__purpose="release").privacy
    roots = Roots(tmp_path / "project")
    folder = roots.released / "evolve" / "maple"
    folder.mkdir(parents=True)
    ids = [entry.id for entry in ledger.entries()]
    write_release(folder, stage="evolve", privacy=privacy, ledger_ids=ids, run="r", ledger=ledger)
    return roots, privacy


def test_another_state_folder_cannot_be_charged_for_a_project_with_releases(
    tmp_path: Path,
) -> None:
    """The state folder is another one if, for example, a service runs the project with another
    user's home folder.
    """
    first = charged(tmp_path / "mine")
    roots, privacy = released(tmp_path, first)
    other = ledger_at(
        tmp_path / "theirs",
        paid_for=lambda: charges_of_releases(roots, privacy),
    )
    with pytest.raises(LedgerError, match="lacks 4 charges"):
        other.charge(DiscreteGaussian(stddev=9.0), stage="evolve", run="r")
    assert other.entries() == ()


def test_a_repair_only_adds_and_makes_the_totals_equal(tmp_path: Path) -> None:
    first = charged(tmp_path / "mine")
    roots, privacy = released(tmp_path, first)
    other = ledger_at(
        tmp_path / "theirs",
        paid_for=lambda: charges_of_releases(roots, privacy),
    )
    entries = sealed_entries(roots, privacy, tmp_path / "mine")
    assert [other.add_missing(entries, sealed=True) for _ in range(2)] == [4, 0]
    assert other.total() == first.total()
    assert other.missing_charges() == {}
    other.charge(DiscreteGaussian(stddev=9.0), stage="evolve", run="r")
    assert other.total() > first.total()


def test_a_charge_names_its_day_and_no_more(tmp_path: Path) -> None:
    """The second at which a long sum ends depends on the number of records."""
    (entry,) = charged(tmp_path, 1).entries()
    assert len(entry.time) == len("2026-11-22")


def test_every_line_changes_the_head_and_a_snapshot_keeps_it(tmp_path: Path) -> None:
    heads = [ledger_at(tmp_path).head()]
    for _ in range(3):
        heads.append(charged(tmp_path, 1).head())
    assert len(set(heads)) == 4
    assert {len(head) for head in heads} == {16}
    old = ledger_at(tmp_path).snapshot()
    charged(tmp_path, 1)
    assert (old.head(), len(old.entries())) == (heads[-1], 3)
    assert charged(tmp_path, 3, "other").head() not in heads


def test_the_head_does_not_depend_on_the_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key may leak after a card with the head was published."""
    heads = set()
    for corpus in ("one", "other"):
        monkeypatch.setattr("secrets.token_hex", lambda n: "0" * 2 * n)
        state = write_key(tmp_path / corpus)
        fingerprint = make_dataset_fingerprint([corpus], key=KEY)
        ledger_at(state).charge(
            DiscreteGaussian(stddev=8.0), stage="s", run="r", dataset_fingerprint=fingerprint
        )
        heads.add(ledger_at(state).head())
    assert len(heads) == 1
