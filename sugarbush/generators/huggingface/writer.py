"""The interface of a program that writes texts with a local model."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from sugarbush.generators.answer_cache import Completion
from sugarbush.generators.huggingface.model import TextModel
from sugarbush.randomness import Rng


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A prompt's token ids, its limit of answer tokens, and its stream of public random numbers.

    `random` returns a new stream at each call, which always begins with the same numbers.
    """

    ids: array[int]  # a list would take ten times the memory, for up to 10,000 prompts
    limit: int
    random: Callable[[], Rng]


class Writer(Protocol):
    """Writes the answers to prompts with the model `local`."""

    @property
    def local(self) -> TextModel: ...

    def write(
        self, prompts: Sequence[Prompt], *, missing: Sequence[int]
    ) -> Iterator[dict[int, Completion]]:
        """Yield the answers to the prompts with the indices `missing`, in any order.

        Each yielded mapping has some answers, which are complete. Prompts that are not missing may
        affect the division into batches, but not the answers.
        """
        ...
