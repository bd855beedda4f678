"""The program of each process in the torchrun test.

It trains a model and writes the result. The first weights differ between the processes.
"""

import sys
from dataclasses import replace
from pathlib import Path

import torch

from sugarbush.privacy.data_types import Private
from sugarbush.training.dpsgd.checkpoints import Checkpoints
from sugarbush.training.dpsgd.train import Mechanism, Training, train
from tests.unit.training.dpsgd.small_runs import LEARNING, PERFORMANCE, ledger_in, session_of
from tests.unit.training.dpsgd.tiny import some_examples, tiny_gpt2

MECHANISM = Mechanism(
    rate=1.0,
    steps=3,
    repeatable_steps=0,
    noise_multiplier=0.0,
    clip_norm=1.0,
    expected_batch_size=7.0,
)


def train_in(folder: Path, mechanism: Mechanism, *, rank: int = 0) -> torch.nn.Module:
    torch.set_num_threads(1)
    model = tiny_gpt2(seed=1 + rank)
    train(
        model,
        Private([(example,) for example in some_examples(7)]),
        training=Training(
            mechanism=mechanism,
            learning=LEARNING,
            performance=PERFORMANCE,
        ),
        probe=some_examples(2, seed=5),
        checkpoints=Checkpoints(folder / "private" / "run"),
        session=session_of(ledger_in(folder)),
    )
    return model


if __name__ == "__main__":
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    for name, noise_multiplier in (("exact", 0.0), ("noisy", 50.0)):
        folder = Path(sys.argv[1]) / name
        trained = train_in(folder, replace(MECHANISM, noise_multiplier=noise_multiplier), rank=rank)
        torch.save(trained.state_dict(), folder / f"rank{rank}.pt")
    torch.distributed.destroy_process_group()
