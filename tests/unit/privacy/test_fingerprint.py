"""Tests that a corpus is recognised under another name, also after accidental changes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sugarbush.errors import LedgerError
from sugarbush.privacy.events import DiscreteGaussian
from sugarbush.privacy.fingerprint import is_same_dataset, make_dataset_fingerprint, stored_values
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.settings import PrivacySettings
from sugarbush.privacy.unit import Unit

KEY = bytes(range(32))
WORDS = [
    f"{a}{b}"
    for a in ["ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu"]
    for b in ["n", "r", "s", "t", "l", "m"]
]


def corpus(name: str, count: int = 1000, words: int = 30) -> list[str]:
    rng = random.Random(name)
    return [" ".join(rng.choices(WORDS, k=words)).capitalize() + "." for _ in range(count)]


def fingerprint(texts: list[str], **more: list[str]) -> tuple[str, ...]:
    return make_dataset_fingerprint(texts, key=KEY, **more)


def one_word_changed(text: str) -> str:
    words = text.split()
    return " ".join([*words[:3], "another", *words[4:]])


TEXTS = corpus("letters")
CHANGES = {
    "one full stop more": lambda text: text + ".",
    "a zero-width space": lambda text: text[:5] + "\u200b" + text[5:],
    "capital letters": str.upper,
    "full-width letters": lambda text: "".join(
        chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text
    ),
    "other white space": lambda text: text.replace(" ", "\u00a0\n"),
    "no punctuation": lambda text: text.rstrip("."),
    "a greeting before": lambda text: "Good morning, " + text,
    "one word of each": one_word_changed,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_small_change_of_every_text_hides_nothing(change: str) -> None:
    changed = [CHANGES[change](text) for text in TEXTS]
    assert not set(changed) & set(TEXTS)
    assert is_same_dataset(fingerprint(changed), stored_values(fingerprint(TEXTS)))


@pytest.mark.slow
@pytest.mark.parametrize("trial", range(20))
def test_a_random_tenth_is_recognised_and_so_is_ten_times_as_much(trial: int) -> None:
    tenth = random.Random(trial).sample(TEXTS, 100)
    assert is_same_dataset(fingerprint(tenth), stored_values(fingerprint(TEXTS)))
    assert is_same_dataset(fingerprint(TEXTS), stored_values(fingerprint(tenth)))


def test_another_month_of_the_same_users_is_recognised() -> None:
    users = [f"{i}" for i in range(500)]
    first = fingerprint(corpus("june"), users=users)
    second = fingerprint(corpus("july"), users=users)
    assert is_same_dataset(second, stored_values(first))
    assert not is_same_dataset(fingerprint(corpus("july")), stored_values(first))


def test_the_same_ids_are_recognised_and_numbers_are_no_ids() -> None:
    named = [f"case-{i:06d}" for i in range(500)]
    numbers = [str(i) for i in range(500)]
    one, other = corpus("one"), corpus("other")
    assert is_same_dataset(
        fingerprint(other, ids=named), stored_values(fingerprint(one, ids=named))
    )
    assert not is_same_dataset(
        fingerprint(other, ids=numbers), stored_values(fingerprint(one, ids=numbers))
    )


def test_corpora_without_a_common_text_are_two_datasets() -> None:
    """All 210 pairs of 21 corpora are compared.

    The corpora consist of the same words. A false alarm has probability below 1e-9.
    """
    found = [fingerprint(corpus(str(i), count=300)) for i in range(21)]
    for i, one in enumerate(found):
        assert not any(is_same_dataset(one, stored_values(other)) for other in found[:i])


def test_the_stored_part_shows_no_count_without_the_key() -> None:
    """For 30 and for 30,000 texts, the stored values have the same form, number and
    distribution."""
    small, large = (
        stored_values(fingerprint(corpus("sizes", count=count, words=9))) for count in (30, 30_000)
    )
    assert len(small) == len(large) == len(set(small)) == len(set(large))
    assert {len(value) for value in small} == {len(value) for value in large} == {9}
    for kind in "tpui":
        means = [
            sum(int(value[1:], 16) / 2**32 for value in found if value[0] == kind) / 256
            for found in (small, large)
        ]
        # The mean of 256 uniform values has a standard deviation of 0.018. Eight means are within 6
        # of these.
        assert all(abs(mean - 0.5) < 0.11 for mean in means)


def test_a_fingerprint_says_nothing_to_another_key() -> None:
    other = make_dataset_fingerprint(TEXTS, key=bytes(32))
    assert not is_same_dataset(other, stored_values(fingerprint(TEXTS)))
    assert not set(other) & set(fingerprint(TEXTS))


def test_a_confirmed_difference_is_accepted_for_the_named_dataset_alone(tmp_path: Path) -> None:
    def charge(name: str, different_from: tuple[str, ...] = ()) -> None:
        Ledger(
            tmp_path, dataset=name, purpose="release", unit=Unit.RECORD, cap=9.0, delta=1e-6,
            different_from=different_from,
        ).charge(
            DiscreteGaussian(stddev=9.0), stage="s", run="r", dataset_fingerprint=fingerprint(TEXTS)
        )  # fmt: skip

    charge("june")
    with pytest.raises(LedgerError, match=r"different_from: \[june\]"):
        charge("july")
    with pytest.raises(LedgerError, match="'june'"):
        charge("july", ("may",))
    charge("july", ("june",))


def test_no_confirmation_gives_a_dataset_a_second_budget_under_another_purpose(
    tmp_path: Path,
) -> None:
    def charge(purpose: str) -> None:
        Ledger(
            tmp_path, dataset="june", purpose=purpose, unit=Unit.RECORD, cap=9.0, delta=1e-6,
            different_from=("june",),
        ).charge(
            DiscreteGaussian(stddev=9.0), stage="s", run="r", dataset_fingerprint=fingerprint(TEXTS)
        )  # fmt: skip

    charge("benchmark")
    with pytest.raises(LedgerError, match="'june'") as refusal:
        charge("release")
    assert "confirm" not in str(refusal.value)
    with pytest.raises(ValueError, match="names the dataset itself"):
        PrivacySettings(dataset="june", different_from=("june",))


def test_a_ledger_stores_a_fingerprint_once_and_without_its_old_part(tmp_path: Path) -> None:
    ledger = Ledger(
        tmp_path, dataset="june", purpose="release", unit=Unit.RECORD, cap=9.0, delta=1e-6
    )
    for texts in (TEXTS, TEXTS, TEXTS[:500]):
        ledger.charge(
            DiscreteGaussian(stddev=9.0), stage="s", run="r", dataset_fingerprint=fingerprint(texts)
        )
    stored = [entry.dataset_fingerprint for entry in ledger.entries()]
    assert stored == [
        stored_values(fingerprint(TEXTS)),
        (),
        stored_values(fingerprint(TEXTS[:500])),
    ]
    assert not any(value[0] == "m" for value in stored[0])
