"""Computes one batch of a leakage grid: trains models on planted canaries and attacks them.

    python -m research.leakage_batch research/settings/crt_figures.yaml customersim/gpt2/0

Reads    the grid file and the file of the data set
Writes   data/private/leakage/           first models, and the measured miss rates of policies
         data/private/leakage/<grid>/    one file per finished point (research/leakage_points.py)
Spends   no budget of a release, because the sets are declared public. A separate ledger records the
         trainings. A corpus that is known from a release is refused
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import torch

import sugarbush as sb
from research.leakage.corpus import LeakageCorpus, divided, plant
from research.leakage.exposure import candidate_tokens
from research.leakage.first_model import FirstModel, train_first_model, untrained
from research.leakage.grid import (
    VERSION,
    LeakageGrid,
    LeakagePoint,
    ModelKind,
    Sizes,
    describe_redaction,
)
from research.leakage.measure import Candidates, Losses, attacks, losses_of
from research.leakage.training import LeakageTrial, smallest_gamma, train_point
from research.leakage_points import NAME, Points, file_of
from sugarbush.data import is_missing, read_rows
from sugarbush.errors import InputError
from sugarbush.paths import Roots, atomic_file, find_input, make_private, state_root
from sugarbush.privacy import Purpose, digest_of, make_dataset_fingerprint, state_key
from sugarbush.run import run_with_error_report
from sugarbush.training import (
    THRESHOLD,
    LabelledText,
    agreed_gamma,
    load_labelled,
    make_policy,
    make_public_policy,
    measure_recall,
)

TEXT = "text"
_PLANTED = "is_canary"  # rows with this flag are canaries of the data set, and are not used
# Only these training settings affect the first model. A classifier reads about 30 texts per CPU
# second. It reads a text once per secret.
_CLASSIFIED = 300
_MADE_FROM = {"public_epochs", "batch_size", "learning_rate"}


class Laboratory:
    """Computes the values of points. Values that several points need are computed once."""

    def __init__(self, base: Path, grid: LeakageGrid) -> None:
        self._base, self._grid, self._state = base, grid, state_root(base)
        self._kept = make_private(Roots(base).private / NAME)
        self.corpus = cache(self._read)
        self.start = cache(self._make_start)
        self.candidates = cache(self._make_candidates)
        self.before = cache(self._measure_start)
        self.delta_2 = cache(self._measure_policy)

    def measured(self, point: LeakagePoint, *, key: str) -> dict[str, Any]:
        """Train the model of `point`, and return its perplexity and the results of the attacks.

        `key` is the name of the run in the ledger.
        """
        began = time.process_time()
        corpus = self.corpus(point.set_name, point.seed)
        planted = plant(corpus, self._grid, point)
        delta_2 = self.delta_2(point.set_name)
        start = self.start(point.set_name, point.model)
        with tempfile.TemporaryDirectory(dir=self._kept) as scratch:
            trial = LeakageTrial(
                grid=self._grid,
                point=point,
                key=key,
                start=start,
                corpus=corpus,
                planted=planted,
                delta_2=delta_2,
                ledger=self._ledger(point.set_name, NAME),
                scratch=Path(scratch),
            )
            trained = train_point(trial)
        return {
            "noise": trained.noise,
            "promised": trained.epsilon,
            "delta": trained.delta,
            **attacks(
                trained.model,
                losses_of(trained.model, start, corpus),
                self.before(point.set_name, point.model, point.seed),
                planted,
                self.candidates(point.set_name, point.model),
                grid=self._grid,
                seed=point.seed,
            ),
            "cpu_s": round(time.process_time() - began, 1),
        }

    def _read(self, set_name: str, seed: int) -> LeakageCorpus:
        sizes, setting = self._grid.sets[set_name], f"sets.{set_name}.file"
        path = find_input(self._base, sizes.file)
        rows = read_rows(path, setting=setting, wanted={TEXT: setting}, all_columns=True)
        missing = next((row for row in rows if is_missing(row.fields[TEXT])), None)
        if missing is not None:
            raise InputError(f"{path}, row {missing.number}: has no text ({setting})")
        own = [str(row.fields[TEXT]) for row in rows if not row.fields.get(_PLANTED)]
        corpus = divided(own, sizes, seed=seed)
        dataset_fingerprint = make_dataset_fingerprint(corpus.members, key=state_key(self._state))
        self._ledger(set_name, Purpose.BENCHMARK.value).check(
            (), dataset_fingerprint=dataset_fingerprint
        )
        return corpus

    def _ledger(self, set_name: str, purpose: str) -> sb.Ledger:
        return sb.open_ledger(
            set_name, purpose=purpose, cap=math.inf, delta=self._grid.delta, state=self._state
        )

    def _make_start(self, set_name: str, model: ModelKind) -> FirstModel:
        own = self._grid.models[model]
        public = self.corpus(set_name, 0).public  # the same for every seed
        made_of = digest_of(
            version=VERSION,
            public=public,
            shape=own.shape.model_dump(mode="json"),
            training=own.training.model_dump(mode="json", include=_MADE_FROM),
        )
        kept = self._kept / f"{set_name}-{model}-{made_of[:12]}.pt"
        start = untrained(public, own.shape, model)
        if kept.exists():
            start.model.load_state_dict(torch.load(kept, weights_only=True))
            return start
        train_first_model(start, public, own.training)
        with atomic_file(kept) as path:
            torch.save(start.model.state_dict(), path)
        return start

    def _measure_start(self, set_name: str, model: ModelKind, seed: int) -> Losses:
        start = self.start(set_name, model)
        return losses_of(start.model, start, self.corpus(set_name, seed))

    def _make_candidates(self, set_name: str, model: ModelKind) -> Candidates:
        tokenizer = self.start(set_name, model).tokenizer
        common, table = candidate_tokens(tokenizer)
        return [tokenizer.eos_token_id, *common], table

    def _measure_policy(self, set_name: str) -> float:
        """Return delta_2: an upper bound of the share of secrets that show in the public views.

        delta_2 and gamma together hold with 95% confidence on the labelled secrets. Raises
        ParamsError if the measured gamma is larger than the miss rate of CRT's noise.
        """
        sizes = self._grid.sets[set_name]
        made_of = digest_of(
            version=3,
            file=file_of(self._base, set_name, sizes),
            **describe_redaction(self._grid),
            secrets=sizes.secrets,
            conservative=self._grid.conservative,
        )
        kept = self._kept / f"{set_name}-policy-{made_of[:12]}.json"
        if not kept.exists():
            labelled = list(self._labelled(sizes))
            if self._grid.detectors != ("regex",):
                labelled.sort(key=lambda one: hashlib.sha256(one.text.encode()).digest())
                labelled = labelled[:_CLASSIFIED]
            found = measure_recall(
                labelled,
                make_policy(self._grid.detectors, threshold=THRESHOLD),
                name=set_name,
                conservative=make_public_policy(self._grid.conservative),
            )
            with atomic_file(kept) as path:
                path.write_text(json.dumps(asdict(found)) + "\n")
        measured = json.loads(kept.read_text())
        agreed_gamma(smallest_gamma(self._grid), measured=measured["traced"]["upper"])
        return float(measured["public"]["upper"])

    def _labelled(self, sizes: Sizes) -> Iterator[LabelledText]:
        """The texts of the data set, each with its spans that count as secrets."""
        source = find_input(self._base, sizes.file)
        for one in load_labelled(source, text_column=TEXT, disjoint=False):
            spans = tuple(span for span in one.spans if span[2] in sizes.secrets)
            yield LabelledText(text=one.text, spans=spans)


def run(base: Path, file: Path, batch: str) -> None:
    """Compute the unfinished points of a batch, one by one."""
    kept = Points(base, file)
    laboratory = Laboratory(base, kept.grid)
    for point in kept.unfinished(batch):
        kept.keep(point, laboratory.measured(point, key=kept.key(point)))
        print(f"{batch} {point.arm} gamma {point.gamma} epsilon {point.epsilon}", flush=True)


def main() -> None:
    """Run a batch in the current folder."""
    parser = argparse.ArgumentParser(prog="python -m research.leakage_batch")
    parser.add_argument("file", type=Path)
    parser.add_argument("batch", help="set/model/seed, as research.leakage_points prints them")
    asked = parser.parse_args()
    run_with_error_report(NAME, lambda base: run(base, asked.file, asked.batch))


if __name__ == "__main__":
    main()
