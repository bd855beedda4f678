"""Tests of runs on a data set in memory: their settings, their snapshots and their state."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pandas as pd
import pytest

import sugarbush as sb
from research.benchmark_dataset import BenchmarkDataset, Variant, snapshots
from sugarbush.examples import example_records, example_schema

pytestmark = pytest.mark.slow
SIZE = {"candidates": 24, "rounds": 2, "variations": 3}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, quick_encoder: None) -> BenchmarkDataset:
    records = pd.DataFrame(islice(example_records(1), 170))
    state = tmp_path_factory.mktemp("state")
    privacy = sb.Privacy(dataset="letters", purpose="benchmark", cap=1000)
    corpus = sb.prepare(
        records.iloc[20:],
        schema=example_schema(),
        privacy=privacy,
        generator=sb.Simulator(),
        donated=records.iloc[:20],
        state=state,
    )
    return BenchmarkDataset(corpus, name="letters", texts=8, state=None)


def test_a_run_has_a_snapshot_for_its_start_each_round_and_its_end(
    dataset: BenchmarkDataset,
) -> None:
    release = dataset.run(Variant(evolution=SIZE), epsilon=1.0, seed=3)
    found = list(snapshots(release))
    assert [s.round for s in found] == [0, 1, 2, None]
    assert [s.calls for s in found] == [8, 24, 40, 40]
    assert all(len(s.texts) == len(s.codes) == 8 for s in found)
    assert found[-1].texts == release.texts
    assert set(dataset.measured(release.texts, seed=1)) == {"mauve", "mauve_tfidf", "mean_jsd"}


def test_the_ledger_of_a_run_ends_with_it_and_its_card_stays(dataset: BenchmarkDataset) -> None:
    first, second = (dataset.run(Variant(evolution=SIZE), epsilon=1.0, seed=3) for _ in range(2))
    assert not set(first.ledger_ids) & set(second.ledger_ids)
    assert not list((dataset.corpus.state / "ledgers").glob("*/*.jsonl"))
    assert second.epsilon <= 1.0


def test_a_run_with_a_state_is_restored(dataset: BenchmarkDataset, tmp_path: Path) -> None:
    kept = BenchmarkDataset(dataset.corpus, name="letters", texts=8, state=tmp_path)
    first, second = (kept.run(Variant(evolution=SIZE), epsilon=1.0, seed=3) for _ in range(2))
    assert first.texts == second.texts
    assert first.ledger_ids == second.ledger_ids


def test_sections_of_a_variant_reach_the_budget(dataset: BenchmarkDataset) -> None:
    def stddev(metadata: float) -> float:
        variant = Variant(evolution=SIZE, settings={"privacy": {"metadata_share": metadata}})
        card = dataset.run(variant, epsilon=0.5, seed=1).card
        assert card is not None
        return float(card["budget"]["events"][-1]["stddev"])

    assert stddev(0.5) == pytest.approx(stddev(0.1) * (0.9 / 0.5) ** 0.5, rel=1e-3)
