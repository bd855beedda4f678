"""A release is enlarged by an endpoint that dies: the next run goes on and pays nothing twice."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import sugarbush as sb
from sugarbush.errors import GeneratorError
from sugarbush.rehearsal.rehearse import TEXTS
from tests.integration.llm.conftest import Bench, endpoint_params
from tests.integration.llm.server import Body, Reply, completion, failure
from tests.integration.project import SCHEMA, TINY_ENCODER, letters
from tests.synthesized import synthesize_frame

FIRST = 2 * TEXTS  # texts of the rehearsal, and as many of the first look

WORDS = [f"{a}{b}" for a in "bcdfgklmnprstv" for b in ("able", "ight", "orn", "ume", "est", "ade")]
LETTERS = pd.DataFrame(letters(206))


def different(number: int, body: Body) -> Reply:
    """A text of random words for each request."""
    seed = zlib.crc32(json.dumps(body, sort_keys=True).encode())
    return completion(" ".join(random.Random(seed).choices(WORDS, k=30)) + ".")


def release(bench: Bench, state: Path, *, texts: int) -> sb.Release:
    return synthesize_frame(
        LETTERS[6:],
        schema=SCHEMA,
        method=sb.Mosaic(candidates=40),
        generator=endpoint_params(bench.server.base_url, max_retries=0, concurrency=4),
        donated=LETTERS[:6],
        privacy=sb.Privacy(epsilon=1, delta=1e-6, dataset="letters"),
        settings={
            "embedding": {"model": "tiny"},
            "synthesize_metadata": {"degree": 1},
            "evaluate": {"public": False},
        },
        texts=texts,
        state=state,
        accept_poor=True,
    )


def test_an_endpoint_that_dies_costs_no_answer_and_no_second_charge(
    bench: Callable[..., Bench], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(TINY_ENCODER)
    alive = [True]

    def behave(number: int, body: Body) -> Reply:
        dies = alive[0] and number >= 80 + FIRST
        return failure(500, "gone") if dies else different(number, body)

    run, state = bench(behave=behave), tmp_path / "state"
    with pytest.raises(GeneratorError):
        release(run, state, texts=80)
    paid = len(run.server.answered)
    assert 60 < paid - FIRST <= 80  # the scored texts, and some of the others
    alive[0] = False
    found = release(run, state, texts=80)
    assert len(found.texts) == 80
    asked = [json.dumps(body, sort_keys=True) for body in run.server.answered]
    assert len(asked) > 140 + TEXTS
    assert len(asked) - len(set(asked)) <= 1  # the check before each run asks one question
    entries = sb.open_ledger("letters", state=state).entries()
    assert len([entry for entry in entries if entry.stage != "look"]) == 2
