"""Tests what the card of a trained model says."""

import json
from dataclasses import replace

from sugarbush.privacy.accounting import epsilon
from sugarbush.privacy.entries import Entry
from sugarbush.privacy.events import DpSgdBound, Event, GaussianDp
from sugarbush.privacy.spending import Spending
from sugarbush.privacy.unit import Unit
from sugarbush.training.dpsgd.model_card import model_card
from sugarbush.training.dpsgd.settings import PRESETS
from sugarbush.training.dpsgd.train import Mechanism

AIM = GaussianDp(mu=0.1)


def mechanism(noise_multiplier: float) -> Mechanism:
    return Mechanism(
        rate=0.05,
        steps=80,
        repeatable_steps=10,
        noise_multiplier=noise_multiplier,
        clip_norm=1.0,
        expected_batch_size=200.0,
    )


def entry(event: Event) -> Entry:
    return Entry(
        id=str(event), time="2026-01-01", unit=Unit.RECORD, stage="", run="", event=event,
        delta=1e-6, dataset_fingerprint=(), plan="one.1",
    )  # fmt: skip


def spending(*own: Event) -> Spending:
    """Return the spending of a run beside another run."""
    return Spending(
        own=tuple(map(entry, own)), before=(entry(GaussianDp(mu=2.0)),), total=7.5, delta=1e-6
    )


def card(noise_multiplier: float, unit: Unit = Unit.RECORD, records_per_unit: int = 1) -> dict:
    return model_card(
        mechanism(noise_multiplier),
        steps_taken=77,
        spending=spending(mechanism(noise_multiplier).charge, AIM),
        unit=unit,
        records_per_unit=records_per_unit,
        delta=1e-6,
        settings=PRESETS["dpft"],
    )


def test_it_states_the_mechanism_and_what_it_costs_together_with_the_count() -> None:
    told = card(1.5)
    stated = {name: told[name] for name in ("unit", "delta", "noise_multiplier", "sampling_rate")}
    assert stated == {"unit": "record", "delta": 1e-6, "noise_multiplier": 1.5,
                      "sampling_rate": 0.05}  # fmt: skip
    assert (told["steps"], told["repeatable_steps"], told["clip_norm"]) == (80, 10, 1.0)
    assert told["steps_taken"] == 77
    assert told["epsilon"] == told["dataset_total_epsilon"] == 7.5
    assert 7.5 > told["epsilon_of_this_run"] > told["epsilon_of_training_alone"]


def test_its_epsilon_holds_for_every_rate_and_steps_that_the_count_can_give() -> None:
    """The card states the cost of the bound that was charged, as the release card does."""
    bound = DpSgdBound(mu=1.0, noise_multiplier=1.0, rate=0.05, steps=100)
    followed = replace(mechanism(1.5), bound=bound)
    told = model_card(
        followed, steps_taken=80, spending=spending(AIM), unit=Unit.RECORD,
        records_per_unit=1, delta=1e-6,
        settings=PRESETS["dpft"],
    )  # fmt: skip
    assert told["epsilon_of_training_alone"] == epsilon([bound], delta=1e-6)
    assert told["epsilon_of_training_alone"] > card(1.5)["epsilon_of_training_alone"]
    assert told["noise_multiplier"] == 1.5


def test_it_says_how_many_records_of_a_person_were_used() -> None:
    told = card(1.5, Unit.USER, 3)
    assert (told["unit"], told["records_per_unit"]) == ("user", 3)
    assert told["epsilon_of_this_run"] == card(1.5)["epsilon_of_this_run"]


def test_training_without_noise_is_called_that() -> None:
    told = card(0.0)
    assert told["epsilon_of_this_run"] == "infinity"
    assert "without differential privacy" in told["mechanism"]


def test_it_is_plain_json_and_holds_no_path() -> None:
    settings = PRESETS["dpft"].model_copy(update={"model": "/home/someone/models/gpt2"})
    told = model_card(
        mechanism(1.0), steps_taken=80, spending=spending(AIM), unit=Unit.RECORD,
        records_per_unit=1, delta=1e-6,
        settings=settings,
    )  # fmt: skip
    assert "/home" not in json.dumps(told, allow_nan=False)
