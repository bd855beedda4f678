"""Tests of the requests for variations."""

from __future__ import annotations

from sugarbush.evolution.variation import variation_requests
from tests.settings import params
from tests.unit.evolution.test_evolve import SCHEMA, first


def test_tones_are_requested_in_turn() -> None:
    settings = params(methods__maple__variations=3, methods__maple__tones=["calm", "angry"])
    requests = variation_requests(
        first(2), schema=SCHEMA, params=settings.methods.maple, round_=1, seed=1
    )
    assert [r.tone for r in requests] == ["calm", "angry"] * 2


def test_a_request_is_spelled_as_in_0_1_because_seeds_are_made_of_it() -> None:
    settings = params(methods__maple__variations=2).methods.maple
    (request,) = variation_requests(first(1), schema=SCHEMA, params=settings, round_=1, seed=1)
    assert repr(request) == (
        "VariationRequest(subject='numbers', attributes=(), examples=(), words=25, "
        f"sample={request.sample}, parent='0.0', mask_share=0.5, tone='', good=(), bad=())"
    )
