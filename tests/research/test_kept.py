"""What a replay keeps: nothing is asked or drawn twice, and other settings are other answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from research.cached_results import ASKED_AT_ONCE, open_kept
from sugarbush.generators.interface import Answer, Problem, RandomRequest, Request
from sugarbush.privacy.data_types import Released


class Counting:
    """Writes its own number of calls; every third answer has a problem."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def generate(
        self, requests: Released[tuple[Request, ...]], *, what: str = "answers"
    ) -> Released[tuple[Answer, ...]]:
        self.batches.append(len(requests.value))
        return requests.map(lambda wanted: tuple(map(self._answer, wanted)))

    def _answer(self, request: Request) -> Answer:
        if request.sample % 3 == 0:
            return Answer(text=None, problem=Problem.TRUNCATED, completion_tokens=9)
        return Answer(text=f"text {request.sample}", prompt_tokens=5, completion_tokens=7)


def asked(count: int) -> Released[tuple[Request, ...]]:
    return Released(
        tuple(RandomRequest(subject="letters", sample=sample) for sample in range(count)), ("paid",)
    )


def test_a_run_that_was_stopped_asks_only_for_what_is_missing(tmp_path: Path) -> None:
    first, again = Counting(), Counting()
    with open_kept(tmp_path) as kept:
        kept.generator(first, identity={"model": "a"}).generate(asked(10))
    with open_kept(tmp_path) as kept:
        found = kept.generator(again, identity={"model": "a"}).generate(asked(12))
    assert (first.batches, again.batches) == ([10], [2])
    assert [a.text for a in found.value] == [
        None if sample % 3 == 0 else f"text {sample}" for sample in range(12)
    ]
    assert [a.cached for a in found.value] == [True] * 10 + [False] * 2
    assert found.value[0].problem is Problem.TRUNCATED
    assert (found.value[1].prompt_tokens, found.value[1].completion_tokens) == (5, 7)
    assert found.ledger_ids == ("paid",)


def test_another_model_is_asked_anew_and_equal_requests_once(tmp_path: Path) -> None:
    with open_kept(tmp_path) as kept:
        kept.generator(Counting(), identity={"model": "a"}).generate(asked(3))
        other = Counting()
        twice = Released((*asked(3).value, *asked(3).value))
        answers = kept.generator(other, identity={"model": "b"}).generate(twice).value
    assert other.batches == [3]
    assert [a.text for a in answers[:3]] == [a.text for a in answers[3:]]


def test_a_kill_loses_one_batch(tmp_path: Path) -> None:
    generator = Counting()
    with open_kept(tmp_path) as kept:
        kept.generator(generator, identity={}).generate(asked(ASKED_AT_ONCE + 1))
    assert generator.batches == [ASKED_AT_ONCE, 1]


def test_noise_is_drawn_once(tmp_path: Path) -> None:
    with open_kept(tmp_path) as kept:
        kept.array("table", lambda: np.array([3, 1]))
    with open_kept(tmp_path) as kept:
        assert kept.array("table", lambda: np.array([9, 9])).tolist() == [3, 1]
        assert kept.array("other", lambda: np.array([9, 9])).tolist() == [9, 9]
