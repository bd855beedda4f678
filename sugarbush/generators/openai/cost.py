"""What answers cost: a journal of paid calls, a price, and caps that hold.

    <state>/usage/<account>.jsonl     one paid call a line, appended and never rewritten

An account is a `privacy.dataset`: what all runs on it have paid counts against its caps, so that
starting again, or splitting a run into stages, opens no second purse. A line says when, for which
stage and batch of requests, which model, how many tokens and at which price; no text.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from sugarbush.errors import GeneratorError, StorageError
from sugarbush.generators.interface import cost_of
from sugarbush.generators.openai.settings import CallMode, EndpointSettings
from sugarbush.paths import make_owner_only

FOLDER = "usage"

# Template tokens around each message and at the end of a prompt; no chat format in use has more.
_TEMPLATE_TOKENS = 16
# English prose in byte-level BPE vocabularies; used for planning only, never for a cap.
_BYTES_PER_TOKEN = 4.0


@dataclass(frozen=True, kw_only=True)
class Paid:
    """One paid call. `cost` is None where the model has no price."""

    time: str
    stage: str
    what: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    cost: float | None


@dataclass(frozen=True, kw_only=True)
class Spending:
    """Totals over paid calls. `unpriced` calls have tokens and no cost."""

    stage: str = ""
    what: str = ""
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0

    def plus(self, paid: Paid) -> Spending:
        return replace(
            self,
            calls=self.calls + 1,
            prompt_tokens=self.prompt_tokens + paid.prompt_tokens,
            completion_tokens=self.completion_tokens + paid.completion_tokens,
            cost=self.cost + (paid.cost or 0.0),
            unpriced=self.unpriced + (paid.cost is None),
        )


class CapReachedError(GeneratorError):
    """The next call could pass `max_calls` or `max_cost`."""


def most_prompt_tokens(contents: Iterable[str]) -> int:
    """An upper bound on the tokens of a prompt: a byte-level vocabulary has none under a byte."""
    return sum(len(text.encode("utf-8", "replace")) + _TEMPLATE_TOKENS for text in contents)


def likely_prompt_tokens(contents: Iterable[str]) -> int:
    """About how many tokens a prompt has, for planning and for the tokens-per-minute limit."""
    sizes = (len(text.encode("utf-8", "replace")) / _BYTES_PER_TOKEN for text in contents)
    return round(sum(size + _TEMPLATE_TOKENS / 2 for size in sizes))


def journal_path(state: Path, account: str) -> Path:
    """Where the paid calls of an account are written down."""
    return state / FOLDER / f"{account}.jsonl"


def read_journal(path: Path) -> tuple[Paid, ...]:
    """Every paid call so far, oldest first. A line torn by a kill is passed over."""
    journal = _Journal(path)
    return tuple(journal.news())


def spending_by_batch(paid: Sequence[Paid]) -> tuple[Spending, ...]:
    """Totals by stage and batch of requests (a round, say), in order of first payment."""
    totals: dict[tuple[str, str], Spending] = {}
    for call in paid:
        place = (call.stage, call.what)
        totals[place] = totals.get(place, Spending(stage=call.stage, what=call.what)).plus(call)
    return tuple(totals.values())


class Meter:
    """Admits calls under the caps of one account, and writes down what was paid.

    A call is admitted at the most it could cost and settled at what it did cost, so `max_cost`
    holds whatever the answers' lengths; `alone` keeps other processes away meanwhile. What an
    endpoint bills for an answer that never arrived is not known here.
    """

    def __init__(self, state: Path, *, account: str, stage: str, params: EndpointSettings) -> None:
        self.account = account
        self._stage = stage
        self._params = params
        self._price = params.price
        self._journal = _Journal(journal_path(state, account))
        self._held_cost = 0.0
        self.in_flight = 0
        self.spent = Spending()

    def worst_cost(self, contents: Iterable[str]) -> float:
        """The most that a call with these messages can cost; 0 without a price."""
        cost = cost_of(
            self._price,
            prompt_tokens=most_prompt_tokens(contents),
            completion_tokens=self._params.max_tokens,
        )
        return cost or 0.0

    @contextmanager
    def alone(self, say: Callable[[str], None]) -> Iterator[None]:
        """No other run on this account asks for answers meanwhile.

        So caps, concurrency and rates hold for all of them together, and no answer is paid for by
        two. A process that dies sets the lock free. Batches without a cap need none.
        """
        capped = self._params.max_calls is not None or self._params.max_cost is not None
        if self._params.mode is CallMode.BATCH and not capped:
            yield
            return
        lock = FileLock(self._journal.path.with_suffix(".lock"))
        try:
            make_owner_only(self._journal.path.parent)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                say(f"waiting: another run on '{self.account}' is asking for answers")
                lock.acquire()
        except OSError as error:
            raise StorageError(f"{lock.lock_file}: {error.strerror or error}") from None
        try:
            yield
        finally:
            lock.release()

    def refresh(self) -> None:
        """Take in what other processes have paid."""
        for paid in self._journal.news():
            self.spent = self.spent.plus(paid)

    def admit(self, worst_cost: float) -> None:
        """Set aside one call. Raises CapReachedError when it could pass a cap."""
        self.refresh()
        calls, cost = self.spent.calls + self.in_flight, self.spent.cost + self._held_cost
        params = self._params
        if params.max_calls is not None and calls + 1 > params.max_calls:
            raise CapReachedError(
                self._refusal(f"max_calls={params.max_calls}", "one more call would pass it")
            )
        if params.max_cost is not None and cost + worst_cost > params.max_cost:
            raise CapReachedError(
                self._refusal(
                    f"max_cost={params.max_cost:g}",
                    f"one more call may cost up to {worst_cost:.4g}",
                )
            )
        self.hold([worst_cost])

    def hold(self, worst_costs: Iterable[float]) -> None:
        """Set aside calls that cannot be refused any more: they were sent by an earlier run."""
        for worst_cost in worst_costs:
            self.in_flight += 1
            self._held_cost += worst_cost

    def release(self, worst_cost: float) -> None:
        """A call that was admitted brought no answer and is not paid for."""
        self.in_flight -= 1
        self._held_cost = self._held_cost - worst_cost if self.in_flight else 0.0

    def settle(
        self, worst_cost: float, *, what: str, prompt_tokens: int, completion_tokens: int
    ) -> None:
        """A call that was admitted has been answered: write down what it cost.

        Where the endpoint tells no usage (no prompt has 0 tokens) that is the most it could cost.
        """
        self.release(worst_cost)
        cost = cost_of(
            self._price, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens
        )
        if cost is not None and prompt_tokens == 0:
            cost = worst_cost
        self._journal.append(
            Paid(
                time=datetime.now(UTC).isoformat(timespec="seconds"),
                stage=self._stage,
                what=what,
                model=self._params.model,
                prompt_tokens=prompt_tokens,
                completion_tokens=completion_tokens,
                cost=cost,
            )
        )
        self.refresh()

    def shown(self) -> str:
        """What has been paid so far and what is allowed, for people."""
        spent, params = self.spent, self._params
        paid = f"cost {spent.cost:.4f}"
        if self._price is None:
            paid = f"{spent.prompt_tokens + spent.completion_tokens:,} tokens"
        if params.max_cost is not None:
            paid += f" of {params.max_cost:g}"
        if params.max_calls is not None:
            paid += f", {spent.calls:,} of {params.max_calls:,} calls"
        return paid

    def _refusal(self, cap: str, why: str) -> str:
        spent = self.spent
        cost = "" if spent.unpriced == spent.calls else f", cost {spent.cost:.4g}"
        return (
            f"{self._params.setting}.{cap} is reached: all runs on '{self.account}' have paid for "
            f"{spent.calls} calls, {spent.prompt_tokens} prompt and {spent.completion_tokens} "
            f"completion tokens{cost}; {why}. Every answer received is kept: "
            "raise the cap in params.yaml and run again, and only what is missing is asked for."
        )


class _Journal:
    """A file of paid calls, read from where the last look ended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read_to = 0
        self._checked_end = False

    def news(self) -> list[Paid]:
        """The lines that were finished since the last look."""
        try:
            if not self.path.exists() or self.path.stat().st_size <= self._read_to:
                return []
            with self.path.open("rb") as file:
                file.seek(self._read_to)
                content = file.read()
        except OSError as error:
            raise StorageError(f"{self.path}: {error.strerror or error}") from None
        whole = content[: content.rfind(b"\n") + 1]
        self._read_to += len(whole)
        return [paid for line in whole.splitlines() if (paid := _parse(line)) is not None]

    def append(self, paid: Paid) -> None:
        """Write one line in one call, so that lines of several processes don't mix."""
        line = json.dumps(asdict(paid), separators=(",", ":")).encode() + b"\n"
        try:
            make_owner_only(self.path.parent)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                if not self._checked_end:
                    line = _line_end_missing(descriptor) + line
                    self._checked_end = True
                os.write(descriptor, line)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StorageError(f"{self.path}: {error.strerror or error}") from None


def _line_end_missing(descriptor: int) -> bytes:
    """The line end that a death in the middle of a line has left out."""
    size = os.fstat(descriptor).st_size
    return b"\n" if size and os.pread(descriptor, 1, size - 1) != b"\n" else b""


def _parse(line: bytes) -> Paid | None:
    try:
        return Paid(**json.loads(line))
    except (ValueError, TypeError):
        return None
