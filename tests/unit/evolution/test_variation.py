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
        "VariationRequest(subject='numbers', attributes=(), examples=(), words=25, "
        f"sample={request.sample}, parent='0.0', mask_share=0.5, tone='', good=(), bad=())"
    )


def test_a_variation_requests_the_length_of_its_parent_and_at_least_25_words() -> None:
    parents = replace(first(2), texts=("word " * 90, "two words"))
    requests = FillIn(copies=3).requests(parents, schema=SCHEMA, encode=encode, number=1, seed=1)
    assert [request.words for request in requests] == [90] * 3 + [25] * 3


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
