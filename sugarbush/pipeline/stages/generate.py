"""Texts from the fine-tuned model, one for each control code that is drawn from the DP table.

Reads    data/released/finetuned/, data/released/metadata/
Writes   data/released/generated/    synthetic.jsonl, final.parquet, usage.json, release.json
Spends   nothing: it is post-processing of what was released
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd

from sugarbush.data.schema import Schema, load_schema
from sugarbush.evolution.initialisation import targets_by_rows
from sugarbush.evolution.population import NO_PARENT, Population
from sugarbush.generators.interface import Usage
from sugarbush.paths import Roots, atomic_directory, find_input, require
from sugarbush.pipeline import entry_point as stage
from sugarbush.pipeline.release import read_release, write_release
from sugarbush.pipeline.settings import ProjectSettings
from sugarbush.pipeline.texts import write_texts
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.results import digest_of
from sugarbush.randomness import public_rng
from sugarbush.training.device import open_device
from sugarbush.training.dpsgd import models
from sugarbush.training.dpsgd.data import control_codes
from sugarbush.training.dpsgd.generate import Decoding, Generation, generate

NAME = "generate"


def run(base: Path, params: ProjectSettings) -> None:
    """Draw codes and write a text for each."""
    roots, schema = Roots(base), load_schema(find_input(base, params.prepare.schema_))
    settings = params.generate
    codes = codes_of(params, roots)
    folder = require(roots.released / "finetuned" / "config.json", left_by="finetune").parent
    model, tokenizer = models.load(str(folder), device=open_device(params.finetune.device))
    generated = generate(
        Released(model, tuple(read_release(folder)["ledger_ids"])),
        codes.map(lambda table: prompts_of(table, schema)),
        tokenizer=tokenizer,
        decoding=Decoding.by(settings, max_length=params.finetune.chosen.max_length),
        seed=settings.seed,
    )
    with atomic_directory(roots.released / "generated") as target:
        write_texts(population_of(codes.value, generated.value.texts), schema, target)
        usage = {NAME: asdict(usage_of(generated.value))}
        (target / "usage.json").write_text(json.dumps(usage, indent=1))
        write_release(
            target, stage=NAME, params=params, ledger_ids=generated.ledger_ids,
            run=digest_of(seed=settings.seed, ids=list(generated.ledger_ids)),
        )  # fmt: skip


def codes_of(params: ProjectSettings, roots: Roots) -> Released[np.ndarray]:
    """Codes (n, d) of the texts to come: rows of the DP table, each once before any again."""
    folder = require(roots.released / "metadata", left_by="synthesize_metadata")
    rows = pd.read_parquet(folder / "rows.parquet").to_numpy(dtype=np.int64)
    wanted = params.generate.texts if params.generate.texts is not None else len(rows)
    drawn = targets_by_rows(wanted, rows, rng=public_rng(params.generate.seed, "codes"))
    return Released(drawn.codes, tuple(read_release(folder)["ledger_ids"]))


def prompts_of(codes: np.ndarray, schema: Schema) -> tuple[str, ...]:
    """The control codes as they stand before a text."""
    return tuple(control_codes(schema.decode(tuple(row))) for row in codes.tolist())


def population_of(codes: np.ndarray, texts: tuple[str, ...]) -> Population:
    """The texts in the form of every method's final set: no parents, no rounds."""
    none = np.zeros(len(texts), dtype=np.int64)
    return Population(
        ids=np.arange(len(texts)),
        texts=texts,
        codes=codes,
        labels=none,
        parents=np.full(len(texts), NO_PARENT),
        rounds=none,
    )


def usage_of(generation: Generation) -> Usage:
    """What the page says of the cost; a text that was drawn again was an unusable answer."""
    return Usage(
        calls=len(generation.texts) + generation.redrawn,
        completion_tokens=generation.tokens,
        problems={"empty": generation.redrawn} if generation.redrawn else {},
    )


if __name__ == "__main__":
    stage.main(NAME, run)
