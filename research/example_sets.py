"""Compares numbers of example sets in the prompts of a local model: cost and quality.

    python -m research.example_sets research/settings/language_model.yaml airline_tweets \\
        --model FILE.gguf --sets 4 16 64 0 --seeds 0 1 2

With S sets, every prompt of a run has one of S sets of donated examples
(`sugarbush.generators.examples`). With 0, each prompt has its own nearest examples. A run is
`mosaic` at epsilon 1. For each run, the file reports/internal/example_sets/<set>.csv has one row:

prompts           first prompts, without second attempts
valid             share of first answers that are usable
cpu_s             CPU time of the model, with second attempts
prompt_tokens     all tokens of the prompts, with second attempts
computed_tokens   prompt tokens that the model computed
answer_tokens     tokens of the answers
groups            different beginnings of prompts
distinct_2, mauve, mauve_tfidf, mean_jsd     of the release (`BenchmarkDataset.measured`)
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd

import sugarbush as sb
from research.benchmark_dataset import Variant, datasets
from sugarbush.evaluation.texts import distinct_n
from sugarbush.generators.answer_cache import Completion, call_key
from sugarbush.generators.huggingface import generator as local_generator
from sugarbush.generators.huggingface.batch import write_batch
from sugarbush.paths import Roots, atomic_file


class Counter:
    """Counts what a local model computes while `counting`."""

    def __init__(self) -> None:
        self.prompts, self.cpu_s, self.beginnings = [0, 0], 0.0, set[tuple[int, ...]]()
        self.tokens = dict.fromkeys(("prompt_tokens", "computed_tokens", "answer_tokens"), 0)

    @contextmanager
    def counting(self) -> Iterator[None]:
        def key(**parts: Any) -> str:
            self.prompts[parts["attempt"]] += 1
            self.beginnings.add(tuple(parts["prompt"][:64]))
            return call_key(**parts)

        def written(*arguments: Any, **named: Any) -> list[Completion]:
            begun = time.process_time()
            answers = write_batch(*arguments, **named)
            self.cpu_s += time.process_time() - begun
            for each in answers:
                self.tokens["prompt_tokens"] += each.prompt_tokens
                self.tokens["computed_tokens"] += each.prompt_tokens - each.cached_prompt_tokens
                self.tokens["answer_tokens"] += each.completion_tokens
            return answers

        patch = partial(mock.patch.object, local_generator)
        with patch("call_key", key), patch("write_batch", written):
            yield

    def row(self) -> Mapping[str, float]:
        first, again = self.prompts
        return {
            "prompts": first,
            "valid": 1 - again / first,
            "cpu_s": self.cpu_s,
            **self.tokens,
            "groups": len(self.beginnings),
        }


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
    rows = pd.read_csv(file).to_dict("records") if file.exists() else []
    model = {"generator": {"huggingface": {"model": asked.model}}}
    variant = Variant(method="mosaic", evolution={"candidates": asked.candidates}, settings=model)
    for seed in asked.seeds:
        for sets in asked.sets:
            counter = Counter()
            with mock.patch.object(sb.HuggingFace, "example_sets", sets), counter.counting():
                release = dataset.run(variant, epsilon=1.0, seed=seed)
            texts = release.lineage.final.texts
            values = {"distinct_2": distinct_n(texts, n=2), **dataset.measured(texts, seed=seed)}
            rows.append({"sets": sets, "seed": seed, **counter.row(), **values})
            print(rows[-1], flush=True)
            with atomic_file(file) as path:
                pd.DataFrame(rows).to_csv(path, index=False)


if __name__ == "__main__":
    main()
