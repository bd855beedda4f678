from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sugarbush.errors import GeneratorError, InvariantError
from sugarbush.generators.interface import Answer, RandomRequest, Request, VariationRequest
from sugarbush.generators.pool import Pool, PoolGenerator
from sugarbush.privacy.data_types import Released
from sugarbush.randomness import public_rng

SUBJECT = "letters"
DIMENSION = 8


def _directions(count: int, *names: str) -> NDArray[np.float32]:
    vectors = public_rng(7, *names).normal(size=(count, DIMENSION)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _refuse(texts: Sequence[str]) -> NDArray[np.float32]:
    raise AssertionError(f"embedded {len(texts)} texts that the pool contains")


def _pool(
    count: int = 40,
    *,
    temperature: float = 0.05,
    neighbours: int = 5,
    seed: int = 1,
    embed=_refuse,
) -> PoolGenerator:
    return PoolGenerator(
        [f"text {i}" for i in range(count)],
        _directions(count, "pool"),
        params=Pool(sources=(), temperature=temperature, neighbours=neighbours),
        seed=seed,
        embed=embed,
    )


def _texts(pool: PoolGenerator, *requests: Request) -> list[str | None]:
    return [answer.text for answer in pool.generate(Released(requests)).value]


def _vary(parent: str, sample: int = 0) -> VariationRequest:
    return VariationRequest(subject=SUBJECT, parent=parent, mask_share=0.5, sample=sample)


def test_a_prompt_with_nothing_in_it_draws_every_text_equally_often() -> None:
    # In 8,000 draws among 8 texts, a count has a standard deviation of 29.6. A limit of five
    # standard deviations gives a false alarm in 5 of a million runs.
    drawn = _texts(_pool(8), *(RandomRequest(subject=SUBJECT, sample=i) for i in range(8000)))
    counts = np.unique(drawn, return_counts=True)[1]
    assert len(counts) == 8
    assert np.abs(counts - 1000).max() < 5 * 29.6


def test_examples_draw_by_the_softmax_of_cosines() -> None:
    # There is only one example, so the query is the vector of this example. The frequencies in
    # 8,000 draws among 6 texts are compared with exp(cos/T). The standard deviation of a count is
    # under 45. A limit of five standard deviations gives about 3 false alarms in a million runs.
    target = _directions(1, "query")
    pool = _pool(6, temperature=0.5, embed=lambda texts: np.repeat(target, len(texts), axis=0))
    asked = [
        RandomRequest(subject=SUBJECT, examples=("an example",), sample=i) for i in range(8000)
    ]
    drawn = _texts(pool, *asked)
    weights = np.exp(_directions(6, "pool") @ target[0] / 0.5)
    expected = 8000 * weights / weights.sum()
    counts = np.array([drawn.count(f"text {i}") for i in range(6)])
    assert np.abs(counts - expected).max() < 5 * 45
    assert counts.max() > 2 * counts.min()


def test_the_query_is_the_mean_of_three_examples_and_changes_from_request_to_request() -> None:
    seen: list[str] = []

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        seen.extend(texts)
        return np.eye(DIMENSION, dtype=np.float32)[[int(t[-1]) for t in texts]]

    examples = tuple(f"example {i}" for i in range(6))
    pool = PoolGenerator(
        [f"corner {i}" for i in range(DIMENSION)],
        np.eye(DIMENSION, dtype=np.float32),
        params=Pool(sources=(), temperature=0.001, neighbours=3),
        seed=1,
        embed=embed,
    )
    asked = [RandomRequest(subject=SUBJECT, examples=examples, sample=i) for i in range(60)]
    drawn = _texts(pool, *asked)
    # At this temperature only the corners nearest to the mean are drawn.
    assert set(drawn) == {f"corner {i}" for i in range(6)}
    assert set(seen) == set(examples)


def test_metadata_alone_is_put_into_words() -> None:
    seen: list[str] = []

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        seen.extend(texts)
        return _directions(len(texts), "any")

    attributes = (("product_group", "Mortgage"), ("state", "FL"))
    _texts(_pool(embed=embed), RandomRequest(subject=SUBJECT, attributes=attributes))
    assert seen == ["product group: Mortgage, state: FL"]


def test_a_variation_is_one_of_the_nearest_and_every_one_of_them_comes() -> None:
    pool, vectors = _pool(neighbours=5, temperature=10.0), _directions(40, "pool")
    order = [i for i in np.argsort(-(vectors @ vectors[3])) if i != 3]
    drawn = _texts(pool, *(_vary("text 3", sample=i) for i in range(400)))
    assert set(drawn) == {f"text {i}" for i in order[:5]}


def test_a_low_temperature_takes_the_very_nearest() -> None:
    pool, vectors = _pool(temperature=1e-4), _directions(40, "pool")
    nearest = next(i for i in np.argsort(-(vectors @ vectors[3])) if i != 3)
    assert set(_texts(pool, *(_vary("text 3", i) for i in range(50)))) == {f"text {nearest}"}


def test_no_copy_of_the_parent_comes_back_though_the_pool_holds_it_twice() -> None:
    vectors = _directions(4, "pool")
    pool = PoolGenerator(
        ["same", "same", "other", "third"],
        np.stack([vectors[0], vectors[0], vectors[1], vectors[2]]),
        params=Pool(sources=(), temperature=0.05, neighbours=1),
        seed=1,
        embed=_refuse,
    )
    assert "same" not in _texts(pool, *(_vary("same", i) for i in range(200)))


def test_no_example_comes_back() -> None:
    asked = RandomRequest(subject=SUBJECT, examples=("text 0", "text 1", "text 2"))
    drawn = _texts(_pool(5, temperature=0.01), *[asked] * 3)
    assert not {"text 0", "text 1", "text 2"} & set(drawn)


def test_a_prompt_that_shows_the_whole_pool_gets_no_answer() -> None:
    asked = RandomRequest(subject=SUBJECT, examples=("text 0", "text 1"))
    (answer,) = _pool(2).generate(Released((asked,))).value
    assert answer.text is None
    assert answer.problem is not None


def test_a_parent_from_elsewhere_is_embedded_once() -> None:
    calls: list[list[str]] = []

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        calls.append(list(texts))
        return _directions(len(texts), "strange")

    drawn = _texts(_pool(embed=embed), *(_vary("strange", i) for i in range(4)), _vary("text 1"))
    assert calls == [["strange"]]
    assert None not in drawn


_REQUESTS = st.one_of(
    st.builds(RandomRequest, subject=st.just(SUBJECT), sample=st.integers(0, 9)),
    st.builds(
        RandomRequest,
        subject=st.just(SUBJECT),
        sample=st.integers(0, 9),
        examples=st.lists(st.sampled_from([f"text {i}" for i in range(9)]), min_size=1).map(tuple),
    ),
    st.builds(_vary, st.sampled_from([f"text {i}" for i in range(40)]), st.integers(0, 9)),
)


@settings(max_examples=40)
@given(st.lists(_REQUESTS, min_size=1, max_size=12))
def test_an_answer_is_the_same_whatever_else_is_asked(requests: list[Request]) -> None:
    pool = _pool()
    together = _texts(pool, *requests)
    assert together == [_texts(pool, request)[0] for request in requests]
    assert together[::-1] == _texts(pool, *requests[::-1])


def test_seeds_and_samples_change_the_answer() -> None:
    asked = [_vary("text 3", i) for i in range(50)]
    assert _texts(_pool(temperature=1, seed=1), *asked) != _texts(
        _pool(temperature=1, seed=2), *asked
    )
    assert len(set(_texts(_pool(temperature=1), *asked))) > 1


def test_answers_keep_what_paid_for_the_requests() -> None:
    answers = _pool().generate(Released((_vary("text 1"),), ("entry",)))
    assert answers.ledger_ids == ("entry",)
    assert isinstance(answers.value[0], Answer)


def test_a_pool_of_one_text_is_refused() -> None:
    with pytest.raises(GeneratorError, match=r"generator\.pool\.sources"):
        _pool(1)


def test_texts_and_embeddings_must_match() -> None:
    with pytest.raises(InvariantError):
        PoolGenerator(
            ["a", "b"],
            _directions(3, "pool"),
            params=Pool(sources=(), temperature=1, neighbours=1),
            seed=1,
            embed=_refuse,
        )


def test_no_request_needs_no_answer() -> None:
    assert _texts(_pool()) == []
