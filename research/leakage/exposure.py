"""Computes the exposure of a canary: its rank among all possible candidates, in bits.

    exposure = log2 |R| - log2 rank,    rank 1 for the most likely of the |R| candidates

The rank is exact. The candidates' tokens form a tree. The model reads each inner node once, in
batches, with a cache of the earlier tokens. If each digit is a token, 10^6 candidates need 111,111
tokens instead of 6,000,000.

Without a leak all ranks are equally likely. The mean exposure is then 1/ln 2 = 1.44 bits. The
highest exposure of ten canaries is 4.2 bits on average, and below 7.6 bits in 95% of cases. Source:
Carlini et al. 2019, "The Secret Sharer", section 4.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

from research.leakage.canaries import DIGITS, PREFIX, Canary

_NO_TOKEN = -1  # fills a row after the last token of a candidate
_LOGITS = 2**23  # largest number of logits in memory
_TEXTS = 50_000  # number of texts in one call of the tokenizer
_CHECKED = 997  # every 997th candidate is also tokenized as a whole, as a check


@dataclass(frozen=True, kw_only=True)
class Exposure:
    """The exposures of canaries, from 0 to log2(10^6) = 19.9 bits each."""

    bits: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.bits))

    @property
    def highest(self) -> float:
        return max(self.bits)


def ranked(losses: NDArray[np.float64], canaries: Sequence[Canary]) -> Exposure:
    """Compute the exposures from the losses of all candidates. A tie counts for the attacker."""
    ranks = [1 + int((losses < losses[canary.number]).sum()) for canary in canaries]
    return Exposure(bits=tuple(float(np.log2(len(losses)) - np.log2(rank)) for rank in ranks))


def candidate_tokens(
    tokenizer: Any, *, prefix: str = PREFIX, digits: int = DIGITS
) -> tuple[list[int], NDArray[np.int64]]:
    """Return the tokens that all candidates start with, and a table of their further tokens.

    The table is (10^digits, longest). The tokenizer may join digits with each other and with the
    prefix, as in a corpus. The name of a special token in the prefix is plain text.
    """
    fast = tokenizer.backend_tokenizer  # twice as fast as the wrapper in transformers
    fast.encode_special_tokens = True  # the default depends on the last call of the wrapper
    fast.no_truncation()
    fast.no_padding()
    numbers = [f"{number:0{digits}d}" for number in range(10**digits)]
    ids = _by_last_word(fast, prefix, numbers)
    if ids is None:
        ids = _encoded(fast, [prefix + number for number in numbers])
    lengths = np.fromiter(map(len, ids), np.int64, len(ids))
    table = np.full((len(ids), lengths.max()), _NO_TOKEN, dtype=np.int64)
    present = np.arange(table.shape[1]) < lengths[:, None]
    table[present] = np.fromiter(chain.from_iterable(ids), np.int64, lengths.sum())
    common = int(np.argmax((table != table[0]).any(axis=0)))
    return table[0, :common].tolist(), table[:, common:]


def _by_last_word(fast: Tokenizer, prefix: str, numbers: Sequence[str]) -> list[list[int]] | None:
    """Return the tokens of each candidate, or None if the number of a candidate is not one word.
    Most tokenizers encode words one by one. So one encoding of the prefix is enough, and four times
    as fast. As a check, every 997th candidate is also encoded as a whole."""
    if fast.pre_tokenizer is None:
        return None
    word, _ = fast.pre_tokenizer.pre_tokenize_str(prefix + numbers[0])[-1]
    if not word.endswith(numbers[0]):
        return None
    before = word.removesuffix(numbers[0])
    own = _encoded(Tokenizer(fast.model), [before + number for number in numbers])
    checked = slice(None, None, _CHECKED)
    whole = _encoded(fast, [prefix + number for number in numbers[checked]])
    first = whole[0][: len(whole[0]) - len(own[0])]
    if whole != [first + ids for ids in own[checked]]:
        return None
    return [first + ids for ids in own]


def _encoded(fast: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    ids: list[list[int]] = []
    for start in range(0, len(texts), _TEXTS):
        encoded = fast.encode_batch_fast(texts[start : start + _TEXTS], add_special_tokens=False)
        ids += [one.ids for one in encoded]
    return ids


@torch.inference_mode()
def candidate_losses(
    model: Any, prefix: Sequence[int], candidates: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Compute the loss in nats of each row of `candidates` after `prefix`, (n,). -1 ends a row.

    `model` is a causal language model of the library transformers, with a key-value cache.
    """
    model.eval()
    device = next(model.parameters()).device
    order = np.lexsort(candidates.T[::-1])
    output = model(input_ids=torch.tensor([list(prefix)], device=device), use_cache=True)
    root = _Nodes(output.cache, _log_probabilities(output))
    tree = _Tree(model, candidates[order], chunk=max(16, _LOGITS // output.logits.shape[-1]))
    everyone = np.arange(len(order))
    tree.visit(root, everyone, np.zeros_like(everyone), depth=0)
    losses = np.empty(len(order))
    losses[order] = tree.losses
    return losses


@dataclass(frozen=True)
class _Nodes:
    """Nodes of one depth: the model's cache, and the log probabilities of the next token, (nodes,
    V)."""

    cache: Any
    log_probabilities: Tensor


class _Tree:
    """Visits candidates in lexicographic order, depth first, `chunk` nodes at a time."""

    def __init__(self, model: Any, rows: NDArray[np.int64], *, chunk: int) -> None:
        self._model, self._rows, self._chunk = model, rows, chunk
        self.losses = np.zeros(len(rows))

    def visit(
        self, nodes: _Nodes, places: NDArray[np.int64], node_of: NDArray[np.int64], *, depth: int
    ) -> None:
        """For the candidates at `places`, add the losses of the tokens from `depth` on."""
        tokens = self._rows[places, depth]
        here = tokens != _NO_TOKEN
        taken = nodes.log_probabilities[node_of[here], tokens[here]]
        self.losses[places[here]] -= taken.double().cpu().numpy()
        if depth + 1 == self._rows.shape[1]:
            return
        deeper = np.flatnonzero(self._rows[places, depth + 1] != _NO_TOKEN)
        keys = node_of[deeper] * (tokens.max() + 1) + tokens[deeper]
        _, first, child_of = np.unique(keys, return_index=True, return_inverse=True)
        for start in range(0, len(first), self._chunk):
            at = deeper[first[start : start + self._chunk]]
            children = self._step(nodes, parents=node_of[at], tokens=tokens[at])
            low, high = np.searchsorted(child_of, [start, start + self._chunk])
            self.visit(
                children, places[deeper[low:high]], child_of[low:high] - start, depth=depth + 1
            )

    def _step(
        self, nodes: _Nodes, *, parents: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> _Nodes:
        device = nodes.log_probabilities.device
        cache = copy.deepcopy(nodes.cache)
        cache.batch_select_indices(torch.from_numpy(parents).to(device))
        ids = torch.from_numpy(tokens[:, None]).to(device)
        output = self._model(input_ids=ids, cache=cache, use_cache=True)
        return _Nodes(output.cache, _log_probabilities(output))


def _log_probabilities(output: Any) -> Tensor:
    return torch.log_softmax(output.logits[:, -1].float(), dim=-1)
