"""Tests that a delta that is too large is refused, and that bounds of a risk are rounded up."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sugarbush as sb
from sugarbush.errors import ParamsError
from sugarbush.privacy.accounting import rounded_down, rounded_up
from sugarbush.privacy.events import DiscreteGaussian, GaussianDp, PoissonGaussian
from sugarbush.report.statements import describe, in_other_words, statement
from tests.settings import params
from tests.unit.report.sample import release


@pytest.mark.parametrize("delta", [1.1e-5, 1e-3, 0.5])
def test_a_large_delta_needs_a_confirmation(delta: float) -> None:
    with pytest.raises(ParamsError, match=r"privacy: delta=.* is above 1e-5"):
        params(privacy__delta=delta)
    confirmed = params(privacy__delta=delta, privacy__allow_large_delta=True)
    assert confirmed.privacy.delta == delta


def test_a_delta_above_one_over_the_dp_count_is_refused() -> None:
    privacy = params(privacy__delta=1e-5).privacy
    for count in (None, -3.0, 0.0, 100.0, 1e5):
        privacy.check_delta(count)
    with pytest.raises(ParamsError, match=r"above 1 / .DP count of records"):
        privacy.check_delta(1.1e5)
    params(privacy__delta=1e-5, privacy__allow_large_delta=True).privacy.check_delta(1e9)


def test_the_api_refuses_a_large_delta() -> None:
    with pytest.raises(ParamsError, match="above 1e-5"):
        sb.private_histogram(
            ["a"],
            categories=["a", "b"],
            privacy=sb.Privacy(epsilon=1.0, delta=0.5, dataset="letters"),
        )


@given(st.floats(min_value=1e-9, max_value=1e6), st.integers(2, 6))
def test_what_is_shown_is_at_least_the_value_and_close_to_it(value: float, figures: int) -> None:
    shown = float(rounded_up(value, figures))
    assert shown >= value
    assert shown <= value * (1 + 10.0 ** (1 - figures) * 1.001)
    below = float(rounded_down(value, figures))
    assert value * (1 - 10.0 ** (1 - figures) * 1.001) <= below
    assert below <= value


@pytest.mark.parametrize("value", ["0.1", "1e-5", "0.3", "1e-6", "0.7", "4", "2.2"])
def test_a_setting_of_few_digits_is_shown_as_it_is(value: str) -> None:
    assert rounded_up(float(value)) == rounded_down(float(value)) == value


def test_a_mechanism_in_words_has_no_more_noise_and_no_less_cost_than_it_has() -> None:
    assert "deviation 1.234 on" in describe(DiscreteGaussian(stddev=1.23499))
    assert "to be 0.1235-Gaussian" in describe(GaussianDp(mu=0.12341))
    training = describe(PoissonGaussian(noise_multiplier=0.77399, rate=0.01001, count=3))
    assert "multiplier 0.7739 on" in training
    assert training.endswith("rate 0.01001")


@pytest.mark.parametrize("epsilon", [1.0049, 1.00001, 0.12345, 7.9999])
def test_the_card_rounds_its_promise_up(epsilon: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sugarbush.report.statements.release_epsilon", lambda _: epsilon)
    said = statement(release())
    shown = float(said.split("epsilon = ")[1].split(",")[0])
    factor = float(said.split("a factor of ")[1].split(",")[0])
    assert shown >= epsilon
    assert factor >= math.exp(epsilon)
    words = in_other_words(release())
    assert words is not None
    percent = float(words.split("at most ")[1].split("%")[0])
    assert percent >= 100 / (1 + math.exp(-epsilon))
