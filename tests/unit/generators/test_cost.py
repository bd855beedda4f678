"""Tests of prices, the journal of paid calls, and caps."""

from __future__ import annotations

import contextlib
import gc
import json
import multiprocessing
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sugarbush.generators.answer_cache import Completion
from sugarbush.generators.openai.cost import (
    CapReachedError,
    Meter,
    journal_path,
    likely_prompt_tokens,
    most_prompt_tokens,
    read_journal,
    spending_by_batch,
)
from sugarbush.generators.openai.settings import OpenAI
from sugarbush.generators.prices import Price, cost_of
from sugarbush.run.settings import load_params

PRICE = Price(input=0.5, output=2.0, date="2026-11-01")
ROOT = Path(__file__).parents[3]


def params(**changes: Any) -> OpenAI:
    fields = load_params(ROOT / "params.yaml").generator.openai.model_dump()
    fields |= {"model": "m", "prices": {"m": PRICE}, "max_tokens": 100} | changes
    return OpenAI.model_validate(fields)


def answered(prompt: int, completed: int, cached: int = 0) -> Completion:
    return Completion(
        text="", finish_reason="stop", refused=False, prompt_tokens=prompt,
        completion_tokens=completed, cached_prompt_tokens=cached,
    )  # fmt: skip


def meter(state: Path, stage: str = "evolve", **changes: Any) -> Meter:
    return Meter(state, account="tickets", stage=stage, params=params(**changes))


def pay(one: Meter, *, what: str = "round 1", prompt: int = 10, completed: int = 5) -> None:
    worst = one.worst_cost("x" * prompt)
    one.admit(worst)
    one.settle(worst, answered(prompt, completed), what=what)


def test_cost_is_per_million_tokens_and_unknown_without_a_price() -> None:
    assert cost_of(PRICE, prompt_tokens=2_000_000, completion_tokens=500_000) == pytest.approx(2.0)
    assert cost_of(None, prompt_tokens=1, completion_tokens=1) is None


def test_cached_tokens_have_their_price_or_that_of_other_prompt_tokens(tmp_path: Path) -> None:
    tokens = {"prompt_tokens": 1e6, "completion_tokens": 0, "cached_prompt_tokens": 8e5}
    cheap = Price(input=0.5, output=2.0, cached=0.05, date="2026-11-01")
    assert cost_of(PRICE, **tokens) == pytest.approx(0.5)
    assert cost_of(cheap, **tokens) == pytest.approx(0.2 * 0.5 + 0.8 * 0.05)
    one = meter(tmp_path, prices={"m": cheap})
    one.admit(1.0)
    one.settle(1.0, answered(1000, 0, cached=800), what="round 1")
    (paid,) = read_journal(journal_path(tmp_path, "tickets"))
    assert paid.cached_prompt_tokens == 800
    assert paid.cost == pytest.approx((200 * 0.5 + 800 * 0.05) / 1e6)
    assert "80% of the prompt tokens cached" in one.summary()


def test_cached_tokens_never_cost_more_than_a_call_reserved() -> None:
    with pytest.raises(ValueError, match="must not be above input"):
        Price(input=0.5, output=2.0, cached=0.6, date="2026-11-01")


def test_a_journal_without_cached_tokens_is_read(tmp_path: Path) -> None:
    path = journal_path(tmp_path, "tickets")
    path.parent.mkdir(parents=True)
    line = {"time": "", "stage": "evolve", "what": "round 1", "model": "m", "prompt_tokens": 7}
    path.write_text(json.dumps(line | {"completion_tokens": 2, "cost": 0.5}) + "\n")
    (paid,) = read_journal(path)
    assert (paid.cost, paid.cached_prompt_tokens) == (0.5, 0)


def test_a_model_without_a_price_is_counted_in_tokens_only(tmp_path: Path) -> None:
    one = meter(tmp_path, prices={})
    pay(one)
    (paid,) = read_journal(journal_path(tmp_path, "tickets"))
    assert (paid.cost, paid.prompt_tokens) == (None, 10)
    assert one.spent.unpriced == 1
    assert one.summary() == "15 tokens"
    with pytest.raises(CapReachedError) as refused:
        meter(tmp_path, prices={}, max_calls=1).admit(0.0)
    assert "cost" not in str(refused.value)


def test_what_is_shown_names_the_caps_that_are_set(tmp_path: Path) -> None:
    one = meter(tmp_path, max_cost=2.5, max_calls=1000)
    pay(one, prompt=100, completed=50)
    assert one.summary() == "cost 0.0001 of 2.5, 1 of 1,000 calls"


def test_spending_is_told_by_stage_and_batch(tmp_path: Path) -> None:
    pay(meter(tmp_path, "initialise"), what="first")
    one = meter(tmp_path)
    for what in ("round 1", "round 2", "round 1"):
        pay(one, what=what, prompt=100, completed=50)
    first, one, two = spending_by_batch(read_journal(journal_path(tmp_path, "tickets")))
    assert (first.stage, first.what, first.calls) == ("initialise", "first", 1)
    assert (one.stage, one.what, one.calls, one.prompt_tokens) == ("evolve", "round 1", 2, 200)
    assert one.cost == pytest.approx(2 * (100 * 0.5 + 50 * 2.0) / 1e6)
    assert two.calls == 1


def test_all_runs_on_an_account_count_against_max_calls(tmp_path: Path) -> None:
    for stage in ("initialise", "evolve", "evolve"):
        pay(meter(tmp_path, stage, max_calls=3))
    with pytest.raises(CapReachedError, match=r"max_calls=3 is reached.*paid for 3 calls.*Raise"):
        meter(tmp_path, max_calls=3).admit(0.0)
    other = Meter(tmp_path, account="reviews", stage="evolve", params=params(max_calls=3))
    other.admit(0.0)


def test_calls_under_way_count_and_released_ones_do_not(tmp_path: Path) -> None:
    one = meter(tmp_path, max_calls=2)
    one.admit(0.0)
    one.admit(0.0)
    with pytest.raises(CapReachedError):
        one.admit(0.0)
    one.release(0.0)
    one.admit(0.0)
    assert one.in_flight == 2


@settings(max_examples=60)
@given(
    calls=st.lists(
        st.tuples(st.integers(1, 400), st.floats(0, 1), st.floats(0, 1), st.booleans()),
        max_size=40,
    ),
    max_cost=st.floats(1e-5, 3e-3),
)
def test_max_cost_holds_whatever_the_answers_lengths(
    tmp_path_factory: pytest.TempPathFactory,
    calls: list[tuple[int, float, float, bool]],
    max_cost: float,
) -> None:
    one = meter(tmp_path_factory.mktemp("state"), max_cost=max_cost)
    under_way: list[tuple[float, int, int]] = []
    for size, share_in, share_out, settles_now in calls:
        text = "x" * size
        worst = one.worst_cost(text)
        try:
            one.admit(worst)
        except CapReachedError:
            continue
        under_way.append((worst, int(share_in * most_prompt_tokens(text)), int(share_out * 100)))
        if settles_now:
            held, prompt, completed = under_way.pop(0)
            one.settle(held, answered(prompt, completed), what="x")
    for held, prompt, completed in under_way:
        one.settle(held, answered(prompt, completed), what="x")
    assert one.spent.cost <= max_cost * (1 + 1e-9)


def test_an_answer_without_usage_is_charged_the_most_it_could_cost(tmp_path: Path) -> None:
    one = meter(tmp_path)
    worst = one.worst_cost("x" * 100)
    one.admit(worst)
    one.settle(worst, answered(0, 0), what="x")
    assert one.spent.cost == pytest.approx(worst)
    assert worst > 0


def test_a_line_torn_by_a_death_costs_that_line_alone(tmp_path: Path) -> None:
    pay(meter(tmp_path))
    path = journal_path(tmp_path, "tickets")
    with path.open("ab") as file:
        file.write(b'{"time":"2026-')
    pay(meter(tmp_path))
    assert len(read_journal(path)) == 2
    assert meter(tmp_path).spent.calls == 0  # a new meter has not read the journal yet
    again = meter(tmp_path)
    again.refresh()
    assert again.spent.calls == 2


def _pay_many(state: Path, times: int) -> None:
    one = meter(state)
    for _ in range(times):
        pay(one)


@pytest.mark.slow
@pytest.mark.parametrize("delete", [shutil.rmtree, lambda folder: folder.rename("old")])
def test_a_payment_survives_a_death_after_the_folder_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delete: Callable[[Path], object]
) -> None:
    monkeypatch.chdir(tmp_path)
    one = meter(tmp_path)
    pay(one)
    delete(tmp_path / "usage")

    def die() -> None:
        raise KeyboardInterrupt

    one.admit(0.0)
    with pytest.raises(KeyboardInterrupt):
        one.settle(0.0, answered(10, 5), what="round 1", store=die)
    with meter(tmp_path).alone(print):
        assert len(read_journal(journal_path(tmp_path, "tickets"))) == 1
    assert open_files(tmp_path)
    del one
    gc.collect()
    assert not open_files(tmp_path)


def open_files(folder: Path) -> list[str]:
    """Return the names of this process's open files in a folder, also of deleted files."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # closed by now
            found.append(str(descriptor.readlink()))
    return [name for name in found if name.startswith(f"{folder}/")]


@pytest.mark.slow
def test_processes_that_pay_at_once_lose_no_line_and_see_each_other(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("spawn")
    crew = [fork.Process(target=_pay_many, args=(tmp_path, 200)) for _ in range(2)]
    for process in crew:
        process.start()
    for process in crew:
        process.join(900)
    lines = journal_path(tmp_path, "tickets").read_text().splitlines()
    assert len([json.loads(line) for line in lines]) == 400
    one = meter(tmp_path, max_calls=400)
    with pytest.raises(CapReachedError):
        one.admit(0.0)


@given(st.text(max_size=800))
def test_no_prompt_is_thought_likely_to_be_longer_than_it_can_be(prompt: str) -> None:
    assert likely_prompt_tokens(prompt) <= most_prompt_tokens(prompt)
