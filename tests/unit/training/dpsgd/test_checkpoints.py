"""Checkpoints count every noisy step on the disk, and load only weights of the same model."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from sugarbush.errors import InvariantError, PrivacyError
from sugarbush.privacy.events import PoissonGaussian
from sugarbush.training.dpsgd.checkpoints import Checkpoints, RunStart

START = RunStart(ledger_id="a1", event=PoissonGaussian(noise_multiplier=1.0, rate=0.1, count=9))


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    counts = tmp_path / "state"
    counts.mkdir()
    found = Checkpoints(tmp_path / "private" / "run", counts=counts)
    found.begin(START)
    return found


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def test_a_step_is_on_the_disk_before_it_samples(
    checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that only the memory of the system knows is not counted after a power failure."""
    synced: list[int] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        fsync(descriptor)
        synced.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(os, "fsync", watched)
    for step in (1, 2, 3):
        checkpoints.note_draw()
        assert synced[-1:] == [step]
        assert checkpoints.draws == step


def test_a_step_without_a_charge_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvariantError):
        Checkpoints(tmp_path / "private" / "run").note_draw()


class Bomb:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.marker,))


def test_a_checkpoint_runs_no_code(checkpoints: Checkpoints, tmp_path: Path) -> None:
    """Somebody who can write data/private must not run code as the operator."""
    model, marker = nn.Linear(2, 2), tmp_path / "ran"
    state = {
        "weights": dict(model.named_parameters()),
        "optimizer": optimizer_of(model).state_dict(),
    }
    torch.save({**state, "more": Bomb(marker)}, checkpoints.folder / "step-3.pt")
    with pytest.raises(pickle.UnpicklingError):
        checkpoints.restore(3, model, optimizer_of(model))
    assert not marker.exists()


@pytest.mark.parametrize(
    "other", [nn.Linear(2, 2, bias=False), nn.Sequential(nn.Linear(2, 2)), nn.Bilinear(2, 2, 2)]
)
def test_weights_of_another_model_are_refused(checkpoints: Checkpoints, other: nn.Module) -> None:
    model = nn.Linear(2, 2, bias=not isinstance(other, nn.Bilinear))
    checkpoints.save(3, other, optimizer_of(other))
    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(PrivacyError, match="another model"):
        checkpoints.restore(3, model, optimizer_of(model))
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))


def test_the_newest_state_alone_is_kept_and_restored(checkpoints: Checkpoints) -> None:
    model = nn.Linear(2, 2)
    for step in (1, 2, 10):
        nn.init.constant_(model.weight, float(step))
        checkpoints.save(step, model, optimizer_of(model))
    assert [path.name for path in checkpoints.folder.glob("step-*")] == ["step-10.pt"]
    assert checkpoints.step() == 10
    fresh = nn.Linear(2, 2)
    checkpoints.restore(10, fresh, optimizer_of(fresh))
    assert torch.equal(fresh.weight, model.weight) and torch.equal(fresh.bias, model.bias)
