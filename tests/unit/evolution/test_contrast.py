"""Good and bad examples from the last votes, and the requests that show them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sugarbush.evolution.contrast import Contrast, contrasts
from sugarbush.evolution.variation import variation_requests
from sugarbush.generators.interface import Answer, Request, VariationRequest
from sugarbush.privacy.data_types import Released
from tests.settings import params
from tests.unit.evolution.test_evolve import SCHEMA, Drifting, first, run


def test_most_and_fewest_votes_by_label() -> None:
    population = first(6, labels=[0, 0, 0, 0, 1, 1])
    found = contrasts(population, np.array([5, 9, -3, 0, 1, 2]), count=2)
    assert found[0] == Contrast(good=("1.0", "0.0"), bad=("2.0", "3.0"))
    assert found[1] == Contrast(good=("5.0",), bad=("4.0",))


def test_no_text_is_both_good_and_bad() -> None:
    for size in range(1, 8):
        found = contrasts(first(size), np.arange(size), count=5)[0]
        assert not {*found.good} & {*found.bad}
        assert len(found.good) == len(found.bad) == size // 2


def test_a_text_that_was_written_twice_is_not_both() -> None:
    population = first(2)
    twin = population.join(population)
    found = contrasts(twin, np.array([9, 5, 5, 0]), count=2)[0]
    assert found == Contrast(good=("0.0", "1.0"), bad=())


def test_requests_show_no_examples_by_default() -> None:
    assert contrasts(first(6), np.arange(6), count=0) == {}


def test_a_parent_is_not_its_own_example() -> None:
    settings = params(evolve__maple__variations=2).evolve.maple
    shown = {0: Contrast(good=("0.0", "1.0"), bad=("2.0",))}
    requests = variation_requests(
        first(3), schema=SCHEMA, params=settings, round_=2, seed=1, contrast=shown
    )
    assert [r.good for r in requests] == [("1.0",), ("0.0",), ("0.0", "1.0")]
    assert [r.bad for r in requests] == [("2.0",), ("2.0",), ()]


def test_tones_are_requested_in_turn() -> None:
    settings = params(evolve__maple__variations=3, evolve__maple__tones=["calm", "angry"])
    requests = variation_requests(
        first(2), schema=SCHEMA, params=settings.evolve.maple, round_=1, seed=1
    )
    assert [r.tone for r in requests] == ["calm", "angry"] * 2


class Listening(Drifting):
    """Records its requests."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted: list[VariationRequest] = []

    def generate(
        self, requests: Released[tuple[Request, ...]], *, what: str = "answers"
    ) -> Released[tuple[Answer, ...]]:
        self.wanted += [r for r in requests.value if isinstance(r, VariationRequest)]
        return super().generate(requests, what=what)


def test_a_round_is_shown_the_round_before_and_the_first_nothing(tmp_path: Path) -> None:
    generator = Listening()
    found = run(tmp_path, generator=generator, rounds=2, variations=2, contrast=2)
    rounds = generator.wanted[:12], generator.wanted[12:]
    assert all(r.good == r.bad == () for r in rounds[0])
    texts = np.array(found.rounds[0].population.texts)
    ranked = texts[np.argsort(-found.rounds[0].votes.value, kind="stable")]
    # Two candidates can have the same text, so a parent can equal both of the best.
    assert all({*r.good} == {*ranked[:2]} - {r.parent} for r in rounds[1])
    assert {bad for r in rounds[1] for bad in r.bad} <= {*ranked[-2:]}
