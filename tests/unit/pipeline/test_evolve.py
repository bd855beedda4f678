"""Tests for which changed settings the rounds of a method are drawn and charged again."""

from __future__ import annotations

from typing import Any

from sugarbush.privacy.results import digest_of
from tests.settings import params


def settings_digest(**changes: Any) -> str:
    changed = {f"methods__maple__{name}": value for name, value in changes.items()}
    return digest_of(settings=params(**changed).methods.maple.settings_in_use())


def test_scores_are_another_draw_than_votes_and_so_are_scores_of_another_width() -> None:
    votes, scores = settings_digest(), settings_digest(selection="herded")
    wider = settings_digest(selection="herded", score_width=0.3)
    assert len({votes, scores, wider}) == 3


def test_the_width_of_scores_that_nobody_gives_is_no_other_draw() -> None:
    assert settings_digest(score_width=0.3) == settings_digest()
