"""Keeps a journal of paid calls, and limits the number and the cost of calls.

    <state>/usage/<account>.jsonl     one paid call per line; lines are appended, never changed
    <state>/usage/<account>.lock      the lock of the one run that may send calls
    <state>/usage/<account>.settling  the journal line of the answer that is being stored

Each value of `privacy.dataset` has its own account. The caps apply to all runs of an account
together. A new run does not reset the caps. These calls count: the lines of the journal, the calls
in flight, and the calls of batches that no run has collected. A line of the journal describes one
call and contains no text.
"""

from __future__ import annotations

import json
import math
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from sugarbush.errors import GeneratorError, StorageError
from sugarbush.generators.answer_cache import Completion
from sugarbush.generators.openai.endpoint_settings import EndpointSettings
from sugarbush.generators.openai.submitted_calls import reserved_by_submitted
from sugarbush.generators.prices import cost_of
from sugarbush.paths import make_owner_only, open_owner_only

FOLDER = "usage"

# Maximum number of tokens that a chat format adds to a prompt of one message
_TEMPLATE_TOKENS = 16
# An estimate for English prose and byte-level vocabularies. Only cost estimates and rate limits use
# this value.
_BYTES_PER_TOKEN = 4.0


@dataclass(frozen=True, kw_only=True)
class Paid:
    """One paid call. `cost` is None if the model has no price.

    `cached_prompt_tokens` counts the part of `prompt_tokens` from the endpoint's prefix cache.
    Lines of an older journal do not have this number.
    """

    time: str
    stage: str
    what: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    cached_prompt_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class PaidCalls:
    """Totals of paid calls. `unpriced` is the number of calls to models without a price."""

    stage: str = ""
    what: str = ""
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_prompt_tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0

    def plus(self, paid: Paid) -> PaidCalls:
        return replace(
            self,
            calls=self.calls + 1,
            prompt_tokens=self.prompt_tokens + paid.prompt_tokens,
            completion_tokens=self.completion_tokens + paid.completion_tokens,
            cached_prompt_tokens=self.cached_prompt_tokens + paid.cached_prompt_tokens,
            cost=self.cost + (paid.cost or 0.0),
            unpriced=self.unpriced + (paid.cost is None),
        )


class CapReachedError(GeneratorError):
    """Raised when the next call could exceed `max_calls` or `max_cost`."""


def most_prompt_tokens(prompt: str) -> int:
    """Return an upper bound on the tokens of a prompt. Every token has at least one byte."""
    return len(prompt.encode("utf-8", "replace")) + _TEMPLATE_TOKENS


def likely_prompt_tokens(prompt: str) -> int:
    """Estimate the number of tokens in a prompt, for plans and for the rate limit."""
    size = len(prompt.encode("utf-8", "replace")) / _BYTES_PER_TOKEN
    return round(size + _TEMPLATE_TOKENS / 2)


def journal_path(state: Path, account: str) -> Path:
    """Return the path of an account's journal."""
    return state / FOLDER / f"{account}.jsonl"


def read_journal(path: Path) -> tuple[Paid, ...]:
    """Read all paid calls, oldest first. Incomplete lines of killed processes are skipped."""
    return tuple(_Journal(path).new_lines())


def spending_by_batch(paid: Sequence[Paid]) -> tuple[PaidCalls, ...]:
    """Sum the paid calls by stage and batch of requests, in order of the first paid call."""
    totals: dict[tuple[str, str], PaidCalls] = {}
    for call in paid:
        key = (call.stage, call.what)
        totals[key] = totals.get(key, PaidCalls(stage=call.stage, what=call.what)).plus(call)
    return tuple(totals.values())


class Meter:
    """Admits calls under the caps of one account and records their costs.

    Guarantee: no cap is exceeded. A call reserves its maximum cost before it is sent. The actual
    cost of its answer replaces the reservation. `alone` excludes all other runs. Calls in batches
    that no run has collected count as reserved. The guarantee does not cover an answer that the
    endpoint bills but that never arrives.
    """

    def __init__(self, state: Path, *, account: str, stage: str, params: EndpointSettings) -> None:
        self.account = account
        self.in_flight = 0
        self.spent = PaidCalls()
        self._stage, self._params = stage, params
        self._journal = _Journal(journal_path(state, account))
        self._state = state
        self._reserved_cost = 0.0
        self._batched_calls, self._batched_cost = 0, 0.0

    def worst_cost(self, prompt: str) -> float:
        """Return the maximum cost of a call with this prompt, or 0 without a price."""
        cost = cost_of(
            self._params.price,
            prompt_tokens=most_prompt_tokens(prompt),
            completion_tokens=self._params.max_tokens,
        )
        return cost or 0.0

    @property
    def is_capped(self) -> bool:
        return self._params.max_calls is not None or self._params.max_cost is not None

    @contextmanager
    def alone(self, say: Callable[[str], None]) -> Iterator[None]:
        """Hold the lock of the account, because all runs share caps, rate limits and answers.

        All other runs of the account wait, also in other threads and processes. The operating
        system frees the lock of a dead process. The next holder first records the payment that the
        dead process did not record. Do not wait for a batch while you hold the lock.
        """
        lock = FileLock(self._journal.path.with_suffix(".lock"))
        with _storage(Path(lock.lock_file)):
            make_owner_only(self._journal.path.parent)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                say(f"waiting: another run on '{self.account}' is asking for answers")
                lock.acquire()
        try:
            self._journal.recover()
            self.count_batches()
            yield
        finally:
            lock.release()

    def count_batches(self) -> None:
        self._batched_calls, self._batched_cost = reserved_by_submitted(
            self._state, account=self.account
        )

    def refresh(self) -> None:
        """Read the calls that other processes have paid."""
        for paid in self._journal.new_lines():
            self.spent = self.spent.plus(paid)

    def admit(self, worst_cost: float) -> None:
        """Reserve one call. Raises CapReachedError if the call could exceed a cap."""
        self.refresh()
        calls = self.spent.calls + self.in_flight + self._batched_calls
        cost = self.spent.cost + self._reserved_cost + self._batched_cost
        params = self._params
        if params.max_calls is not None and calls + 1 > params.max_calls:
            why = "one more call would exceed this cap"
            raise self._refusal(f"max_calls={params.max_calls}", why)
        if params.max_cost is not None and cost + worst_cost > params.max_cost:
            why = f"one more call may cost up to {worst_cost:.4g}"
            raise self._refusal(f"max_cost={params.max_cost:g}", why)
        self.reserve([worst_cost])

    def reserve(self, worst_costs: Iterable[float]) -> None:
        """Reserve calls that are already sent. No cap is checked."""
        for worst_cost in worst_costs:
            self.in_flight += 1
            self._reserved_cost += worst_cost

    def release(self, worst_cost: float) -> None:
        self.in_flight -= 1
        self._reserved_cost = self._reserved_cost - worst_cost if self.in_flight else 0.0

    def settle(
        self,
        worst_cost: float,
        completion: Completion,
        *,
        what: str,
        store: Callable[[], None] = lambda: None,
    ) -> None:
        """Store the answer to a reserved call with `store`, and record its cost.

        After a kill, the answer and its cost are not lost. The journal line is on disk before the
        answer is stored. If the journal lacks this line after a kill, the next holder of the lock
        appends it. If the endpoint reports 0 prompt tokens, the recorded cost is the maximum cost
        of the call.
        """
        tokens = {
            "prompt_tokens": completion.prompt_tokens,
            "completion_tokens": completion.completion_tokens,
            "cached_prompt_tokens": completion.cached_prompt_tokens,
        }
        cost = cost_of(self._params.price, **tokens)
        paid = Paid(
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            stage=self._stage,
            what=what,
            model=self._params.model,
            cost=worst_cost if cost is not None and not completion.prompt_tokens else cost,
            **tokens,
        )
        with self._journal.settling(paid):
            store()
        self.release(worst_cost)
        self.refresh()

    def summary(self) -> str:
        spent, params = self.spent, self._params
        paid = f"cost {spent.cost:.4f}"
        if params.price is None:
            paid = f"{spent.prompt_tokens + spent.completion_tokens:,} tokens"
        if params.max_cost is not None:
            paid += f" of {params.max_cost:g}"
        if params.max_calls is not None:
            paid += f", {spent.calls:,} of {params.max_calls:,} calls"
        if spent.cached_prompt_tokens:
            share = spent.cached_prompt_tokens / spent.prompt_tokens
            paid += f", {share:.0%} of the prompt tokens cached"
        return paid

    def _refusal(self, cap: str, why: str) -> CapReachedError:
        spent = self.spent
        cost = "" if spent.unpriced == spent.calls else f", cost {spent.cost:.4g}"
        batched = ""
        if self._batched_calls:
            batched = f"; {self._batched_calls} calls are in batches that no run has collected"
        return CapReachedError(
            f"{self._params.setting}.{cap} is reached: all runs on '{self.account}' have paid for "
            f"{spent.calls} calls, {spent.prompt_tokens} prompt and {spent.completion_tokens} "
            f"completion tokens{cost}{batched}; {why}. Every answer received is cached. Raise the "
            "cap in params.yaml and run again: the run requests only the missing answers."
        )


class _Journal:
    """The file of paid calls. `new_lines` starts where its last call ended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read_to = 0
        self._checked_end = False
        self._settling = path.with_suffix(".settling")
        self._descriptor = -1
        self._close: Callable[[], object] = lambda: None
        self._unsettled = False

    def new_lines(self) -> list[Paid]:
        """Read the complete lines that were appended since the last call."""
        with _storage(self.path):
            if not self.path.exists() or self.path.stat().st_size <= self._read_to:
                return []
            with self.path.open("rb") as file:
                file.seek(self._read_to)
                content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._read_to += len(whole)
        return [paid for line in whole.split(b"\n") if (paid := _parse(line)) is not None]

    @contextmanager
    def settling(self, paid: Paid) -> Iterator[None]:
        """Append a journal line after the block. The block stores the paid answer.

        Before the block runs, the line and its position in the journal are written to `.settling`.
        """
        if self._unsettled:
            self.recover()
        line = json.dumps(vars(paid), separators=(",", ":")).encode() + b"\n"
        with _storage(self.path):
            make_owner_only(self.path.parent)
            offset = self.path.stat().st_size if self.path.exists() else 0
            self._write_settling(f"{offset}\n".encode() + line)
        self._unsettled = True
        yield
        self._append(line)
        with _storage(self.path):
            self._write_settling(b"")
        self._unsettled = False

    def recover(self) -> None:
        """Append the line that a dead run left in `.settling`, if the journal lacks this line."""
        with _storage(self.path):
            written = self._settling.read_bytes() if self._settling.exists() else b""
            offset, _, line = written.partition(b"\n")
            has_offset = offset.isdigit() and len(offset) < 19
            if _parse(line) is None or not line.endswith(b"\n") or not has_offset:
                return  # the line is incomplete, so the run has not stored the answer
            after = self.path.read_bytes()[int(offset) :] if self.path.exists() else b""
        if line not in after:
            self._append(line)
        with _storage(self.path):
            self._write_settling(b"")
        self._unsettled = False

    def _write_settling(self, content: bytes) -> None:
        # The file stays open, because opening and closing it takes longer than all other steps. If
        # the state folder was deleted or moved, the next run would not find the open file. So a new
        # file is opened.
        if not _is_open(self._descriptor, self._settling):
            self._close()
            self._descriptor = open_owner_only(self._settling, os.O_WRONLY)
            self._close = weakref.finalize(self, os.close, self._descriptor)
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, content, 0)

    def _append(self, line: bytes) -> None:
        """Write the line in one system call, so that lines of several processes do not mix."""
        with _storage(self.path):
            make_owner_only(self.path.parent)
            descriptor = open_owner_only(self.path, os.O_RDWR | os.O_APPEND)
            try:
                if not self._checked_end and not _ends_a_line(descriptor):
                    line = b"\n" + line
                self._checked_end = True
                os.write(descriptor, line)
            finally:
                os.close(descriptor)


def _is_open(descriptor: int, path: Path) -> bool:
    """Return whether `descriptor` refers to the file that is at `path` now."""
    try:
        return descriptor >= 0 and os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _ends_a_line(descriptor: int) -> bool:
    """Return whether the file is empty or ends with a whole line. A kill may cut the last line."""
    size = os.fstat(descriptor).st_size
    return not size or os.pread(descriptor, 1, size - 1) == b"\n"


def _parse(line: bytes) -> Paid | None:
    """Parse the paid call in a line. Return None if a kill or an edit damaged the line."""
    try:
        paid = Paid(**json.loads(line))
        words = [paid.stage, paid.what]
        tokens = (paid.prompt_tokens, paid.completion_tokens, paid.cached_prompt_tokens)
        counts = (*tokens, paid.cost or 0)
        sound = all(isinstance(w, str) for w in words) and all(0 <= n < math.inf for n in counts)
    except (ValueError, TypeError, RecursionError):
        return None
    return paid if sound else None


@contextmanager
def _storage(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror or error}") from None
