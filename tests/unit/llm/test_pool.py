from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from sugarbush.errors import ParamsError
from sugarbush.llm.client import RandomRequest, Request, VariationRequest
from sugarbush.llm.pool import PoolGenerator
from sugarbush.params import PoolParams
from sugarbush.privacy.kinds import Released

TOPICS = ("cat", "dog", "car", "sea")
TEXTS = tuple(f"{topic} {i}" for topic in TOPICS for i in range(40))


def embed(texts: Sequence[str]) -> NDArray[np.float32]:
    """A direction a topic, with a little of the number in it."""
    rows = np.zeros((len(texts), 8), dtype=np.float32)
    for row, text in zip(rows, texts, strict=True):
        for place, topic in enumerate(TOPICS):
            row[place] = text.count(topic)
        row[4 + len(text) % 4] = 0.2
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def pool(texts: tuple[str, ...] = TEXTS, seed: int = 1) -> PoolGenerator:
    params = PoolParams(sources=(), temperature=0.05, neighbours=60)
    return PoolGenerator(texts, embed(texts), params=params, seed=seed, embed=embed)


def ask(generator: PoolGenerator, *requests: Request) -> list[str]:
    answers = generator.generate(Released(requests, ("paid",)))
    assert answers.ledger_ids == ("paid",)
    return [str(answer.text) for answer in answers.value]


def random_requests(count: int, **fields: object) -> list[RandomRequest]:
    return [RandomRequest(subject="s", sample=i, **fields) for i in range(count)]  # type: ignore[arg-type]


def test_an_open_request_draws_from_all_of_the_pool() -> None:
    drawn = ask(pool(), *random_requests(400))
    for topic in TOPICS:
        assert 60 < sum(topic in text for text in drawn) < 140


def test_examples_and_metadata_say_where_to_draw() -> None:
    by_example = ask(pool(), *random_requests(50, examples=("my dog 3", "a dog 77")))
    by_value = ask(pool(), *random_requests(50, attributes=(("animal", "dog"),)))
    assert all("dog" in text for text in by_example + by_value)


def test_a_variation_is_near_its_parent_and_never_the_parent() -> None:
    wanted = [
        VariationRequest(subject="s", parent="sea 7", mask_share=0.5, sample=i) for i in range(80)
    ]
    varied = ask(pool((*TEXTS, "sea 7")), *wanted)
    assert all("sea" in text for text in varied)
    assert "sea 7" not in varied
    assert len(set(varied)) > 10


def test_an_answer_depends_on_its_own_request_alone() -> None:
    requests = random_requests(700, examples=("cat 1", "car 2"))
    together = ask(pool(), *requests)
    assert ask(pool(), *requests[::-1]) == together[::-1]
    assert ask(pool(), requests[650]) == [together[650]]
    assert ask(pool(seed=2), *requests) != together


def test_a_pool_of_one_text_is_refused() -> None:
    with pytest.raises(ParamsError, match="at least two different texts"):
        pool(("cat 1", "cat 1"))
