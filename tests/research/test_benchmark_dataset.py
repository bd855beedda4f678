"""Tests of runs on a data set in memory: their settings, their snapshots and their state."""

from __future__ import annotations

from pathlib import Path

import pytest

from research.benchmark_dataset import BenchmarkDataset, Variant, snapshots

pytestmark = pytest.mark.slow
SIZE = {"candidates": 24, "rounds": 2, "variations": 3}


def test_a_run_has_a_snapshot_for_its_start_each_round_and_its_end(
    dataset: BenchmarkDataset,
) -> None:
    release = dataset.run(Variant(evolution=SIZE), texts=8, epsilon=1.0, seed=3)
    found = list(snapshots(release))
    assert [s.round for s in found] == [0, 1, 2, None]
    assert [s.calls for s in found] == [8, 24, 40, 40]
    assert all(len(s.texts) == len(s.codes) == 8 for s in found)
    assert found[-1].texts == release.texts
    assert set(dataset.measured(release.texts, count=8, seed=1)) == {
        "mauve",
        "mauve_tfidf",
        "mean_jsd",
    }


def test_the_ledger_of_a_run_ends_with_it_and_its_epsilon_stays(dataset: BenchmarkDataset) -> None:
    first, second = (
        dataset.run(Variant(evolution=SIZE), texts=8, epsilon=1.0, seed=3) for _ in range(2)
    )
    assert not set(first.ledger_ids) & set(second.ledger_ids)
    assert not list((dataset.corpus.state / "ledgers").glob("*/*.jsonl"))
    assert second.epsilon_of_this_run <= 1.0


def test_a_run_with_a_state_is_restored(dataset: BenchmarkDataset, tmp_path: Path) -> None:
    kept = BenchmarkDataset(dataset.corpus, name="letters", state=tmp_path)
    first, second = (
        kept.run(Variant(evolution=SIZE), texts=8, epsilon=1.0, seed=3) for _ in range(2)
    )
    assert first.texts == second.texts
    assert first.ledger_ids == second.ledger_ids


def test_sections_of_a_variant_reach_the_budget(dataset: BenchmarkDataset, tmp_path: Path) -> None:
    kept = BenchmarkDataset(dataset.corpus, name="letters", state=tmp_path)

    def stddev(metadata: float) -> float:
        variant = Variant(evolution=SIZE, settings={"privacy": {"metadata_share": metadata}})
        card = kept.run(variant, texts=8, epsilon=0.5, seed=1).card
        assert card is not None
        votes = [e for e in card["budget"]["events"] if e["stage"].startswith("evolve")]
        return float(votes[-1]["stddev"])

    assert stddev(0.5) == pytest.approx(stddev(0.1) * (0.9 / 0.5) ** 0.5, rel=1e-3)
