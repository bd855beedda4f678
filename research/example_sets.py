"""Compares numbers of example sets in the prompts of a local model: cost and quality.

    python -m research.example_sets research/settings/language_model.yaml airline_tweets \\
        --model FILE.gguf --sets 4 16 64 0 --seeds 0 1 2

With S sets, every prompt of a run has one of S sets of donated examples
(`sugarbush.generators.examples`). With 0, each prompt has its own nearest examples. A run is
`mosaic` at epsilon 1. For each run, the file reports/internal/example_sets/<set>.csv has one row:

texts, usable     usable answers, and their share, after second attempts
cpu_s             CPU time of the generator, with second attempts
prompt_tokens     all tokens of the prompts
computed_tokens   prompt tokens that the model computed
answer_tokens     tokens of the answers
distinct_2, mauve, mauve_tfidf, mean_jsd     of the release (`BenchmarkDataset.measured`)
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd

import sugarbush as sb
from research.benchmark_dataset import BenchmarkDataset, Variant, datasets
from sugarbush.extend import Answer, Request
from sugarbush.paths import Roots, atomic_file


class Measured:
    """Another generator, with the CPU time of its answers and all answers that it computed."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.cpu_s, self.answers = inner, 0.0, list[Answer]()

    def generate(
        self, requests: sb.Released[tuple[Request, ...]], *, what: str = "answers"
    ) -> sb.Released[tuple[Answer, ...]]:
        begun = time.process_time()
        answers: sb.Released[tuple[Answer, ...]] = self.inner.generate(requests, what=what)
        self.cpu_s += time.process_time() - begun
        self.answers += answers.value
        return answers


def row_of(generators: Sequence[Measured]) -> dict[str, float]:
    answers = [answer for each in generators for answer in each.answers]
    prompts = sum(answer.prompt_tokens for answer in answers)
    return {
        "texts": sum(answer.text is not None for answer in answers),
        "usable": sum(answer.text is not None for answer in answers) / len(answers),
        "cpu_s": sum(each.cpu_s for each in generators),
        "prompt_tokens": prompts,
        "computed_tokens": prompts - sum(answer.cached_prompt_tokens for answer in answers),
        "answer_tokens": sum(answer.completion_tokens for answer in answers),
    }


def distinct_2(texts: Sequence[str]) -> float:
    pairs = [pair for text in texts for pair in pairwise(text.lower().split())]
    return len(set(pairs)) / max(len(pairs), 1)


def run(
    dataset: BenchmarkDataset, variant: Variant, *, sets: int, seed: int
) -> tuple[sb.Release, list[Measured]]:
    """Run a method at epsilon 1 with `sets` example sets. Also return its generators."""
    generators: list[Measured] = []
    inner = sb.HuggingFace.open

    def measured(settings: Any, context: Any) -> Measured:
        generators.append(Measured(inner(settings, context)))
        return generators[-1]

    patch = partial(mock.patch.object, sb.HuggingFace)
    with patch("example_sets", sets), patch("open", measured):
        return dataset.run(variant, epsilon=1.0, seed=seed), generators


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweep", type=Path)
    parser.add_argument("name", help="the data set")
    parser.add_argument("--model", required=True, help="folder or GGUF file of a local model")
    parser.add_argument("--sets", type=int, nargs="+", default=[4, 16, 64, 0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--records", type=int, default=2000)
    parser.add_argument("--candidates", type=int, default=128)
    parser.add_argument("--texts", type=int, default=56)
    asked = parser.parse_args()
    (dataset,) = datasets(asked.sweep, sets=[asked.name], records=asked.records, texts=asked.texts)
    file = Roots(Path()).internal / "example_sets" / f"{asked.name}.csv"
    rows: list[dict[Any, Any]] = []
    if file.exists():
        rows = pd.read_csv(file).to_dict("records")
    model = {"generator": {"huggingface": {"model": asked.model}}}
    variant = Variant(method="mosaic", evolution={"candidates": asked.candidates}, settings=model)
    for seed in asked.seeds:
        for sets in asked.sets:
            release, generators = run(dataset, variant, sets=sets, seed=seed)
            texts = release.lineage.final.texts
            values = {"distinct_2": distinct_2(texts), **dataset.measured(texts, seed=seed)}
            rows.append({"sets": sets, "seed": seed, **row_of(generators), **values})
            print(rows[-1], flush=True)
            with atomic_file(file) as path:
                pd.DataFrame(rows).to_csv(path, index=False)


if __name__ == "__main__":
    main()
