"""Settings and a ledger for a training run of a few steps."""

import math
from pathlib import Path

from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.unit import Unit
from sugarbush.training.dpsgd.train import Decay, Learning, Performance

LEARNING = Learning(learning_rate=1e-3, decay=Decay.CONSTANT, warmup_steps=0, weight_decay=0.01)
PERFORMANCE = Performance(micro_batch_tokens=64, checkpoint_every=2)


def session_of(ledger: Ledger) -> PrivacySession:
    return PrivacySession(ledger=ledger, stage="finetune", run="r1")


def ledger_in(folder: Path, cap: float = math.inf) -> Ledger:
    return Ledger(
        folder / "state", dataset="test", purpose="example", unit=Unit.RECORD, cap=cap, delta=1e-5
    )
