"""Measures the overhead of the `openai` generator per call, and the time with several endpoints.

    python -m benchmarks.llm [--calls 5000] [--cached 10000] [--concurrency 64] [--shared 300]

A server in another process answers at once. The baseline is the SDK alone, at the same concurrency.
The table compares the baseline with the generator, with the generator if a tenth of the calls fail,
and with a rerun from the cache. Ratios compare with the SDK alone in the same run. Then two servers
answer `--shared` calls. The servers put calls in a queue, like vLLM. The second server has half the
speed of the first server. First each server answers all calls alone, and then both servers share
the calls. The ideal time together is two thirds of the time of the fast server.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import openai
from rich.console import Console
from rich.table import Table

from sugarbush.generators.interface import RandomRequest
from sugarbush.generators.openai.generator import OpenAiGenerator
from sugarbush.generators.openai.settings import OpenAI
from sugarbush.generators.prompts import render
from sugarbush.privacy.data_types import Released
from tests.integration.llm.server import KEY, MODEL

ROOT = Path(__file__).parents[1]
EXAMPLES = tuple(
    f"Caller {i} said that the parcel was late, the agent looked it up and promised a call back "
    "before the end of the day. " * 3
    for i in range(10)
)


@dataclass(frozen=True)
class EndpointTiming:
    wall_s: float
    cpu_s: float


@contextmanager
def server(*options: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "port"
        program = [sys.executable, "-m", "tests.integration.llm.server", str(file), *options]
        process = subprocess.Popen(program, cwd=ROOT)
        try:
            while not file.exists():
                time.sleep(0.05)
            yield f"http://127.0.0.1:{file.read_text()}/v1"
        finally:
            process.kill()
            process.wait()


def requests(count: int) -> Released[tuple[RandomRequest, ...]]:
    return Released(
        tuple(
            RandomRequest(
                subject="customer-service tickets",
                attributes=(("topic", "delivery"), ("mood", "calm")),
                examples=EXAMPLES,
                words=80,
                sample=i,
            )
            for i in range(count)
        )
    )


def params(base_url: str | Sequence[str], concurrency: int) -> OpenAI:
    return OpenAI(
        base_url=base_url, model=MODEL, key_variable="OPENAI_API_KEY", concurrency=concurrency,
        requests_per_minute=1e7, tokens_per_minute=1e10,
    )  # fmt: skip


async def bare_sdk(count: int, base_url: str, concurrency: int) -> None:
    """Send the same messages through the SDK alone."""
    waiting = iter(requests(count).value)
    client = openai.AsyncOpenAI(base_url=base_url, api_key=KEY, max_retries=0)

    async def work() -> None:
        for request in waiting:
            prompt = render(request, context_tokens=8192, max_tokens=512)
            await client.chat.completions.create(
                model=MODEL,
                messages=[{"role": "user", "content": prompt}],
                temperature=1.0, top_p=1.0, max_tokens=512, seed=request.sample,
            )  # fmt: skip

    async with client:
        await asyncio.gather(*(work() for _ in range(concurrency)))


def provider(count: int, settings: OpenAI, state: Path) -> None:
    generator = OpenAiGenerator(
        settings, seed=1, state=state, account="benchmark", stage="benchmark", say=print
    )
    answers = generator.generate(requests(count)).value
    missing = sum(answer.text is None for answer in answers)
    if missing:
        print(f"{missing} of {count} answers missing")


@contextmanager
def timed(into: dict[str, EndpointTiming], name: str) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    into[name] = EndpointTiming(time.perf_counter() - wall, time.process_time() - cpu)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--cached", type=int, default=10_000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--shared", type=int, default=300)
    options = parser.parse_args()
    os.environ["OPENAI_API_KEY"] = KEY
    found: dict[str, EndpointTiming] = {}
    counts = {"bare SDK": options.calls, "provider": options.calls}
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        with server() as base_url:
            settings = params(base_url, options.concurrency)
            asyncio.run(bare_sdk(200, base_url, options.concurrency))  # warm-up
            with timed(found, "bare SDK"):
                asyncio.run(bare_sdk(options.calls, base_url, options.concurrency))
            with timed(found, "provider"):
                provider(options.calls, settings, state / "plain")
            provider(options.cached, settings, state / "plain")
        counts["rerun, all kept"] = options.cached
        with timed(found, "rerun, all kept"):
            provider(options.cached, settings, state / "plain")
        with server("0", "0.1") as base_url:
            counts["provider, 10% faults"] = options.calls
            with timed(found, "provider, 10% faults"):
                provider(options.calls, params(base_url, options.concurrency), state / "faults")
    show(found, counts, options.concurrency)
    share(options.shared, options.concurrency)


def share(calls: int, concurrency: int) -> None:
    """Print the time of a fast server alone, of a slow server alone, and of both together."""
    slots, found = "4", {}
    with server("0.4", "0", "0", slots) as fast, server("0.8", "0", "0", slots) as slow:
        for name, used in {"fast": [fast], "slow": [slow], "both": [fast, slow]}.items():
            started = time.perf_counter()
            with tempfile.TemporaryDirectory() as state:
                provider(calls, params(used, concurrency), Path(state))
            found[name] = time.perf_counter() - started
    for name, wall_s in found.items():
        print(f"{calls} calls, {name}: {wall_s:.1f} s, ratio {wall_s / found['fast']:.2f}")
    print(f"ideal: fast {calls * 0.4 / 4:.1f} s, slow ratio 2.00, both ratio 0.67")


def show(found: dict[str, EndpointTiming], counts: dict[str, int], concurrency: int) -> None:
    table = Table(
        title=f"concurrency {concurrency}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    for column in ("run", "calls", "wall s", "wall ms/call", "CPU ms/call", "CPU ratio"):
        table.add_column(column, justify="left" if column == "run" else "right")
    base = found["bare SDK"].cpu_s / counts["bare SDK"]
    for name, timing in found.items():
        each = timing.cpu_s / counts[name]
        table.add_row(
            name, str(counts[name]), f"{timing.wall_s:.2f}",
            f"{timing.wall_s / counts[name] * 1e3:.2f}", f"{each * 1e3:.2f}", f"{each / base:.2f}",
        )  # fmt: skip
    Console().print(table)


if __name__ == "__main__":
    main()
