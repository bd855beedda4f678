"""Tests of released numbers in generators: their effect on texts, cache keys and ledger ids."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import sugarbush as sb
from sugarbush.errors import ParamsError, PrivacyError
from sugarbush.examples.simulator.writer import SimulatorWriter
from sugarbush.generators import ActivationReader, GeneratorContext, RandomRequest, VariationRequest
from sugarbush.generators.huggingface.model import load_model
from sugarbush.generators.huggingface.steering import steered
from sugarbush.generators.interface import Generator, Request
from sugarbush.generators.pool import Pool, PoolGenerator
from sugarbush.generators.released_numbers import ReleasedNumbers
from tests.integration.llm.tiny_gpt2 import save_tiny_gpt2

TEXTS = ["my card was charged twice", "the loan", "a bank closed my account", "fees and fees"]
SIZE, LAYERS = 16, (1, 2)


def checked(**numbers: Any) -> ReleasedNumbers:
    return ReleasedNumbers.checked(numbers, names=("a", "b"), generator="toy")


def wave(scale: float) -> NDArray[np.float64]:
    return scale * np.sin(np.arange(SIZE))


# The numbers


@pytest.mark.parametrize(
    "value",
    [np.ones(3), [1.0, 2.0], {1: np.ones(3)}, sb.Private([1.0]), sb.Private(np.ones(3)), 3.0],
)
def test_only_released_numbers_are_accepted(value: object) -> None:
    with pytest.raises(PrivacyError, match="only released numbers may reach a generator"):
        checked(a=value)


@pytest.mark.parametrize(
    "value",
    [
        "text", ["a"], {"word": "text"}, {1: None}, [1.0, np.nan], np.array([np.inf]),
        [[1], [2, 3]], True, sb.Private([1.0]), {1: sb.Private([1.0])},
    ],
)  # fmt: skip
def test_other_released_values_are_refused(value: object) -> None:
    with pytest.raises((ParamsError, TypeError)):
        checked(a=sb.Released(value, ("spent",)))


def test_an_unknown_name_is_one_line_with_the_known_names() -> None:
    with pytest.raises(ParamsError) as error:
        checked(c=sb.Released(1.0))
    assert str(error.value) == "generator toy accepts no released numbers 'c'. It accepts a, b"


@given(
    st.dictionaries(st.integers(0, 9), st.lists(st.floats(-9, 9), min_size=2, max_size=2)),
    st.dictionaries(st.integers(0, 9), st.lists(st.floats(-9, 9), min_size=2, max_size=2)),
)
def test_digests_are_equal_exactly_for_equal_numbers(
    first: dict[int, list[float]], second: dict[int, list[float]]
) -> None:
    found = checked(a=sb.Released(first)).digest == checked(a=sb.Released(second)).digest
    assert found == (first == second)
    reverse = dict(reversed(first.items()))
    assert checked(a=sb.Released(reverse)) == checked(a=sb.Released(first))


def test_the_name_and_the_shape_of_numbers_are_part_of_the_digest() -> None:
    flat, square = np.arange(4), np.arange(4).reshape(2, 2)
    digests = {
        checked(a=sb.Released(flat)).digest, checked(b=sb.Released(flat)).digest,
        checked(a=sb.Released(square)).digest, checked(a=sb.Released({0: flat})).digest,
        checked().digest,
    }  # fmt: skip
    assert len(digests) == 5


def test_a_caller_cannot_change_the_numbers_afterwards() -> None:
    vector = np.ones(3)
    found = checked(a=sb.Released({1: vector}, ("x",)), b=sb.Released(2.0, ("y", "x")))
    vector[:] = 9
    assert found.values["a"][1].tolist() == [1, 1, 1]
    assert found.ledger_ids == ("x", "y")
    with pytest.raises(ValueError, match="read-only"):
        found.values["a"][1][0] = 2


def test_a_generator_without_released_numbers_says_which_have_them() -> None:
    with pytest.raises(ParamsError, match=r"SimulatorWriter accepts no released.*huggingface"):
        SimulatorWriter(seed=1).with_released(steering=sb.Released({1: np.ones(3)}))


# The pool


def pool(count: int = 40) -> PoolGenerator:
    vectors = np.random.default_rng(1).normal(size=(count, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return PoolGenerator(
        [f"text {i}" for i in range(count)], vectors, params=Pool(temperature=0.05, neighbours=20),
        seed=1, embed=lambda texts: np.zeros((len(texts), 8), np.float32),
    )  # fmt: skip


def answers_of(generator: Generator, *requests: Request) -> sb.Released[tuple[str | None, ...]]:
    asked = sb.Released(requests, ("request",))
    return generator.generate(asked).map(lambda answers: tuple(a.text for a in answers))


@pytest.mark.parametrize(
    "request_of",
    [
        lambda i: RandomRequest(subject="s", sample=i),
        lambda i: RandomRequest(subject="s", examples=("text 3",), sample=i),
        lambda i: VariationRequest(subject="s", parent="text 3", mask_share=0.5, sample=i),
    ],
)  # fmt: skip
def test_a_released_query_moves_the_texts_of_a_pool_towards_it(request_of: Any) -> None:
    plain = pool()
    target = plain._embeddings[17]
    moved = plain.with_released(query=sb.Released(2 * target, ("spent",)))
    asked = [request_of(i) for i in range(60)]
    before, after = (answers_of(generator, *asked) for generator in (plain, moved))
    assert before.ledger_ids == ("request",)
    assert after.ledger_ids == ("request", "spent")

    def nearness(texts: Any) -> float:
        return float(np.mean([plain._embeddings[int(t.split()[1])] @ target for t in texts]))

    assert nearness(after.value) > nearness(before.value) + 0.1
    assert answers_of(moved.with_released(), *asked) == before
    assert answers_of(moved, asked[5]).value == after.value[5:6]  # each answer on its own


def test_a_query_of_another_size_is_refused() -> None:
    with pytest.raises(ParamsError, match="8 numbers"):
        pool().with_released(query=sb.Released(np.ones(7)))
    with pytest.raises(PrivacyError):
        pool().with_released(query=np.ones(8))  # type: ignore[arg-type]


# The local model


def open_model(folder: str, state: Path) -> Any:
    context = GeneratorContext(
        seed=1, state=state, account="a", stage="s", base=state,
        embed=lambda texts: np.empty((len(texts), 0), np.float32), say=print,
    )  # fmt: skip
    return sb.HuggingFace(model=folder, device="cpu", max_tokens=48).open(context)


@pytest.fixture(scope="module")
def tiny_gpt2(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the folder of a trained model, because an untrained one writes no usable text."""
    return str(save_tiny_gpt2(tmp_path_factory.mktemp("tiny_gpt2"), chats=False))


def asked(count: int = 4) -> list[Request]:
    return [RandomRequest(subject="complaints", words=20, sample=i) for i in range(count)]


def test_steering_is_part_of_the_cache_key_and_of_the_ledger_ids(
    tiny_gpt2: str, tmp_path: Path
) -> None:
    plain = open_model(tiny_gpt2, tmp_path)
    weak, strong, same = (
        plain.with_released(steering=sb.Released({0: np.resize(wave(scale), 64)}, ("spent",)))
        for scale in (0.0, 2.0, 2.0)
    )
    requests = sb.Released(tuple(asked()), ("request",))
    first, second, third, fourth = (g.generate(requests) for g in (plain, weak, strong, same))
    for found in (first, second, third):
        assert not any(answer.cached for answer in found.value)
    assert all(answer.cached for answer in fourth.value)
    assert first.ledger_ids == ("request",)
    assert second.ledger_ids == third.ledger_ids == fourth.ledger_ids == ("request", "spent")
    texts = [[answer.text for answer in found.value] for found in (first, second, third)]
    assert texts[0] == texts[1] != texts[2]
    assert sum(text is not None for text in texts[0]) >= 2
    again = plain.generate(requests)
    assert all(answer.cached for answer in again.value)  # the plain generator did not change
    assert [answer.text for answer in again.value] == texts[0]


def inputs_of_layers(model: Any) -> list[torch.Tensor]:
    """Return the hidden states that each layer gets, for one prompt."""
    found: list[torch.Tensor] = []
    handles = [
        layer.register_forward_pre_hook(lambda _, given: found.append(given[0].detach().clone()))
        for layer in model.model.layers
    ]
    model(torch.tensor([[5, 6, 7, 8]]))
    for handle in handles:
        handle.remove()
    return found


def test_the_vector_is_added_at_the_last_position_after_its_layer(tiny_llama: str) -> None:
    local = load_model(sb.HuggingFace(model=tiny_llama, device="cpu", max_tokens=16))
    others: list[Any] = []
    before = inputs_of_layers(local.model)
    with steered(local.model, {1: np.full(SIZE, 0.5)}):
        thread = Thread(target=lambda: others.append(inputs_of_layers(local.model)))
        thread.start()
        thread.join()
        during = inputs_of_layers(local.model)
    after = inputs_of_layers(local.model)
    torch.testing.assert_close(during[1], before[1])
    torch.testing.assert_close(during[2][:, -1], before[2][:, -1] + 0.5)
    torch.testing.assert_close(during[3][:, :-1], before[3][:, :-1])
    assert (during[3][:, -1] != before[3][:, -1]).any()
    for unchanged in (after, others[0]):  # after the block, and in another thread
        torch.testing.assert_close(unchanged[3], before[3])


@pytest.mark.parametrize(
    "steering", [{4: np.ones(SIZE)}, {-1: np.ones(SIZE)}, {1: np.ones(3)}, {"1": np.ones(SIZE)}]
)
def test_steering_that_does_not_fit_the_model_is_refused(
    tiny_llama: str, tmp_path: Path, steering: Any
) -> None:
    with pytest.raises(ParamsError, match="steering: "):
        open_model(tiny_llama, tmp_path).with_released(steering=sb.Released(steering))
    with pytest.raises(ParamsError, match="map each layer"):
        open_model(tiny_llama, tmp_path).with_released(steering=sb.Released(np.ones(SIZE)))
    with pytest.raises(PrivacyError):
        open_model(tiny_llama, tmp_path).with_released(steering=sb.Private([np.ones(SIZE)]))


@pytest.fixture(scope="module")
def reader(tiny_llama: str) -> ActivationReader:
    params = sb.HuggingFace(model=tiny_llama, dtype="bfloat16", device="cpu", max_tokens=16)
    return ActivationReader(params, LAYERS, prompt="Complaints:", tokens=6, rows=3)


def test_the_activations_of_a_text_depend_on_this_text_alone(reader: ActivationReader) -> None:
    found = reader.read(TEXTS)
    assert found.shape == (4, 2, SIZE)
    np.testing.assert_array_equal(found[::-1], reader.read(TEXTS[::-1]))
    np.testing.assert_array_equal(found[1:2], reader.read(TEXTS[1:2]))
    assert len(np.unique(found, axis=0)) == 4
    assert (reader.read([""]) == 0).all()
    assert reader.read([]).shape == (0, 2, SIZE)


def test_activations_are_the_hidden_states_after_the_layers(tiny_llama: str) -> None:
    params = sb.HuggingFace(model=tiny_llama, device="cpu", max_tokens=16)
    local = load_model(params)
    for prompt in ("Complaints:", "fees"):
        found = ActivationReader(params, LAYERS, prompt=prompt, tokens=2, rows=1).read(["the loan"])
        start = local.tokenizer(prompt)["input_ids"]
        ids = [*start, *local.tokenizer("the loan", add_special_tokens=False)["input_ids"]]
        states = local.model(torch.tensor([ids]), output_hidden_states=True).hidden_states
        for place, layer in enumerate(LAYERS):
            expected = states[layer + 1][0, len(start) :].mean(dim=0).detach().numpy()
            np.testing.assert_allclose(found[0, place], expected, atol=1e-5)
    with pytest.raises(ParamsError, match="layers 0 to 3"):
        ActivationReader(params, [4], prompt="")
