"""Tests of the example methods with a tiny corpus: what they charge, and what they write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sugarbush as sb
from examples.methods.steering import ONE, Steered, contributions, learn, scaled, steered
from examples.methods.token_by_token import TokenByToken, spelled, token_by_token
from sugarbush.generators import ActivationReader, GeneratorContext, RandomRequest
from sugarbush.privacy import DiscreteGaussian
from tests.integration.llm.tiny_gpt2 import save_tiny_gpt2
from tests.synthesized import synthesize_frame

LAYERS = (0, 1)


def session_in(state: Path, *, cap: float = 2.0) -> sb.PrivacySession:
    ledger = sb.open_ledger("complaints", cap=cap, delta=1e-6, state=state)
    return sb.PrivacySession(ledger=ledger, stage="example", run="1")


# Token by token

VOCABULARY = ("my", "lamp", "chair", "is", "broken", "late")
LETTERS = ["My lamp is broken", "my chair is late", "My lamp is late"] * 200


def written(session: sb.PrivacySession, **changes: Any) -> sb.Released[tuple[str, ...]]:
    fields = {"texts": 100, "words": 8, "stddev": 80.0} | changes
    tokens = token_by_token(sb.Private(LETTERS), VOCABULARY, session=session, **fields)  # type: ignore[arg-type]
    return tokens.map(lambda rows: spelled(rows, VOCABULARY))


def test_800_planned_tokens_are_one_charge(tmp_path: Path) -> None:
    session = session_in(tmp_path)
    texts = written(session)
    (entry,) = session.ledger.entries()
    assert entry.event == DiscreteGaussian(stddev=80.0, count=800)
    assert texts.ledger_ids == (entry.id,)
    assert session.ledger.total() < 2
    assert len(texts.value) == 100
    assert "my lamp is broken" in texts.value
    assert {word for text in texts.value for word in text.split()} == set(VOCABULARY)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_encoder")
def test_a_release_token_by_token_has_one_charge_and_is_restored(tmp_path: Path) -> None:
    def release() -> sb.Release:
        return synthesize_frame(
            pd.DataFrame({"message": [f"{text} {i}" for i, text in enumerate(LETTERS)]}),
            text="message",
            schema={"subject": "letters", "attributes": [
                {"name": "item", "values": ["lamp"], "keywords": {"lamp": ["lamp"]}}]},
            method=TokenByToken(vocabulary=VOCABULARY, count=10, words=5),
            privacy=sb.Privacy(epsilon=2, dataset="complaints"),
            texts=10,
            settings={"evaluate": {"public": False}},
            state=tmp_path,
        )  # fmt: skip

    made = release()
    ledger = sb.open_ledger("complaints", state=tmp_path)
    (entry,) = ledger.entries()
    assert entry.event.count == 50  # type: ignore[attr-defined]
    assert made.ledger_ids == (entry.id,) and made.epsilon <= 2
    assert made.card is not None
    assert made.card["made_by"]["settings"]["methods"]["token_by_token"]["words"] == 5
    assert release().texts == made.texts
    assert len(ledger.entries()) == 1


def test_tokens_beyond_the_cap_are_refused_before_the_first(tmp_path: Path) -> None:
    session = session_in(tmp_path, cap=1.0)
    with pytest.raises(sb.BudgetExceededError):
        written(session)
    assert not session.ledger.entries()


# Steering

TEXTS = ["my card was charged twice", "the loan", "a bank closed my account", "fees and fees"]
OWN = ["hello there", "good day"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> sb.HuggingFace:
    folder = save_tiny_gpt2(tmp_path_factory.mktemp("tiny_gpt2"), chats=False)
    return sb.HuggingFace(model=str(folder), device="cpu", max_tokens=48)


@pytest.fixture(scope="module")
def reader(model: sb.HuggingFace) -> ActivationReader:
    return ActivationReader(model, LAYERS, prompt="Complaints:", tokens=6, rows=4)


def test_steered_texts_have_the_id_of_one_charge(
    model: sb.HuggingFace, reader: ActivationReader, tmp_path: Path
) -> None:
    context = GeneratorContext(
        seed=1, state=tmp_path, account="a", stage="s", base=tmp_path,
        embed=lambda texts: np.empty((len(texts), 0), np.float32), say=print,
    )  # fmt: skip
    session, plain = session_in(tmp_path), model.open(context)
    generator = steered(
        plain, sb.Private(TEXTS * 20), OWN, reader, layers=LAYERS, alpha=2.0, stddev=ONE / 0.2,
        session=session,
    )  # fmt: skip
    (entry,) = session.ledger.entries()
    assert entry.event == DiscreteGaussian(stddev=ONE / 0.2, sensitivity=ONE)
    asked = sb.Released(
        tuple(RandomRequest(subject="complaints", words=20, sample=i) for i in range(4))
    )
    before, after = plain.generate(asked), generator.generate(asked)
    assert (before.ledger_ids, after.ledger_ids) == ((), (entry.id,))
    assert [answer.text for answer in before.value] != [answer.text for answer in after.value]


def test_a_steering_beyond_the_cap_is_refused(reader: ActivationReader, tmp_path: Path) -> None:
    session = session_in(tmp_path, cap=0.1)
    with pytest.raises(sb.BudgetExceededError):
        learn(sb.Private(TEXTS), OWN, reader, layers=LAYERS, stddev=ONE / 0.2, session=session)
    assert not session.ledger.entries()


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_a_contribution_has_at_most_norm_one(size: float) -> None:
    rng = np.random.default_rng(1)
    rows = contributions(
        (size * rng.standard_normal((50, 3, 8))).astype(np.float32),
        np.zeros((3, 8), np.float32),
        np.ones(3, np.float32),
    )
    assert rows.dtype == np.int64
    assert (rows.astype(float) ** 2).sum(axis=1).max() <= ONE**2


def test_vectors_have_the_length_of_the_scale() -> None:
    scale = np.array([2.0, 4.0], np.float32)
    found = scaled(np.arange(1, 9), scale, alpha=0.25)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [0.5, 1.0], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_encoder")
def test_a_steered_release_has_one_charge_and_is_restored(
    model: sb.HuggingFace, tmp_path: Path
) -> None:
    def release(generator: Any = model, **changes: Any) -> sb.Release:
        return synthesize_frame(
            pd.DataFrame({"message": [f"{text} {i}" for i, text in enumerate(TEXTS * 50)]}),
            text="message",
            schema={"subject": "complaints", "attributes": [
                {"name": "about", "values": ["loan"], "keywords": {"loan": ["loan"]}}]},
            method=Steered(model=str(model.model), own_texts=6),
            generator=generator,
            privacy=sb.Privacy(epsilon=1, dataset="complaints"),
            texts=8,
            state=tmp_path,
            accept_poor=True,
            settings={
                "evaluate": {"public": False},
                "generator": {"max_dropped_share": 0.99},
                "initialise": {"length": {"words": 20}},
            },
            **changes,
        )  # fmt: skip

    with pytest.raises(sb.ParamsError, match="steering"):
        release(sb.Pool(texts=tuple(TEXTS)))
    ledger = sb.open_ledger("complaints", state=tmp_path)
    assert not ledger.entries()
    made = release()
    (entry,) = ledger.entries()
    assert isinstance(entry.event, DiscreteGaussian) and entry.event.sensitivity == ONE
    assert made.ledger_ids == (entry.id,) and made.epsilon <= 1
    assert made.card is not None and str(tmp_path) not in str(made.card)
    assert release().texts == made.texts
    assert len(ledger.entries()) == 1
