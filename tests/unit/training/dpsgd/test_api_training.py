"""Tests that `sugarbush.train_dpsgd` charges each run once. Other texts or arguments give a new
run."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

import sugarbush as sb
from sugarbush.training.dpsgd.checkpoints import Checkpoints

TEXTS = tuple(f"Order {number} arrived late" for number in range(60))


def train(saved_model: Path, folder: Path, name: str, **changes: Any) -> sb.PrivateModel:
    texts, epsilon = changes.pop("texts", TEXTS), changes.pop("epsilon", 2.0)
    training: dict[str, Any] = {
        "model": str(saved_model),
        "records": 60,
        "epochs": 1.0,
        "batch_size": 20.0,
        "max_length": 16,
        "device": "cpu",
    }
    return sb.train_dpsgd(
        texts,
        sb.FineTuning(**(training | changes)),
        output=folder / name,
        privacy=sb.Privacy(epsilon=epsilon, delta=1e-5, dataset="letters", cap=40),
        state=folder / "state",
    )


def charges(folder: Path) -> int:
    return len(sb.open_ledger("letters", state=folder / "state").entries())


def draws(folder: Path) -> list[int]:
    return [path.stat().st_size for path in (folder / "state").rglob("draws-*")]


@pytest.mark.slow
def test_a_training_that_died_continues_on_its_charge_and_draws_no_step_more(
    saved_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, saved = Checkpoints.save, []

    def die(self: Checkpoints, step: int, *rest: Any) -> None:
        saved.append(step)
        if step == 2:
            raise KeyboardInterrupt
        whole(self, step, *rest)

    monkeypatch.setattr(Checkpoints, "save", die)
    with pytest.raises(KeyboardInterrupt):
        train(saved_model, tmp_path, "one")
    monkeypatch.setattr(Checkpoints, "save", whole)
    assert saved == [1, 2] and not (tmp_path / "one").exists()
    model = train(saved_model, tmp_path, "one")
    assert (charges(tmp_path), draws(tmp_path)) == (1, [3])
    assert train(saved_model, tmp_path, "two").ledger_ids == model.ledger_ids
    assert (charges(tmp_path), draws(tmp_path)) == (1, [3])


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"texts": TEXTS[:-1]},
        {"learning_rate": 2e-3},
        {"clip_norm": 0.5},
        {"epsilon": 1.5},
    ],
    ids=["a text less", "learning rate", "clip norm", "epsilon"],
)
def test_another_text_or_argument_is_another_run(
    saved_model: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    train(saved_model, tmp_path, "one")
    train(saved_model, tmp_path, "two", **changes)
    assert charges(tmp_path) == 2


def test_the_card_of_a_model_counts_other_charges_of_its_dataset(
    saved_model: Path, tmp_path: Path
) -> None:
    """The first number is that of all charges, because the model may be chosen among several."""
    state = tmp_path / "state"
    sb.private_histogram(
        ["a"] * 9,
        categories=["a", "b"],
        privacy=sb.Privacy(epsilon=0.5, delta=1e-5, dataset="letters"),
        state=state,
    )
    model = train(saved_model, tmp_path, "one")
    card = json.loads((tmp_path / "one/model_card.json").read_text())
    total = sb.open_ledger("letters", state=state, delta=1e-5).total()
    assert card["epsilon"] == card["dataset_total_epsilon"] == model.epsilon == total
    assert "Later charges are in the ledger" in " ".join(card["remarks"])
    assert card["epsilon_of_this_run"] == model.epsilon_of_this_run <= 2.0 < total


def test_a_lost_ledger_stops_further_training(saved_model: Path, tmp_path: Path) -> None:
    train(saved_model, tmp_path, "one")
    for path in (tmp_path / "state" / "ledgers" / "release").iterdir():
        path.unlink()
    with pytest.raises(sb.LedgerError, match="lacks 1 charges that results name"):
        train(saved_model, tmp_path, "two", texts=TEXTS[:-1])


@pytest.mark.slow
def test_two_trainings_at_once_do_not_draw_twice_on_one_charge(
    saved_model: Path, tmp_path: Path
) -> None:
    both = [
        threading.Thread(target=train, args=(saved_model, tmp_path, name))
        for name in ("one", "two")
    ]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert (charges(tmp_path), draws(tmp_path)) == (1, [3])
