"""Measures prompts with phrases of the corpus, in texts that a language model writes.

    python -m research.phrases MODEL --sets airline_tweets --runs 3

No text is donated. Every prompt names the attribute values of a record. The methods differ in the
words and two-word phrases that the end of a prompt names:

attributes  none
overall     `--drawn` phrases at random, among the most frequent ones of all records
by value    the same, among those of the records with the requested value of one attribute

**The phrases are exact counts of private records.** So this is the most that any DP release of
phrases could give. The texts are scored once, with the noise that `mosaic` has at epsilon 1, and
herding chooses 50 of 200. Figures are those of `research.profiles`, further the share of texts
with a phrase of their prompt, and distinct-2. Finished rows are in `--out`, and another call
continues.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from research.profiles import LABELS, PublicSet, _Judge, public_set, summary
from sugarbush.evolution.herding import herd
from sugarbush.evolution.kernel_scores import RESOLUTION, KernelScores
from sugarbush.generators.huggingface.settings import HuggingFace
from sugarbush.generators.interface import Answer, GeneratorContext, RandomRequest
from sugarbush.privacy.budget import BudgetRequest, make_plan
from sugarbush.privacy.data_types import Released
from sugarbush.profiling.terms import STOP_WORDS
from sugarbush.randomness import Rng, public_rng, seed_of

SUBJECTS: Final = {
    "airline_tweets": "short messages of passengers to airlines",
    "it_tickets": "tickets of a company's IT support",
    "cfpb_complaints": "complaints of consumers about financial products",
}
CLASSES: Final = {
    "airline_tweets": "negative_reason",
    "it_tickets": "category",
    "cfpb_complaints": "product_group",
}
ARMS: Final = ("attributes", "overall", "by value")
_TOKEN: Final = re.compile(r"[^\W\d_]+|[^\s\w]|\d+")
_WIDTH: Final = 0.2  # of mosaic's kernel
_LEAST_SHARE: Final = 0.01  # of the records of a value


def frequent_terms(texts: Sequence[str], *, most: int) -> dict[str, int]:
    """Return the most frequent words and phrases of the texts, with their exact counts."""
    counts = Counter(term for text in texts for term in all_terms(text))
    least = max(2.0, _LEAST_SHARE * len(texts))
    return {term: n for term, n in counts.most_common(most) if n >= least}


def all_terms(text: str) -> list[str]:
    """Return all words and pairs of neighbours of a text, without stop words."""
    found, before = set[str](), ""
    for token in _TOKEN.findall(text.casefold()):
        if token in STOP_WORDS or len(token) < 3:
            before = ""
            continue
        found |= {token, f"{before} {token}"} if before else {token}
        before = token
    return sorted(found)


def drawn(counts: Mapping[str, int], *, count: int, rng: Rng) -> tuple[str, ...]:
    """Draw different terms at random, in proportion to their counts."""
    terms, weights = list(counts), np.array(list(counts.values()), dtype=float)
    if not terms:
        return ()
    chosen = rng.choice(
        len(terms), size=min(count, len(terms)), replace=False, p=weights / weights.sum()
    )
    return tuple(terms[index] for index in chosen)


def requests_of(
    frame: pd.DataFrame, name: str, arm: str, *, count: int, phrases: int, most: int, seed: int
) -> tuple[RandomRequest, ...]:
    """Return requests with the attribute values and the length of random records.

    The values are exact, so that only the phrases differ between the methods.
    """
    by_value = {"": frequent_terms(list(frame["text"]), most=most)}
    column = frame[CLASSES[name]].astype(str)
    if arm == "by value":
        by_value |= {
            value: frequent_terms(list(own), most=most)
            for value, own in frame["text"].groupby(column)
        }
    rng = public_rng(seed, "rows")
    rows = rng.choice(len(frame), size=count)
    words = frame["text"].str.split().str.len().clip(3, 60)
    return tuple(
        RandomRequest(
            subject=SUBJECTS[name],
            attributes=tuple(
                (label.replace("_", " "), str(frame[label].iloc[row]))
                for label in LABELS[name]
                if frame[label].iloc[row] is not None
            ),
            words=int(words.iloc[row]),
            sample=seed_of(seed, "first", number) >> 1,
            phrases=()
            if arm == "attributes"
            else drawn(
                by_value.get(column.iloc[row] if arm == "by value" else "", {}),
                count=phrases,
                rng=public_rng(seed, "phrases", number),
            ),
        )
        for number, row in enumerate(rows.tolist())
    )


def written(
    public: PublicSet, arm: str, asked: argparse.Namespace, *, seed: int
) -> tuple[tuple[RandomRequest, ...], tuple[Answer, ...]]:
    """Return the requests of a run and their answers. Finished answers are in `--state`."""
    name = public.name
    requests = requests_of(
        public.records(asked.records, seed=seed),
        name, arm, count=asked.candidates, phrases=asked.drawn, most=asked.most, seed=seed,
    )  # fmt: skip
    settings = HuggingFace(
        model=asked.model, form=asked.form, dtype="bfloat16", max_tokens=80, temperature=0.8
    )
    asked.state.mkdir(parents=True, exist_ok=True)
    context = GeneratorContext(
        seed=seed, state=asked.state, account=name, stage="phrases", base=Path(),
        embed=lambda texts: np.zeros((len(texts), 1), dtype=np.float32), say=print,
    )  # fmt: skip
    return requests, settings.open(context).generate(Released(requests), what=f"{name} {arm}").value


def measured(judge: _Texts, arm: str, asked: argparse.Namespace, *, seed: int) -> dict[str, float]:
    """Score the texts once, choose the release, and return its figures."""
    name, frame = judge.public.name, judge.public.records(asked.records, seed=seed)
    requests, answers = written(judge.public, arm, asked, seed=seed)
    kept = [n for n, answer in enumerate(answers) if answer.text is not None]
    texts = [str(answers[n].text) for n in kept]
    vectors = judge.embed(texts)
    plan = make_plan(
        [
            BudgetRequest(name="metadata", pool="metadata", count=0, share=0.1),
            BudgetRequest(name="scores", count=1, share=0.9),
        ],
        epsilon=asked.epsilon, delta=1e-6,
    )  # fmt: skip
    scores = np.zeros(len(texts), dtype=np.int64)
    for rows in KernelScores(vectors, width=_WIDTH).by_rows(judge.embed(list(frame["text"]))):
        scores += rows.sum(axis=0)
    noise = public_rng(seed, "noise").normal(0, plan.of("scores").stddev * RESOLUTION, len(texts))
    chosen = herd(scores + np.rint(noise), vectors, width=_WIDTH, count=asked.texts)
    release = pd.DataFrame({"text": [texts[i] for i in chosen]})
    for label in LABELS[name]:
        values = {
            n: dict(requests[kept[n]].attributes).get(label.replace("_", " ")) for n in chosen
        }
        release[label] = [values[n] for n in chosen]
    shown = [requests[kept[n]].phrases for n in chosen]
    # For prompts without phrases, the phrases that another method would show for the same rows.
    named = [
        any(term in all_terms(text) for term in phrases)
        for text, phrases in zip(release["text"], shown, strict=True)
    ]
    grams = [pair for text in release["text"] for pair in _pairs(text)]
    return {
        **judge.of_texts(release, seed=seed),
        "before the choice": judge.mauve(texts),
        "usable": len(kept) / len(answers),
        "with a phrase": float(np.mean(named)),
        "distinct-2": len(set(grams)) / max(len(grams), 1),
    }


def _pairs(text: str) -> list[tuple[str, str]]:
    words = text.casefold().split()
    return list(itertools.pairwise(words))


class _Texts(_Judge):
    """The figures of research.profiles, for texts without a release."""

    def __init__(self, public: PublicSet) -> None:
        super().__init__(public, LABELS[public.name])
        self.public = public
        self.embed = self._embed

    def of_texts(self, frame: pd.DataFrame, *, seed: int) -> dict[str, float]:
        return {**self._figures([*frame["text"]], seed=seed), "taught": self._taught(frame)}

    def mauve(self, texts: Sequence[str]) -> float:
        return self._figures(texts, seed=0)["mauve"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="a language model's folder")
    parser.add_argument("--sets", nargs="+", default=["airline_tweets", "it_tickets"])
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=ARMS)
    parser.add_argument("--runs", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--records", type=int, default=5000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--form", default="chat", choices=["chat", "list"])
    parser.add_argument("--candidates", type=int, default=200)
    parser.add_argument("--texts", type=int, default=50)
    parser.add_argument("--drawn", type=int, default=4, help="phrases in a prompt")
    parser.add_argument("--most", type=int, default=40, help="phrases of a value")
    parser.add_argument("--state", type=Path, default=Path(tempfile.gettempdir()) / "phrases")
    parser.add_argument("--out", type=Path, default=Path("reports/internal/phrases.json"))
    asked = parser.parse_args()
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    for run in asked.runs:
        for name in asked.sets:
            public, judge = public_set(name), None
            for arm in asked.arms:  # all texts before the slow judge
                written(public, arm, asked, seed=run)
            for arm in asked.arms:
                rows = json.loads(asked.out.read_text()) if asked.out.exists() else []
                key = {"set": name, "arm": arm, "run": run, "epsilon": asked.epsilon}
                if any(key.items() <= row.items() for row in rows):
                    continue
                judge = judge or _Texts(public)
                row = key | measured(judge, arm, asked, seed=run)
                print(json.dumps(row), flush=True)
                rows = json.loads(asked.out.read_text()) if asked.out.exists() else []
                asked.out.write_text(json.dumps([*rows, row], indent=1))
    print(summary(json.loads(asked.out.read_text()), ["set", "arm", "epsilon"]))


if __name__ == "__main__":
    main()
