"""Steering on a tiny Llama: what is added where, what a record contributes, what is charged."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

import sugarbush as sb
from research.steering import (
    ONE,
    ActivationReader,
    Steered,
    Steering,
    added,
    contributions,
    learn,
    scaled,
)
from sugarbush.generators import GeneratorContext, RandomRequest

LAYERS = (1, 2)
TEXTS = ["my card was charged twice", "the loan", "a bank closed my account", "fees and fees"]


@pytest.fixture(scope="module")
def reader(tiny_llama) -> ActivationReader:
    return ActivationReader(
        tiny_llama, LAYERS, prompt="Complaints:", dtype=torch.bfloat16, tokens=6, rows=3
    )


def test_a_records_row_depends_on_its_text_alone(reader):
    found = reader.read(TEXTS)
    assert found.shape == (4, 2, 16)
    np.testing.assert_array_equal(found[::-1], reader.read(TEXTS[::-1]))
    np.testing.assert_array_equal(found[1:2], reader.read(TEXTS[1:2]))


def test_a_text_without_tokens_counts_as_zeros(reader):
    assert (reader.read([""]) == 0).all()


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_a_contribution_has_at_most_norm_one(size):
    rng = np.random.default_rng(1)
    rows = contributions(
        (size * rng.standard_normal((50, 3, 8))).astype(np.float32),
        np.zeros((3, 8), np.float32),
        np.ones(3, np.float32),
    )
    assert rows.dtype == np.int64
    assert (rows.astype(float) ** 2).sum(axis=1).max() <= ONE**2


def test_the_vector_is_added_at_the_last_position_only(tiny_llama):
    model = AutoModelForCausalLM.from_pretrained(tiny_llama).eval()
    ids = torch.tensor([[5, 6, 7, 8]])
    before = model(ids, output_hidden_states=True).hidden_states
    vectors = np.full((1, 16), 0.5, np.float32)
    with added(Steering(layers=(1,), vectors=vectors)):
        during = model(ids, output_hidden_states=True).hidden_states
    after = model(ids, output_hidden_states=True).hidden_states
    torch.testing.assert_close(during[2][:, -1], before[2][:, -1] + 0.5)
    torch.testing.assert_close(during[3][:, :-1], before[3][:, :-1])
    torch.testing.assert_close(after[3], before[3])


def session_of(state: Path, cap: float) -> sb.PrivacySession:
    ledger = sb.open_ledger("complaints", cap=cap, state=state)
    return sb.PrivacySession(ledger=ledger, stage="steering", run="1")


def learnt(reader, session) -> Steering:
    private = sb.Private(TEXTS * 20)
    return learn(
        private, ["hello there", "good day"], reader, layers=LAYERS, alpha=0.25, mu=0.2,
        session=session,
    )[0]  # fmt: skip


def test_one_mechanism_is_charged(reader, tmp_path):
    session = session_of(tmp_path, cap=2.0)
    steering = learnt(reader, session)
    assert [entry.id for entry in session.ledger.entries()] == list(steering.ledger_ids)
    assert 0 < session.ledger.total() < 2
    assert steering.vectors.shape == (2, 16)


def test_nothing_is_charged_beyond_the_cap(reader, tmp_path):
    session = session_of(tmp_path, cap=0.1)
    with pytest.raises(sb.BudgetExceededError):
        learnt(reader, session)
    assert session.ledger.total() == 0


def test_vectors_have_the_length_of_the_scale():
    scale = np.array([2.0, 4.0], np.float32)
    found = scaled(np.arange(1, 9), scale, alpha=0.25)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [0.5, 1.0], rtol=1e-6)


def test_other_vectors_are_another_generator(tiny_llama, tmp_path):
    def texts(number: float, name: str) -> tuple[Steered, sb.Released]:
        vectors = number * np.ones((1, 16), np.float32) * np.sin(np.arange(16, dtype=np.float32))
        Steering(layers=(1,), vectors=vectors, ledger_ids=("spent",)).save(tmp_path / name)
        own = Steered(model=tiny_llama, vectors=str(tmp_path / name), max_tokens=16)
        context = GeneratorContext(
            seed=1, state=tmp_path / "state", account="a", stage="s", base=tmp_path,
            embed=lambda texts: np.empty((len(texts), 0), np.float32), say=print,
        )  # fmt: skip
        asked = tuple(RandomRequest(subject="letters", words=8, sample=i) for i in range(4))
        return own, own.open(context).generate(sb.Released(asked))

    (weak, first), (strong, second) = texts(0.0, "weak.npz"), texts(1e3, "strong.npz")
    (same, again) = texts(0.0, "copy.npz")
    assert weak.identity() == same.identity() != strong.identity()
    assert not any(answer.cached for answer in (*first.value, *second.value))
    assert all(answer.cached for answer in again.value)  # equal vectors in another file
    assert first.ledger_ids == ("spent",)
