"""`make fuzz`: only clean errors, and no private text in a message, a log or a public file.

    python -m tests.fuzz                        100,000 cases of every target, one after another
    python -m tests.fuzz --cases 500 csv ledger

A case is a damaged input: hypothesis makes one in ten, and nine are made from that one by further
damage, which is faster. It must be accepted, or refused by an error class of the project, whose
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
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from sugarbush.errors import SugarbushError
from tests.fuzz import answers, documents, records, state
from tests.fuzz.damage import CANARY, SECRET

VARIANTS = 9  # of each case of hypothesis
CHUNK = 2_000  # hypothesis remembers its cases: one run of all takes much memory
FRAMES = 500  # of the stack; hypothesis allows 2,000, and then deep YAML takes seconds
MEMORY = Path("/dev/shm")  # a disk would take most of the time


@dataclass(frozen=True)
class Target:
    """`run` reads a case of `cases`, with a folder to write in. `damage` returns another case."""

    cases: SearchStrategy[Any]
    damage: Callable[[Any, Random], Any]
    run: Callable[[Any, Path], None]
    canary: str = CANARY


TARGETS = {
    "csv": Target(records.csv_files, records.more_damaged_csv, records.read_csv),
    "jsonl": Target(records.jsonl_files, records.more_damaged_jsonl, records.read_jsonl),
    "json": Target(records.json_files, records.more_damaged_json, records.read_json),
    "arrow": Target(records.arrow_files, records.more_damaged_arrow, records.read_arrow),
    "xlsx": Target(records.xlsx_files, records.more_damaged_xlsx, records.read_xlsx),
    "parquet": Target(records.parquet_files, records.more_damaged_parquet, records.read_parquet),
    "frame": Target(records.frames, records.more_damaged_frame, records.read_frame),
    "schema": Target(
        documents.schemas, documents.more_damaged_document, documents.read_schema, SECRET
    ),
    "settings": Target(
        documents.params_files, documents.more_damaged_document, documents.read_params, SECRET
    ),
    "answers": Target(answers.texts, answers.more_damaged_answer, answers.check_answer),
    "endpoint": Target(answers.responses, answers.more_damaged_response, answers.call_endpoint),
    "batch": Target(answers.batch_files, answers.more_damaged_batch, answers.receive_batch),
    "ledger": Target(state.ledgers, state.more_damaged_ledger, state.use_ledger),
    "state": Target(state.state_folders, state.more_damaged_state, state.use_state),
}


def check(target: Target, case: Any, folder: Path) -> bool:
    """Run one case; returns whether it was accepted. Fails on anything but a clean error."""
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    logging.getLogger().addHandler(handler)
    accepted = True
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), _little_stack():
            target.run(case, folder)
    except SugarbushError as error:
        accepted = False
        said.write(f"{error}")
        assert str(error), "an error without a message"
    finally:
        logging.getLogger().removeHandler(handler)
    assert target.canary not in said.getvalue(), said.getvalue()
    return accepted


@contextlib.contextmanager
def _little_stack() -> Iterator[None]:
    """Inputs that are nested too deeply end sooner."""
    before, depth, frame = sys.getrecursionlimit(), 0, sys._getframe()
    while frame := frame.f_back:  # type: ignore[assignment]
        depth += 1
    sys.setrecursionlimit(depth + FRAMES)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def fuzz(
    name: str, *, cases: int, first_seed: int = 0, say: Callable[[str], None] = lambda line: None
) -> tuple[int, int]:
    """Run at least `cases` different cases of a target. Returns how many, and how many of them were
    accepted. Raises an ExceptionGroup of all faults at the end."""
    target, known, accepted = TARGETS[name], set[int](), 0
    faults: dict[Any, Exception] = {}  # one for each place in the code
    place = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix=f"fuzz-{name}-", dir=place) as scratch:
        folder = Path(scratch) / "case"

        def one(case: Any) -> None:
            nonlocal accepted
            rng = Random(repr(case))
            for variant in (case, *(target.damage(case, rng) for _ in range(VARIANTS))):
                folder.mkdir(exist_ok=True)
                try:
                    fine = check(target, variant, folder)
                except Exception as error:
                    *_, last = traceback.extract_tb(error.__traceback__)
                    error.add_note(f"the case: {variant!r:.5000}")
                    faults.setdefault((type(error), last.filename, last.lineno), error)
                    fine = False
                accepted += fine and hash(repr(variant)) not in known
                known.add(hash(repr(variant)))

        while len(known) < cases:
            options = settings(
                max_examples=min(CHUNK, 10 + (cases - len(known)) // (VARIANTS + 1)),
                database=None,
                deadline=None,
                phases=(Phase.generate,),
                suppress_health_check=list(HealthCheck),
            )
            seed(first_seed)(options(given(target.cases)(one)))()
            first_seed += 1
            say(f"{name}: {len(known):,} cases, {accepted:,} accepted")
    if faults:
        raise ExceptionGroup(name, list(faults.values()))
    return len(known), accepted


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
    failed = False
    for name in asked.targets or TARGETS:
        began = time.monotonic()
        try:
            done, accepted = fuzz(name, cases=asked.cases, first_seed=asked.seed, say=_say)
        except ExceptionGroup as faults:
            traceback.print_exception(faults)
            failed = True
            continue
        seconds = time.monotonic() - began
        _say(f"{name}: {done:,} cases, {accepted:,} accepted, {seconds:.0f} s in all")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
