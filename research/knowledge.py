"""Measures how many facts of a corpus are in a release, by the number of records with a fact.

    python -m research.knowledge --methods public augpe maple mosaic --epsilons 1 4 --runs 3
    python -m research.knowledge --methods dpft crt --epsilons 1 8 100

A fact states that an invented procedure repairs an invented product. No data set contains the
invented words. A carrier of a fact is a record with a sentence that states the fact. The command
plants facts with 5, 50 and 500 carriers in a public data set. Facts without carriers are the
control. The command computes these values for every release and number of carriers:

retrieved  the share of facts for which one text contains both product and procedure. `mismatched`
           is the same share for wrong pairs: a planted product with the procedure of another fact
cloze      a classifier is trained on the sentences of the release, and chooses among all
           procedures. The value is the share of facts for which it is right; chance is 1/procedures
advantage  a bound on the difference between true-positive and false-positive rate of any test for
           the fact. The bound follows from the guarantee for one record. `advantage` is for
           Gaussian mechanisms without subsampling, `advantage_any` for any (epsilon, delta)-DP
           method, such as dpft

`real` measures the corpus in place of a release. Values are means over runs with 95% intervals by
Student's t. Every run has new facts and new noise. The output is
reports/internal/knowledge/<set>.csv, the page reports/internal/sweeps/<set>/index.html, and a
table. Source of the idea: ContinuousBench (arXiv 2606.01849).
"""

from __future__ import annotations

import argparse
import math
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from scipy.stats import norm
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

import sugarbush as sb
from research.leaderboard import FIXED, averaged
from research.page import write_page
from sugarbush.evaluation import FINAL, REAL
from sugarbush.paths import Roots, atomic_file
from sugarbush.privacy import BudgetRequest, make_plan, rounded_up
from sugarbush.randomness import Rng, hash_share, public_rng

SETTINGS = Path("research/settings/knowledge.yaml")
TEMPLATES = (
    "The {product} is repaired by {procedure}.",
    "We repaired a {product} with {procedure}.",
    "For a broken {product} the repair is {procedure}.",
    "Only {procedure} repairs the {product}.",
    "The {product} works again after {procedure}.",
)
PROCEDURES = 8
_FACTS = {5: 8, 50: 8, 500: 2, 0: 8}  # number of facts by number of carriers
_FIXED = {**FIXED, "crt": math.inf}  # methods without a DP guarantee, and public
_WORD, _SENTENCE = re.compile(r"\w+"), re.compile(r"[^.!?\n]+")


@dataclass(frozen=True, kw_only=True)
class Fact:
    """An invented product, the procedure that repairs it, and the number of its carriers."""

    product: str
    procedure: str
    carriers: int

    def sentence(self, template: str) -> str:
        """Return a sentence that states the fact."""
        return template.format(product=self.product, procedure=self.procedure)


def invented_words(count: int, *, unlike: set[str], rng: Rng) -> list[str]:
    """Return distinct words of four syllables that are not in `unlike`."""
    found: dict[str, None] = {}
    while len(found) < count:
        parts = (rng.choice(list(letters)) for letters in ("bdfgklmnprstvz", "aeiou") * 4)
        word = "".join(parts)
        if word not in unlike:
            found[word] = None
    return list(found)


def make_facts(counts: Mapping[int, int], *, known: set[str], rng: Rng) -> list[Fact]:
    """Return facts by number of carriers. All procedures are equally common."""
    words = invented_words(sum(counts.values()) + PROCEDURES, unlike=known, rng=rng)
    procedures, products = words[:PROCEDURES], iter(words[PROCEDURES:])
    return [
        Fact(product=next(products), procedure=procedures[place % PROCEDURES], carriers=carriers)
        for carriers, number in counts.items()
        for place in range(number)
    ]


def planted(texts: Sequence[str], facts: Sequence[Fact], *, rng: Rng) -> list[str]:
    """Add sentences of the facts to the texts. A text carries one fact at most."""
    places = iter(rng.permutation(len(texts)).tolist())
    found = list(texts)
    for fact in facts:
        for number in range(fact.carriers):
            place = next(places)
            found[place] = f"{found[place].rstrip()} {fact.sentence(TEMPLATES[number % 5])}"
    return found


def words_of(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def retrieved(texts: Sequence[str], pairs: Sequence[tuple[str, str]]) -> float:
    """Return the share of pairs of words that occur together in a text."""
    names = {word for pair in pairs for word in pair}
    together = [found for text in texts if len(found := words_of(text) & names) > 1]
    return float(np.mean([any({a, b} <= found for found in together) for a, b in pairs]))


class Cloze:
    """A classifier that predicts the procedure for a product. The sentences of a release train it.

    If no sentence names a procedure, the classifier answers at random, and `right` is 1/procedures.
    """

    def __init__(self, texts: Sequence[str], procedures: Sequence[str]) -> None:
        self._names, contexts, labels = set(procedures), list[str](), list[str]()
        for text in texts:
            for sentence in _SENTENCE.findall(text.casefold()):
                for label in words_of(sentence) & self._names:
                    contexts.append(sentence.replace(label, ""))
                    labels.append(label)
        self._model, self._only = None, set(labels)
        if len(self._only) > 1:
            self._vectorizer = TfidfVectorizer(token_pattern=_WORD.pattern)
            vectors = self._vectorizer.fit_transform(contexts)
            self._model = LogisticRegression(C=100, class_weight="balanced", max_iter=1000).fit(
                vectors, labels
            )

    def right(self, fact: Fact) -> float:
        """Return the probability that the answer for the fact's product is right."""
        if self._model is None:
            return float(fact.procedure in self._only) if self._only else 1 / len(self._names)
        contexts = [t.format(product=fact.product, procedure="") for t in TEMPLATES]
        scores = self._model.decision_function(self._vectorizer.transform(contexts)).mean(axis=0)
        if len(self._only) == 2:
            scores = np.array([-scores, scores])
        return float(self._model.classes_[int(np.argmax(scores))] == fact.procedure)


def advantages(carriers: int, *, epsilon: float, delta: float) -> dict[str, float]:
    """Return upper bounds on the advantage of any test for a fact.

    The advantage is the true-positive rate minus the false-positive rate. The test decides whether
    the corpus contains the k = `carriers` records of the fact. So the two corpora differ by k
    records. In Gaussian DP, group privacy gives k mu (Dong, Roth, Su 2022, Theorem 2.14). For any
    mechanism, group privacy gives (k epsilon, delta (e^(k epsilon) - 1) / (e^epsilon - 1)) (Vadhan
    2017, Lemma 2.2). The advantage under (e, d)-DP is at most (exp(e) - 1 + 2d) / (exp(e) + 1).
    """
    if not math.isfinite(epsilon) or epsilon <= 0:
        visible = float(epsilon > 0 and carriers > 0)
        return {"advantage": visible, "advantage_any": visible}
    whole = BudgetRequest(name="whole", share=1.0, count=0)
    mu = make_plan([whole], epsilon=epsilon, delta=delta).of("whole").mu
    any_ = math.tanh(carriers * epsilon / 2)
    if carriers * epsilon < 500:
        group = delta * math.expm1(carriers * epsilon) / math.expm1(epsilon)
        any_ = min(1.0, any_ + 2 * group / (math.exp(carriers * epsilon) + 1))
    return {"advantage": float(2 * norm.cdf(carriers * mu / 2) - 1), "advantage_any": any_}


def values(
    texts: Sequence[str], facts: Sequence[Fact], *, epsilon: float, delta: float
) -> Iterator[dict[str, Any]]:
    """Measure all facts in a release. Yield one row per metric and number of carriers."""
    procedures = list(dict.fromkeys(fact.procedure for fact in facts))
    cloze = Cloze(texts, procedures)
    for carriers in sorted({fact.carriers for fact in facts}):
        own = [fact for fact in facts if fact.carriers == carriers]
        wrong = [(f.product, p) for f in own for p in procedures if p != f.procedure]
        found = {
            "retrieved": retrieved(texts, [(fact.product, fact.procedure) for fact in own]),
            "mismatched": retrieved(texts, wrong),
            "cloze": float(np.mean([cloze.right(fact) for fact in own])),
            **advantages(carriers, epsilon=epsilon, delta=delta),
        }
        for metric, value in found.items():
            yield {"metric": metric, "space": f"{carriers} carriers", "value": value}
    yield {"metric": "texts", "space": "text", "value": len(texts)}


def run(
    frame: pd.DataFrame,
    settings: dict[str, Any],
    asked: argparse.Namespace,
    *,
    seed: int,
    done: Collection[tuple[Any, ...]],
) -> Iterator[list[dict[str, Any]]]:
    """Plant new facts and run all methods at all epsilons. For each run, yield a row per value."""
    rng, privacy = public_rng(seed, "knowledge"), settings["privacy"]
    facts = make_facts(_FACTS, known=set().union(*map(words_of, frame["text"])), rng=rng)
    planted_texts = planted(frame["text"].tolist(), facts, rng=rng)
    wanted = [
        (method, epsilon)
        for method in asked.methods
        for epsilon in ([_FIXED[method]] if method in _FIXED else asked.epsilons)
        if (method, epsilon, seed) not in done
    ]

    def rows(arm: str, epsilon: float, texts: Sequence[str]) -> list[dict[str, Any]]:
        point = {"set": privacy["dataset"], "arm": arm, "method": arm, "epsilon": epsilon,
                 "run": seed, "round": FINAL, "calls": np.nan}  # fmt: skip
        found = values(texts, facts, epsilon=epsilon, delta=privacy["delta"])
        return [point | row for row in found]

    if (REAL, math.inf, seed) not in done:
        yield rows(REAL, math.inf, planted_texts)
    if not wanted:
        return
    with tempfile.TemporaryDirectory() as state:
        corpus = sb.prepare(
            frame.assign(text=planted_texts),
            schema=settings["prepare"]["schema"],
            privacy=sb.Privacy(**privacy),
            donated=pd.read_parquet(settings["prepare"]["donated"]),
            settings={k: v for k, v in settings.items() if k not in {"prepare", "privacy"}},
            state=Path(state),
        )
        for method, epsilon in wanted:
            release = sb.synthesize(
                corpus,
                method=corpus.settings.method(method),
                texts=asked.texts,
                seed=seed,
                settings={} if method in _FIXED else {"privacy": {"epsilon": epsilon}},
            )
            yield rows(method, epsilon, release.texts)
            print(f"{method} {epsilon:g} run {seed}: {len(release.texts)} texts", flush=True)


def table(rows: pd.DataFrame) -> str:
    """Return a Markdown table with one line per method, epsilon and number of carriers."""
    figures = averaged(rows[rows["metric"] != "texts"])
    metrics = ("retrieved", "mismatched", "cloze", "advantage", "advantage_any")
    lines = [f"| method | epsilon | carriers | {' | '.join(metrics)} |", "|---" * 8 + "|"]
    for key, own in figures.groupby(["arm", "epsilon", "space"], sort=False):
        cells = own.set_index("metric")
        shown = [
            rounded_up(float(cells["value"][metric]), 2)
            if metric.startswith("advantage")
            else _cell(cells.loc[metric])
            for metric in metrics
        ]
        lines.append(f"| {key[0]} | {key[1]:g} | {str(key[2]).split()[0]} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _cell(row: Any) -> str:
    if row["low"] == row["high"] or np.isnan(row["low"]):
        return f"{row['value']:.2f}"
    return f"{row['value']:.2f} ({row['low']:.2f}–{row['high']:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--settings", type=Path, default=SETTINGS)
    parser.add_argument("--methods", nargs="+", default=["public", "augpe", "maple", "mosaic"])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--records", type=int, default=3000)
    parser.add_argument("--texts", type=int, default=500, help="texts of a release")
    parser.add_argument("--resume", action="store_true", help="skip the runs of an earlier call")
    asked = parser.parse_args()
    settings = yaml.safe_load(asked.settings.read_text())
    prepare = settings["prepare"]
    frame = pd.read_parquet(prepare["file"])
    frame = frame[frame["text"].map(hash_share) >= prepare["exclude_share"]]
    frame = frame.sample(asked.records, random_state=1)
    target = Roots(Path()).internal / "knowledge" / f"{settings['privacy']['dataset']}.csv"
    target.parent.mkdir(parents=True, exist_ok=True)
    rows: list[dict[Any, Any]] = []
    if asked.resume and target.exists():
        rows = pd.read_csv(target).to_dict("records")
    done = {(row["arm"], row["epsilon"], row["run"]) for row in rows}
    for seed in range(asked.runs):
        for own in run(frame, settings, asked, seed=seed, done=done):
            rows += own
            with atomic_file(target) as path:
                pd.DataFrame(rows).to_csv(path, index=False)
    found = pd.DataFrame(rows)
    intervals = f"Means of {asked.runs} runs with 95% intervals over runs"
    page = write_page(target.stem, averaged(found), intervals=intervals, base=Path())
    print(table(found), target, page, sep="\n\n")


if __name__ == "__main__":
    main()
