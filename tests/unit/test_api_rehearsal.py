"""Tests that `synthesize` refuses poor first texts before it charges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sugarbush as sb
from sugarbush.errors import PoorRehearsalError
from tests.synthesized import synthesize_frame

PRODUCTS = ("lamp", "kettle", "phone", "chair")
WORDS = ("broken", "late", "cold", "loud", "scratched", "too small", "missing", "dirty")


def letters(count: int, *, shift: int = 0) -> list[str]:
    return [
        f"Dear team, my {PRODUCTS[i % 4]} from order {i + shift} arrived {WORDS[i % 7]} and "
        f"{WORDS[(i // 7) % 8]}. Please help me."
        for i in range(count)
    ]


SCHEMA = {
    "subject": "letters about orders",
    "attributes": [
        {"name": "product", "values": PRODUCTS, "keywords": {own: [own] for own in PRODUCTS}}
    ],
}
WRONG = [
    f"Theorem {i}: every {kind} ring of order {i} has a {other} ideal."
    for i in range(60)
    for kind, other in (("finite", "prime"), ("local", "maximal"), ("free", "nilpotent"))
]


def written(
    state: Path,
    pool: list[str],
    *,
    candidates: int = 40,
    prompt: str = "both",
    **arguments: Any,
) -> sb.Release:
    fields: dict[str, Any] = {
        "donated": [f"{text} Thank you, {i}." for i, text in enumerate(letters(20, shift=5000))],
        "method": sb.Mosaic(candidates=candidates, prompt=prompt),
        "schema": SCHEMA,
        "texts": 10,
    }
    return synthesize_frame(
        pd.DataFrame({"message": letters(300)}),
        text="message",
        generator=sb.Pool(texts=pool),
        privacy=sb.Privacy(epsilon=1, delta=1e-6, dataset="letters"),
        settings={"prepare": {"accept_overlap": True}},
        state=state,
        **(fields | arguments),
    )


@pytest.mark.slow
def test_texts_of_another_kind_are_refused_and_nothing_is_charged(tmp_path: Path) -> None:
    with pytest.raises(PoorRehearsalError, match=r"No budget was spent.*accept_poor=True"):
        written(tmp_path, WRONG)
    assert not sb.open_ledger("letters", state=tmp_path).entries()


@pytest.mark.slow
def test_texts_of_the_same_kind_are_not_poor(tmp_path: Path) -> None:
    pool = [f"Hello, {text[11:]}" for text in letters(200, shift=9000)]
    made = written(tmp_path, pool)
    assert len(made.texts) == 10


@pytest.mark.slow
@pytest.mark.parametrize("donated", [True, False])
def test_a_pool_with_few_texts_of_the_kind_is_judged_by_them_if_there_are_rounds(
    tmp_path: Path, donated: bool
) -> None:
    """Four rounds of scores reach the 40 letters among 180 other texts. One release does not, and
    neither does a pool without letters."""
    few = [*WRONG, *(f"Hello, {text[11:]}" for text in letters(40, shift=9000))]
    fields: dict[str, Any] = {"prompt": "independent"}
    if not donated:
        subject = "letters of customers about broken goods"
        fields |= {"donated": None, "schema": SCHEMA | {"subject": subject}}
    made = written(tmp_path / "few", few, **fields)
    assert len(made.lineage.rounds) == 4
    with pytest.raises(PoorRehearsalError):
        written(tmp_path / "none", WRONG, **fields)
    assert not sb.open_ledger("letters", state=tmp_path / "none").entries()


@pytest.mark.slow
def test_a_release_larger_than_the_kind_in_the_pool_is_refused(tmp_path: Path) -> None:
    """The 10 letters of the pool are enough for 10 texts, and not for 60."""
    few = [*WRONG, *(f"Hello, {text[11:]}" for text in letters(10, shift=9000))]
    with pytest.raises(PoorRehearsalError, match="unlike every donated text"):
        written(tmp_path, few, prompt="independent", texts=60)
    with pytest.raises(PoorRehearsalError, match="38 of 40 texts repeat another text"):
        written(tmp_path, letters(2, shift=9000), prompt="independent")
    assert not sb.open_ledger("letters", state=tmp_path).entries()


@pytest.mark.slow
def test_who_accepts_poor_texts_gets_them_and_a_second_call_restores_them(tmp_path: Path) -> None:
    made = written(tmp_path, WRONG, accept_poor=True)
    assert made.verdict is not None
    assert made.verdict.grade == "poor"
    charges = len(sb.open_ledger("letters", state=tmp_path).entries())
    again = written(tmp_path, WRONG)  # nothing is charged, so nothing is judged
    assert again.texts == made.texts
    assert len(sb.open_ledger("letters", state=tmp_path).entries()) == charges


@pytest.mark.slow
def test_new_votes_on_restored_metadata_are_judged_too(tmp_path: Path) -> None:
    written(tmp_path, WRONG, accept_poor=True)
    charges = len(sb.open_ledger("letters", state=tmp_path).entries())
    with pytest.raises(PoorRehearsalError):
        written(tmp_path, WRONG, candidates=60)
    assert len(sb.open_ledger("letters", state=tmp_path).entries()) == charges
