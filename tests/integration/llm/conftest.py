"""A server with configurable failures, and generators that call it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sugarbush.batch_files import api as batch_api
from sugarbush.generators.interface import RandomRequest
from sugarbush.generators.openai.generator import OpenAiGenerator
from sugarbush.generators.openai.settings import OpenAI
from sugarbush.privacy.data_types import Released
from sugarbush.run.settings import load_params
from tests.integration.llm.server import KEY, MODEL, FaultServer, running

ROOT = Path(__file__).parents[3]
batch_api.POLL_S = 0.02  # the processes that tests start import this module too


def endpoint_params(base_url: str, **changes: Any) -> OpenAI:
    """Return settings for a local server, without rate limits, which would slow down a test."""
    fields = load_params(ROOT / "params.yaml").generator.openai.model_dump()
    fields |= {
        "base_url": base_url, "model": MODEL, "key_variable": "OPENAI_API_KEY",
        "requests_per_minute": 1e6,
        "tokens_per_minute": 1e9, "timeout_s": 10,
    }  # fmt: skip
    return OpenAI.model_validate(fields | changes)


def wishes(count: int, *, first: int = 0) -> Released[tuple[RandomRequest, ...]]:
    """Return `count` requests that differ only in their sample index."""
    requests = [
        RandomRequest(subject="customer-service tickets", words=40, sample=i)
        for i in range(first, first + count)
    ]
    return Released(tuple(requests), ("entry-1",))


@dataclass
class Bench:
    """A server and a state folder, and generators that use both."""

    server: FaultServer
    state: Path
    said: list[str] = field(default_factory=list)

    def generator(self, **changes: Any) -> OpenAiGenerator:
        """Return a new generator, which has no state in memory, as in a new process."""
        return OpenAiGenerator(
            endpoint_params(**{"base_url": self.server.base_url} | changes),
            seed=1,
            state=self.state,
            account="tickets",
            stage="evolve",
            say=self.said.append,
        )

    def left_on_disk(self) -> bytes:
        """Return the bytes of all files in the state folder."""
        return b"".join(p.read_bytes() for p in sorted(self.state.rglob("*")) if p.is_file())


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    """`bench(behave=...)` starts a server that runs until the test ends."""
    with contextlib.ExitStack() as stack:

        def start(**server: Any) -> Bench:
            return Bench(stack.enter_context(running(FaultServer(**server))), tmp_path / "state")

        yield start
