"""Canaries that echo in synthetic texts are told apart from canaries that nobody trained on."""

from __future__ import annotations

import numpy as np

from research.echo import echo_canaries, echo_scores
from research.leakage.membership import attack

RNG = np.random.default_rng(2)
TEXTS = [" ".join(RNG.choice([f"word{i}" for i in range(300)], 40)) for _ in range(200)]


def test_a_canary_begins_as_a_text_and_ends_in_words_of_the_corpus() -> None:
    starts = {" ".join(text.split()[:12]) for text in TEXTS}
    canaries = echo_canaries(TEXTS, count=20)
    assert len(set(canaries)) == 20
    assert all(" ".join(canary.split()[:12]) in starts for canary in canaries)
    assert all(len(canary.split()) == 24 for canary in canaries)


def test_echoes_separate_members_and_their_absence_does_not() -> None:
    canaries = echo_canaries(TEXTS, count=80)
    members, others = canaries[:40], canaries[40:]
    echoes = [*TEXTS, *(" ".join(canary.split()[8:20]) for canary in members)]
    for synthetic, low, high in ((echoes, 0.95, 1.0), (TEXTS, 0.3, 0.7)):
        found = attack(echo_scores(synthetic, members), echo_scores(synthetic, others))
        assert low <= found.auc.value <= high
