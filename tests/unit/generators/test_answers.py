"""How completions become answers: which requests are sent again, and which tokens are paid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from sugarbush.generators.answer_cache import Completion
from sugarbush.generators.answers import Asked, answer_all
from sugarbush.generators.interface import Answer, Problem, RandomRequest

GOOD, BAD, NONE = "a lamp arrived late", "", None  # no completion: the call failed


def requests(count: int) -> list[RandomRequest]:
    return [RandomRequest(subject="letters", sample=i) for i in range(count)]


def completion(text: str) -> Completion:
    return Completion(
        text=text, finish_reason="stop", refused=False, prompt_tokens=10, completion_tokens=3
    )


def asked_of(
    keys: Mapping[int, str], texts: Mapping[str, str | None], cached: Sequence[str] = ()
) -> Asked:
    found = {key: completion(text) for key, text in texts.items() if text is not None}
    return Asked(keys=keys, completions=found, fresh=set(found) - set(cached))


@given(st.lists(st.sampled_from([GOOD, BAD, NONE]), min_size=1, max_size=8))
def test_only_an_unusable_answer_is_requested_again(outcomes: list[str | None]) -> None:
    """A failed call has had its retries. If it were sent again here, it could be paid twice."""
    sent: list[list[int]] = []

    def ask(places: Sequence[int], attempt: int) -> Asked:
        sent.append(list(places))
        keys = {i: f"{i}:{attempt}" for i in places}
        return asked_of(keys, {keys[i]: outcomes[i] for i in places})

    answers = answer_all(requests(len(outcomes)), range(len(outcomes)), ask)
    again = [i for i, outcome in enumerate(outcomes) if outcome == BAD]
    assert [places for places in sent if places] == [
        places for places in (list(range(len(outcomes))), again) if places
    ]
    problems = [answer.problem for answer in answers]
    assert [problem is None for problem in problems] == [o == GOOD for o in outcomes]
    assert [problem is Problem.FAILED for problem in problems] == [o is NONE for o in outcomes]


def tokens(answers: Sequence[Answer]) -> int:
    return sum(answer.prompt_tokens + answer.completion_tokens for answer in answers)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=10), st.sets(st.integers(0, 3)))
def test_equal_requests_are_paid_once_and_cached_requests_never(
    which: list[int], cached: set[int]
) -> None:
    def ask(places: Sequence[int], attempt: int) -> Asked:
        keys = {i: str(which[i]) for i in places}
        return asked_of(keys, dict.fromkeys(keys.values(), GOOD), [str(i) for i in cached])

    answers = answer_all(requests(len(which)), range(len(which)), ask)
    assert tokens(answers) == 13 * len(set(which) - cached)
