"""Writes texts by a model on a CPU, through OpenVINO GenAI.

The engine batches prompts continuously: a text that ends leaves the batch, and the next prompt
enters. A beginning that prompts share is computed once. The engine gets token ids, so the special
tokens of a prompt are those of transformers' tokenizer. Prompts and their keys and values are only
in memory. The telemetry of OpenVINO is off (docs/decisions/local-engine.md).

The numbers are float32, and so are the keys and values. With 8-bit keys and values, which are the
engine's default, the other texts of a batch changed one text in ten. Weights are 16-bit numbers
(`gguf_weights.py`, `folder_weights.py`).
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import torch
from transformers import PretrainedConfig
from transformers.integrations.gguf import read_gguf_metadata

from sugarbush.errors import GeneratorError, ParamsError
from sugarbush.generators.answer_cache import Completion
from sugarbush.generators.huggingface.batch import completion, has_separator
from sugarbush.generators.huggingface.folder_weights import local_folder, write_folder
from sugarbush.generators.huggingface.gguf_weights import write_readable
from sugarbush.generators.huggingface.model import (
    CANNOT_LOAD,
    TextModel,
    cannot_load,
    check_vocabulary,
    first_line,
    load_tokenizer,
    try_template,
    with_form,
)
from sugarbush.generators.huggingface.model_settings import LocalModelSettings, is_gguf
from sugarbush.generators.huggingface.writer import Prompt
from sugarbush.generators.shared_prefixes import shared_prefixes
from sugarbush.progress import working

PACKAGE: Final = "openvino-genai"

_BLOCK_TOKENS = 32  # the engine keeps whole blocks of keys and values
_PRECISIONS = {"auto": "f32", "float32": "f32", "bfloat16": "bf16", "float16": "f16"}
_SEEDS = 2**32  # the engine's random generator has seeds of 32 bits


def engine_name() -> str:
    """Return the name and the version of the engine."""
    return f"{PACKAGE} {version(PACKAGE)}"


@dataclass(frozen=True, kw_only=True)
class EngineModel(TextModel):
    """A model that OpenVINO GenAI has loaded. One thread at a time writes, and holds `lock`."""

    pipeline: Any
    lock: Any = field(default_factory=threading.Lock)
    request_ids: Iterator[int] = field(default_factory=count)


def load_engine(params: LocalModelSettings) -> EngineModel:
    """Return the model of the settings. The model is loaded once per process.

    Raises ParamsError, which names the wrong setting.
    """
    with working(f"loading the model {Path(params.model).name}"):
        local = _load(params.model, params.dtype, torch.get_num_threads())
    return with_form(local, params)


@lru_cache(maxsize=1)
def _load(name: str, dtype: str, threads: int) -> EngineModel:
    try:
        with TemporaryDirectory() as folder:
            read = _read_gguf if is_gguf(name) else _read_folder
            source = read(name, Path(folder) / "model.gguf")
            pipeline = _pipeline(Path(folder), _PRECISIONS[dtype], threads)
    except CANNOT_LOAD as error:
        raise ParamsError(cannot_load(name, _last_line(error))) from None
    local = EngineModel(
        tokenizer=source.tokenizer,
        context_tokens=source.context_tokens,
        end_ids=tuple(dict.fromkeys(end for end in source.ends if end is not None)),
        fingerprint=source.digest,
        dtype="torch.float32" if dtype == "auto" else f"torch.{dtype}",
        chats=bool(source.tokenizer.chat_template),
        engine=engine_name(),
        pipeline=pipeline,
    )
    if local.chats:
        try_template(local, name)
    return local


@dataclass(frozen=True, kw_only=True)
class _Source:
    """What the engine's copy of a model lacks. `ends` are the end tokens."""

    tokenizer: Any
    context_tokens: int
    ends: tuple[int | None, ...]
    digest: str


def _read_gguf(name: str, to: Path) -> _Source:
    path = Path(name)
    tokenizer = load_tokenizer(str(path.parent), path.name)
    metadata, _ = read_gguf_metadata(name)
    write_readable(path, to)
    return _Source(
        tokenizer=tokenizer,
        context_tokens=int(metadata[f"{metadata['general.architecture']}.context_length"]),
        ends=(tokenizer.eos_token_id, metadata.get("tokenizer.ggml.eot_token_id")),
        digest=_digest(path),
    )


def _read_folder(name: str, to: Path) -> _Source:
    folder = local_folder(name)
    tokenizer = load_tokenizer(str(folder), None)
    config = write_folder(folder, to)
    check_vocabulary(name, tokenizer, config.vocab_size)
    context_tokens = min(config.max_position_embeddings, tokenizer.model_max_length)
    # an infinite limit, because this package shortens prompts itself
    tokenizer.model_max_length = sys.maxsize
    vocabulary = json.dumps(sorted(tokenizer.get_vocab().items()))
    return _Source(
        tokenizer=tokenizer,
        context_tokens=int(context_tokens),
        ends=(*_listed_ends(folder, config), tokenizer.eos_token_id),
        digest=hashlib.sha256(f"{_digest(to)} {vocabulary}".encode()).hexdigest(),
    )


def _listed_ends(folder: Path, config: PretrainedConfig) -> tuple[int | None, ...]:
    """Return the end tokens in generation_config.json, or else in config.json."""
    path = folder / "generation_config.json"
    listed = config.eos_token_id
    if path.is_file():
        listed = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
    return tuple(listed) if isinstance(listed, list) else (listed,)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _imported() -> tuple[Any, Any]:
    """Return the modules openvino and openvino_genai, which are imported without telemetry."""
    # At import, openvino would send an event and write ~/intel, unless this package is missing.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    import openvino
    import openvino_genai

    return openvino, openvino_genai


def _pipeline(folder: Path, precision: str, threads: int) -> Any:
    """Load the file `model.gguf` of a folder that has no tokenizer."""
    _, openvino_genai = _imported()
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.enable_prefix_caching = True
    scheduler.cache_size = 0  # as large as the prompts of a batch need
    return openvino_genai.ContinuousBatchingPipeline(
        str(folder / "model.gguf"),
        # The engine never sees a text. Without its own tokenizer, it loads in half the time.
        openvino_genai.Tokenizer(str(folder)),
        scheduler,
        "CPU",
        INFERENCE_PRECISION_HINT=precision,
        KV_CACHE_PRECISION=precision,
        DYNAMIC_QUANTIZATION_GROUP_SIZE=0,  # else some CPUs round the activations to 8 bits
        INFERENCE_NUM_THREADS=threads,
        ENABLE_CPU_PINNING=False,  # two processes would share one core
    )


def _last_line(error: BaseException) -> BaseException:
    """Return the error with the last line of its message. OpenVINO writes the reason there."""
    lines = str(error).strip().splitlines()
    return RuntimeError(lines[-1]) if type(error) is RuntimeError and lines else error


@dataclass
class _Live:
    """A request that the engine is answering."""

    handle: Any
    tokens: list[int]
    cached: int


class OpenVINOWriter:
    """Writes the answers to prompts in one continuous batch of at most `batch_tokens` tokens."""

    def __init__(self, local: EngineModel, params: LocalModelSettings) -> None:
        self.local, self._params = local, params

    def write(
        self, prompts: Sequence[Prompt], *, missing: Sequence[int]
    ) -> Iterator[dict[int, Completion]]:
        """Yield the answers that each step of the engine completes, by index.

        Raises GeneratorError, with the setting to change, if the engine fails.
        """
        with self.local.lock:
            live: dict[int, _Live] = {}
            try:
                yield from self._write(prompts, missing, live)
            except RuntimeError as error:
                raise GeneratorError(
                    f"{self.local.engine} failed with a batch of {len(live)} texts: "
                    f"{first_line(_last_line(error))} Lower generator.huggingface.batch_tokens="
                    f"{self._params.batch_tokens} or max_tokens if memory is short"
                ) from None
            finally:
                self._cancel(live)

    def _write(
        self, prompts: Sequence[Prompt], missing: Sequence[int], live: dict[int, _Live]
    ) -> Iterator[dict[int, Completion]]:
        prefixes = dict(
            zip(missing, shared_prefixes([prompts[i].ids for i in missing]), strict=True)
        )
        leaders = {index: missing[prefix.leader] for index, prefix in prefixes.items()}
        waiting = deque(sorted(missing, key=lambda index: (leaders[index], index)))
        begun: set[int] = set()  # their prompts are computed
        while waiting or live:
            while waiting and self._has_room(prompts, waiting[0], live):
                leader, shared = leaders[waiting[0]], prefixes[waiting[0]].length
                follows = leader != waiting[0] and shared >= _BLOCK_TOKENS
                if follows and leader not in begun:
                    break  # the engine finds only a beginning that it has computed
                index = waiting.popleft()
                cached = shared // _BLOCK_TOKENS * _BLOCK_TOKENS if follows else 0
                live[index] = self._request(prompts[index], cached)
            self.local.pipeline.step()
            done = {}
            for index, request in list(live.items()):
                if self._read(request):
                    done[index] = self._completion(prompts[index], live.pop(index))
                if request.tokens:
                    begun.add(index)
            if done:
                yield done

    def _has_room(self, prompts: Sequence[Prompt], index: int, live: dict[int, _Live]) -> bool:
        sizes = (len(prompts[i].ids) + prompts[i].limit for i in (*live, index))
        return not live or sum(sizes) <= self._params.batch_tokens

    def _request(self, prompt: Prompt, cached: int) -> _Live:
        openvino, openvino_genai = _imported()
        config = openvino_genai.GenerationConfig(
            do_sample=True,
            temperature=self._params.temperature,
            top_p=self._params.top_p,
            rng_seed=int(prompt.random().integers(_SEEDS)),
            max_new_tokens=prompt.limit,
        )
        # Without an end token in its settings, the engine looks for that of its own tokenizer.
        ends = self.local.end_ids or (0,)
        config.eos_token_id, config.stop_token_ids = ends[0], set(ends)
        config.ignore_eos = not self.local.end_ids
        ids = openvino.Tensor(np.array([prompt.ids], dtype=np.int64))
        handle = self.local.pipeline.add_request(next(self.local.request_ids), ids, config)
        return _Live(handle=handle, tokens=[], cached=cached)

    def _read(self, request: _Live) -> bool:
        """Read the new tokens of a request, and return whether the answer is complete."""
        _, openvino_genai = _imported()
        while request.handle.can_read():
            for output in request.handle.read().values():
                request.tokens += output.generated_ids
        if not self.local.chats and has_separator(self.local.tokenizer, request.tokens):
            request.handle.stop()
            return True
        status = request.handle.get_status()
        if status == openvino_genai.GenerationStatus.IGNORED:
            raise RuntimeError("out of memory")
        return bool(status != openvino_genai.GenerationStatus.RUNNING)

    def _completion(self, prompt: Prompt, request: _Live) -> Completion:
        return completion(
            self.local,
            request.tokens,
            limit=prompt.limit,
            prompt_tokens=len(prompt.ids),
            cached_prompt_tokens=request.cached,
        )

    def _cancel(self, live: dict[int, _Live]) -> None:
        """End all requests, so that a later call finds an idle engine."""
        for request in live.values():
            request.handle.cancel()
        while self.local.pipeline.has_non_finished_requests():
            self.local.pipeline.step()
