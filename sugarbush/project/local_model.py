"""The language model that `sugarbush init` chooses for the user's own data, and its settings.

Measurements: docs/decisions/local-models.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sugarbush.languages import count_words

_TOKENS_PER_WORD = 2.2  # of long words and names, in a vocabulary of English
_STEP = 32  # max_tokens is a multiple
_PROMPT_WORDS = 60  # donated examples in a prompt have about this many words together
_FEWEST_EXAMPLES, _MOST_EXAMPLES = 2, 10


@dataclass(frozen=True, kw_only=True)
class HubModel:
    """A model of the Hugging Face hub."""

    name: str
    megabytes: int
    licence: str
    temperature: float
    seconds_per_text: float

    @property
    def described(self) -> str:
        """The name, what its first use costs, and its speed on a CPU."""
        return (
            f"{self.name}: its first use downloads {self.megabytes} MB (licence {self.licence}), "
            f"and a CPU core writes a short text in about {self.seconds_per_text:g} s (2.7 "
            "times as long without the extra gguf)"
        )


DEFAULT_MODEL = HubModel(
    name="HuggingFaceTB/SmolLM2-135M-Instruct",
    megabytes=270,
    licence="Apache-2.0",
    temperature=0.8,
    seconds_per_text=0.2,
)


def tokens_for(texts: Sequence[str]) -> int:
    """Return max_tokens, so that answers as long as nearly every donated text are not cut off.

    >>> tokens_for(["word " * 13] * 50), tokens_for(["word " * 100] * 50)
    (64, 224)
    """
    return tokens_for_words(float(np.quantile([count_words(text) for text in texts], 0.95)))


def tokens_for_words(words: float) -> int:
    """Return max_tokens for answers of about `words` words."""
    return max(2, math.ceil(_TOKENS_PER_WORD * words / _STEP)) * _STEP


def examples_for(texts: Sequence[str]) -> int:
    """Return the number of donated examples in a prompt. A CPU reads long prompts slowly.

    >>> examples_for(["word " * 13] * 50), examples_for(["word " * 100] * 50)
    (5, 2)
    """
    usual = float(np.median([count_words(text) for text in texts]))
    count = round(_PROMPT_WORDS / max(usual, 1.0))
    return min(max(count, _FEWEST_EXAMPLES), _MOST_EXAMPLES)
