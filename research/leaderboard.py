"""Compares methods, other programs and real texts on the same records, generator and embedding.

    python -m research.sweep research/settings/sweep.yaml       # prepares and embeds the data
    python -m research.leaderboard research/settings/sweep.yaml --sets yelp --texts 100 300

The command writes figures.csv, table.csv and index.html to
reports/internal/sweeps/<sweep>-leaderboard/. The file runs.csv in this folder has one row per value
of each run. A run of a method is one call of `sugarbush.synthesize` with a separate ledger. A value
is the mean over seeds, with a 95% interval by Student's t over seeds. Noise has no seed, as in a
real release. So a second grid has other values, within the intervals. The same texts are held out
for all seeds.

`public` has epsilon 0. `real` has as many real training texts as a release. With `--dpsda FOLDER`,
the unmodified code of microsoft/DPSDA in this folder runs too (see `research.peer`). `--python`
then names the Python of an environment with its dependencies: faiss, generalimport, omegaconf,
pandas, scipy and torch.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.stats import t as student

import sugarbush as sb
from research.benchmark_dataset import METRICS, BenchmarkDataset, Variant, datasets, snapshots
from research.page import write_page
from research.peer import Peer, dpsda
from sugarbush.evaluation import FINAL, REAL
from sugarbush.extend import Parts
from sugarbush.paths import Roots, atomic_file
from sugarbush.randomness import public_rng


class FixedMosaic(sb.Mosaic):
    """The method `mosaic` with rounds of scores, or with one release of scores, for any prompt."""

    name: ClassVar[str] = "fixed-mosaic"

    in_rounds: bool = True

    def parts(self) -> Parts:
        return self.rounds() if self.in_rounds else self.one_release()


WEAK = {"synthesize_metadata": {"attributes": ["product_group", "region"]}}


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The size of every run: `texts` texts are released.

    A vote has `variations` candidates per text. With two rounds, a run has 2 * `variations` - 1
    calls per text.
    """

    variations: int
    texts: int


def variants_of(scale: Scale) -> dict[str, Variant]:
    """Return the methods by name, with equal rounds, candidates, variations and calls.

    `augpe-10` is an exception: it has ten rounds. `mosaic` scores as many texts as the others have
    calls. `mosaic-4` scores four texts for each released text, and so do `mosaic-M` (only metadata
    in prompts) and `mosaic-I` (independent prompts). `once-M` and `once-I` have one release of
    scores, and `rounds` has rounds, whatever prompts show. `sugarbush` is `maple` with kernel
    scores and herding, and `augpe-scores` is `augpe` with them.
    """
    texts, candidates = scale.texts, scale.variations * scale.texts
    size = {"candidates": candidates, "rounds": 2, "variations": scale.variations}
    once = {"candidates": texts, "rounds": 0, "variations": 1}
    ten = {"rounds": 10, "variations": 7, "candidates": 7 * texts}

    metadata = {"prompt": "metadata", "examples": 0}
    independent = {"prompt": "independent", "examples": 0}

    def mosaic(count: int, **other: Any) -> Variant:
        return Variant(method="mosaic", evolution={"candidates": count, **other})

    def fixed(*, in_rounds: bool, **other: Any) -> Variant:
        fields = {"candidates": 4 * texts, "in_rounds": in_rounds, **other}
        return Variant(method="mosaic", kind=FixedMosaic, evolution=fields)

    return {
        "public": Variant(method="public", evolution={"candidates": texts}),
        "nonprivate": Variant(method="nonprivate", evolution=size),
        "augpe": Variant(method="augpe", evolution=size),
        "maple": Variant(evolution=size),
        "mosaic": mosaic(2 * candidates - texts),
        "mosaic-4": mosaic(4 * texts),
        "mosaic-M": mosaic(4 * texts, **metadata),
        "mosaic-I": mosaic(4 * texts, **independent),
        "once-M": fixed(in_rounds=False, **metadata),
        "once-I": fixed(in_rounds=False, **independent),
        "rounds": fixed(in_rounds=True),
        "maple-zero": Variant(evolution=once),
        "maple-M": Variant(evolution={**size, "prompt": "metadata"}),
        "maple-E": Variant(evolution={**size, "prompt": "examples"}),
        "maple-weak": Variant(evolution=size, settings=WEAK),
        "sugarbush": Variant(evolution={**size, "scorer": "kernel"}),
        "augpe-scores": Variant(
            method="augpe", evolution={**size, "scorer": "kernel", "by_label": False}
        ),
        "augpe-10": Variant(method="augpe", evolution=ten),
    }


RECORDS = 2000
# Methods without noise run at this epsilon only.
FIXED = {REAL: math.inf, "public": 0.0, "nonprivate": math.inf}
COMPARED = ("public", "augpe", "maple", "mosaic")
RUN = ("set", "arm", "epsilon", "run")  # these columns identify a run
WHERE = {
    "mauve": ("mauve", "encoder"),
    "mauve_tfidf": ("mauve", "tf-idf"),
    "mean_jsd": ("mean", "attribute"),
}


def runs(
    dataset: BenchmarkDataset,
    rows: Mapping[str, Variant | Peer | None],
    *,
    texts: int,
    epsilons: Sequence[float],
    seeds: Iterable[int],
    done: Collection[tuple[Any, ...]] = (),
) -> Iterator[list[dict[str, Any]]]:
    """Run methods and programs, without the runs in `done`. For each run, yield one row per value.

    None stands for real texts. Runs are ordered by seed. So a stopped grid has all runs of its
    first seeds.
    """
    for seed in seeds:
        for name, source in rows.items():
            if isinstance(source, Variant) and not set(source.attributes) <= set(
                dataset.schema.names
            ):
                continue
            for epsilon in (FIXED[name],) if name in FIXED else epsilons:
                point = {
                    "set": f"{dataset.name}-{texts}-texts", "arm": name, "method": name,
                    "options": source.description if isinstance(source, Peer) else "",
                    "epsilon": epsilon, "run": seed,
                }  # fmt: skip
                if tuple(point[column] for column in RUN) in done:
                    continue
                sets = _text_sets(dataset, source, texts=texts, epsilon=epsilon, seed=seed)
                yield [
                    point | row
                    for own in sets
                    for row in _values(dataset, own, count=texts, seed=seed)
                ]


@dataclass(frozen=True, kw_only=True)
class TextSet:
    """The texts after a round (FINAL: the release), and the number of calls up to it.

    `real` marks real training texts.
    """

    texts: Sequence[str]
    round: int = FINAL
    calls: float = math.nan
    real: bool = False


def _text_sets(
    dataset: BenchmarkDataset, source: Variant | Peer | None, *, texts: int, **run: Any
) -> Iterator[TextSet]:
    """Run `source` once, and return its texts."""
    if source is None:
        train = dataset.corpus.real_texts("train").texts
        chosen = public_rng(run["seed"], "real").choice(len(train), size=texts, replace=False)
        yield TextSet(texts=[train[index] for index in chosen], real=True)
        return
    if isinstance(source, Peer):
        found = source.run(dataset, texts=texts, **run)
        yield TextSet(texts=found.texts, calls=found.calls)
        return
    for snapshot in snapshots(dataset.run(source, texts=texts, **run)):
        number = FINAL if snapshot.round is None else snapshot.round
        yield TextSet(texts=snapshot.texts, round=number, calls=snapshot.calls)


def _values(
    dataset: BenchmarkDataset, own: TextSet, *, count: int, seed: int
) -> Iterator[dict[str, Any]]:
    values = dataset.measured(own.texts, count=count, seed=seed, private=own.real)
    common = {"round": own.round, "calls": own.calls}
    for name in METRICS:
        metric, space = WHERE[name]
        yield common | {"metric": metric, "space": space, "value": values[name]}
    size = min(count, len(own.texts))
    yield common | {"metric": "texts", "space": "text", "value": size}


def table(rows: pd.DataFrame, *, baseline: str) -> str:
    """Return a Markdown table of all releases: means over runs with 95% intervals.

    The last column is the MAUVE of a row minus that of `baseline` at the same epsilon, run by run.
    """
    final = rows[rows["round"] == FINAL]
    values = final.pivot_table(
        index=["set", "epsilon", "arm", "run"], columns=["metric", "space"], values="value",
        sort=False,
    )  # fmt: skip
    calls = final.groupby(["set", "epsilon", "arm"])["calls"].mean()
    names = [WHERE[name] for name in METRICS]
    lines = ["| set | epsilon | row | calls | MAUVE | MAUVE, TF-IDF | mean JSD | MAUVE less "
             f"{baseline} |", "|---" * 8 + "|"]  # fmt: skip
    groups: Any = values.groupby(["set", "epsilon", "arm"], sort=False)
    for (set_name, epsilon, arm), own in groups:
        count = calls[set_name, epsilon, arm]
        cells = [set_name, f"{epsilon:g}", arm, "–" if math.isnan(count) else f"{count:,.0f}"]
        cells += [_mean(own[name]) for name in names]
        mauve = own[names[0]].droplevel(["set", "epsilon", "arm"])
        other: Any = (set_name, epsilon, baseline)
        differs = other in calls.index and arm != baseline
        cells.append(_mean(mauve - values.loc[other][names[0]]) if differs else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _mean(values: pd.Series) -> str:
    values = values.dropna()
    reach = student.ppf(0.975, len(values) - 1) * values.std() / len(values) ** 0.5
    return f"{values.mean():.3f} ± {reach:.3f}"


def averaged(rows: pd.DataFrame) -> pd.DataFrame:
    """Return means over seeds with intervals, in the columns of a sweep page."""
    order = {arm: number for number, arm in enumerate(dict.fromkeys(rows["arm"]))}
    # a resumed grid has its runs in another order
    rows = rows.assign(order=rows["arm"].map(order))
    rows = rows.sort_values(["order", "epsilon"], kind="stable").drop(columns="order")
    keys = ["set", "arm", "method", "epsilon", "round", "metric", "space"]
    if "options" in rows:
        keys.append("options")
        rows = rows.fillna({"options": ""})
    found = rows.groupby(keys, sort=False).agg(
        value=("value", "mean"), sd=("value", "std"), n=("value", "size"), calls=("calls", "mean")
    )
    reach = student.ppf(0.975, found["n"] - 1) * found["sd"] / found["n"] ** 0.5
    # Shares, MAUVE and the square root of the JSD are at most 1, so intervals are cut at 1. A value
    # above 1 is a perplexity or a count, which has no upper limit.
    most = np.where(found["value"] > 1, math.inf, 1)
    found["low"] = (found["value"] - reach).clip(lower=0)
    found["high"] = (found["value"] + reach).clip(upper=most)
    return found.drop(columns=["sd", "n"]).reset_index().assign(seed=0)


def main() -> None:
    asked = _asked()
    begun = time.process_time()
    model = [Path(asked.model).name] if asked.model else []
    records = [f"{asked.records}-records"] if asked.records != RECORDS else []
    name = "-".join([asked.sweep.stem, "leaderboard", *(asked.sets or ()), *records, *model])
    file = Roots(Path()).internal / "sweeps" / name / "runs.csv"
    file.parent.mkdir(parents=True, exist_ok=True)
    rows: list[dict[Any, Any]] = []
    if asked.resume and file.exists():
        rows = pd.read_csv(file).to_dict("records")
    done = {tuple(row[column] for column in RUN) for row in rows}
    for dataset in datasets(asked.sweep, sets=asked.sets, records=asked.records, keep=asked.keep):
        for texts in asked.texts:
            scale = Scale(variations=asked.variations, texts=texts)
            for own in runs(
                dataset, _rows(asked, scale), texts=texts, epsilons=asked.epsilons,
                seeds=range(asked.seeds), done=done,
            ):  # fmt: skip
                rows += own
                with atomic_file(file) as path:
                    pd.DataFrame(rows).to_csv(path, index=False)
    print(table(pd.DataFrame(rows), baseline=asked.baseline))
    figures = averaged(pd.DataFrame(rows))
    intervals = f"Means of {asked.seeds} whole runs with 95% intervals over runs"
    peers = figures["arm"].str.startswith("dpsda").any()
    missing = () if peers else ("microsoft/DPSDA (no checkout: --dpsda)",)
    page = write_page(name, figures, intervals=intervals, base=Path(), missing=missing)
    print(f"{page}: {asked.seeds} seeds, {time.process_time() - begun:.0f} CPU-s")


def _rows(asked: argparse.Namespace, scale: Scale) -> dict[str, Variant | Peer | None]:
    """Return the methods and programs that the options name, and None for real texts."""
    variants = variants_of(scale)
    settings = {"generator": {"huggingface": {"model": asked.model}}} if asked.model else {}
    rows: dict[str, Variant | Peer | None] = {REAL: None}
    for name in asked.methods:
        variant = variants[name]
        rows[name] = replace(variant, settings={**variant.settings, **settings})
    if asked.dpsda:
        rows |= dpsda(asked.dpsda, python=asked.python, variations=scale.variations)
    return rows


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = tuple(variants_of(Scale(variations=4, texts=100)))
    parser.add_argument("sweep", type=Path)
    parser.add_argument("--sets", nargs="*", help="data sets of the sweep; default: all")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.3, 1.0, 4.0])
    parser.add_argument("--seeds", type=int, default=5, help="number of runs")
    parser.add_argument("--records", type=int, default=RECORDS, help="most private records to use")
    parser.add_argument("--methods", nargs="*", choices=names, default=COMPARED, metavar="METHOD",
                        help=f"of {', '.join(names)}; default: {', '.join(COMPARED)}")  # fmt: skip
    parser.add_argument("--baseline", choices=names, default="mosaic", metavar="METHOD",
                        help="differences are to this method")  # fmt: skip
    parser.add_argument("--texts", type=int, nargs="+", default=[100], help="sizes of a release")
    parser.add_argument("--variations", type=int, default=4, help="candidates per released text")
    parser.add_argument("--dpsda", type=Path, help="folder of a clone of microsoft/DPSDA")
    parser.add_argument("--python", default=sys.executable, help="Python with DPSDA's dependencies")
    parser.add_argument("--model", help="folder of a local model, in place of the sweep's model")
    parser.add_argument(
        "--keep", action="store_true", help="store draws and answers for a later run"
    )
    parser.add_argument(
        "--resume", action="store_true", help="leave out the runs that runs.csv already has"
    )
    asked = parser.parse_args()
    if asked.dpsda and asked.model:
        parser.error("--dpsda uses the generator of the sweep. Leave out --model")
    return asked


if __name__ == "__main__":
    main()
