"""Scores are charged before they are drawn; releases of every size are post-processing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sugarbush as sb
from sugarbush.data.schema import Schema
from sugarbush.evolution.kernel_scores import RESOLUTION
from sugarbush.evolution.scorers import ScoresAndClassSums
from sugarbush.evolution.settings import FirstLength
from sugarbush.generators.pool import PoolGenerator
from sugarbush.methods.interface import Planning
from sugarbush.methods.mosaic import Mosaic
from sugarbush.methods.plan import plan_for
from sugarbush.privacy import mechanisms
from sugarbush.run.settings import parse_params
from tests.integration.project import SCHEMA, TINY_ENCODER, WORDS, letters
from tests.synthesized import synthesize_frame

LETTERS = pd.DataFrame(letters(206))
MOSAIC = sb.Mosaic(candidates=40)
SETTINGS = {"embedding": {"model": "tiny"}, "synthesize_metadata": {"degree": 1}}


@pytest.fixture(autouse=True)
def _tiny_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(TINY_ENCODER)


def release(state: Path, **changes: Any) -> sb.Release:
    fields: dict[str, Any] = {
        "schema": SCHEMA,
        "method": MOSAIC,
        "generator": sb.Simulator(any_texts=True),
        "donated": LETTERS[:6],
        "privacy": sb.Privacy(epsilon=1, delta=1e-6, dataset="letters", cap=50),
        "settings": SETTINGS,
        "texts": 50,
        "state": state,
    }
    return synthesize_frame(LETTERS[6:], **(fields | changes))


def scored_texts(release: sb.Release) -> tuple[str, ...]:
    assert release.lineage.scored is not None
    return release.lineage.scored.population.texts


def charges(state: Path) -> list[Any]:
    """Return the charges of the table and of the scores, without those of the two looks."""
    entries = sb.open_ledger("letters", state=state).entries()
    return [entry for entry in entries if entry.stage not in {"look", "measure"}]


def test_the_records_score_once_with_the_whole_share(tmp_path: Path) -> None:
    found = release(tmp_path)
    table, scores = charges(tmp_path)
    assert table.stage == "synthesize_metadata"
    event = scores.event.as_dict()
    assert (scores.stage, event["sensitivity"], event["count"]) == ("evolve@mosaic", RESOLUTION, 1)
    assert 0.99 < found.epsilon <= 1
    assert found.lineage.rounds == ()
    scored = found.lineage.scored
    assert scored is not None
    of_scores = ScoresAndClassSums(class_share=0.1, classes=((0, 4),)).score_unit
    assert (scored.name, scored.unit, scored.stddev) == ("scores", of_scores, event["stddev"])
    assert scored.class_sums is not None
    assert scored.class_sums.ledger_ids == scored.scores.ledger_ids == (scores.id,)
    assert found.card is not None
    assert found.card["made_by"]["texts"]["mosaic"]["released"] == len(found.texts) == 50


def test_the_charge_comes_before_the_draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = mechanisms.discrete_gaussian

    def fails(counts: Any, *, sensitivity: float = 1.0, **options: Any) -> Any:
        if sensitivity == RESOLUTION:
            raise RuntimeError("no noise")
        return real(counts, sensitivity=sensitivity, **options)

    monkeypatch.setattr(mechanisms, "discrete_gaussian", fails)
    with pytest.raises(RuntimeError, match="no noise"):
        release(tmp_path)
    assert [entry.stage for entry in charges(tmp_path)][-1] == "evolve@mosaic"


def test_the_noise_is_in_the_scores_with_the_planned_deviation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """n = 300 scores, limit of 6 standard errors for the variance, false-alarm rate 7e-8."""
    exact: list[Any] = []
    real = mechanisms.discrete_gaussian

    def noted(counts: Any, *, stddev: float, sensitivity: float = 1.0) -> Any:
        if sensitivity == RESOLUTION:
            exact.append((np.array(counts), stddev))
        return real(counts, stddev=stddev, sensitivity=sensitivity)

    monkeypatch.setattr(mechanisms, "discrete_gaussian", noted)
    found = release(tmp_path, method=sb.Mosaic(candidates=300))
    ((sums, stddev),) = exact
    event = charges(tmp_path)[-1].event.as_dict()
    assert stddev == event["stddev"]
    assert found.lineage.scored is not None
    scores = found.lineage.scored.scores.value
    z = (scores - sums[: len(scores)]) / stddev
    assert abs((z**2).mean() - 1) < 6 * np.sqrt(2 / len(z))
    assert (sums > 0).any()


@pytest.mark.slow
def test_another_size_is_free_and_asks_for_the_same_texts_first(tmp_path: Path) -> None:
    small, large = release(tmp_path), release(tmp_path, texts=90)
    assert len(charges(tmp_path)) == 2
    assert (len(small.texts), len(large.texts)) == (50, 90)
    assert small.run != large.run
    few = release(tmp_path, texts=10)
    assert len(few.texts) == 10
    assert set(few.texts) <= set(scored_texts(few))
    assert len(charges(tmp_path)) == 2


@pytest.mark.parametrize(
    ("texts", "candidates", "scored"),
    [(300, None, 1200), (100, None, 400), (8, None, 400), (700, None, 2000), (300, 40, 40)],
)
def test_the_number_of_scored_texts_follows_the_size_of_the_release(
    texts: int, candidates: int | None, scored: int
) -> None:
    method = Mosaic(candidates=candidates)
    schema = Schema.model_validate(SCHEMA)
    for count in (None, 150.0, 9000.0):  # the DP record count does not matter
        planning = Planning(
            schema=schema,
            donated=["a letter"],
            length=FirstLength(),
            texts=texts,
            record_count=count,
            texts_setting=texts,
        )
        calls = {batch.stage: batch.calls for batch in method.planned_calls(planning)}
        assert calls.pop("initialise@mosaic") == scored
        further = max(0, 2 * texts - scored)
        assert calls == ({"enlarge@mosaic": further} if further else {})


def test_without_a_size_two_texts_are_scored_for_each_record() -> None:
    parts = Mosaic().parts()
    counts = [parts.start.prompts.candidate_count(count, texts=None) for count in (150.0, 9000.0)]
    assert [parts.first_count(count) for count in counts] == [300, 2000]


@pytest.mark.slow
def test_a_small_release_scores_four_hundred_texts(tmp_path: Path) -> None:
    found = release(tmp_path, method=sb.Mosaic(), texts=5)
    assert len(found.texts) == 5
    assert found.card is not None
    assert found.card["made_by"]["settings"]["methods"]["mosaic"]["candidates"] == 400
    assert 350 < len(scored_texts(found)) <= 400


def test_without_a_size_the_release_follows_the_dp_count(tmp_path: Path) -> None:
    """In 25 runs, a release had 160 to 178 texts, with a standard deviation of at most 5."""
    found = release(tmp_path, texts=None, privacy=sb.Privacy(epsilon=8, dataset="letters", cap=50))
    assert 120 < len(found.texts) < 280


def test_without_donated_examples_prompts_contain_metadata(tmp_path: Path) -> None:
    found = release(tmp_path, donated=None)
    assert len(found.texts) == 50
    assert not any(found.lineage.final.examples)


def test_every_text_has_its_row_and_the_examples_of_its_prompt(tmp_path: Path) -> None:
    found = release(tmp_path)
    assert len(set(found.lineage.final.rounds.tolist())) == 2
    assert {len(examples) for examples in found.lineage.final.examples} == {6}
    assert found.frame["product"].notna().all()
    requested = found.frame[["requested_product", "requested_wish"]].notna()
    assert requested.any(axis=1).all()  # a request names the attributes of one measured clique
    assert requested.any(axis=0).all()
    assert not {"parent", "round", "examples"} & set(found.frame.columns)


@pytest.mark.slow
@pytest.mark.parametrize("method", [sb.Maple(candidates=40, rounds=1), sb.Public(candidates=10)])
def test_other_methods_keep_their_survivors_and_add_texts(
    tmp_path: Path, method: sb.Method
) -> None:
    found = release(tmp_path, method=method)
    assert len(found.texts) == 50
    assert (found.lineage.final.rounds <= len(found.lineage.rounds)).sum() == 10
    few = release(tmp_path, method=method, texts=4)
    assert set(few.texts) <= set(found.texts)


def test_a_pool_that_is_too_small_says_so_once(tmp_path: Path) -> None:
    LETTERS[:60].to_csv(tmp_path / "pool.csv")
    pool = sb.Pool(sources=[{"file": str(tmp_path / "pool.csv"), "text_column": "text"}])
    said: list[str] = []
    records = pd.DataFrame(letters(400)[200:])
    found = synthesize_frame(
        records,
        schema=SCHEMA,
        method=sb.Maple(candidates=16, rounds=1, prompt="metadata"),
        generator=pool,
        privacy=sb.Privacy(epsilon=1, delta=1e-6, dataset="letters"),
        settings=SETTINGS,
        texts=500,
        state=tmp_path / "state",
        accept_poor=True,
        report=said.append,
    )
    (line,) = [line for line in said if "were requested" in line]
    assert "500" in line and f"{len(found.texts)}" in line
    assert len(found.texts) <= 60


def pool_of(folder: Path, count: int) -> sb.Pool:
    """Return a pool of `count` invented letters."""
    LETTERS[["text"]][-count:].to_csv(folder / "pool.csv", index=False)
    return sb.Pool(sources=[{"file": str(folder / "pool.csv"), "text_column": "text"}])


@pytest.fixture
def requested(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The number of requests to a pool, by what they are for."""
    counts: dict[str, int] = Counter()
    generate = PoolGenerator.generate

    def counted(self: PoolGenerator, requests: Any, *, what: str = "") -> Any:
        counts[what] += len(requests.value)
        return generate(self, requests, what=what)

    monkeypatch.setattr(PoolGenerator, "generate", counted)
    return counts


def test_a_generator_that_repeats_itself_is_asked_again_before_the_scores(
    tmp_path: Path, requested: dict[str, int]
) -> None:
    private = {"method": sb.Mosaic(candidates=40), "generator": pool_of(tmp_path, 50), "texts": 20}
    found = synthesize_frame(
        LETTERS[6:156], schema=SCHEMA, donated=LETTERS[:6], settings=SETTINGS,
        privacy=sb.Privacy(epsilon=1, delta=1e-6, dataset="letters", cap=50),
        state=tmp_path / "state", **private,
    )  # fmt: skip
    assert len(found.texts) == 20
    scored = len(scored_texts(found))
    # 40 draws of 50 texts give about 28 different ones, so about 12 more are requested.
    assert 40 < requested["first texts"] <= 60
    assert requested["first texts"] - 40 >= 40 - scored


def test_a_pool_that_repeats_itself_is_asked_for_texts_like_those_with_good_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    generate = PoolGenerator.generate

    def kept(self: PoolGenerator, requests: Any, *, what: str = "") -> Any:
        sent.extend(requests.value if what == "further texts" else ())
        return generate(self, requests, what=what)

    monkeypatch.setattr(PoolGenerator, "generate", kept)
    others = pd.DataFrame(letters(406))["text"][206:]
    pool = sb.Pool(texts=[*FAR, *others], temperature=0.01)
    found = synthesize_frame(
        LETTERS[6:156], schema=SCHEMA, donated=LETTERS[:6], settings=SETTINGS, texts=100,
        privacy=sb.Privacy(epsilon=8, delta=1e-6, dataset="letters", cap=50), accept_poor=True,
        state=tmp_path, method=MOSAIC, generator=pool,
    )  # fmt: skip
    missing = 2 * 100 - len(set(scored_texts(found)))
    assert all(set(request.examples) <= set(LETTERS["text"][:6]) for request in sent[:missing])
    late = sent[missing:]
    assert len(late) > 20
    assert {len(request.examples) for request in late} == {1}
    assert {request.examples[0] for request in late} <= set(scored_texts(found))
    assert not any(request.attributes for request in late)
    final = found.lineage.final
    unrequested = {
        text for text, codes in zip(final.texts, final.codes, strict=True) if (codes < 0).all()
    }
    assert unrequested and not unrequested & set(scored_texts(found))
    assert letters_in(found.texts) > 0.95


def in_project(
    settings: dict[str, Any],
    *,
    generator: str = "pool",
    donated: bool = False,
    texts: int | None = 20,
) -> Mosaic:
    """Return the method in a project with these settings."""
    project = parse_params(
        {
            "prepare": {"donated": "donated.csv" if donated else None},
            "methods": {"mosaic": settings},
            "generator": {"provider": generator, "huggingface": {"model": "none"}},
            "release": {"texts": texts},
        }
    )
    method = project.method("mosaic")
    assert isinstance(method, Mosaic)
    return method


@pytest.mark.parametrize(
    ("texts", "settings", "share"),
    [
        (100, {}, 0.1),
        (499, {}, 0.1),
        (500, {}, 0.3),
        (5000, {}, 0.3),
        (None, {}, 0.1),
        (5000, {"candidates": 1999}, 0.1),
        (100, {"candidates": 2000}, 0.3),
        (5000, {"prompt": "metadata"}, 0.1),
    ],
)
def test_settings_alone_decide_the_share_of_the_sums_by_class(
    texts: int | None, settings: dict[str, Any], share: float
) -> None:
    scorer = in_project(settings, donated=True, texts=texts).parts().scorer
    assert isinstance(scorer, ScoresAndClassSums)
    assert scorer.class_share == share


@pytest.mark.parametrize(
    ("donated", "generator", "settings", "draws"),
    [
        (False, "pool", {}, 4),
        (False, "pool", {"prompt": "independent"}, 4),
        (True, "pool", {"prompt": "metadata"}, 4),
        (True, "pool", {"examples": 0}, 4),
        (True, "pool", {}, 1),
        (True, "pool", {"prompt": "examples"}, 1),
        (False, "huggingface", {}, 1),
        (False, "simulator", {}, 1),
    ],
)
def test_a_pool_without_examples_in_prompts_is_scored_in_rounds(
    donated: bool, generator: str, settings: dict[str, Any], draws: int
) -> None:
    method = in_project(settings, generator=generator, donated=donated)
    assert method.parts().draws == draws
    privacy = sb.Privacy(epsilon=1, delta=1e-6, dataset="letters")
    sums = plan_for(privacy, [method]).of("votes:mosaic")
    once = plan_for(privacy, [Mosaic()]).of("votes:mosaic")
    assert sums.count == draws
    assert sums.mu == pytest.approx(once.mu, rel=1e-3)  # the rounds divide the share of one release
    assert sums.stddev is not None and once.stddev is not None
    assert sums.stddev == pytest.approx(once.stddev * np.sqrt(draws), rel=1e-3)


FAR = [
    f"Recipe {i}: take {i % 7} eggs, {i % 11} spoons of flour and {WORDS[i % 5]}."
    for i in range(300)
]


IN_ROUNDS: dict[str, Any] = {
    "schema": SCHEMA,
    "method": sb.Mosaic(candidates=80, prompt="independent"),
    "generator": sb.Pool(texts=[*FAR, *LETTERS["text"][156:]], neighbours=20),
    "privacy": sb.Privacy(epsilon=8, delta=1e-6, dataset="letters", cap=50),
    "settings": SETTINGS,
    "texts": 20,
    "accept_poor": True,
}


def in_rounds(state: Path, **changes: Any) -> sb.Release:
    """Release 20 texts from a pool with few letters, without donated examples."""
    return synthesize_frame(LETTERS[:156], state=state, **(IN_ROUNDS | changes))


def letters_in(texts: Iterable[str]) -> float:
    return float(np.mean([text.startswith("Dear shop") for text in texts]))


def test_rounds_are_charged_as_planned_and_find_the_texts_of_the_kind(tmp_path: Path) -> None:
    """A seventh of the pool are letters. In 10 runs, at least 95% of the release were letters."""
    found = in_rounds(tmp_path)
    table, *rounds = charges(tmp_path)
    assert table.stage == "synthesize_metadata"
    assert [entry.stage for entry in rounds] == ["evolve@mosaic"] * 4
    events = [entry.event.as_dict() for entry in rounds]
    assert {(event["sensitivity"], event["count"]) for event in events} == {(RESOLUTION, 1)}
    plan = plan_for(IN_ROUNDS["privacy"], [in_project(IN_ROUNDS["method"].model_dump())])
    # The looks have 10% of mu^2.
    stddev = plan.of("votes:mosaic").stddev / np.sqrt(0.9)
    assert [event["stddev"] for event in events] == pytest.approx([stddev] * 4, rel=1e-3)
    assert 7.9 < found.epsilon <= 8
    first, *others = found.lineage.rounds
    assert len(others) == 3 and found.lineage.scored is None
    assert set(first.population.rounds.tolist()) == {0}
    assert letters_in(first.population.texts) < 0.3
    assert letters_in(found.texts) > 0.75


def test_another_size_of_rounds_is_free(tmp_path: Path) -> None:
    small, large = in_rounds(tmp_path, texts=10), in_rounds(tmp_path, texts=30)
    assert len(charges(tmp_path)) == 5
    assert (len(small.texts), len(large.texts)) == (10, 30)


def test_the_plan_of_rounds_has_the_calls_of_the_run(
    tmp_path: Path, requested: dict[str, int]
) -> None:
    in_rounds(tmp_path)
    planning = Planning(
        schema=Schema.model_validate(SCHEMA), donated=(), length=FirstLength(), texts=20,
        texts_setting=20,
    )  # fmt: skip
    method = in_project(IN_ROUNDS["method"].model_dump())
    planned = {batch.what: batch.calls for batch in method.planned_calls(planning)}
    assert planned == {"first texts": 80, "round 2": 60, "round 3": 60, "round 4": 60}
    assert {what: requested[what] for what in planned} == planned


@pytest.mark.slow
@pytest.mark.parametrize("dies_at", range(4))
def test_rounds_that_died_at_a_draw_repeat_no_finished_draw(
    tmp_path: Path, dies_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run dies after a charge and before its noise. Only this charge is made again."""
    real, drawn = ScoresAndClassSums.total, []

    def die(*arguments: Any, **named: Any) -> Any:
        drawn.append(1)
        scores = real(*arguments, **named)
        if len(drawn) == dies_at + 1:
            raise KeyboardInterrupt
        return scores

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(ScoresAndClassSums, "total", die)
        in_rounds(tmp_path)
    assert len(charges(tmp_path)) == 2 + dies_at
    found = in_rounds(tmp_path)
    assert len(charges(tmp_path)) == 6
    # The card states the lost charge too.
    assert found.epsilon > 8


def test_scores_that_choose_nothing_are_said(tmp_path: Path) -> None:
    said: list[str] = []
    synthesize_frame(
        LETTERS[6:156], schema=SCHEMA, donated=LETTERS[:6], settings=SETTINGS,
        privacy=sb.Privacy(epsilon=1, delta=1e-6, dataset="letters", cap=50),
        state=tmp_path / "state", method=sb.Mosaic(candidates=400),
        generator=pool_of(tmp_path, 12), texts=12, accept_poor=True, report=said.append,
    )  # fmt: skip
    assert any("the scores choose nothing" in line for line in said)
