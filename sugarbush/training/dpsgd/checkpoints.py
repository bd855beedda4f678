"""Stores checkpoints, so that a run of DP-SGD can continue after a crash. Checkpoints are private.

    <folder>/start.json              the ledger entry of the run, written before its first step
    <folder>/step-<n>.pt             trainable weights and optimizer after step n; the newest only
    <counts>/draws-<ledger entry>    one byte per noisy step, on disk before the step samples

A checkpoint is complete or absent. The count of noisy steps includes steps with a lost result,
because those steps spent budget. Store the count in the state folder: a restored backup of
data/private would lower it. The state of a noise or sampling generator is never stored, because no
generator exists between steps.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from sugarbush.errors import InvariantError, PrivacyError, StorageError
from sugarbush.paths import atomic_file, make_private, open_owner_only
from sugarbush.privacy.events import Event, event_from_dict

_STEP = re.compile(r"step-(\d+)\.pt")


@dataclass(frozen=True, kw_only=True)
class RunStart:
    """The charge and the steps of a run, as `start.json` stores them."""

    ledger_id: str
    event: Event


class Checkpoints:
    """The files of one run under `folder`. The folder must be in the private root.

    `counts` is the folder for the count of noisy steps. This folder should be outside the checkout.
    """

    def __init__(self, folder: Path, *, counts: Path | None = None) -> None:
        self.folder = make_private(folder)
        self._counts = self.folder if counts is None else counts

    def start(self) -> RunStart | None:
        """Return the charge of the run in this folder, or None."""
        path = self.folder / "start.json"
        try:
            fields = json.loads(path.read_text())
            return RunStart(ledger_id=fields["ledger_id"], event=event_from_dict(fields["event"]))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise PrivacyError(
                f"{path}: is damaged. Remove {self.folder} to train again, with a new charge."
            ) from None

    def begin(self, start: RunStart) -> None:
        """Store the charge. Call this function before the first step."""
        with atomic_file(self.folder / "start.json") as temporary:
            fields = {"ledger_id": start.ledger_id, "event": start.event.as_dict()}
            temporary.write_text(json.dumps(fields))

    @property
    def draws(self) -> int:
        """The number of noisy steps so far, including steps with a lost result."""
        begun = self.start()
        try:
            return self._count(begun).stat().st_size if begun else 0
        except FileNotFoundError:
            return 0

    def note_draw(self) -> None:
        """Count one more noisy step and wait for the disk. Call this function before the step."""
        begun = self.start()
        if begun is None:
            raise InvariantError("a noisy step needs a charge")
        try:
            descriptor = open_owner_only(self._count(begun), os.O_WRONLY | os.O_APPEND)
            try:
                os.write(descriptor, b".")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StorageError(f"{self._counts}: {error.strerror}") from None

    def step(self) -> int:
        """The last step that was saved; 0 at the start."""
        return max(self._steps(), default=0)

    def save(self, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Save the state after `step`, then remove older states."""
        state = {
            "weights": {n: p.detach() for n, p in model.named_parameters() if p.requires_grad},
            "optimizer": optimizer.state_dict(),
        }
        with atomic_file(self.folder / f"step-{step}.pt") as temporary:
            torch.save(state, temporary)
        for older in self._steps():
            if older < step:
                (self.folder / f"step-{older}.pt").unlink()

    def restore(self, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        device = next(model.parameters()).device
        state = torch.load(self.folder / f"step-{step}.pt", map_location=device, weights_only=True)
        trainable = {n: p for n, p in model.named_parameters() if p.requires_grad}
        if state["weights"].keys() != trainable.keys():
            raise PrivacyError(
                f"{self.folder} has the checkpoint of another model. Restore that model, or "
                "remove the folder."
            )
        with torch.no_grad():
            for name, parameter in trainable.items():
                parameter.copy_(state["weights"][name])
        optimizer.load_state_dict(state["optimizer"])

    def _count(self, begun: RunStart) -> Path:
        return self._counts / f"draws-{begun.ledger_id}"

    def _steps(self) -> list[int]:
        matches = [_STEP.fullmatch(path.name) for path in self.folder.iterdir()]
        return [int(match[1]) for match in matches if match]
