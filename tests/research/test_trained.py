"""Tests of metrics that train models: their values, and their names on a page."""

from __future__ import annotations

import numpy as np
import pandas as pd

from research.leaderboard import averaged
from research.trained import Labelled, rows_of, table

OWN = Labelled(("a", "b", "b"), np.array([0, -1, 1]))


def test_a_limited_set_keeps_each_text_with_its_code() -> None:
    texts = tuple(map(str, range(50)))
    drawn = Labelled(texts, np.arange(50)).limited(20, seed=1)
    assert [int(text) for text in drawn.texts] == drawn.codes.tolist()
    assert len(set(drawn.texts)) == 20
    assert Labelled(texts, np.arange(50)).limited(99, seed=1).codes.shape == (50,)


def test_the_table_has_means_and_intervals_over_runs_and_counts_repetitions() -> None:
    rows = []
    for run, (perplexity, mauve) in enumerate([(100.0, 0.8), (120.0, 0.9)]):
        figures = {"perplexity": perplexity, "fine_tuned_accuracy": 0.5, "mauve": mauve,
                   "mauve_tfidf": 0.1}  # fmt: skip
        rows += rows_of(OWN, figures, set="s", arm="maple", epsilon=1.0, run=run, calls=np.nan)
    frame = pd.DataFrame(rows)
    assert set(frame[frame.metric == "fine_tuned_accuracy"].space) == {"attribute"}
    (line,) = table(averaged(frame)).splitlines()[2:]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[:4] == ["maple", "1", "3", "2"]
    assert cells[4] == "–"
    assert cells[5].startswith("110.0 (0.0–")
    assert cells[-1].startswith("0.850 (")
