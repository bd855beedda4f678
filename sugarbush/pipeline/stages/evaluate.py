"""Compares the synthetic texts of each round with held-out real texts.

Reads    data/private/prepared/, data/private/metadata/, data/public/donated/, the pool's files,
         data/released/{initial,evolve,generate}/<method>/, data/private/arms/<method>/
Writes   reports/internal/   metrics.json and by_texts.json (final sets), figures.csv (all values),
                             read.json (counts of attribute values)
         reports/internal/experiments/<name>.json   metrics.json of an experiment of DVC, in the
                             checkout, because DVC stores no internal file
         data/stamps/evaluate.json
Spends   nothing. The results are internal, because they are computed on real texts
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sugarbush.attributes.donated import load_readers
from sugarbush.data.private_store import HELDOUT, TRAIN
from sugarbush.data.schema import Schema
from sugarbush.errors import InputError
from sugarbush.evaluation import mauve
from sugarbush.evaluation.evaluate import installed_metrics
from sugarbush.evaluation.interface import FINAL, REAL, MetricSettings, MetricValue, Sample, label
from sugarbush.evolution.population import NO_CODE, Population, load_population
from sugarbush.methods.interface import Method
from sugarbush.paths import Roots, atomic_file, checkout_root, make_private
from sugarbush.pipeline.stamps import renew_stamp
from sugarbush.privacy.results import digest_of
from sugarbush.progress import with_progress
from sugarbush.quality.real_texts import ENCODER, Evaluator, train_sample_reader
from sugarbush.randomness import public_rng
from sugarbush.release.folders import (
    donated_frame,
    final_folder,
    first_folder,
    load_labels,
    read_lineage,
    read_release,
)
from sugarbush.run.context import Project
from sugarbush.run.records import private_store

NAME = "evaluate"
_EXPERIMENT = "DVC_EXP_NAME"  # DVC sets this variable to the name that `dvc exp show` prints
SIZES = (250, 500, 1000, 2000, 5000)  # numbers of texts for which releases are compared


def populations_of(project: Project, method: Method) -> Iterator[tuple[int, Population]]:
    """Yield the first candidates of a method, the survivors of each round, and the final texts."""
    names, final = project.schema.names, final_folder(project.roots, method)
    if (first := first_folder(project.roots, method)) is not None:
        yield 0, load_population(first / "candidates.parquet", names)
    lineage = read_lineage(final, project.schema)
    for each in lineage.rounds:
        yield each.number, each.population.take(each.survivors)
    yield FINAL, lineage.final


def run(project: Project) -> None:
    """Measure every compared method, and a sample of real texts as the ceiling."""
    methods = project.settings.measured if project.settings.evaluate.show else ()
    if not methods:
        write_figures(project, [], {})
        return
    shown = [release_id(project, method) for method in methods]
    project.ledger(rehearse=False).note_shown("evaluation", of=shown)
    wanted, schema, seed = project.settings.evaluate, project.schema, project.settings.seed
    train, heldout = (
        private_store(project).real_texts(
            schema.names, split=split, limit=wanted.max_texts, seed=seed
        )
        for split in (TRAIN, HELDOUT)
    )
    if len(heldout.texts) < 2:
        raise InputError(
            "the held-out part is too small for any metric. Raise prepare.heldout_share"
        )
    count = equal_count(project)
    private, public = (project.inputs.encoder(private=private).encode for private in (True, False))
    read = train_sample_reader(
        train,
        schema=schema,
        embed=private,
        zero_shot=load_readers(project.roots.public / "donated", schema, embed=public),
        params=project.settings,
    )
    evaluator = Evaluator(
        heldout=read(heldout.texts, private),
        heldout_codes=heldout.codes,
        train=read(train.texts, private),
        donated=tuple(donated_frame(project.roots)["text"]),
        taught=donated_sample(project),
        public=project.settings.generator.chosen.public_texts(project.base, project.schema.shape),
        settings=MetricSettings(
            domain=schema.domain,
            clusters=clusters_for(count, len(heldout.texts)),
            resamples=wanted.bootstrap,
            seed=seed,
        ),
        metrics=installed_metrics(),
    )
    figures = list(real_figures(evaluator, train.codes, count=count, seed=seed))
    by_texts = defaultdict[int, list[MetricValue]](list)
    counted: dict[str, dict[str, list[int]]] = {}
    populations = [
        (method, number, population)
        for method in methods
        for number, population in populations_of(project, method)
    ]
    for method, number, everything in with_progress(
        populations, len(populations), what="evaluation", unit="sets of texts"
    ):
        chosen = _chosen(len(everything), count, seed, method.name, number)
        population = everything.take(chosen)
        sample = read(population.texts, public)
        figures += evaluator.texts(sample, method=method.name, round_=number)
        if number == FINAL:
            figures += evaluator.copies(sample, method=method.name)
            codes = load_labels(final_folder(project.roots, method)).codes
            labelled = replace(sample, codes=codes[chosen])
            figures += evaluator.downstream(labelled, method=method.name)
            counted[method.name] = _counts(sample.codes, schema)
            whole = read(everything.texts, public)
            add_sizes(by_texts, evaluator, whole, method=method.name)
    if by_texts:
        add_sizes(
            by_texts,
            evaluator,
            evaluator.train.limited(max(by_texts), rng=public_rng(seed, REAL)),
            method=REAL,
        )
    write_figures(project, figures, counted, by_texts)


def donated_sample(project: Project) -> Sample:
    """Return the donated examples with their codes. An example without a label has the code -1."""
    frame, schema = donated_frame(project.roots), project.schema
    codes = frame[list(schema.names)].to_numpy(dtype=np.int64, copy=True)
    for place, attribute in enumerate(schema.attributes):
        if attribute.column is not None or attribute.source is not None:
            own = codes[:, place]  # a missing value is stored as `other`
            codes[:, place] = np.where(own == len(attribute.domain) - 1, NO_CODE, own)
    texts = tuple(frame["text"])
    return Sample(
        texts=texts,
        features={ENCODER: project.inputs.encoder(private=False).encode(texts)} if texts else {},
        codes=codes,
    )


def release_id(project: Project, method: Method) -> str:
    """Return a digest of a release's run and texts. One model can write many sets of texts."""
    folder = final_folder(project.roots, method)
    final = load_population(folder / "lineage.parquet", project.schema.names)
    return digest_of(run=read_release(folder)["run"], texts=final.texts)


def equal_count(project: Project) -> int:
    """Return the number of texts that are measured for each method and round. Most metrics depend
    on the number of texts, so the number is the same for all methods. Methods without texts are
    ignored."""
    settings, names = project.settings, project.schema.names
    finals = (final_folder(project.roots, m) / "lineage.parquet" for m in settings.measured)
    sizes = [len(load_population(final, names)) for final in finals]
    return min([settings.evaluate.max_texts, *(size for size in sizes if size)])


def real_figures(
    evaluator: Evaluator, codes: NDArray[np.int64], *, count: int, seed: int
) -> tuple[MetricValue, ...]:
    """Measure `count` random real training texts as if they were synthetic. `codes` (n, a) contains
    the original codes of the training texts. The classifiers are trained on these codes."""
    texts, given = (
        sample.limited(count, rng=public_rng(seed, REAL))
        for sample in (evaluator.train, replace(evaluator.train, codes=codes))
    )
    return (
        *evaluator.texts(texts, method=REAL),
        *evaluator.downstream(given, method=REAL),
    )


def add_sizes(
    by_texts: Mapping[int, list[MetricValue]], evaluator: Evaluator, sample: Sample, *, method: str
) -> None:
    """Add MAUVE of random subsets of `sample` to `by_texts`, for each size in SIZES up to the size
    of `sample`. A sample that is large enough for only one size adds nothing. `by_texts` is a
    defaultdict."""
    sizes = [size for size in SIZES if size <= len(sample)]
    for size in sizes if len(sizes) > 1 else ():
        settings = replace(evaluator.settings, clusters=clusters_for(size, len(evaluator.heldout)))
        smaller = sample.limited(size, rng=public_rng(settings.seed, "size", method, size))
        values = mauve.METRIC.measure(evaluator.heldout, smaller, settings)
        by_texts[size] += label(values, method=method)


def clusters_for(texts: int, heldout: int) -> int:
    """Return the number of clusters for MAUVE: a tenth of the smaller number of texts, at least 2.
    With more clusters, a cluster could by chance contain no text of the smaller sample."""
    return max(2, min(texts, heldout) // 10)


def _chosen(count: int, most: int, seed: int, *names: str | int) -> NDArray[np.int64]:
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
    project: Project,
    figures: Sequence[MetricValue],
    read: Mapping[str, Mapping[str, list[int]]],
    by_texts: Mapping[int, Sequence[MetricValue]] = MappingProxyType({}),
) -> None:
    """Write the internal metrics, and a new stamp, so that DVC writes the report again.

    The metrics of an experiment are also stored under its name, so that `dvc metrics show` can
    compare experiments. DVC has no internal file in its cache or in a commit.
    """
    internal = make_private(project.roots.internal)
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
        "by_texts.json": json.dumps({n: [vars(v) for v in own] for n, own in by_texts.items()}),
    }
    for name, content in contents.items():
        with atomic_file(internal / name) as path:
            path.write_text(content)
    if experiment := os.environ.get(_EXPERIMENT):
        checkout = make_private(Roots(checkout_root(project.base)).internal)
        folder = make_private(checkout / "experiments")
        with atomic_file(folder / f"{experiment.replace('/', '-')}.json") as path:
            path.write_text(contents["metrics.json"])
    renew_stamp(project, NAME)
