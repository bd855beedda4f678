"""What a replay with a slow generator keeps, so that one that was stopped goes on where it was.

Answers by what was asked, and DP tables, whose noise nobody can draw a second time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.generators.answer_cache import AnswerCache, Completion, call_key, open_cache
from sugarbush.generators.interface import Answer, Generator, Problem, Request, released_requests
from sugarbush.paths import atomic_file
from sugarbush.privacy.data_types import Released

# A kill loses no more answers than this; fewer would make the generator's batches small.
ASKED_AT_ONCE = 64


class Kept:
    """A folder of answers and arrays; `open_kept` makes one."""

    def __init__(self, folder: Path, answers: AnswerCache) -> None:
        self._folder, self._answers = folder, answers

    def generator(self, generator: Generator, *, identity: Mapping[str, Any]) -> KeptAnswers:
        return KeptAnswers(generator, self._answers, identity=identity)

    def array(self, name: str, make: Callable[[], NDArray[np.int64]]) -> NDArray[np.int64]:
        """What `make` returned when it was first asked for `name`."""
        file = self._folder / f"{name}.npy"
        if not file.exists():
            with atomic_file(file) as path, path.open("wb") as opened:
                np.save(opened, make())
        found: NDArray[np.int64] = np.load(file)
        return found


@contextmanager
def open_kept(folder: Path) -> Iterator[Kept]:
    with open_cache(folder) as answers:
        yield Kept(folder, answers)


class KeptAnswers:
    """`generator`, asked only for what `cache` does not hold.

    `identity` is everything beside a request that decides an answer.
    """

    def __init__(
        self, generator: Generator, cache: AnswerCache, *, identity: Mapping[str, Any]
    ) -> None:
        self._generator, self._cache = generator, cache
        self._identity = json.dumps(identity, sort_keys=True)

    def generate(
        self, requests: Released[tuple[Request, ...]], *, what: str = "answers"
    ) -> Released[tuple[Answer, ...]]:
        """One answer a request, in order; those that are kept cost nothing and say so."""
        wanted = released_requests(requests)
        keys = [call_key(generator=self._identity, request=repr(request)) for request in wanted]
        missing = list({key: r for key, r in zip(keys, wanted, strict=True) if not self._has(key)})
        by_key = dict(zip(keys, wanted, strict=True))
        fresh: dict[str, Answer] = {}
        for start in range(0, len(missing), ASKED_AT_ONCE):
            chunk = missing[start : start + ASKED_AT_ONCE]
            asked = Released(tuple(by_key[key] for key in chunk), requests.ledger_ids)
            fresh |= self._written(chunk, self._generator.generate(asked, what=what).value)
        answers = tuple(fresh.pop(key, None) or self._kept(key) for key in keys)
        return Released(answers, requests.ledger_ids)

    def _written(self, keys: Sequence[str], answers: Sequence[Answer]) -> dict[str, Answer]:
        for key, answer in zip(keys, answers, strict=True):
            self._cache.put(
                key,
                Completion(
                    text=answer.text, finish_reason=answer.problem, refused=False,
                    prompt_tokens=answer.prompt_tokens, completion_tokens=answer.completion_tokens,
                ),
            )  # fmt: skip
        return dict(zip(keys, answers, strict=True))

    def _has(self, key: str) -> bool:
        return self._cache.get(key) is not None

    def _kept(self, key: str) -> Answer:
        kept = self._cache.get(key)
        assert kept is not None
        return Answer(
            text=kept.text,
            problem=None if kept.finish_reason is None else Problem(kept.finish_reason),
            prompt_tokens=kept.prompt_tokens, completion_tokens=kept.completion_tokens, cached=True,
        )  # fmt: skip
