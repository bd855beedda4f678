"""Does it help to show a variation the best and the worst candidates of the last vote?

    python -m research.contrast [--seeds 5] [--first-seed 0] [--rounds 3] [--contrast 3]
                                  [--starts bare maple]

The example: the embedded corpus is private, the simulator is the generator, epsilon is 1. `bare`
starts from texts that were requested with the subject only, `maple` from DP metadata and examples.
Both runs of a seed start from the same DP table and texts. The table has MAUVE of the final texts
against the held-out part; its last column is the mean difference with its standard error over the
seeds. The simulator takes sentences from good texts and ignores bad ones; `pool` uses neither. Only
a language model can show whether they help it.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pandas as pd

import sugarbush as sb
from sugarbush.evaluation import mauve_score
from sugarbush.examples import example_records, example_schema

DELTA = 1e-6
STARTS = {"bare": "independent", "maple": "both"}
RECORDS, DONATED, SURVIVORS, VARIATIONS = 600, 50, 60, 4


def prepared(seed: int, state: Path) -> sb.Corpus:
    """The example's corpus for that seed."""
    records = pd.DataFrame(islice(example_records(seed), DONATED + RECORDS))
    return sb.prepare(
        records.iloc[DONATED:],
        schema=example_schema(),
        privacy=sb.Privacy(dataset="contrast", purpose="benchmark", cap=100.0, delta=DELTA),
        donated=records.iloc[:DONATED],
        state=state,
    )


def score(corpus: sb.Corpus, start: str, *, contrast: int, rounds: int, seed: int) -> float:
    """MAUVE of one run's final texts against the held-out part."""
    method = sb.Maple(
        prompt=STARTS[start],
        candidates=SURVIVORS * VARIATIONS,
        variations=VARIATIONS,
        rounds=rounds,
        contrast=contrast,
    )
    release = sb.synthesize(corpus, method=method, seed=seed)
    real = corpus.encode(corpus.real_texts("heldout").texts, private=True)
    own = corpus.encode(release.texts, private=False)
    return mauve_score(real, own, seed=1, clusters=10)


def compare(
    seed: int, starts: Sequence[str], *, contrast: int, rounds: int
) -> dict[str, tuple[float, float]]:
    """MAUVE without and with contrast, for each start of the candidates."""
    with tempfile.TemporaryDirectory() as state:
        corpus = prepared(seed, Path(state))
        return {
            start: (
                score(corpus, start, contrast=0, rounds=rounds, seed=seed),
                score(corpus, start, contrast=contrast, rounds=rounds, seed=seed),
            )
            for start in starts
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--starts", nargs="+", choices=STARTS, default=list(STARTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--contrast", type=int, default=3)
    asked = parser.parse_args()
    runs = []
    for seed in range(asked.first_seed, asked.first_seed + asked.seeds):
        found = compare(seed, asked.starts, contrast=asked.contrast, rounds=asked.rounds)
        runs.append(found)
        print(f"seed {seed}: {found}", flush=True)
    print("| start | without | with | difference |")
    print("|---|---|---|---|")
    for name in runs[0]:
        without, shown = zip(*(run[name] for run in runs), strict=True)
        apart = [b - a for a, b in zip(without, shown, strict=True)]
        error = statistics.stdev(apart) / math.sqrt(len(apart))
        print(
            f"| {name} | {statistics.fmean(without):.3f} | {statistics.fmean(shown):.3f} "
            f"| {statistics.fmean(apart):+.3f} ± {error:.3f} |"
        )


if __name__ == "__main__":
    main()
