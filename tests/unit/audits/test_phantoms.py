"""Disclosure with held-out records as the control: copies are found, chance is not called one."""

from __future__ import annotations

import numpy as np
import pytest

from sugarbush.audits.phantoms import MARKS, disclosure, phrases

RNG = np.random.default_rng(3)
WORDS = [f"word{i}" for i in range(400)]


def texts(count: int, rng: np.random.Generator = RNG) -> list[str]:
    return [" ".join(rng.choice(WORDS, 30)) for _ in range(count)]


def test_copied_phrases_are_disclosure_and_equal_numbers_are_compared() -> None:
    train, heldout = texts(300), texts(100)
    copied = [" ".join(text.split()[3:12]) for text in train]
    found = disclosure(copied, training=train, heldout=heldout, marks=phrases(6))
    assert (found.records, found.training, found.phantoms) == (100, 100, 0)
    assert found.p_value < 1e-9


def test_phrases_of_both_sides_and_of_nobody_are_no_disclosure() -> None:
    train, heldout = texts(80), texts(80)
    common = "thank you for your letter of last week"
    found = disclosure(
        [common, *texts(50)],
        training=[f"{common} {text}" for text in train],
        heldout=[f"{text} {common}" for text in heldout],
        marks=phrases(6),
    )
    assert (found.training, found.phantoms, found.p_value) == (0, 0, 1.0)


def test_texts_that_are_independent_of_the_split_raise_few_alarms() -> None:
    """200 random splits of records that all match, 5% each: more than 21 alarms have a probability
    below 0.1%."""
    rng = np.random.default_rng(4)
    pool = texts(120, rng)
    written = [" ".join(text.split()[:8]) for text in pool[::2]]
    alarms = 0
    for _ in range(200):
        order = rng.permutation(len(pool))
        train, heldout = ([pool[i] for i in half] for half in np.split(order, 2))
        found = disclosure(written, training=train, heldout=heldout, marks=phrases(6))
        assert found.training + found.phantoms == 60
        alarms += found.p_value <= 0.05
    assert alarms <= 21


@pytest.mark.parametrize("identifier", ["kim.li@example.org", "482-99123-7741", "AB-20199123"])
def test_identifiers_are_marks(identifier: str) -> None:
    (marks,) = MARKS["identifiers"]([f"Please write to {identifier} today."])
    assert any(identifier.casefold() in mark or mark in identifier.casefold() for mark in marks)
