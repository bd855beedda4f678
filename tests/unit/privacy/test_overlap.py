"""Tests which public texts count as copies of private records."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from sugarbush.privacy.overlap import PublicTexts

WORDS = [f"{a}{b}{c}" for a in "bcdfg" for b in "aeiou" for c in "lmnrst"]


def texts(name: str, count: int, words: int = 40) -> list[str]:
    rng = random.Random(name)
    return [" ".join(rng.choices(WORDS, k=words)).capitalize() + "." for _ in range(count)]


def overlap(public: list[str], private: list[str]) -> bool:
    compared = PublicTexts(public)
    for start in range(0, len(private), 64):
        compared.compare(private[start : start + 64])
    return compared.overlap(len(private))


def one_word_changed(text: str) -> str:
    words = text.split()
    return " ".join([*words[:3], "another", *words[4:]])


SAME: dict[str, Callable[[str], str]] = {
    "equal": lambda text: text,
    "capital letters": str.upper,
    "zero-width spaces": lambda text: text[:5] + "\u200b" + text[5:],
    "no punctuation": lambda text: text.rstrip("."),
    "a greeting before": lambda text: "Good morning, " + text,
    "one word of each": one_word_changed,
    "a signature after": lambda text: text + " Kind regards from all of us",
}


SHORT: dict[str, Callable[[str], str]] = {
    "a word before": lambda text: "Customer: " + text,
    "a word after": lambda text: text + " thanks",
    "own words after": lambda text: text + " " + " ".join(texts(text, 1, words=60)),
    "a disclaimer after": lambda text: text + " " + " ".join(texts("disclaimer", 1, words=60)),
    "without the last words": lambda text: " ".join(text.split()[:-3]),
}


@pytest.mark.parametrize("change", SHORT)
@pytest.mark.parametrize("words", [14, 27])
def test_copies_of_short_records_are_found(change: str, words: int) -> None:
    every = texts("records", 400, words=words)
    assert overlap([SHORT[change](text) for text in every[:200]], every)


@pytest.mark.parametrize("before", ["", "\u5ba2\u6237\uff1a"])
def test_copies_are_found_in_a_script_without_spaces(before: str) -> None:
    rng = random.Random("characters")
    every = ["".join(chr(rng.randrange(0x4E00, 0x9FA5)) for _ in range(30)) for _ in range(200)]
    assert overlap([before + text for text in every[:100]], every)
    other = ["".join(chr(rng.randrange(0x4E00, 0x9FA5)) for _ in range(30)) for _ in range(200)]
    assert not overlap(other, every)


@pytest.mark.parametrize("change", SAME)
@pytest.mark.parametrize(("public", "private"), [(400, 400), (20, 400), (400, 20)])
def test_copies_of_private_records_are_found_in_a_public_file(
    change: str, public: int, private: int
) -> None:
    """Either file may contain the other one."""
    every = texts("records", 400)
    changed = [SAME[change](text) for text in every[:public]]
    assert overlap(changed, every[:private])


def test_copies_are_found_among_many_public_texts() -> None:
    records = texts("records", 300)
    assert overlap([*texts("public", 30_000, words=12), *records[:20]], records)


@pytest.mark.parametrize("count", [4, 40, 4000])
def test_short_answers_are_equal_by_chance(count: int) -> None:
    short = ["ok thanks", "yes please send it again", "Thank you very much for your help"] * count
    assert not overlap([*texts("public", 50), *short], [*texts("records", 50), *short])


def test_a_common_signature_is_no_copy() -> None:
    signature = " ".join(texts("signature", 1, words=25))
    public = [f"{text} {signature}" for text in texts("public", 60)]
    assert not overlap(public, [f"{text} {signature}" for text in texts("records", 60)])


def test_a_record_that_repeats_one_phrase_is_no_copy() -> None:
    phrases = [" ".join(text.split()[:8]) for text in texts("phrases", 60)]
    public = [f"{text} {one}" for text, one in zip(texts("public", 60), phrases, strict=True)]
    assert not overlap(public, [" ".join([one] * 40) for one in phrases])


def test_a_few_common_texts_are_accepted() -> None:
    records, public = texts("records", 1000), texts("public", 1000)
    assert not overlap([*public, *records[:4]], records[:30])
    assert not overlap([*public, *records[:15]], records)  # 1.5% of the records
    assert overlap([*public, *records[:25]], records)


@pytest.mark.parametrize("trial", range(20))
def test_unrelated_files_do_not_overlap(trial: int) -> None:
    assert not overlap(texts(f"public {trial}", 500), texts(f"records {trial}", 500))


def test_nothing_overlaps_without_texts() -> None:
    assert not overlap([], texts("records", 5))
    assert not overlap(texts("public", 5), [])
