"""Trains a local model on preferences between texts. Released kernel scores give the preferences.

    python -m research.preferences research/settings/language_model.yaml yelp --model FOLDER

The records score the first texts of `mosaic` once. The scores are released. So all further steps
are post-processing and cost no privacy. In each group of ten texts with similar requested values,
the best text is preferred to the fifth text. The model learns the preferences by DPO with LoRA.
`sugarbush.HuggingFace` loads the new model.

The command compares the texts of three models with the `mosaic` release that has the scores: the
model itself, a model that was trained on pairs in random order, and the model that was trained on
the preferences. The output is reports/internal/preferences/<set>/ and a table, with paired
differences to the model itself. Source of the idea: POPri (ICML 2025), which scores texts by
clipped cosines.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

import sugarbush as sb
from research.benchmark_dataset import BenchmarkDataset, Variant, datasets
from research.small_models import seeded, shuffled
from research.steering import table
from sugarbush.generators import SEPARATOR, RandomRequest, continuation
from sugarbush.paths import Roots, atomic_file, make_private
from sugarbush.randomness import public_rng
from sugarbush.training import load_model, merged, save_model, with_lora

_GROUP, _WORSE = 10, 4  # index of the fifth of ten texts, as in POPri
Row = dict[str, Any]


@dataclass(frozen=True)
class Pair:
    """A preference: after `prompt`, the text `better` is preferred to the text `worse`."""

    prompt: str
    better: str
    worse: str


def ranked_pairs(
    codes: NDArray[np.int64], scores: NDArray[np.int64], *, seed: int
) -> list[tuple[int, int]]:
    """Return the indices of a better and a worse text for each complete group of ten.

    `codes` (n, d) are the requested values. If possible, texts with equal values are in the same
    group. `scores` (n,) are released.
    """
    mixed = public_rng(seed, "groups").permutation(len(codes))
    order = mixed[np.lexsort(codes[mixed].T[::-1])]
    groups = [order[i : i + _GROUP] for i in range(0, len(order) - _GROUP + 1, _GROUP)]
    ranked = [group[np.argsort(-scores[group], kind="stable")] for group in groups]
    return [(int(group[0]), int(group[_WORSE])) for group in ranked]


def pairs_of(release: sb.Release, schema: sb.Schema, *, seed: int) -> list[Pair]:
    """Return the pairs among the texts that the records of a `mosaic` release scored."""
    (scored,) = release.evolution.rounds
    population = scored.population

    def prompt(place: int) -> str:
        row = population.codes[place]
        values = schema.decode(tuple(row.tolist())) if (row >= 0).all() else ()
        request = RandomRequest(subject=schema.subject, attributes=values)
        return continuation(request, context_tokens=4096, max_tokens=256)

    return [
        Pair(prompt(better), population.texts[better], population.texts[worse])
        for better, worse in ranked_pairs(population.codes, scored.votes.value, seed=seed)
    ]


def log_likelihoods(
    model: Any, tokenizer: Any, prompts: Sequence[str], texts: Sequence[str], *, max_tokens: int
) -> torch.Tensor:
    """Return the log likelihood (n,) of each text after its prompt, in nats."""
    rows, starts = [], []
    for prompt, text in zip(prompts, texts, strict=True):
        before = tokenizer(prompt)["input_ids"]
        own = tokenizer(f"{text}\n{SEPARATOR}", add_special_tokens=False)["input_ids"]
        rows.append(before + own[:max_tokens])
        starts.append(len(before))
    width = max(map(len, rows))
    on = {"device": model.device}
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows], **on)
    places = torch.arange(width, **on)
    ends = torch.tensor([len(row) for row in rows], **on)[:, None]
    counted = (places >= torch.tensor(starts, **on)[:, None]) & (places < ends)
    mask = (places < ends).long()
    logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1].float()
    own = logits.gather(-1, ids[:, 1:, None])[..., 0] - logits.logsumexp(dim=-1)
    return (own * counted[:, 1:]).sum(dim=1)


def train(
    folder: str,
    pairs: Sequence[Pair],
    target: Path,
    *,
    seed: int,
    epochs: int = 1,
    rank: int = 16,
    beta: float = 0.1,
    learning_rate: float = 1e-4,
    batch: int = 4,
    max_tokens: int = 96,
) -> Iterator[float]:
    """Train by DPO with LoRA, yield the loss of each step, and write the whole model to `target`.

    The reference is the model without its LoRA factors. Source: Rafailov et al. 2023, Eq. 7.
    """
    plain, tokenizer = load_model(folder, device=torch.device("cpu"))
    model = seeded(lambda: with_lora(plain, rank=rank), seed=seed)
    chosen = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(chosen, lr=learning_rate)

    def margin(own: Sequence[Pair]) -> torch.Tensor:
        prompts = [pair.prompt for pair in own] * 2
        texts = [pair.better for pair in own] + [pair.worse for pair in own]
        both = log_likelihoods(model, tokenizer, prompts, texts, max_tokens=max_tokens)
        return both[: len(own)] - both[len(own) :]

    for epoch in range(epochs):
        for places in shuffled(len(pairs), batch, rng=public_rng(seed, "pairs", epoch)):
            own = [pairs[place] for place in places]
            with torch.no_grad(), model.disable_adapter():
                reference = margin(own)
            loss = -torch.nn.functional.logsigmoid(beta * (margin(own) - reference)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield float(loss.detach())
    save_model(merged(model), tokenizer, target)


def coin_flips(pairs: Sequence[Pair], *, seed: int) -> list[Pair]:
    """Return the control: the same pairs, and a coin decides which text is preferred."""
    flips = public_rng(seed, "coin flips").random(len(pairs)) < 0.5
    return [
        Pair(pair.prompt, pair.worse, pair.better) if flip else pair
        for pair, flip in zip(pairs, flips, strict=True)
    ]


def trial(dataset: BenchmarkDataset, asked: argparse.Namespace, seed: int) -> Iterator[Row]:
    """Yield the values of the release that has the scores, and of the texts of three models.

    All three models write texts for rows of one DP table, with donated examples and without votes.
    A second run makes this table, so these texts cost twice the epsilon of the release.
    """

    def run(method: str, model: str, **evolution: Any) -> sb.Release:
        own = {"generator": {"huggingface": {"model": model}}}
        variant = Variant(method=method, evolution=evolution, settings=own)
        return dataset.run(variant, epsilon=asked.epsilon, seed=seed)

    def row(arm: str, texts: Sequence[str]) -> Row:
        found = {
            "arm": arm,
            "run": seed,
            **dataset.measured(texts, seed=seed),
            "usable": len(texts),
        }
        print(found, f"{time.process_time():.0f} CPU-s", flush=True)
        return found

    scored = run("mosaic", asked.model, candidates=_GROUP * asked.pairs)
    yield row("mosaic", scored.texts)
    pairs = pairs_of(scored, dataset.schema, seed=seed)
    arms = {"none": None, "random": coin_flips(pairs, seed=seed), "preferred": pairs}
    for arm, own in arms.items():
        with tempfile.TemporaryDirectory() as scratch:
            model = asked.model if own is None else str(Path(scratch) / f"{arm}-{seed}")
            if own is not None:
                begun = time.process_time()
                losses = list(train(asked.model, own, Path(model), seed=seed, epochs=asked.epochs))
                cost = (time.process_time() - begun) / len(own)
                print(f"{len(own)} pairs, {cost:.1f} CPU-s each, last loss {losses[-1]:.3f}")
            found = run("maple", model, rounds=0, candidates=asked.texts, variations=1)
        yield row(arm, found.texts)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sweep", type=Path)
    parser.add_argument("set")
    parser.add_argument("--model", required=True, help="folder of a model without a chat template")
    parser.add_argument(
        "--pairs", type=int, default=24, help="a tenth of the texts that are scored"
    )
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--texts", type=int, default=60, help="texts of each model to measure")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    asked = parser.parse_args()
    (dataset,) = datasets(asked.sweep, sets=[asked.set], records=2000, texts=asked.texts, keep=True)
    folder = make_private(Roots(Path()).internal / "preferences" / asked.set)
    rows = []
    for seed in asked.seeds:
        rows += trial(dataset, asked, seed)
        with atomic_file(folder / "runs.csv") as path:
            pd.DataFrame(rows).to_csv(path, index=False)
    print(table(pd.DataFrame(rows)))


if __name__ == "__main__":
    main()
