"""Tests of the requests for variations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sugarbush.evolution.variation import FillIn
from sugarbush.generators.interface import VariationRequest
from tests.unit.evolution.test_evolve import SCHEMA, encode, first


def test_tones_are_requested_in_turn() -> None:
    varier = FillIn(copies=2, tones=("calm", "angry"))
    requests = varier.requests(first(2), schema=SCHEMA, encode=encode, number=1, seed=1)
    assert [r.tone for r in requests if isinstance(r, VariationRequest)] == ["calm", "angry"] * 2


def test_a_request_is_spelled_as_in_0_1_because_seeds_are_made_of_it() -> None:
    (request,) = FillIn(copies=1).requests(first(1), schema=SCHEMA, encode=encode, number=1, seed=1)
    assert repr(request) == (
        "VariationRequest(subject='numbers', attributes=(), examples=(), words=1, "
        f"sample={request.sample}, parent='0.0', mask_share=0.5, tone='', good=(), bad=())"
    )


def test_a_variation_requests_the_length_of_its_parent() -> None:
    parents = replace(first(2), texts=("word " * 90, "two words"))
    requests = FillIn(copies=3).requests(parents, schema=SCHEMA, encode=encode, number=1, seed=1)
    assert [request.words for request in requests] == [90] * 3 + [2] * 3


def test_lengths_vary_by_the_scale_and_the_share_of_masked_words() -> None:
    """400 lengths with a standard deviation of 10 words. The limits are 5 standard errors."""
    parents = replace(first(1), texts=("word " * 300,))
    varier = FillIn(copies=400, mask_share=0.5, word_scale=20.0)
    words = [
        r.words for r in varier.requests(parents, schema=SCHEMA, encode=encode, number=1, seed=1)
    ]
    again = [
        r.words for r in varier.requests(parents, schema=SCHEMA, encode=encode, number=1, seed=1)
    ]
    assert words == again
    assert abs(np.mean(words) - 300) < 5 * 10 / np.sqrt(400)
    assert abs(np.std(words) - 10) < 5 * 10 / np.sqrt(2 * 400)


def test_lengths_that_vary_stay_above_25_words_or_the_parent() -> None:
    for length, least in ((40, 25), (9, 9)):
        parents = replace(first(1), texts=("word " * length,))
        varier = FillIn(copies=200, mask_share=1.0, word_scale=60.0)
        requests = varier.requests(parents, schema=SCHEMA, encode=encode, number=1, seed=1)
        words = [request.words or 0 for request in requests]
        assert min(words) == least < max(words)
