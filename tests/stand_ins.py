"""Deterministic replacements for the functions of `sugarbush.privacy.noise`."""

from __future__ import annotations

import hashlib
import secrets
import statistics
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.unit.audited import IMPORTS_NOISE

KEY = bytes(range(32))


def without_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace every source of noise by a function of this module, and random ids by a counter."""
    for module, names in IMPORTS_NOISE.items():
        for name in names:
            monkeypatch.setattr(import_module(module), name, globals()[name])
    # One counter for each length of an id.
    counters: defaultdict[int, Iterator[int]] = defaultdict(lambda: count(1))
    monkeypatch.setattr(secrets, "token_hex", lambda n=32: f"{next(counters[n]):0{2 * n}x}")
    monkeypatch.delenv("DVC_STAGE", raising=False)


def write_key(state: Path) -> Path:
    """Create a state folder with a known key."""
    state.mkdir(mode=0o700)
    (state / "key").write_bytes(KEY)
    (state / "key").chmod(0o600)
    return state


def discrete_gaussian(counts: Any, *, stddev: float, sensitivity: float = 1.0) -> Any:
    """Replace the real noise: every call with the same stddev adds the same numbers."""
    assert np.issubdtype(counts.dtype, np.integer) and counts.ndim == 1
    noise = [_pattern(i, stddev) for i in range(len(counts))]
    return np.asarray(counts, dtype=np.int64) + np.asarray(noise, dtype=np.int64)


def _pattern(i: int, stddev: float) -> int:
    h = int.from_bytes(hashlib.sha256(f"{i}|{stddev:.4g}".encode()).digest()[:8], "big")
    return round(stddev * statistics.NormalDist().inv_cdf((h + 0.5) / 2**64))


def report_noisy_max(scores: Any, *, epsilon: float, sensitivity: float) -> int:
    return int(np.argmax(scores))


def poisson_sample(size: int, *, rate: float) -> Any:
    """Replace the real sampling: every step samples the same units."""
    if rate == 1:
        return np.arange(size)
    return np.flatnonzero(np.random.default_rng([size, round(rate * 10**6)]).random(size) < rate)


def secret_choice(size: int) -> int:
    return 0


def secret_order(size: int) -> list[int]:
    return list(range(size))


def add_gaussian(tensors: Any, *, stddev: float) -> None:
    """Replace the real noise: every step adds the same numbers."""
    rng = np.random.default_rng(20260101)
    for tensor in tensors:
        flat = tensor.detach().view(-1)
        flat.add_(torch.from_numpy(rng.standard_normal(len(flat))).to(flat.dtype), alpha=stddev)
