"""Does it help to show a variation the best and the worst candidates of the last vote?

    python -m research.contrast [--seeds 5] [--first-seed 0] [--rounds 3] [--contrast 3]
                                  [--starts bare maple]

The embedded example's writer as private corpus, the simulator as generator, epsilon 1. `bare`
starts from texts that were asked for by nothing but the subject, `maple` from rows like the
corpus's own with examples. Both arms of a seed start from the same texts. MAUVE of the final
candidates against texts that did not vote; the last column is the mean difference with its standard
error over the seeds. The simulator takes sentences from good texts and does nothing with bad ones;
`pool` shows neither: only a language model can tell what they bring it.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from research.generators import requests_by_arm, written
from sugarbush.data.schema import Attribute, Schema
from sugarbush.embedding.encoder import Encoder
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.evaluation.mauve import mauve
from sugarbush.evolution.evolve import Writer, evolve
from sugarbush.evolution.population import NO_CODE, NO_PARENT, Population
from sugarbush.evolution.voting import PrivateEmbeddings, VotingSession
from sugarbush.examples.settings import MakeExampleSettings
from sugarbush.examples.simulator.writer import Simulator
from sugarbush.pipeline.settings import load_params
from sugarbush.pipeline.stages.make_example import SUBJECT, write_records
from sugarbush.privacy.budget import mu_of
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.results import open_result_store
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.unit import Unit

EPSILON, DELTA = 1.0, 1e-6
STARTS = {"bare": "nothing", "maple": "metadata and examples"}
VOTERS, HELD_OUT, SURVIVORS = 400, 200, 60
SCHEMA = Schema(
    subject=SUBJECT, attributes=(Attribute(name="any", column="any", values=("a", "b")),)
)

ENCODER = Encoder(EmbeddingSettings(model="bundled", max_tokens=128, precision="auto"), cache=None)


class Memory:
    """Embeddings of texts, each made once."""

    def __init__(self) -> None:
        self._known: dict[str, NDArray[np.float32]] = {}

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        new = tuple(dict.fromkeys(text for text in texts if text not in self._known))
        if new:
            self._known.update(zip(new, ENCODER.encode(new), strict=True))
        return np.stack([self._known[text] for text in texts])


def population(texts: Sequence[str]) -> Population:
    count = len(texts)
    return Population(
        ids=np.arange(count), texts=tuple(texts), codes=np.full((count, 1), NO_CODE),
        labels=np.zeros(count, dtype=np.int64), parents=np.full(count, NO_PARENT),
        rounds=np.zeros(count, dtype=np.int64),
    )  # fmt: skip


def final(
    start: Population,
    voters: PrivateEmbeddings,
    memory: Memory,
    *,
    contrast: int,
    rounds: int,
    seed: int,
) -> tuple[str, ...]:
    """The texts that are left after the votes."""
    changes = {"contrast": contrast, "rounds": rounds, "expansion": 1}
    params = load_params().evolve.maple.model_copy(update=changes)
    with tempfile.TemporaryDirectory() as state:
        ledger = Ledger(
            Path(state), dataset="contrast", purpose="benchmark", unit=Unit.RECORD, cap=100.0,
            delta=DELTA,
        )  # fmt: skip
        with open_result_store(
            Path(state), dataset="contrast", stage="evolve", digest=str(seed), forced=False
        ) as store:
            voting = VotingSession(
                embeddings=Private(voters),
                stddev=math.sqrt(rounds) / mu_of(epsilon=EPSILON, delta=DELTA),
                session=PrivacySession(ledger=ledger, stage="evolve", run=store.run),
            )
            found = evolve(
                Released(start),
                params=params,
                schema=SCHEMA,
                writer=Writer(generator=Simulator(seed=seed), max_dropped_share=0.5),
                encode=memory.encode,
                voting=voting,
                store=store,
                seed=seed,
                say=lambda line: None,
            )
    return found.final.texts


def compare(
    seed: int, starts: Sequence[str], *, contrast: int, rounds: int
) -> dict[str, tuple[float, float]]:
    """MAUVE without and with contrast, by where the candidates start."""
    memory = Memory()
    params = MakeExampleSettings(records=VOTERS + HELD_OUT, donated=50, seed=seed)
    records = write_records(params)
    donated, corpus = list(islice(records, params.donated)), list(islice(records, params.records))
    asked = requests_by_arm(corpus, donated)
    held_out = memory.encode([record["text"] for record in corpus[VOTERS:]])
    own = memory.encode([record["text"] for record in corpus[:VOTERS]])
    voters = PrivateEmbeddings(own, np.zeros(VOTERS, dtype=np.int64))
    found = {}
    for name in starts:
        start = population(written(asked[STARTS[name]][:SURVIVORS]))
        without, shown = (
            mauve(
                held_out,
                memory.encode(final(start, voters, memory, contrast=k, rounds=rounds, seed=seed)),
                seed=1,
                clusters=10,
            )
            for k in (0, contrast)
        )
        found[name] = (without, shown)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--starts", nargs="+", choices=STARTS, default=list(STARTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--contrast", type=int, default=3)
    asked = parser.parse_args()
    runs = []
    for seed in range(asked.first_seed, asked.first_seed + asked.seeds):
        found = compare(seed, asked.starts, contrast=asked.contrast, rounds=asked.rounds)
        runs.append(found)
        print(f"seed {seed}: {found}", flush=True)
    print("| start | without | with | difference |")
    print("|---|---|---|---|")
    for name in runs[0]:
        without, shown = zip(*(run[name] for run in runs), strict=True)
        apart = [b - a for a, b in zip(without, shown, strict=True)]
        error = statistics.stdev(apart) / math.sqrt(len(apart))
        print(
            f"| {name} | {statistics.fmean(without):.3f} | {statistics.fmean(shown):.3f} "
            f"| {statistics.fmean(apart):+.3f} ± {error:.3f} |"
        )


if __name__ == "__main__":
    main()
