"""Steers a local language model by one noisy sum of activation differences.

    python -m research.steering research/settings/language_model.yaml cfpb_complaints --model FOLDER

`examples/methods/steering.py` computes the vector and states the guarantee.

The command compares three generators on the same requests: without a vector, with a random vector
of the same length, and with the vector at --epsilon. The output is
reports/internal/steering/<set>/ and a table, with paired differences to the model without a vector.

Source: EPSVec (arXiv 2602.21218). Our accounting differs: one record changes the sum by the
clipping norm, and there is no amplification by sampling.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t as student

import sugarbush as sb
from examples.methods.steering import learn, scaled
from research.benchmark_dataset import BenchmarkDataset, datasets
from sugarbush.generators import ActivationReader, GeneratorContext, RandomRequest, continuation
from sugarbush.paths import Roots, atomic_file, make_private
from sugarbush.privacy import BudgetRequest, make_plan
from sugarbush.randomness import public_rng

Vectors = sb.Released[Mapping[int, NDArray[np.float32]]]  # by layer
_SHORTEST = 10  # prompts take their examples from this number of short donated texts


def save(vectors: Vectors, file: Path) -> None:
    """Write vectors and their ledger ids."""
    layers = sorted(vectors.value)
    ids = np.array(vectors.ledger_ids, dtype=str)
    rows = np.stack([vectors.value[layer] for layer in layers])
    np.savez(file, layers=np.array(layers), vectors=rows, ledger_ids=ids)


def load(file: Path) -> Vectors:
    """Read the vectors that `save` wrote."""
    with np.load(file) as found:
        by_layer = dict(zip(found["layers"].tolist(), found["vectors"], strict=True))
        return sb.Released(by_layer, tuple(found["ledger_ids"].tolist()))


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A comparison: the data set, the settings of the model, and the sizes.

    `folder` contains vectors, answers and the ledger. So a stopped run continues, and draws no
    noise again.
    """

    dataset: BenchmarkDataset
    model: sb.HuggingFace
    asked: argparse.Namespace
    folder: Path

    def run(self, seed: int) -> Iterator[dict[str, Any]]:
        """Write texts without a vector, with a random vector, and with the steering. Yield one row
        each."""
        asked, corpus = self.asked, self.dataset.corpus
        donated = sorted(corpus.donated.texts, key=len)[:_SHORTEST]
        chosen = public_rng(seed, "shown").choice(len(donated), size=asked.examples, replace=False)
        request = RandomRequest(
            subject=corpus.schema.subject, examples=tuple(donated[i] for i in chosen)
        )
        plain = self._texts(request, seed)
        yield self._row("none", plain, seed)
        files = {arm: self.folder / f"{arm}-{seed}.npz" for arm in ("random", "steered")}
        if not all(file.exists() for file in files.values()):
            self._save_vectors(request, plain, files, seed)
        for arm, file in files.items():
            yield self._row(arm, self._texts(request, seed, load(file)), seed)

    def _save_vectors(
        self, request: RandomRequest, plain: list[str], files: Mapping[str, Path], seed: int
    ) -> None:
        """Draw the noise of a run's steering, and a random vector of the same length."""
        asked = self.asked
        prompt = continuation(request, context_tokens=4096, max_tokens=self.model.max_tokens)
        reader = ActivationReader(self.model, asked.layers, prompt=prompt, tokens=48)
        whole = BudgetRequest(name="steering", share=1.0, count=0)
        mu = make_plan([whole], epsilon=asked.epsilon, delta=1e-6).of("steering").mu
        ledger = sb.open_ledger(
            f"steering-{seed}", cap=asked.epsilon * 1.01, purpose="benchmark", state=self.folder
        )
        texts = sb.Private(list(self.dataset.corpus.real_texts("train").texts))
        session = sb.PrivacySession(ledger=ledger, stage="steering", run=f"{seed}")
        found = learn(texts, plain, reader, layers=asked.layers, mu=mu, session=session)
        noise = public_rng(seed, "random vector").standard_normal(found.total.value.size)
        random = scaled(noise, found.scale, alpha=asked.alpha)
        save(sb.Released(dict(zip(asked.layers, random, strict=True))), files["random"])
        save(found.vectors(asked.alpha), files["steered"])

    def _texts(
        self, request: RandomRequest, seed: int, steering: Vectors | None = None
    ) -> list[str]:
        context = GeneratorContext(
            seed=seed, state=self.folder, account="steering", stage="steering", base=Path(),
            embed=lambda texts: self.dataset.corpus.encode(texts, private=False), say=print,
        )  # fmt: skip
        generator = self.model.open(context)
        if steering is not None:
            generator = generator.with_released(steering=steering)
        requests = tuple(replace(request, sample=i) for i in range(self.asked.texts))
        answers = generator.generate(sb.Released(requests)).value
        return [answer.text for answer in answers if answer.text is not None]

    def _row(self, arm: str, texts: list[str], seed: int) -> dict[str, Any]:
        found = {
            **self.dataset.measured(texts, count=self.asked.texts, seed=seed),
            "usable": len(texts),
        }
        print(seed, arm, found, f"{time.process_time():.0f} CPU-s", flush=True)
        return {"arm": arm, "run": seed, **found}


def table(rows: pd.DataFrame) -> str:
    """Return a Markdown table of means with 95% intervals, and of differences to `none`."""
    wide = rows.pivot(index="run", columns="arm")
    lines = ["| texts | metric | mean | less none |", "|---|---|---|---|"]
    for arm in rows["arm"].unique():
        for metric in ("mauve", "mauve_tfidf", "mean_jsd", "usable"):
            own, plain = wide[metric, arm], wide[metric, "none"]
            gain = "" if arm == "none" else _mean(own - plain)
            lines.append(f"| {arm} | {metric} | {_mean(own)} | {gain} |")
    return "\n".join(lines)


def _mean(values: Any) -> str:
    count = len(values)
    reach = student.ppf(0.975, count - 1) * values.std() / count**0.5 if count > 1 else np.nan
    return f"{values.mean():.3f} ± {reach:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sweep", type=Path)
    parser.add_argument("set")
    parser.add_argument("--model", required=True, help="folder of a model without a chat template")
    parser.add_argument("--layers", type=int, nargs="+", default=[12, 13, 14, 15])
    parser.add_argument("--alpha", type=float, default=0.125)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--examples", type=int, default=2)
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--max-tokens", type=int, default=80)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    asked = parser.parse_args()
    (dataset,) = datasets(asked.sweep, sets=[asked.set], records=asked.records)
    model = sb.HuggingFace(
        model=asked.model, dtype="bfloat16", temperature=0.8, max_tokens=asked.max_tokens
    )
    folder = make_private(Roots(Path()).internal / "steering" / asked.set)
    trial = Trial(dataset=dataset, model=model, asked=asked, folder=folder)
    rows = [row for seed in asked.seeds for row in trial.run(seed)]
    with atomic_file(folder / "runs.csv") as path:
        pd.DataFrame(rows).to_csv(path, index=False)
    print(table(pd.DataFrame(rows)))


if __name__ == "__main__":
    main()
