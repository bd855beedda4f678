"""How good the synthetic texts are beside held-out real ones, by round.

Reads    data/private/prepared/, data/private/metadata/, data/released/{initial,evolve}/<method>/,
         data/released/generated/, data/private/arms/nonprivate/, data/public/donated/; the pool's
         files
Writes   reports/internal/   metrics.json (final sets), figures.csv (all), read.json, plots/
         data/stamps/evaluate.json
Spends   nothing, and releases nothing: every figure is computed on real texts and is internal
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sugarbush.data.private_store import load_real_texts
from sugarbush.data.schema import Schema, load_schema
from sugarbush.errors import InputError
from sugarbush.evaluation.evaluate import installed_metrics
from sugarbush.evaluation.interface import ATTRIBUTE, FINAL, REAL, MetricSettings, MetricValue
from sugarbush.evolution.population import Population, load_population
from sugarbush.generators.pool_files import load_pool
from sugarbush.generators.settings import Provider
from sugarbush.paths import Roots, atomic_file, find_input, make_private, require
from sugarbush.pipeline import entry_point as stage
from sugarbush.pipeline.evaluator import (
    ENCODER,
    LATENT,
    SECOND,
    Evaluator,
    open_encoders,
    train_sample_reader,
)
from sugarbush.pipeline.settings import Method, ProjectSettings
from sugarbush.pipeline.stages.extract_metadata import load_readers
from sugarbush.pipeline.state import state_of
from sugarbush.pipeline.texts import final_folder, first_folder
from sugarbush.privacy.key import state_key
from sugarbush.randomness import public_rng

NAME = "evaluate"


def stages_of(base: Path, method: Method, schema: Schema) -> Iterator[tuple[int, Population]]:
    """The candidates that a method starts from, each round's survivors, and the final set."""
    roots = Roots(base)
    final = final_folder(roots, method)
    if not method.trains:
        yield 0, load_population(first_folder(roots, method) / "candidates.parquet", schema.names)
    for folder in sorted(final.glob("round_*")):
        population = load_population(folder / "candidates.parquet", schema.names)
        yield (
            int(folder.name.removeprefix("round_")),
            population.take(np.load(folder / "survivors.npy")),
        )
    yield FINAL, load_population(final / "final.parquet", schema.names)


def run(base: Path, params: ProjectSettings) -> None:
    """Measure every method that is compared, and a real sample as the ceiling."""
    if not params.measured:
        write_figures(base, [], {}, key=state_key(state_of(params, base)))
        return
    roots, schema = Roots(base), load_schema(find_input(base, params.prepare.schema_))
    wanted = params.evaluate
    train, heldout = (
        load_real_texts(roots.private, part, schema.names, wanted.max_texts, wanted.seed)
        for part in ("train", "heldout")
    )
    if len(heldout.texts) < 2:
        raise InputError(
            "the held-out part is too small to measure anything against; raise "
            "prepare.heldout_share"
        )
    count = equal_count(base, params, schema)
    figures: list[MetricValue] = []
    read: dict[str, dict[str, list[int]]] = {}
    with (
        open_encoders(params, roots, private=True) as private,
        open_encoders(params, roots, private=False) as encoders,
    ):
        reader = train_sample_reader(
            train,
            schema=schema,
            embed=private.main,
            zero_shot=load_readers(base, schema, embed=encoders.main),
            params=params,
        )
        evaluator = Evaluator(
            heldout=reader.read(heldout.texts, by=private),
            heldout_codes=heldout.codes,
            train=reader.read(train.texts, by=private),
            donated=donated_texts(roots),
            public=public_texts(params, base),
            settings=MetricSettings(
                domain=schema.domain,
                clusters=wanted.clusters or clusters_for(count, len(heldout.texts)),
                resamples=wanted.bootstrap,
                seed=wanted.seed,
            ),
            metrics=installed_metrics(),
            progress=lambda step: print(f"{NAME}: {step}", flush=True),
        )
        figures += real_figures(evaluator, train.codes, count=count, params=params)
        for method in params.measured:
            rounds = len(list(final_folder(roots, method).glob("round_*")))
            for round_, everything in stages_of(base, method, schema):
                population = everything.take(
                    _chosen(len(everything), count, wanted.seed, method, round_)
                )
                sample = reader.read(population.texts, by=encoders)
                figures += evaluator.texts(sample, method=method, round_=round_, rounds=rounds)
                if round_ == FINAL:
                    figures += evaluator.copies(sample, method=method)
                    asked = replace(sample, codes=population.codes)
                    figures += evaluator.downstream(asked, method=method)
                    figures += evaluator.trained(asked, method=method, wanted=wanted)
                    read[method.value] = _counts(sample.codes, schema)
    write_figures(base, figures, read, key=state_key(state_of(params, base)))


def equal_count(base: Path, params: ProjectSettings, schema: Schema) -> int:
    """How many texts of each arm and round are measured: as many as the smallest final set has.

    Most metrics depend on it. An arm without texts has no figures and limits no other.
    """
    finals = (final_folder(Roots(base), method) / "final.parquet" for method in params.measured)
    sizes = [len(load_population(final, schema.names)) for final in finals]
    most = params.evaluate.texts or params.evaluate.max_texts
    return min([most, *(size for size in sizes if size)])


def real_figures(
    evaluator: Evaluator, codes: NDArray[np.int64], *, count: int, params: ProjectSettings
) -> tuple[MetricValue, ...]:
    """Real train texts measured as if they were synthetic: as near as chance draws `count`.

    `codes` (n, a) are those that the train texts came with; what is trained learns from them, and
    from no more texts than an arm has.
    """
    texts, given = (
        sample.limited(count, rng=public_rng(params.evaluate.seed, REAL))
        for sample in (evaluator.train, replace(evaluator.train, codes=codes))
    )
    return (
        *evaluator.texts(texts, method=REAL),
        *evaluator.downstream(given, method=REAL),
        *evaluator.trained(given, method=REAL, wanted=params.evaluate),
    )


def clusters_for(texts: int, heldout: int) -> int:
    """How many clusters MAUVE has for arms of `texts` texts: a tenth of the smaller side.

    With a tenth of the larger one a cluster holds few texts of the other, or none, by chance.
    """
    return max(2, min(texts, heldout) // 10)


def donated_texts(roots: Roots) -> tuple[str, ...]:
    """The examples that were given away."""
    path = require(roots.public / "donated" / "donated.parquet", left_by="extract_metadata")
    return tuple(pd.read_parquet(path)["text"])


def public_texts(params: ProjectSettings, base: Path) -> tuple[str, ...]:
    """The public corpus that candidates are drawn from, where there is one."""
    if params.generator.provider is not Provider.POOL:
        return ()
    return load_pool(params.generator.pool.sources, base=base)


def _chosen(count: int, most: int, seed: int, *names: str | int) -> NDArray[np.int64]:
    """Places of at most `most` texts, drawn without replacement, in order."""
    if count <= most:
        return np.arange(count)
    drawn = public_rng(seed, "sample", *names).choice(count, size=most, replace=False)
    return np.sort(drawn)


def _counts(codes: NDArray[np.int64], schema: Schema) -> dict[str, list[int]]:
    return {
        name: np.bincount(codes[:, place], minlength=size).tolist()
        for place, (name, size) in enumerate(schema.domain.items())
    }


def write_figures(
    base: Path,
    figures: Sequence[MetricValue],
    read: Mapping[str, Mapping[str, list[int]]],
    *,
    key: bytes,
) -> None:
    """The internal figures, as DVC's metrics and plots read them, and a keyed stamp of them all.

    The internal page is made anew when the stamp changes, so it covers intervals and rounds too.
    """
    internal = make_private(Roots(base).internal)
    plots = make_private(internal / "plots")
    frame = pd.DataFrame(map(vars, figures), columns=[field.name for field in fields(MetricValue)])
    nested: dict[str, Any] = {}
    for figure in figures:
        if figure.round == FINAL:
            spaces = nested.setdefault(figure.method, {})
            spaces.setdefault(figure.space, {})[figure.metric] = figure.value
    contents = {
        "metrics.json": json.dumps({"final": nested}, indent=1),
        "figures.csv": frame.to_csv(index=False),
        "read.json": json.dumps(read),
    }
    for name, content in contents.items():
        with atomic_file(internal / name) as path:
            path.write_text(content)
    with atomic_file(plots / "distance.csv") as path:
        frame[frame.space.isin([ENCODER, LATENT, SECOND])].to_csv(path, index=False)
    with atomic_file(plots / "attributes.csv") as path:
        frame[frame.space == ATTRIBUTE].to_csv(path, index=False)
    with atomic_file(Roots(base).stamps / "evaluate.json") as path:
        digest = hashlib.sha256(json.dumps(contents).encode()).digest()
        stamp = hmac.digest(key, digest, "sha256").hex()
        path.write_text(json.dumps({"stamp": stamp}) + "\n")


if __name__ == "__main__":
    stage.main(NAME, run)
