"""Candidates from a causal language model on this machine, through transformers.

A model with a chat template is asked by `prompts.render`, any other goes on with
`prompts.continuation`. Prompts are packed by length into batches of at most `batch_tokens` tokens,
padded on the left under an attention mask. An answer that fails the checks is asked for once more
with another seed, and then dropped.

Equal requests, settings and seeds give equal texts on one machine. Each text is drawn with uniforms
of its own, so that it does not depend on which others are asked for beside it, but for rounding: a
matrix product adds up in another order in a batch of another shape, which hardly ever changes a
text in float32 and sometimes does in bfloat16 (docs/decisions/0211).

The sampling defaults that a model's authors ship (top-k, repetition penalty) are not used: the
settings decide. Code that comes with a model is never run.

Guarantee: takes `Released` requests and nothing else.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pickle import UnpicklingError
from typing import Any

import torch
from jinja2 import TemplateError
from safetensors import SafetensorError
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)

from sugarbush.errors import GeneratorError, ParamsError
from sugarbush.llm.checks import check, the_text
from sugarbush.llm.client import NO_REQUESTS, Answer, Problem, Request, released_requests
from sugarbush.llm.progress import progress
from sugarbush.llm.prompts import SEPARATOR, continuation, render
from sugarbush.llm.sampling import pick_tokens
from sugarbush.params import HuggingFaceParams
from sugarbush.privacy.kinds import Released
from sugarbush.randomness import public_rng

_ATTEMPTS = 2
# A model that only goes on does not count words: it gets room for the words asked for, in tokens
# of English and a sentence's end more, and is cut back to its last whole sentence.
_TOKENS_PER_WORD = 1.5
_LEAST_TOKENS = 16
_LEAST_KEPT_SHARE = 0.5
_SENTENCE_END = re.compile(r"[.!?…]['\"’”)\]]*(?=\s|$)|[。！？]|\n")
# A small model does not always write the whole separator: a line of two signs is one too.
_NEXT_TEXT = re.compile(rf"{SEPARATOR}|^##\s*$", re.MULTILINE)
# What transformers meets in a folder that is incomplete, damaged or of another kind.
_CANNOT_LOAD = (
    OSError, ValueError, KeyError, ImportError, RuntimeError, EOFError, UnpicklingError,
    SafetensorError,
)  # fmt: skip
# The separator is looked for in the text of so many last tokens; it has at most five.
_TAIL_TOKENS = 6


@dataclass(frozen=True, kw_only=True)
class LocalModel:
    """A loaded model. `end_ids` are the tokens that end an answer."""

    model: Any
    tokenizer: Any
    device: torch.device
    context_tokens: int
    pad_id: int
    end_ids: tuple[int, ...]

    @property
    def chats(self) -> bool:
        return bool(self.tokenizer.chat_template)

    def encode(self, text: str) -> list[int]:
        """Token ids; a chat's special tokens are written by its template."""
        ids: list[int] = self.tokenizer(text, add_special_tokens=not self.chats)["input_ids"]
        return ids

    def chat(self, content: str) -> str:
        """The chat in the model's own format, up to where its answer begins.

        Templates of reasoning models know `enable_thinking`; to others it is a variable unused.
        """
        messages = [{"role": "user", "content": content}]
        written: str = self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
        return written


@dataclass(frozen=True, kw_only=True)
class _Wish:
    """One answer to write: the tokens of its prompt, the most to add, the examples not shown."""

    request: Request
    ids: list[int]
    limit: int
    left_out: int


# Where every answer starts, and where one ends whose prompt is too long.
_NOT_ASKED = Answer(text=None, problem=Problem.FAILED)


class HuggingFaceGenerator:
    """The `huggingface` provider."""

    def __init__(self, params: HuggingFaceParams, *, seed: int, say: Callable[[str], None]) -> None:
        self._params, self._seed, self._say = params, seed, say

    def check(self, planned: Released[tuple[Request, ...]] = NO_REQUESTS) -> None:
        """Load the model and see that each of `planned` fits its context.

        Raises ParamsError naming the setting that cannot be used, GeneratorError for a prompt.
        """
        local = load_model(self._params)
        for request in released_requests(planned):
            self._wish(local, request)

    def generate(
        self, requests: Released[tuple[Request, ...]], *, what: str = "answers"
    ) -> Released[tuple[Answer, ...]]:
        """One answer a request, in order; an answer without a text says why.

        `what` names the batch beside the progress bar. A prompt that is too long for the model
        costs no other its answer.
        Raises PrivacyError for anything that is not released, ParamsError when the model cannot be
        used, GeneratorError when every prompt or a batch is too large for it.
        """
        wanted = released_requests(requests)
        local = load_model(self._params)
        wishes = self._wishes(local, wanted, what)
        answers = [_NOT_ASKED] * len(wanted)
        places = sorted(wishes)
        for attempt in range(_ATTEMPTS):
            written = self._write(local, [wishes[i] for i in places], attempt, what)
            for i, answer in zip(places, written, strict=True):
                answers[i] = _after(answers[i], answer)
            places = [i for i in places if answers[i].problem is not None]
        return Released(tuple(answers), requests.ledger_ids)

    def _wishes(
        self, local: LocalModel, wanted: tuple[Request, ...], what: str
    ) -> dict[int, _Wish]:
        """By place, without prompts that are too long. Raises GeneratorError when all are."""
        wishes: dict[int, _Wish] = {}
        too_long = None
        for place, request in enumerate(wanted):
            try:
                wishes[place] = self._wish(local, request)
            except GeneratorError as error:
                too_long = error
        if too_long is not None and not wishes:
            raise too_long
        if too_long is not None:
            self._say(f"{what}: {len(wanted) - len(wishes)} not asked for: {too_long}")
        if left_out := sum(wish.left_out for wish in wishes.values()):
            shown = sum(len(wish.request.examples) for wish in wishes.values())
            self._say(
                f"{what}: {left_out} of {shown} examples were left out: the model's context of "
                f"{local.context_tokens} tokens has no room"
            )
        return wishes

    def _wish(self, local: LocalModel, request: Request) -> _Wish:
        context_tokens, limit = local.context_tokens, self._params.max_tokens
        if local.chats:
            (message,) = render(
                request,
                context_tokens=context_tokens,
                max_tokens=limit,
                count_tokens=lambda text: len(local.encode(local.chat(text))),
            )
            prompt = local.chat(message.content)
        else:
            if request.words is not None:
                limit = min(limit, _tokens_for(request.words))
            prompt = continuation(
                request,
                context_tokens=context_tokens,
                max_tokens=limit,
                count_tokens=lambda text: len(local.encode(text)),
            )
        left_out = sum(example not in prompt for example in request.examples)
        ids = local.encode(prompt)
        return _Wish(request=request, ids=ids, limit=limit, left_out=left_out)

    def _write(
        self, local: LocalModel, wishes: Sequence[_Wish], attempt: int, what: str
    ) -> list[Answer]:
        """The answers, batch by batch, in the order of the wishes."""
        if not wishes:
            return []
        written: dict[int, Answer] = {}
        batches = pack(
            [len(wish.ids) for wish in wishes],
            [wish.limit for wish in wishes],
            batch_tokens=self._params.batch_tokens,
        )
        with progress(len(wishes), what=f"{what}, asked again" if attempt else what) as advance:
            for batch in batches:
                answers = self._write_batch(local, [wishes[i] for i in batch], attempt)
                written.update(zip(batch, answers, strict=True))
                advance(len(batch), "")
        return [written[i] for i in range(len(wishes))]

    def _write_batch(self, local: LocalModel, batch: Sequence[_Wish], attempt: int) -> list[Answer]:
        ids, mask = pad_left([wish.ids for wish in batch], pad_id=local.pad_id)
        limits = torch.tensor([wish.limit for wish in batch])
        uniforms = torch.zeros(len(batch), int(limits.max()))
        for row, wish in enumerate(batch):
            rng = public_rng(self._seed, "huggingface", wish.request.sample, attempt)
            uniforms[row, : wish.limit] = torch.from_numpy(rng.random(wish.limit))
        width = ids.shape[1]
        sampler = _Sampler(width, uniforms.to(local.device), self._params)
        ends = _Ends(width, limits.to(local.device), None if local.chats else local.tokenizer)
        try:
            with torch.inference_mode():
                output = local.model.generate(
                    ids.to(local.device),
                    attention_mask=mask.to(local.device),
                    max_new_tokens=int(limits.max()),
                    do_sample=False,  # the sampler leaves one token to choose
                    logits_processor=LogitsProcessorList([sampler]),
                    stopping_criteria=StoppingCriteriaList([ends]),
                )
        except torch.OutOfMemoryError:
            raise GeneratorError(
                f"the model ran out of memory on {local.device} with a batch of {len(batch)} "
                f"texts; lower generator.huggingface.batch_tokens={self._params.batch_tokens} "
                "or max_tokens"
            ) from None
        rows = output[:, width:].tolist()
        return [_answer(local, wish, row) for wish, row in zip(batch, rows, strict=True)]


def load_model(params: HuggingFaceParams) -> LocalModel:
    """The model of the settings, loaded once a process.

    Raises ParamsError naming the setting that cannot be used.
    """
    device = device_of(params.device)
    local = _load(params.model, device, dtype_of(params.dtype, device))
    if params.max_tokens >= local.context_tokens:
        raise ParamsError(
            f"generator.huggingface.max_tokens={params.max_tokens} leaves no room for a prompt: "
            f"the model has a context of {local.context_tokens} tokens"
        )
    return local


@lru_cache(maxsize=1)
def _load(name: str, device: torch.device, dtype: torch.dtype) -> LocalModel:
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
        model: Any = AutoModelForCausalLM.from_pretrained(
            name, dtype=dtype, trust_remote_code=False
        )
    except _CANNOT_LOAD as error:
        raise ParamsError(
            f"generator.huggingface.model='{name}' cannot be loaded: {_first_line(error)} Expected "
            "a folder with config.json, weights and tokenizer of a causal language model, or the "
            "name of one that is in the local cache or can be fetched."
        ) from None
    # A folder without a tokenizer gives one that knows no word.
    known = tokenizer("Known words.", add_special_tokens=False)["input_ids"]
    if not known or max(known) >= model.get_input_embeddings().num_embeddings:
        raise ParamsError(
            f"generator.huggingface.model='{name}' has no tokenizer that goes with its weights"
        )
    context_tokens = _context_of(model, tokenizer)
    tokenizer.model_max_length = sys.maxsize  # prompts are measured before they are cut to size
    end_ids = _end_ids(model, tokenizer)
    pad_id = next(i for i in (*end_ids, tokenizer.pad_token_id, 0) if i is not None)
    model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        eos_token_id=list(end_ids) or None, pad_token_id=pad_id
    )
    local = LocalModel(
        model=model.to(device).eval(),
        tokenizer=tokenizer,
        device=device,
        context_tokens=context_tokens,
        pad_id=pad_id,
        end_ids=end_ids,
    )
    if local.chats:
        _try_template(local, name)
    return local


def _try_template(local: LocalModel, name: str) -> None:
    """Raises ParamsError where a chat of one message cannot be written."""
    try:
        local.chat("Known words.")
    except (TemplateError, ValueError, TypeError) as error:
        raise ParamsError(
            f"generator.huggingface.model='{name}' has a chat template that cannot write a chat of "
            f"one message by the user: {_first_line(error)} Mend it in the model's folder, or take "
            "another model."
        ) from None


def device_of(name: str) -> torch.device:
    """The device of the setting; `auto` is a GPU where there is one. Raises ParamsError."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ParamsError(
            f"generator.huggingface.device='{name}' is not there; expected auto, cpu, or a GPU "
            "such as cuda or cuda:1 that torch can see"
        ) from None
    return device


def dtype_of(name: str, device: torch.device) -> torch.dtype:
    """The type of the setting; `auto` is bfloat16 on a GPU that knows it and float32 on a CPU."""
    if name != "auto":
        return {
            "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16
        }[name]  # fmt: skip
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16


def pack(lengths: Sequence[int], limits: Sequence[int], *, batch_tokens: int) -> list[list[int]]:
    """Places in batches, longest prompts first, so that little is padded.

    A batch of n has at most `batch_tokens` tokens, n times its longest prompt and its largest
    limit; a prompt that is longer than that alone is a batch of its own.
    """
    batches: list[list[int]] = []
    room, longest, limit = 0, 0, 0
    for place in sorted(range(len(lengths)), key=lambda i: (-lengths[i], -limits[i], i)):
        limit = max(limit, limits[place])
        if not batches or (len(batches[-1]) + 1) * (longest + limit) > room:
            batches.append([])
            room, longest, limit = batch_tokens, lengths[place], limits[place]
        batches[-1].append(place)
    return batches


def pad_left(prompts: Sequence[list[int]], *, pad_id: int) -> tuple[Tensor, Tensor]:
    """Ids and attention mask (b, longest), each row's prompt at its right end."""
    width = max(len(prompt) for prompt in prompts)
    ids = torch.full((len(prompts), width), pad_id, dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(prompt)
        mask[row, width - len(prompt) :] = 1
    return ids, mask


class _Sampler(LogitsProcessor):
    """Leaves each row one token, drawn with the row's own uniform for this step."""

    def __init__(self, width: int, uniforms: Tensor, params: HuggingFaceParams) -> None:
        self._width, self._uniforms, self._params = width, uniforms, params

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        # On a GPU transformers may take a few steps more before it sees that all rows have ended.
        step = min(input_ids.shape[1] - self._width, self._uniforms.shape[1] - 1)
        tokens = pick_tokens(
            scores,
            self._uniforms[:, step],
            temperature=self._params.temperature,
            top_p=self._params.top_p,
        )
        return torch.full_like(scores, -math.inf).scatter_(1, tokens[:, None], 0.0)


class _Ends(StoppingCriteria):
    """A row ends at its own limit and, where a tokenizer is given, at the separator."""

    def __init__(self, width: int, limits: Tensor, tokenizer: Any | None) -> None:
        self._width, self._limits, self._tokenizer = width, limits, tokenizer

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        added = input_ids.shape[1] - self._width
        ended = self._limits <= added
        if self._tokenizer is None:
            return ended
        tails = self._tokenizer.batch_decode(input_ids[:, -min(added, _TAIL_TOKENS) :])
        found = torch.tensor([SEPARATOR in tail for tail in tails], device=ended.device)
        return ended | found


def _answer(local: LocalModel, wish: _Wish, row: list[int]) -> Answer:
    """The answer in the tokens that were added to a prompt."""
    row = row[: wish.limit]
    length = next((i for i, token in enumerate(row) if token in local.end_ids), None)
    ended = length is not None
    text: str = local.tokenizer.decode(row[:length], skip_special_tokens=True)
    if not local.chats:
        text, ended = _first_of_list(text, ended=ended)
    text = the_text(text, wish.request)
    problem = check(text, wish.request, "stop" if ended else "length")
    return Answer(
        text=None if problem else text,
        problem=problem,
        prompt_tokens=len(wish.ids),
        completion_tokens=len(row) if length is None else length + 1,
    )


def _first_of_list(text: str, *, ended: bool) -> tuple[str, bool]:
    """The text up to the separator or, where it was cut off, up to its last whole sentence.

    And whether it ends there: with less than half left it counts as cut off.
    """
    first, *others = _NEXT_TEXT.split(text, maxsplit=1)
    if ended or others:
        return first, True
    ends = [found.end() for found in _SENTENCE_END.finditer(first)]
    if not ends or ends[-1] < _LEAST_KEPT_SHARE * len(first):
        return first, False
    return first[: ends[-1]], True


def _after(before: Answer, answer: Answer) -> Answer:
    """The later answer, with what both cost."""
    return replace(
        answer,
        prompt_tokens=before.prompt_tokens + answer.prompt_tokens,
        completion_tokens=before.completion_tokens + answer.completion_tokens,
    )


def _tokens_for(words: int) -> int:
    return max(_LEAST_TOKENS, math.ceil(_TOKENS_PER_WORD * words))


def _context_of(model: Any, tokenizer: Any) -> int:
    """Tokens of prompt and answer together. A tokenizer that knows no bound says 1e30."""
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return int(min(positions or math.inf, tokenizer.model_max_length, sys.maxsize))


def _end_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """The tokens that end an answer: chat models often have one more than their tokenizer says."""
    configured = model.generation_config.eos_token_id
    listed = configured if isinstance(configured, list) else [configured]
    return tuple(dict.fromkeys(i for i in (*listed, tokenizer.eos_token_id) if i is not None))


def _first_line(error: BaseException) -> str:
    line = str(error).strip().partition("\n")[0].rstrip(".")
    return f"{line}." if line else f"{type(error).__name__}."
