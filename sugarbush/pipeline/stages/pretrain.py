"""Trains tiny models on public text. These models need no download.

Reads    the schema, data/public/donated/; the files of pretrain.sources
Writes   data/public/pretrained/     a GPT-2 and its tokenizer, pretrain.json
           lstm/                     an LSTM and its tokenizer, pretrain.json
Spends   nothing. The stage reads no private record

The simulator writes most of the training text, from codes that are sampled uniformly from the
schema. So the model learns the control codes before fine-tuning. For each text, the simulator gets
the donated examples with the nearest codes, as a generator does with method `maple`. The model is
also trained on the donated examples, because only they show the style of the private texts. The
stage trains only models that a chosen method starts from.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from sugarbush.data.schema import Schema
from sugarbush.data.shapes.interface import Shape
from sugarbush.examples.simulator.writer import SimulatorWriter
from sugarbush.generators.examples import choose_examples
from sugarbush.generators.interface import RandomRequest
from sugarbush.generators.pool_files import load_pool
from sugarbush.paths import atomic_directory
from sugarbush.privacy.results import digest_of
from sugarbush.randomness import public_rng
from sugarbush.run.context import Project
from sugarbush.training.crt.lstm import LstmModel
from sugarbush.training.crt.settings import LSTM
from sugarbush.training.crt.start import save
from sugarbush.training.crt.units import add_mask_token
from sugarbush.training.device import open_device
from sugarbush.training.dpsgd import models
from sugarbush.training.dpsgd.data import examples_of, plain_examples
from sugarbush.training.dpsgd.language_modelling import Example, perplexity
from sugarbush.training.dpsgd.ordinary import OrdinaryTraining, train_on_public
from sugarbush.training.dpsgd.settings import TINY, PretrainSettings, TrainingSettings
from sugarbush.training.dpsgd.train import Decay, Learning

NAME = "pretrain"
EXAMPLES: Final = 10  # donated examples that the simulator reads before each text
_CHECKED = 200  # number of texts for testing a model, excluded from training
_DONATED_COPIES: Final = 2  # copies of each donated example in the training texts
_HEADS: Final = 4
_BATCH_SIZE: Final = 16
# A constant, because the weights depend on the order of additions.
_MICRO_BATCH_TOKENS: Final = 2048
_LEARNING_RATE: Final = 2e-3


def run(project: Project) -> None:
    """Train the models that the chosen methods start from."""
    with atomic_directory(project.inputs.pretrained) as folder:
        write_models(folder, project)


def write_models(folder: Path, project: Project) -> None:
    """Write public texts, train a tokenizer and models on them, and measure their perplexity."""
    settings, schema, seed = project.settings.pretrain, project.schema, project.settings.seed
    examples_given = project.inputs.donated()
    given: tuple[str, ...] = ()
    given_codes = np.empty((0, len(schema.names)), dtype=np.int64)
    if examples_given is not None:
        given, given_codes = examples_given.texts, examples_given.codes
    texts, codes = simulated(schema, settings.texts, given, given_codes, seed=seed)
    others = _others(project.base, settings, project.schema.shape)
    tokenizer = models.train_tokenizer([*texts, *others, *given], vocabulary=settings.vocabulary)
    length = settings.max_length
    examples = [
        *examples_of(texts, codes, schema=schema, tokenizer=tokenizer, max_length=length),
        *plain_examples(others, tokenizer=tokenizer, max_length=length),
    ]
    held, kept = _split([example for (example,) in examples], seed)
    kept += _DONATED_COPIES * [
        example
        for (example,) in examples_of(
            given, given_codes, schema=schema, tokenizer=tokenizer, max_length=length
        )
    ]
    made_of = digest_of(
        settings=settings.model_dump(mode="json"),
        seed=seed,
        texts=texts,
        codes=codes.tolist(),
        others=others,
        donated=given,
        donated_codes=given_codes.tolist(),
    )
    for kind in wanted_models(project):
        own = folder / LSTM if kind == LSTM else folder
        own.mkdir(exist_ok=True)
        model = _trained(kind, tokenizer, kept, settings, project.settings.training, seed=seed)
        described = {
            "digest": made_of,
            "examples": len(kept),
            "tokens": int(sum(len(example.tokens) for example in kept)),
            "weights": sum(p.numel() for p in model.parameters()),
            "perplexity_on_public_text": perplexity(model, held, batch_size=_BATCH_SIZE),
        }
        save(model.to(torch.device("cpu")), tokenizer, own)
        (own / "pretrain.json").write_text(json.dumps(described, indent=1) + "\n")


def wanted_models(project: Project) -> list[str]:
    """Return the models among TINY and LSTM that a chosen method starts from."""
    named = [method.facts.pretrained for method in project.settings.chosen]
    return [kind for kind in (TINY, LSTM) if kind in named]


def _trained(
    kind: str,
    tokenizer: Any,
    examples: Sequence[Example],
    settings: PretrainSettings,
    training: TrainingSettings,
    *,
    seed: int,
) -> Any:
    device = open_device(training.device)
    if kind == LSTM:
        add_mask_token(tokenizer)
        model: Any = LstmModel(vocabulary=len(tokenizer), seed=seed)
    else:
        shape = models.ModelShape(
            layers=settings.layers, width=settings.width, heads=_HEADS,
            context=settings.max_length,
        )  # fmt: skip
        model = models.new_model(tokenizer, shape, seed=seed)
    model.to(device)
    train_on_public(
        model,
        examples,
        training=OrdinaryTraining(
            learning=Learning(
                learning_rate=_LEARNING_RATE,
                decay=Decay.LINEAR,
                warmup_steps=20,
                weight_decay=0.01,
            ),
            epochs=settings.epochs,
            batch_size=_BATCH_SIZE,
            micro_batch_tokens=_MICRO_BATCH_TOKENS,
            bfloat16=device.type == "cuda",
        ),
        seed=seed,
        report=_say,
    )
    return model


def _others(base: Path, settings: PretrainSettings, shape: Shape | None) -> tuple[str, ...]:
    if not settings.sources:
        return ()
    return load_pool(settings.sources, base=base, shape=shape, setting="pretrain.sources")


def simulated(
    schema: Schema,
    count: int,
    examples: Sequence[str] = (),
    example_codes: NDArray[np.int64] | None = None,
    *,
    seed: int = 1,
    shown: int = EXAMPLES,
) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Sample public codes (n, d) uniformly, and write a text for each of the `count` rows with the
    simulator. Each text imitates the `shown` examples with the nearest codes. Shapes: `examples`
    (m,), `example_codes` (m, d). Requests contain no values for the bucket `other`."""
    rng = public_rng(seed, "codes")
    columns = [rng.integers(size, size=count) for size in schema.domain.values()]
    codes = np.stack(columns, axis=1)
    nearest = np.empty((count, 0), dtype=np.int64)
    if example_codes is not None:
        nearest = choose_examples(codes, example_codes, k=shown, rng=public_rng(seed, "near"))
    buckets = {attribute.name: attribute.other for attribute in schema.attributes}
    writer = SimulatorWriter(seed=seed)
    texts = tuple(
        writer.write(
            RandomRequest(
                subject=schema.subject,
                attributes=tuple(
                    (name, value)
                    for name, value in schema.decode(tuple(row))
                    if value != buckets[name]
                ),
                examples=tuple(examples[place] for place in near),
                sample=number,
            )
        )
        for number, (row, near) in enumerate(zip(codes.tolist(), nearest.tolist(), strict=True))
    )
    return texts, codes


def _split(examples: list[Example], seed: int) -> tuple[list[Example], list[Example]]:
    order = public_rng(seed, "held").permutation(len(examples))
    held = min(_CHECKED, len(examples) // 10)
    shuffled = [examples[place] for place in order]
    return shuffled[:held], shuffled[held:]


def _say(step: int, steps: int, loss: float) -> None:
    if step == steps:
        print(f"{NAME}: {steps} steps, {loss:.2f} nats per token of public text", flush=True)
