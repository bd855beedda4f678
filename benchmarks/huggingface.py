"""Measures the speed of the `huggingface` generator, compared with `generate` of transformers.

    python -m benchmarks.huggingface [--device auto] [--dtype auto] [--threads 2] [--texts 24]
                                     [--tokens 48] [--rounds 3] [--batch-tokens 4096]
                                     [--only distil] [--model FOLDER]

The models have random weights and the sizes of a tiny GPT-2 (4 x 256) and a distilled GPT-2 (6 x
768), or --model is a trained model. Prompts have up to 350 tokens. For random weights, the
temperature makes the nucleus as large as the nucleus of a trained model. The baselines are two uses
of transformers' `generate`: batches of 8 in the order of the prompts with sampling, and the
generator's own batches without sampling. The second is the model's best throughput. Every answer
has --tokens tokens. The table has the medians over rounds. Ratios compare with the best throughput
in the same round.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from rich.console import Console
from rich.table import Table
from transformers import GPT2Config, GPT2LMHeadModel

from sugarbush.generators.huggingface import batch as batch_module
from sugarbush.generators.huggingface.batch import (
    PrefixStates,
    PromptRow,
    pack,
    pad_left,
    write_batch,
)
from sugarbush.generators.huggingface.model import LocalModel, load_model
from sugarbush.generators.huggingface.settings import HuggingFace
from sugarbush.generators.interface import RandomRequest
from sugarbush.generators.prompts import continuation
from sugarbush.generators.shared_prefixes import shared_prefixes
from sugarbush.randomness import public_rng
from tests.integration.llm.tiny_gpt2 import make_tokenizer, sentences

SIZES = {"tiny": (4, 4, 256, 4096), "distil": (6, 12, 768, 50257)}
CONTEXT_TOKENS = 1024


@dataclass(frozen=True)
class Timing:
    """The number of new tokens, the wall time, and the CPU time of all cores together."""

    tokens: int
    wall_s: float
    cpu_s: float


def save_model(folder: Path, size: str) -> None:
    layers, heads, width, vocabulary = SIZES[size]
    tokenizer = make_tokenizer(chats=False)
    tokenizer.model_max_length = CONTEXT_TOKENS
    config = GPT2Config(
        vocab_size=vocabulary, n_positions=CONTEXT_TOKENS, n_embd=width, n_layer=layers,
        n_head=heads, bos_token_id=0, eos_token_id=0, initializer_range=0.1,
    )  # fmt: skip
    torch.manual_seed(1)
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        model.transformer.wte.weight[0] = 0.0  # makes the end token unlikely
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def requests(count: int) -> tuple[RandomRequest, ...]:
    return tuple(
        RandomRequest(subject="complaints", examples=tuple(sentences(i * 7 % 18, seed=i)), sample=i)
        for i in range(count)
    )


def timed(write: Callable[[], int], device: torch.device) -> Timing:
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    tokens = write()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return Timing(tokens, time.perf_counter() - wall_s, time.process_time() - cpu_s)


def encoded(local: LocalModel, params: HuggingFace, count: int) -> list[list[int]]:
    return [
        local.encode(continuation(r, context_tokens=CONTEXT_TOKENS, max_tokens=params.max_tokens))
        for r in requests(count)
    ]


def in_batches(
    local: LocalModel, params: HuggingFace, count: int, *, size: int | None = None
) -> int:
    """Generate with `size` prompts at a time and sampling; else in packed batches without."""
    prompts = encoded(local, params, count)
    if size:
        batches = [list(range(count))[start : start + size] for start in range(0, count, size)]
        sampling = {"top_k": 0, "temperature": params.temperature, "top_p": params.top_p}
    else:
        lengths, limits = [len(prompt) for prompt in prompts], [params.max_tokens] * count
        prefixes = shared_prefixes(prompts)
        batches = pack(lengths, limits, prefixes=prefixes, batch_tokens=params.batch_tokens)
        sampling = {}
    tokens = 0
    for batch in batches:
        ids, mask = pad_left([prompts[i] for i in batch], pad_id=local.pad_id)
        output = local.model.generate(
            ids.to(local.device), attention_mask=mask.to(local.device), do_sample=bool(size),
            min_new_tokens=params.max_tokens, max_new_tokens=params.max_tokens, **sampling,
        )  # fmt: skip
        added = output[:, ids.shape[1] :]
        local.tokenizer.batch_decode(added, skip_special_tokens=True)
        tokens += added.numel()
    return tokens


def by_provider(local: LocalModel, params: HuggingFace, count: int) -> int:
    """Write the generator's batches. An answer ends early only at a separator, and no text
    contains the separator that is set here."""
    prompts = encoded(local, params, count)
    shared = shared_prefixes(prompts)
    rows = [
        PromptRow(
            ids=prompt, uniforms=public_rng(i).random(params.max_tokens), shared=shared[i].length
        )
        for i, prompt in enumerate(prompts)
    ]
    states = PrefixStates(local, most_tokens=params.batch_tokens)
    lengths, limits = [len(row.ids) for row in rows], [params.max_tokens] * count
    with mock.patch.object(batch_module, "SEPARATOR", "\0"):
        return sum(
            answer.completion_tokens
            for batch in pack(lengths, limits, prefixes=shared, batch_tokens=params.batch_tokens)
            for answer in write_batch(
                local, [rows[i] for i in batch], params, steering={}, prefixes=states
            )
        )


def measure(size: str, options: Any) -> list[tuple[str, list[Timing]]]:
    with tempfile.TemporaryDirectory() as folder:
        if not options.model:
            save_model(Path(folder), size)
        params = HuggingFace(
            model=options.model or folder, device=options.device, dtype=options.dtype,
            temperature=0.8 if options.model else 0.3, max_tokens=options.tokens,
            batch_tokens=options.batch_tokens,
        )  # fmt: skip
        local = load_model(params)
        endless = replace(local, end_ids=())
        ways: dict[str, Callable[[], int]] = {
            "best: packed, no sampling": lambda: in_batches(local, params, options.texts),
            "batches of 8 as they come": lambda: in_batches(local, params, options.texts, size=8),
            "provider": lambda: by_provider(endless, params, options.texts),
        }
        in_batches(local, params, 2, size=2)  # a warm-up call, which is not timed
        times: list[tuple[str, list[Timing]]] = [(name, []) for name in ways]
        for _ in range(options.rounds):
            for name, taken in times:
                taken.append(timed(ways[name], local.device))
        return times


def median_ratio(taken: list[Timing], base: list[Timing], seconds: str) -> float:
    return statistics.median(
        (a.tokens / getattr(a, seconds)) / (b.tokens / getattr(b, seconds))
        for a, b in zip(taken, base, strict=True)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--texts", type=int, default=24)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--only", choices=SIZES)
    parser.add_argument("--model")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    table = Table("model", "way", "tokens/s", "ratio", "tokens/CPU-s", "ratio")
    for size in [options.model or options.only] if options.model or options.only else SIZES:
        times = measure(size, options)
        base = times[0][1]
        for name, taken in times:
            table.add_row(
                size,
                name,
                f"{statistics.median(t.tokens / t.wall_s for t in taken):.0f}",
                f"{median_ratio(taken, base, 'wall_s'):.2f}",
                f"{statistics.median(t.tokens / t.cpu_s for t in taken):.0f}",
                f"{median_ratio(taken, base, 'cpu_s'):.2f}",
            )
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
