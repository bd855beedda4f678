"""Ledgers and state folders that somebody edited, cut, or filled with other things."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from sugarbush.batch_files.jobs import BatchJob, jobs_with, save_job
from sugarbush.errors import SugarbushError
from sugarbush.generators.answer_cache import Completion, open_cache
from sugarbush.generators.openai.cost import Meter, read_journal, spending_by_batch
from sugarbush.generators.openai.settings import OpenAI
from sugarbush.paths import Roots
from sugarbush.privacy.accounting import gaussian_mu
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.entries import ACCEPTED, Entry
from sugarbush.privacy.events import DiscreteGaussian
from sugarbush.privacy.fingerprint import make_dataset_fingerprint
from sugarbush.privacy.ledger import Ledger, _seal
from sugarbush.privacy.results import open_result_store
from sugarbush.privacy.settings import PrivacySettings
from sugarbush.privacy.snapshots import Snapshots
from sugarbush.privacy.unit import Unit
from sugarbush.release.folders import charges_of_releases, entries_of_releases
from tests.fuzz.damage import (
    CANARY,
    NASTY,
    bytes_like,
    damaged,
    edit,
    fields_like,
    junk,
    more_damaged,
    numbers,
    odd_value,
    random_edit,
    values,
    with_damage,
)

KEY = bytes(range(32))
FINGERPRINT = make_dataset_fingerprint(["a letter about a lamp", CANARY], key=KEY, users=[CANARY])
_LEDGER = Path("ledgers/release/letters.jsonl")
_EVENTS: tuple[dict[str, Any], ...] = (
    {"kind": "discrete_gaussian", "stddev": 9.0, "sensitivity": 1, "count": 2},
    {"kind": "gaussian_dp", "mu": 0.3, "count": 1},
    {"kind": "poisson_gaussian", "noise_multiplier": 2.0, "rate": 0.01, "count": 10},
    {"kind": "non_private"},
)
_ENTRY = {
    "id": "0123456789abcdef", "time": "2026-11-22", "unit": "record", "stage": "evolve", "run": "r",
    "event": _EVENTS[0], "delta": 1e-6, "sketch": list(FINGERPRINT[:8]),
}  # fmt: skip


def ledger_in(state: Path, roots: Roots | None = None, cap: float = 50.0) -> Ledger:
    paid = dict if roots is None else lambda: charges_of_releases(roots, PRIVACY)
    return Ledger(
        state,
        dataset="letters",
        purpose="release",
        unit=Unit.RECORD,
        cap=cap,
        delta=1e-6,
        paid_for=paid,
    )


PRIVACY = PrivacySettings(epsilon=1, delta=1e-6, dataset="letters", purpose="release")


@cache
def _template() -> dict[str, bytes]:
    """Every file of a state folder and of a released folder, as runs write them."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        state = base / "state"
        state.mkdir()
        (state / "key").write_bytes(KEY)
        ledger = ledger_in(state)
        with open_result_store(
            state, dataset="release-letters", stage="evolve", key={"a": "d"}, forced=False
        ) as store:
            store.array("votes", lambda: _drawn(ledger))
        ledger.charge(
            DiscreteGaussian(stddev=12.0), stage="evolve", run="r", dataset_fingerprint=FINGERPRINT
        )
        other = Ledger(
            state, dataset="parcels", purpose="release", unit=Unit.RECORD, cap=50.0, delta=1e-6
        )
        other.charge(
            DiscreteGaussian(stddev=12.0),
            stage="evolve",
            run="r",
            dataset_fingerprint=make_dataset_fingerprint(["parcels"], key=KEY),
        )
        Snapshots(state, "release-letters").of("corpus", digest="a")
        save_job(
            state / "batches",
            BatchJob(
                name="b",
                base_url="u",
                model="m",
                id=None,
                keys=("k",),
                account="letters",
                worst_cost=1.0,
            ),
        )
        meter = Meter(state, account="letters", stage="s", params=_PARAMS)
        meter.admit(0.5)
        meter.settle(0.5, _COMPLETION, what="labels")
        (state / "usage/letters.settling").write_bytes(b"0\n" + meter._journal.path.read_bytes())
        folder = base / "released" / "evolve"
        folder.mkdir(parents=True)
        charges = [entry.public_fields() for entry in ledger.entries()]
        fields = {
            "dataset": "letters", "purpose": "release", "ledger_ids": [c["id"] for c in charges],
            "charges": charges,
        }  # fmt: skip
        (folder / "release.json").write_text(json.dumps(fields))
        return {
            str(path.relative_to(base)): path.read_bytes()
            for path in sorted(base.rglob("*"))
            if path.is_file() and path.suffix != ".lock" and path.name != "lock"
        }


def _drawn(ledger: Ledger) -> Released[Any]:
    paid = ledger.charge(DiscreteGaussian(stddev=10.0), stage="evolve", run="r")
    return Released(np.arange(4), (paid,))


_COMPLETION = Completion(
    text="a", finish_reason="stop", refused=False, prompt_tokens=3, completion_tokens=4
)
_PARAMS = OpenAI.model_validate(
    {
        "model": "m",
        "max_cost": 9,
        "max_calls": 99,
        "prices": {"m": {"input": 1, "output": 2, "date": "2026-01-01"}},
    }
)
_FILES = (
    "state/key", "state/ledgers/release/letters.jsonl", "state/ledgers/release/letters.head",
    "state/ledgers/release/parcels.jsonl", "state/ledgers/release/parcels.head",
    "state/snapshots/release-letters.json",
    "state/draws/release-letters/evolve-d/generation-1/run",
    "state/draws/release-letters/evolve-d/generation-1/votes/votes.npy",
    "state/draws/release-letters/evolve-d/generation-1/votes/ledger_ids.json",
    "state/batches/b.json",
    "state/usage/letters.jsonl", "state/usage/letters.settling", "released/evolve/release.json",
)  # fmt: skip
_EXTRA = (
    "state/ledgers/release/other.jsonl", "state/ledgers/benchmark/letters.jsonl",
    "state/ledgers/release/.hidden.jsonl",
    "state/draws/release-letters/evolve-d/generation-99999999999999999999/votes/ledger_ids.json",
    "state/draws/release-letters/evolve-d/generation-2/run", "state/batches/c.json",
    "released/release.json",
    "state/draws/release-letters/evolve-d/generation-1/more/ledger_ids.json",
    "state/answers/cache.db", "state/key.lock",
)  # fmt: skip
_TEXTS = st.one_of(
    st.lists(edit, min_size=1, max_size=3),
    st.lists(edit, min_size=1, max_size=1),
    junk,
    values,
    st.just(None),
    st.just("folder"),
)
state_folders = st.lists(
    st.tuples(st.sampled_from(_FILES + _EXTRA), _TEXTS, st.booleans()), min_size=1, max_size=2
)


State = list[tuple[str, Any, bool]]


def more_damaged_state(case: State, rng: Random) -> State:
    """The damage of `case` on other files."""
    return [
        (rng.choice(_FILES + _EXTRA), _more_damage(damage, rng), rng.random() < 0.5)
        for _, damage, _ in case
    ]


def _more_damage(damage: Any, rng: Random) -> Any:
    if isinstance(damage, bytes):
        return more_damaged(damage, rng)
    return [random_edit(rng)] if rng.random() < 0.5 else odd_value(rng)


def use_state(case: State, folder: Path) -> None:
    """Everything that opens a file of the state folder, each part by itself."""
    shutil.rmtree(folder)
    for name, content in _template().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for name, damage, whole in case:
        _harm(folder / name, damage, whole)
    ended: list[SugarbushError] = []
    for use in _USES:
        try:
            use(folder)
        except SugarbushError as error:
            assert CANARY not in str(error), error
            ended.append(error)
    if ended:
        raise ended[-1]


def _harm(path: Path, damage: Any, whole: bool) -> None:
    if path.is_dir():
        return
    content = path.read_bytes() if path.exists() else b"{}"
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if damage is None:
        return
    if damage == "folder":
        path.mkdir()
    elif isinstance(damage, bytes):
        path.write_bytes(damage)
    elif isinstance(damage, list) and damage and isinstance(damage[0], tuple):
        path.write_bytes(damaged(content, damage))
    else:
        path.write_bytes(_with_value(content, damage) if whole else json.dumps(damage).encode())


def _with_value(content: bytes, value: Any) -> bytes:
    """JSON with every value of its top level replaced, line by line."""
    return b"\n".join(_replaced(line, value) for line in content.split(b"\n"))


def _replaced(line: bytes, value: Any) -> bytes:
    with suppress(ValueError):
        fields = json.loads(line)
        if isinstance(fields, dict):
            return json.dumps(dict.fromkeys(fields, value)).encode()
    return line


def _charge(folder: Path) -> None:
    ledger = ledger_in(folder / "state", Roots(folder))
    ledger.charge(
        DiscreteGaussian(stddev=20.0), stage="s", run="r", dataset_fingerprint=FINGERPRINT[:40]
    )


def _repair(folder: Path) -> None:
    ledger = ledger_in(folder / "state")
    found = entries_of_releases(_roots(folder), PRIVACY, key=KEY)
    ledger.add_missing(found.sealed.values(), sealed=True)
    ledger.add_missing(found.unsealed.values(), sealed=False)
    ledger.cancel_accepted([entry.id for entry in ledger.entries() if entry.repair == ACCEPTED])
    assert not gaussian_mu([entry.event for entry in ledger.entries()]) < 0


def _roots(folder: Path) -> Roots:
    roots = Roots(folder)
    roots.released = folder / "released"
    return roots


def _names(folder: Path) -> None:
    names = Snapshots(folder / "state", "release-letters")
    assert isinstance(names.of("corpus", digest="a"), str)


def _results(folder: Path) -> None:
    ledger = ledger_in(folder / "state")
    with open_result_store(
        folder / "state", dataset="release-letters", stage="evolve", key={"a": "d"}, forced=False
    ) as store:
        assert isinstance(store.run, str)
        store.array("votes", lambda: _drawn(ledger))


def _batches(folder: Path) -> None:
    for job in jobs_with(folder / "state/batches", ["k", "l"]):
        assert job.name


def _meter(folder: Path) -> None:
    meter = Meter(folder / "state", account="letters", stage="s", params=_PARAMS)
    with meter.alone(print):
        meter.admit(0.5)
        meter.settle(0.5, _COMPLETION, what="labels")
    meter.summary()
    spending_by_batch(read_journal(meter._journal.path))
    assert math.isfinite(meter.spent.cost) and meter.spent.cost >= 0


def _answers(folder: Path) -> None:
    if (folder / "state/answers").exists():  # a new database takes as long as everything else
        with open_cache(folder / "state") as answers:
            answers.put("k", _COMPLETION)
            answers.get("k")


_USES: tuple[Callable[[Path], None], ...] = (
    _names,
    _batches,
    _meter,
    _answers,
    _results,
    _charge,
    _repair,
)


_entries = st.one_of(
    st.one_of(*(fields_like(event, st.one_of(numbers, values)) for event in _EVENTS)).map(
        lambda event: _ENTRY | {"event": event}
    ),
    fields_like(_ENTRY, st.one_of(numbers, values)),
    st.just(_ENTRY),
).map(lambda fields: json.dumps(fields, separators=(",", ":")).encode())
_line = st.tuples(
    st.one_of(_entries, _entries, bytes_like(json.dumps(_ENTRY).encode(), most=2)), st.booleans()
)
_heads = st.one_of(st.none(), st.just(b""), st.sampled_from(NASTY[:12]), st.just(b"last"))
ledgers = st.tuples(st.lists(_line, max_size=3), _heads, st.lists(edit, max_size=1))
LedgerCase = tuple[list[tuple[bytes, bool]], bytes | None, list[Any]]


def more_damaged_ledger(case: LedgerCase, rng: Random) -> LedgerCase:
    lines, head, edits = case
    entry = with_damage(_ENTRY | {"event": rng.choice(_EVENTS)}, rng)
    line = json.dumps(entry, separators=(",", ":")).encode()
    if lines and rng.random() < 0.2:
        line = more_damaged(rng.choice(lines)[0], rng)
    return [*lines[:2], (line, rng.random() < 0.7)], head, edits if rng.random() < 0.3 else []


def use_ledger(case: LedgerCase, folder: Path) -> None:
    """Lines with and without a valid seal: who has the key can seal anything."""
    lines, head, edits = case
    path = folder / _LEDGER
    if not path.parent.exists():
        path.parent.mkdir(parents=True)
        (folder / "key").write_bytes(KEY)
    before, content = "", b""
    for body, sealed in lines:
        whole = body
        if sealed:
            before = _seal(KEY, path, before, body)
            whole = body[:-1] + b',"seal":"' + before.encode() + b'"}'
        content += whole + b"\n"
    path.write_bytes(damaged(content, edits))
    path.with_suffix(".head").unlink(missing_ok=True)
    if head is not None:
        path.with_suffix(".head").write_bytes(before.encode() if head == b"last" else head)
    ledger = ledger_in(folder, cap=math.inf)  # the accountant would take most of the time
    entries = ledger.entries()
    assert all(0 < entry.delta < 1 for entry in entries), "a delta that is no probability"
    for entry in entries:
        assert (
            Entry.from_public_fields(json.loads(json.dumps(entry.public_fields()))).id == entry.id
        )
    ledger.charge(
        DiscreteGaussian(stddev=9.0), stage="s", run="r", dataset_fingerprint=FINGERPRINT[:40]
    )
    assert len(ledger.entries()) == len(entries) + 1
