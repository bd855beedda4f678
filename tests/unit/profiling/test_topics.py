"""Tests the topics of a profile: groups of released words that are separate, or none."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import pytest

from sugarbush.embedding.cache import EmbeddingsInMemory
from sugarbush.embedding.encoder import Encoder
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.profiling.draft import draft_from_profile
from sugarbush.profiling.release import ReleasedProfile
from sugarbush.profiling.topics import topics_of
from tests.unit.profiling.test_draft import profile_of

TRAVEL = ("flight", "flights", "plane", "airline", "airport")
LOANS = ("loan", "loans", "bank", "mortgage")
FOOD = ("pizza", "chicken", "drinks", "food")
ABSTRACTS = ("cell", "model", "study", "results", "method", "data", "patients", "disease")
LETTERS = ("thank", "help", "need", "did", "good", "great", "time", "way", "order", "call")
TICKETS = ("regards", "hello", "change", "add", "number", "item", "user", "create", "client", "ask")


def with_topics(*groups: tuple[str, ...]) -> ReleasedProfile:
    terms = {term: 900 - at for at, term in enumerate(chain(*groups))}
    profile = replace(profile_of([1.0] * 1000), terms={"": terms})
    encoder = Encoder(EmbeddingSettings(), cache=EmbeddingsInMemory())
    return replace(profile, topics=topics_of(profile, embed=encoder.encode))


@pytest.mark.parametrize("words", [ABSTRACTS, LETTERS, TICKETS, ABSTRACTS + LETTERS])
def test_words_that_form_no_separate_groups_are_no_topics(words: tuple[str, ...]) -> None:
    profile = with_topics(words)
    assert profile.topics == ()
    names = draft_from_profile(profile, subject="letters").schema.names
    assert "topic" not in names


def test_separate_groups_of_words_are_topics() -> None:
    profile = with_topics(TRAVEL, LOANS, FOOD)
    groups = [set(terms) for _, terms in profile.topics]
    assert set(TRAVEL) in groups
    assert "topic" in draft_from_profile(profile, subject="letters").schema.names
