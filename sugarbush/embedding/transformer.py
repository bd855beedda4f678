"""Computes a text's vector by a transformer that reads token ids. No other text can change it.

The vector of a text is the vector of the *reference shape*. On a CPU, the reference shape is the
text alone. On a GPU, it is a batch of fixed size for each number of tokens, filled up with copies.
Texts share a batch only in a shape that passed a test in this process: at every position, and
beside other texts, public token ids have the bits of the reference shape. In all other shapes, each
text is embedded alone.

A text with more tokens than the model reads is embedded in windows. The vector of the text is the
mean of the windows' vectors, weighted by their tokens and scaled to length 1.

Assumption: a matrix library chooses the order of its sums by shapes and positions, never by the
numbers. Then the test with public texts holds for private texts too (docs/decisions/embeddings.md).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.embedding.vectors import PROBE, require_float32, unit, well_formed

CPU_TOKENS = 256  # of a batch; with more, MiniLM is not faster (docs/decisions/embeddings.md)
_CUDA_TOKENS = 16384
# On a CPU, smaller batches and fewer texts cost less time alone than the test of their shape.
_LEAST_ROWS = 4
_LEAST_TEXTS = 32
_TEST_ROWS = 3  # the number has no factor in common with the widths of blocks of rows
# English has about five characters per token, so most texts are tokenized only once.
_CHARACTERS_PER_TOKEN = 16
_SAME_COSINE = 0.999


@dataclass(frozen=True)
class Transformer:
    """A transformer that reads token ids. `alone`: whether the reference shape is a single text.
    `prefix` is the text that the model's own settings put before each text, such as "query: ".
    `cpu_tokens` is the size of a batch on a CPU, in tokens.
    """

    network: Any
    tokenizer: Any
    device: str
    dim: int
    most_tokens: int
    alone: bool
    prefix: str = ""
    cpu_tokens: int = CPU_TOKENS
    # whether a shape (rows, tokens) passed the test
    tested: dict[tuple[int, int], bool] = field(default_factory=dict, repr=False)

    def embed(
        self, texts: Sequence[str], max_tokens: int
    ) -> Iterator[tuple[list[int], NDArray[np.float32]]]:
        """Yield batches of indices in `texts` with the unit vectors of these texts.

        Guarantee: a vector depends on its own text alone, bit for bit (see the module).
        """
        require_float32(self.device)
        windows = self._tokenize(texts, max_tokens)
        tokens = [window for of_text in windows for window in of_text]
        with _workers(self.device) as pool:
            sizes = self._batch_sizes([len(t) for t in tokens], pool)
            batches = _batches([len(t) for t in tokens], sizes, alone=self.alone)
            vectors = pool.map(
                lambda batch: (batch[0], self._forward([tokens[i] for i in batch[0]], batch[1])),
                batches,
            )
            yield from _means(windows, vectors)

    def equal_below(self, texts: Sequence[str], *limits: int) -> list[bool]:
        """Return for each text whether the model reads the same tokens with each limit."""
        read = [self._tokenize(texts, limit) for limit in limits]
        return [all(windows == each[0] for windows in each) for each in zip(*read, strict=True)]

    def _batch_sizes(self, lengths: Sequence[int], pool: ThreadPoolExecutor) -> dict[int, int]:
        """Return the number of rows of a batch, by the number of tokens."""
        counts: dict[int, int] = defaultdict(int)
        for length in lengths:
            counts[length] += 1
        sizes = {length: self._largest(length, count) for length, count in counts.items()}
        shapes = [(s, n) for n, s in sizes.items() if s > 1 and (s, n) not in self.tested]
        self.tested.update(zip(shapes, pool.map(self._is_independent, shapes), strict=True))
        return {n: s if s == 1 or self.tested[s, n] else 1 for n, s in sizes.items()}

    def _largest(self, length: int, count: int) -> int:
        """Return the number of rows of a batch that passes the test. If the batch is the reference
        shape, its size must not depend on `count`."""
        tokens = self.cpu_tokens if self.device == "cpu" else _CUDA_TOKENS
        rows = max(1, tokens // max(1, length))
        if not self.alone:
            return rows
        is_worth_it = (rows, length) in self.tested or count >= _LEAST_TEXTS
        return rows if rows >= _LEAST_ROWS and is_worth_it else 1

    def _is_independent(self, shape: tuple[int, int]) -> bool:
        """Return whether a row's vector has the same bits at every position of `shape`, whatever
        rows are beside it. The rows are public token ids.
        """
        rows, length = shape
        ids = self._tokenize([PROBE], min(self.most_tokens, 64))[0][0]
        tests = [[ids[(i + j) % len(ids)] for j in range(length)] for i in range(_TEST_ROWS)]
        reference_rows = 1 if self.alone else rows
        references = [self._whole_batch([test], reference_rows) for test in tests]
        mixed = self._forward([tests[i % _TEST_ROWS] for i in range(rows)], rows)
        return all(bool((r == r[0]).all()) for r in references) and all(
            np.array_equal(row, references[i % _TEST_ROWS][0]) for i, row in enumerate(mixed)
        )

    def _forward(self, tokens: list[list[int]], rows: int) -> NDArray[np.float32]:
        """Return the unit vectors of `tokens` in a batch of `rows`.

        Copies of the first row fill the batch, and their vectors are left out.
        """
        return self._whole_batch(tokens, rows)[: len(tokens)]

    def _whole_batch(self, tokens: list[list[int]], rows: int) -> NDArray[np.float32]:
        import torch

        if not tokens[0]:
            return unit(np.zeros((rows, self.dim), dtype=np.float32))
        filled = tokens + [tokens[0]] * (rows - len(tokens))
        ids = torch.tensor(filled, device=self.device)
        with torch.inference_mode():
            features = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
            vectors = self.network(features)["sentence_embedding"].float().cpu().numpy()
        return unit(vectors)

    def agrees_with_library(self) -> bool:
        """Return whether the library's own `encode` gives the same vector for a test text."""
        try:
            vector = self._forward(self._tokenize([PROBE], min(self.most_tokens, 64))[0], 1)
            expected = unit(np.asarray(self.network.encode([PROBE], show_progress_bar=False)))
        except Exception:  # the model needs more than token ids
            return False
        return vector.shape == expected.shape and bool((vector * expected).sum() > _SAME_COSINE)

    def _tokenize(self, texts: Sequence[str], max_tokens: int) -> list[list[list[int]]]:
        """Return the token ids of the windows of each text: at most `max_tokens` in all.

        A long text is cut before the tokenizer reads it, because tokenizing all of it is slow.
        """
        size = min(max_tokens, self.most_tokens)
        has_windows = getattr(self.tokenizer, "is_fast", False)
        most = max_tokens // size if has_windows else 1
        windows: list[list[list[int]]] = [[] for _ in texts]
        open_places = list(range(len(texts)))
        characters = _CHARACTERS_PER_TOKEN * max_tokens
        while open_places:
            encoded = self.tokenizer(
                [self.prefix + well_formed(texts[i][:characters]) for i in open_places],
                truncation=True,
                max_length=size,
                return_overflowing_tokens=most > 1,
                padding=False,
                return_attention_mask=False,
                return_token_type_ids=False,
            )
            places = range(len(open_places))
            for i in open_places:
                windows[i] = []
            for place, ids in zip(
                encoded.get("overflow_to_sample_mapping", places), encoded["input_ids"], strict=True
            ):
                if len(windows[open_places[place]]) < most:
                    windows[open_places[place]].append(ids)
            open_places = [
                i
                for i in open_places
                if len(texts[i]) > characters and sum(map(len, windows[i])) < most * size
            ]
            characters *= 4
        return windows


def _means(
    windows: Sequence[Sequence[Sequence[int]]],
    vectors: Iterable[tuple[list[int], NDArray[np.float32]]],
) -> Iterator[tuple[list[int], NDArray[np.float32]]]:
    """Yield indices of texts and their vectors, when all vectors of their windows have arrived.

    `vectors` has the indices of the windows of all texts, one after another. The sum of a text is
    in the order of its windows, so it depends on this text alone.
    """
    owners = [i for i, of_text in enumerate(windows) for _ in of_text]
    firsts = np.cumsum([0, *map(len, windows)])
    arrived: dict[int, dict[int, NDArray[np.float32]]] = defaultdict(dict)
    for batch, rows in vectors:
        done: list[int] = []
        finished: list[NDArray[np.float32]] = []
        for window, row in zip(batch, rows, strict=True):
            i = owners[window]
            arrived[i][window - int(firsts[i])] = row
            if len(arrived[i]) == len(windows[i]):
                parts = arrived.pop(i)
                lengths = [len(ids) for ids in windows[i]]
                done.append(i)
                finished.append(_mean([parts[k] for k in range(len(parts))], lengths))
        if done:
            yield done, np.stack(finished)


def _mean(vectors: Sequence[NDArray[np.float32]], weights: Sequence[int]) -> NDArray[np.float32]:
    if len(vectors) == 1:
        return vectors[0]
    total = np.zeros(len(vectors[0]), dtype=np.float64)
    for vector, weight in zip(vectors, weights, strict=True):
        total += weight * vector.astype(np.float64)
    mean: NDArray[np.float32] = unit(total[None, :] / sum(weights))[0]
    return mean


@contextmanager
def _workers(device: str) -> Iterator[ThreadPoolExecutor]:
    """Open a pool of threads that compute one batch each. On a CPU, each thread uses one core.

    Cores that share a batch wait for each other hundreds of times. The waits take longer than the
    computation.
    """
    import torch

    cores = torch.get_num_threads()
    if device == "cpu":
        pool = ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,))
    else:
        pool = ThreadPoolExecutor(1)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(cores)


def _batches(
    lengths: Sequence[int], sizes: Mapping[int, int], *, alone: bool
) -> Iterator[tuple[list[int], int]]:
    """Yield batches of indices of equally long texts and their rows, the longest texts first.

    `sizes` contains the number of rows of a batch by the number of tokens. With `alone`, texts that
    would fill less than half of a batch are batches of one row.
    """
    equal: dict[int, list[int]] = defaultdict(list)
    for i, length in enumerate(lengths):
        equal[length].append(i)
    for length in sorted(equal, reverse=True):
        rows = sizes[length]
        for start in range(0, len(equal[length]), rows):
            batch = equal[length][start : start + rows]
            if alone and 2 * len(batch) < rows:
                yield from (([i], 1) for i in batch)
            else:
                yield batch, rows
