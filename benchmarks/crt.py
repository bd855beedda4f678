"""What does CRT cost and what does it keep? Arms, miss rates and seeds on a set with dialogues.

python -m benchmarks.crt --set customersim.parquet --out points.jsonl --dialogues 600

A tiny GPT-2 is trained on dialogues taken as public, then by each arm on others, with ten canaries
in twenty copies each, of which the policy misses a share gamma. Points that `--out` holds are not
computed again, so a run that was stopped goes on. Prints one row a point.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from sugarbush.attacks.canaries import PREFIX, Canary, draw_canaries, inserted, missed
from sugarbush.attacks.exposure import candidate_losses, candidate_tokens, ranked
from sugarbush.attacks.membership import attack, by_perplexity, by_reference, groups
from sugarbush.crt.confidentiality import bayesian, noise_for
from sugarbush.crt.findings import Finding
from sugarbush.crt.patterns import RegexDetector
from sugarbush.crt.redact import Policy
from sugarbush.crt.screening import screen
from sugarbush.crt.train import PublicPass, train_by_crt
from sugarbush.crt.units import text_units
from sugarbush.dpsgd import models
from sugarbush.dpsgd.checkpoints import Checkpoints
from sugarbush.dpsgd.data import probe_examples
from sugarbush.dpsgd.language_modelling import Example, pad_together, perplexity, token_losses
from sugarbush.dpsgd.ordinary import train_on_public, train_without_privacy
from sugarbush.dpsgd.train import Clipping, Decay, Learning, Mechanism, Performance, train
from sugarbush.privacy.accounting import Relation
from sugarbush.privacy.kinds import Private
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.unit import Unit
from sugarbush.randomness import hash_share

ARMS = ("nonprivate", "redact-only", "dpsgd", "crt")
SHAPE = models.Shape(layers=2, width=64, heads=2, context=192)
CANARIES, REPEATS = 10, 20
BATCH, DELTA, TARGET, LEAST_GAMMA = 64, 1e-5, 1.0, 0.1
GROUPS, GROUP_SIZE = 2000, 20
PARTS = ("members", "others")
PERFORMANCE = Performance(
    micro_batch_tokens=8192, bfloat16=False, clipping=Clipping.BOOK_KEEPING, checkpoint_every=10**9
)


@dataclass(frozen=True)
class Missing:
    """The patterns, but for the secrets of some canaries, which they overlook."""

    detector: RegexDetector
    overlooked: tuple[str, ...]

    def find(self, texts: Sequence[str]) -> list[list[Finding]]:
        found = self.detector.find(texts)
        return [
            [f for f in own if not any(s in text[f.start : f.end] for s in self.overlooked)]
            for text, own in zip(texts, found, strict=True)
        ]


@dataclass(frozen=True)
class Corpus:
    """Dialogues: public ones, members, and others that nothing is trained on."""

    public: list[str]
    members: list[str]
    others: list[str]


def read(path: Path, count: int) -> Corpus:
    frame = pd.read_parquet(path)
    texts = sorted(frame["text"][~frame["is_canary"]], key=hash_share)
    return Corpus(texts[:count], texts[count : 2 * count], texts[2 * count : 3 * count])


def learning(rate: float) -> Learning:
    return Learning(learning_rate=rate, decay=Decay.CONSTANT, warmup_steps=0, weight_decay=0.0)


def examples(texts: Sequence[str], tokenizer: Any) -> list[tuple[Example]]:
    return text_units(texts, tokenizer=tokenizer, max_length=SHAPE.context)


ORDINARY: dict[str, Any] = {
    "learning": learning(2e-3),
    "batch_size": 32,
    "micro_batch_tokens": PERFORMANCE.micro_batch_tokens,
    "bfloat16": False,
}


def trained(
    arm: str, start: Any, tokenizer: Any, corpus: list[str], *, policy: Policy, args: Any, seed: int
) -> tuple[Any, float]:
    """The model of an arm, and its noise multiplier (0: none)."""
    model = copy.deepcopy(start)
    originals = Private(corpus)
    texts = originals
    if arm in ("redact-only", "crt"):
        texts = screen(originals, policy=policy).texts
    units = texts.map_batch(lambda own: examples(own, tokenizer))
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(
            Path(folder) / "state",
            dataset="benchmark",
            purpose="benchmark",
            unit=Unit.RECORD,
            cap=math.inf,
            delta=DELTA,
        )
        if arm in ("nonprivate", "redact-only"):
            train_without_privacy(
                model,
                units,
                **ORDINARY,
                epochs=args.epochs,
                seed=seed,
                ledger=ledger,
                stage="finetune",
                run=arm,
            )
            return model, 0.0
        rate = BATCH / len(corpus)
        steps = round(args.epochs / rate)
        gamma = max(args.gamma, LEAST_GAMMA)
        mechanism = Mechanism(
            rate=rate,
            steps=steps,
            repeatable_steps=0,
            noise_multiplier=noise_for(TARGET, gamma=gamma, delta=DELTA, rate=rate, steps=steps),
            clip_norm=1.0,
            expected_batch_size=BATCH,
            relation=Relation.REPLACE_ONE if arm == "crt" else Relation.ADD_OR_REMOVE_ONE,
        )
        common: dict[str, Any] = {
            "mechanism": mechanism,
            "learning": learning(args.dp_learning_rate),
            "performance": PERFORMANCE,
            "probe": probe_examples(len(tokenizer), max_length=SHAPE.context),
            "checkpoints": Checkpoints(Path(folder) / "checkpoints"),
            "ledger": ledger,
            "stage": "finetune",
            "run": arm,
        }
        if arm == "dpsgd":
            train(model, units, **common)
        else:
            public_pass = PublicPass(learning=learning(2e-3), batch_size=32, seed=seed)
            train_by_crt(
                model, public=Private([]), private=units, public_pass=public_pass, **common
            )
    return model, mechanism.noise_multiplier


@torch.inference_mode()
def mean_losses(model: Any, texts: Sequence[str], tokenizer: Any) -> np.ndarray:
    units = [example for (example,) in examples(texts, tokenizer)]
    model.eval()
    found = []
    for first in range(0, len(units), 32):
        sums, counts = token_losses(model, pad_together(units[first : first + 32]))
        found.append((sums / counts).double().numpy())
    return np.concatenate(found)


def point(arm: str, args: Any, seed: int, corpus: Corpus, made: Any) -> dict[str, Any]:
    start, tokenizer, tokens = made
    began = time.perf_counter()
    canaries: list[Canary] = draw_canaries(count=CANARIES, seed=seed)
    overlooked = tuple(c.secret for c in missed(canaries, gamma=args.gamma, seed=seed))
    policy = Policy([Missing(RegexDetector(), overlooked)])
    texts = inserted(corpus.members, canaries, repeats=REPEATS, seed=seed)
    model, noise = trained(arm, start, tokenizer, texts, policy=policy, args=args, seed=seed)
    exposed = ranked(candidate_losses(model, *tokens), canaries)
    losses = {part: mean_losses(model, getattr(corpus, part), tokenizer) for part in PARTS}
    reference = {part: mean_losses(start, getattr(corpus, part), tokenizer) for part in PARTS}
    scores = [by_perplexity(losses[part]) for part in PARTS]
    single = attack(*scores)
    against = attack(*(by_reference(losses[part], reference[part]) for part in PARTS))
    grouped = attack(
        *(
            groups(own, count=GROUPS, size=GROUP_SIZE, seed=seed + place)
            for place, own in enumerate(scores)
        )
    )
    held_out = [example for (example,) in examples(corpus.others, tokenizer)]
    return {
        "arm": arm,
        "gamma": args.gamma,
        "seed": seed,
        "dialogues": len(corpus.members),
        "epochs": args.epochs,
        "noise": noise,
        "perplexity": perplexity(model, held_out, batch_size=32),
        "exposure_mean": exposed.mean,
        "exposure_highest": exposed.highest,
        "exposure_missed": [
            round(b, 2)
            for b, c in zip(exposed.bits, canaries, strict=True)
            if c.secret in overlooked
        ],
        "accuracy": single.accuracy.value,
        "auc": single.auc.value,
        "tpr_1": single.true_positives_at_1_percent.value,
        "reference_auc": against.auc.value,
        "group_accuracy": grouped.accuracy.value,
        "seconds": round(time.perf_counter() - began, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--dialogues", type=int, default=2000)
    parser.add_argument("--epochs", type=float, default=20)
    parser.add_argument("--pretrain", type=float, default=10)
    parser.add_argument("--dp-learning-rate", type=float, default=1e-3)
    parser.add_argument("--gammas", default="0,0.1,0.5")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--arms", default=",".join(ARMS))
    args = parser.parse_args()
    corpus = read(args.set, args.dialogues)
    tokenizer = models.train_tokenizer(corpus.public, vocabulary=1000)
    start = models.new_model(tokenizer, SHAPE, seed=1)
    public = [example for (example,) in examples(corpus.public, tokenizer)]
    train_on_public(start, public, **ORDINARY, epochs=args.pretrain, seed=1)
    made = (start, tokenizer, candidate_tokens(tokenizer, prefix=models.END + PREFIX))
    done = [json.loads(x) for x in args.out.read_text().splitlines()] if args.out.exists() else []
    for seed in range(args.seeds):
        for gamma in map(float, args.gammas.split(",")):
            for arm in args.arms.split(","):
                args.gamma = gamma
                key = (arm, gamma, seed, args.dialogues, args.epochs)
                kept = {
                    (p["arm"], p["gamma"], p["seed"], p["dialogues"], p["epochs"]) for p in done
                }
                if key not in kept:
                    done.append(point(arm, args, seed, corpus, made))
                    with args.out.open("a") as file:
                        file.write(json.dumps(done[-1]) + "\n")
                    print(json.dumps(done[-1]), flush=True)
    held_out = [example for (example,) in examples(corpus.others, tokenizer)]
    print(f"before training: perplexity {perplexity(start, held_out, batch_size=32):.3f}")
    for p in done:
        if p["arm"] == "crt":
            rate = BATCH / (p["dialogues"] + CANARIES * REPEATS)
            event = Mechanism(
                rate=rate,
                steps=round(p["epochs"] / rate),
                repeatable_steps=0,
                noise_multiplier=p["noise"],
                clip_norm=1.0,
                expected_batch_size=BATCH,
                relation=Relation.REPLACE_ONE,
            ).event
            found = bayesian(event, gamma=max(p["gamma"], LEAST_GAMMA), delta=DELTA)
            print(f"crt, gamma {p['gamma']}: Bayesian epsilon {found.epsilon:.3f}")


if __name__ == "__main__":
    main()
