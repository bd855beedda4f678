"""Compares OpenVINO GenAI with transformers: the same GGUF file, prompts and settings, on a CPU.

    python -m benchmarks.local_engines FILE.gguf [--texts 32] [--examples 10] [--words 13]
                                       [--tokens 30] [--engine openvino --engine transformers]
                                       [--temperature 1.0] [--top-p 0.95]

Each engine runs in its own process and writes lists of invented complaints. The table has the CPU
seconds of all cores: the imports and the load, then all texts. The last columns judge the texts by
the weights that the file means (transformers, float32): the mean length in tokens, the share of
distinct texts, and the surprise per token beyond the entropy of the model, with its standard error.
The surprise of an exact sampler is 0 on average at temperature 1 and top_p 1.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from array import array
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from sugarbush.randomness import public_rng
from tests.integration.llm.tiny_gpt2 import sentences

ENGINES = ("openvino", "transformers")


def worker(engine: str, options: Any) -> dict[str, Any]:
    """Write the texts in this process, and return the CPU seconds and the tokens."""
    from sugarbush.generators.huggingface.batch import TransformersWriter
    from sugarbush.generators.huggingface.engines import open_writer
    from sugarbush.generators.huggingface.model import load_model
    from sugarbush.generators.huggingface.model_settings import LocalModelSettings
    from sugarbush.generators.huggingface.settings import HuggingFace
    from sugarbush.generators.huggingface.writer import Prompt
    from sugarbush.generators.interface import RandomRequest
    from sugarbush.generators.prompts import continuation

    params = HuggingFace(
        model=options.model, device="cpu", form="list", max_tokens=options.tokens,
        temperature=options.temperature,
    )  # fmt: skip
    LocalModelSettings.top_p = options.top_p
    wall = time.perf_counter()
    if engine == "openvino":
        writer = open_writer(params)
        assert not isinstance(writer, TransformersWriter)
    else:
        writer = TransformersWriter(load_model(params), params, steering={})
    load_cpu, load_wall = time.process_time(), time.perf_counter() - wall
    asked = [
        RandomRequest(
            subject="complaints", examples=tuple(sentences(options.examples, seed=3)),
            words=options.words, sample=i,
        )
        for i in range(options.texts)
    ]  # fmt: skip
    encode = writer.local.encode
    prompts = [
        Prompt(
            ids=array("i", encode(continuation(request, context_tokens=8192, max_tokens=64))),
            limit=options.tokens,
            random=partial(public_rng, request.sample),
        )
        for request in asked
    ]
    cpu, wall = time.process_time(), time.perf_counter()
    found: dict[int, Any] = {}
    for some in writer.write(prompts, missing=range(len(prompts))):
        found |= some
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {
        "load_cpu": load_cpu, "load_wall": load_wall, "cpu": cpu, "wall": wall,
        "prompt": prompts[0].ids.tolist(), "texts": [found[i].text for i in range(len(prompts))],
        "tokens": sum(answer.completion_tokens for answer in found.values()),
    }  # fmt: skip


def surprise(options: Any, result: dict[str, Any]) -> tuple[float, float]:
    """Return the mean surprise per token beyond the entropy, and its standard error."""
    import torch

    from sugarbush.generators.huggingface.model import load_model
    from sugarbush.generators.huggingface.settings import HuggingFace

    local = load_model(HuggingFace(model=options.model, device="cpu", form="list"))
    prefix, excess, tokens = result["prompt"], [], 0
    for text in result["texts"]:
        ids = local.tokenizer(text, add_special_tokens=False)["input_ids"]
        with torch.inference_mode():
            scores = local.model(torch.tensor([prefix + ids])).logits[0, len(prefix) - 1 : -1]
        logs = torch.log_softmax(scores, dim=-1)
        entropy = -(logs.exp() * logs).sum()
        excess.append(float(-logs.gather(1, torch.tensor(ids)[:, None]).sum() - entropy))
        tokens += len(ids)
    return float(np.sum(excess)) / tokens, float(np.std(excess)) * len(excess) ** 0.5 / tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--texts", type=int, default=32)
    parser.add_argument("--examples", type=int, default=10)
    parser.add_argument("--words", type=int, default=13)
    parser.add_argument("--tokens", type=int, default=30)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--top-p", type=float, default=0.95)
    parser.add_argument("--engine", choices=ENGINES, action="append")
    parser.add_argument("--no-surprise", action="store_true")
    parser.add_argument("--worker", choices=ENGINES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print("\n" + json.dumps(worker(options.worker, options)))
        return
    table = Table(
        "engine", "load CPU-s", "load s", "texts CPU-s", "texts s", "texts/CPU-s", "tokens/text",
        "distinct", "surprise",
    )  # fmt: skip
    for engine in options.engine or ENGINES:
        command = [sys.executable, "-m", "benchmarks.local_engines", *sys.argv[1:]]
        output = subprocess.run(
            [*command, "--worker", engine], check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        result = json.loads(output.strip().splitlines()[-1])
        excess = (
            "" if options.no_surprise else "{:+.3f} ± {:.3f}".format(*surprise(options, result))
        )
        table.add_row(
            engine, f"{result['load_cpu']:.1f}", f"{result['load_wall']:.1f}",
            f"{result['cpu']:.1f}", f"{result['wall']:.1f}", f"{options.texts / result['cpu']:.2f}",
            f"{result['tokens'] / options.texts:.1f}",
            f"{len(set(result['texts'])) / options.texts:.0%}", excess,
        )  # fmt: skip
    Console(width=110).print(Path(options.model).name, table)


if __name__ == "__main__":
    main()
