"""What each process of the torchrun test does: train without noise, leave the weights."""

import math
import sys
from dataclasses import replace
from pathlib import Path

import torch

from sugarbush.dpsgd.checkpoints import Checkpoints
from sugarbush.dpsgd.train import Clipping, Decay, Learning, Mechanism, Performance, train
from sugarbush.privacy.kinds import Private
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.unit import Unit
from tests.unit.dpsgd.tiny import some_examples, tiny_gpt2

MECHANISM = Mechanism(
    rate=1.0,
    steps=3,
    repeatable_steps=0,
    noise_multiplier=0.0,
    clip_norm=1.0,
    expected_batch_size=7.0,
)


def train_in(folder: Path, mechanism: Mechanism) -> torch.nn.Module:
    torch.set_num_threads(1)
    model = tiny_gpt2()
    train(
        model,
        Private([(example,) for example in some_examples(7)]),
        mechanism=mechanism,
        learning=Learning(
            learning_rate=1e-3, decay=Decay.CONSTANT, warmup_steps=0, weight_decay=0.01
        ),
        performance=Performance(
            micro_batch_tokens=64, bfloat16=False, clipping=Clipping.BOOK_KEEPING,
            checkpoint_every=2,
        ),
        probe=some_examples(2, seed=5),
        checkpoints=Checkpoints(folder / "private" / "run"),
        ledger=Ledger(
            folder / "state", dataset="test", purpose="example", unit=Unit.RECORD, cap=math.inf,
            delta=1e-5,
        ),
        stage="finetune",
        run="r1",
    )  # fmt: skip
    return model


if __name__ == "__main__":
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    for name, noise_multiplier in (("exact", 0.0), ("noisy", 50.0)):
        folder = Path(sys.argv[1]) / name
        trained = train_in(folder, replace(MECHANISM, noise_multiplier=noise_multiplier))
        torch.save(trained.state_dict(), folder / f"rank{rank}.pt")
    torch.distributed.destroy_process_group()
