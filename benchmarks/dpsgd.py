"""Measures the speed of private training, compared with ordinary training of the same model.

    python benchmarks/dpsgd.py                          # tiny and distil, on the CPU
    python benchmarks/dpsgd.py --sizes gpt2 gpt2-large --device cuda --length 512 --batch 32

The modes run `--rounds` times in turn, in separate processes. A row of the table shows the best
round. The column `micro-batch` includes forward pass, backward pass, clipping and adding up. The
column `step` also includes noise and AdamW, with one micro-batch per step. One micro-batch per step
is the worst case, because a real step has many micro-batches. On a GPU, ordinary training uses
bfloat16 by autocast. Private training uses bfloat16 too, except for the modes with float32. Speeds
are in samples per CPU-second on one thread (on a GPU, per second of wall time). Ratios compare with
the first mode in the same run. Memory is the peak minus the memory of the loaded model. Weights and
tokens are random.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psutil
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from benchmarks.opacus_hooks import HooksClipper
from sugarbush.training.dpsgd.clipping import Clipper, PerRecordClipper
from sugarbush.training.dpsgd.language_modelling import TokenBatch, record_losses
from sugarbush.training.dpsgd.models import with_lora
from sugarbush.training.dpsgd.optimizer import noisy_optimizer

SIZES = {  # layers, width, heads, vocabulary, batch size
    "tiny": (4, 256, 4, 4096, 16),
    "distil": (6, 768, 12, 50257, 4),
    "gpt2": (12, 768, 12, 50257, 4),
    "gpt2-large": (36, 1280, 20, 50257, 2),
    "smollm2-135m": (30, 576, 9, 49152, 4),
    "llama-1.5b": (28, 1536, 12, 151936, 1),
}
LLAMAS = {"smollm2-135m": (3, 1536), "llama-1.5b": (2, 8960)}  # key heads, width of an MLP
MODES = (
    "ordinary",
    "ordinary, LoRA 8",
    "ours",
    "ours, float32",
    "ours, checkpointing",
    "ours, LoRA 8",
    "ours, LoRA 8, float32",
    "Opacus hooks",
    "Opacus ghost",
)


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    """Two functions to measure. `add` adds the gradients of a micro-batch to `p.grad`. `step` does
    the rest of a step.
    """

    add: Callable[[], None]
    step: Callable[[], None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=["tiny", "distil"], choices=SIZES)
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=MODES)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch", type=int, default=None)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--one", action="store_true", help="run one mode and print its numbers")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options)))
    else:
        for size in options.sizes:
            table(size, options)


def table(size: str, options: argparse.Namespace) -> None:
    rounds = [
        {mode: in_own_process(size, mode, options) for mode in options.modes}
        for _ in range(options.rounds)
    ]
    best = {
        mode: {key: min(r[mode][key] for r in rounds) for key in rounds[0][mode]}
        for mode in options.modes
    }
    batch = options.batch or SIZES[size][4]
    base = best[options.modes[0]]
    print(f"\n{size}: {SIZES[size][0]} x {SIZES[size][1]}, vocabulary {SIZES[size][3]}, ", end="")
    print(f"length {options.length}, batch {batch}, {options.device}")
    print(f"{'':22}{'micro-batch':>20}{'step':>20}{'memory':>18}")
    print(
        f"{'':22}{'samples/s':>12}{'ratio':>8}{'samples/s':>12}{'ratio':>8}{'MB':>10}{'ratio':>8}"
    )
    for mode, row in best.items():
        cells = "".join(
            f"{batch / row[key]:12.2f}{base[key] / row[key]:8.2f}" for key in ("add_s", "step_s")
        )
        print(f"{mode:22}{cells}{row['mb']:10.0f}{row['mb'] / base['mb']:8.2f}", flush=True)


def in_own_process(size: str, mode: str, options: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", "--sizes", size, "--modes", mode]
    for name in ("length", "batch", "steps", "threads", "device"):
        if getattr(options, name) is not None:
            command += [f"--{name}", str(getattr(options, name))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    # The result is printed at once, because a later run may be interrupted.
    print(f"{size}, {mode}: {found}", file=sys.stderr, flush=True)
    return found


def measure(options: argparse.Namespace) -> dict[str, float]:
    """Measure seconds per micro-batch and per step, and the peak memory above the model in MB."""
    (size,), (mode,) = options.sizes, options.modes
    device = torch.device(options.device)
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    warnings.simplefilter("ignore")
    vocabulary, usual = SIZES[size][3:]
    model = new_model(size, mode, options).to(device).train()
    ids = torch.randint(vocabulary, (options.batch or usual, options.length), device=device)
    batch = TokenBatch(ids=ids, mask=torch.ones_like(ids), labels=ids)
    before = memory(device)
    job = job_of(mode, model, batch)
    adding = stepping = 0.0
    for number in range(options.steps + 1):
        began = clock(device)
        job.add()
        added = clock(device)
        job.step()
        if number:  # the first round is a warm-up
            adding += added - began
            stepping += clock(device) - began
    return {
        "add_s": adding / options.steps,
        "step_s": stepping / options.steps,
        "mb": (peak(device) - before) / 1e6,
    }


def new_model(size: str, mode: str, options: argparse.Namespace) -> Any:
    layers, width, heads, vocabulary, _ = SIZES[size]
    if size in LLAMAS:
        key_heads, inner = LLAMAS[size]
        llama = LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=width,
            intermediate_size=inner,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=key_heads,
            max_position_embeddings=max(128, options.length),
            tie_word_embeddings=True,
        )
        return LlamaForCausalLM(llama)
    config = GPT2Config(
        vocab_size=vocabulary,
        n_positions=max(128, options.length),
        n_layer=layers,
        n_embd=width,
        n_head=heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        # Ghost clipping of Opacus refuses a tied embedding.
        tie_word_embeddings=mode != "Opacus ghost",
        bos_token_id=0,
        eos_token_id=0,
    )
    return GPT2LMHeadModel(config)


def job_of(mode: str, model: Any, batch: TokenBatch) -> TrainingJob:
    if mode == "ours, checkpointing":
        model.activation_checkpointing_enable()
    if "LoRA 8" in mode:
        model = with_lora(model, rank=8)
    if mode.startswith("ordinary"):
        return ordinary(model, batch)
    if mode == "Opacus ghost":
        return ghost(model, batch)
    clipper: Clipper
    if mode == "Opacus hooks":
        clipper = HooksClipper(model, clip_norm=1.0)
    else:
        fast = batch.ids.device.type == "cuda" and "float32" not in mode
        clipper = PerRecordClipper(model, clip_norm=1.0, bfloat16=fast)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = noisy_optimizer(
        torch.optim.AdamW(trainable, lr=1e-4),
        noise_multiplier=0.7,
        clip_norm=1.0,
        expected_batch_size=len(batch),
    )

    def add() -> None:
        with clipper.recording(records=len(batch)):
            clipper.add_clipped(record_losses(model, batch))

    def step() -> None:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return TrainingJob(add=add, step=step)


def ordinary(model: Any, batch: TokenBatch) -> TrainingJob:
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-4)

    def add() -> None:
        device = batch.ids.device.type
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device != "cpu"):
            loss = model(
                input_ids=batch.ids,
                attention_mask=batch.mask,
                labels=batch.labels,
                use_cache=False,
            ).loss
        loss.backward()

    def step() -> None:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return TrainingJob(add=add, step=step)


def ghost(model: Any, batch: TokenBatch) -> TrainingJob:
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping

    hooked = GradSampleModuleFastGradientClipping(model, max_grad_norm=1.0, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.AdamW(hooked.parameters(), lr=1e-4),
        noise_multiplier=0.7,
        max_grad_norm=1.0,
        expected_batch_size=len(batch),
    )

    def add() -> None:
        losses = record_losses(hooked, batch)
        DPTensorFastGradientClipping(hooked, optimizer, losses, "mean").backward()

    def step() -> None:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return TrainingJob(add=add, step=step)


def clock(device: torch.device) -> float:
    if device.type == "cpu":
        return time.process_time()
    torch.cuda.synchronize(device)
    return time.perf_counter()


def memory(device: torch.device) -> float:
    if device.type == "cpu":
        return float(psutil.Process().memory_info().rss)
    return float(torch.cuda.memory_allocated(device))


def peak(device: torch.device) -> float:
    if device.type == "cpu":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
    return float(torch.cuda.max_memory_allocated(device))


if __name__ == "__main__":
    main()
