"""`make fuzz`: only clean errors, and no private text in a message, a log or a public file.

    python -m tests.fuzz                        100,000 cases of every target, one after another
    python -m tests.fuzz --cases 500 csv ledger

A case is a damaged input. It must be accepted, or refused by an error class of the project, whose
message does not contain the canary that private inputs contain.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from sugarbush.errors import SugarbushError
from tests.fuzz import answers, documents, records, state
from tests.fuzz.damage import CANARY, SECRET

CHUNK = 10_000  # hypothesis remembers its cases: one run of 100,000 takes much memory
SLOW_S = 20.0  # an input that a parser takes so long for stops a run as well as a fault does


@dataclass(frozen=True)
class Target:
    """`run` reads a case of `cases`, with a folder to write in."""

    cases: SearchStrategy[Any]
    run: Callable[[Any, Path], None]
    canary: str = CANARY


TARGETS = {
    "csv": Target(records.csv_files, records.read_csv),
    "jsonl": Target(records.jsonl_files, records.read_jsonl),
    "parquet": Target(records.parquet_files, records.read_parquet),
    "frame": Target(records.frames, records.read_frame),
    "schema": Target(documents.schemas, documents.read_schema, SECRET),
    "settings": Target(documents.params_files, documents.read_params, SECRET),
    "answers": Target(answers.texts, answers.check_answer),
    "endpoint": Target(answers.responses, answers.call_endpoint),
    "batch": Target(answers.batch_files, answers.receive_batch),
    "ledger": Target(state.ledgers, state.use_ledger),
    "state": Target(state.state_folders, state.use_state),
}


def check(target: Target, case: Any, folder: Path) -> bool:
    """Run one case; returns whether it was accepted. Fails on anything but a clean error."""
    said, began = io.StringIO(), time.monotonic()
    handler = logging.StreamHandler(said)
    logging.getLogger().addHandler(handler)
    accepted = True
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            target.run(case, folder)
    except SugarbushError as error:
        accepted = False
        said.write(f"{error}")
        assert str(error), "an error without a message"
    finally:
        logging.getLogger().removeHandler(handler)
    assert target.canary not in said.getvalue(), said.getvalue()
    assert time.monotonic() - began < SLOW_S, "slow"
    return accepted


def fuzz(
    name: str, *, cases: int, first_seed: int = 0, say: Callable[[str], None] = lambda line: None
) -> tuple[int, int]:
    """Run at least `cases` cases of a target: how many, and how many of them were accepted."""
    done = accepted = 0
    with tempfile.TemporaryDirectory(prefix=f"fuzz-{name}-") as scratch:
        folder = Path(scratch) / "case"

        def one(case: Any) -> None:
            nonlocal done, accepted
            folder.mkdir(exist_ok=True)
            accepted += check(TARGETS[name], case, folder)
            done += 1

        while done < cases:
            options = settings(
                max_examples=min(CHUNK, cases - done),
                database=None,
                deadline=None,
                phases=(Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
            )
            seed(first_seed)(options(given(TARGETS[name].cases)(one)))()
            first_seed += 1
            say(f"{name}: {done:,} cases, {accepted:,} accepted")
    return done, accepted


def _say(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    """Run the named targets, or all. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.fuzz")
    parser.add_argument("targets", nargs="*", choices=[[], *TARGETS], metavar="TARGET")
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    warnings.simplefilter("error")
    for name in asked.targets or TARGETS:
        began = time.monotonic()
        done, accepted = fuzz(name, cases=asked.cases, first_seed=asked.seed, say=_say)
        seconds = time.monotonic() - began
        _say(f"{name}: {done:,} cases, {accepted:,} accepted, {seconds:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
