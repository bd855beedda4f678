"""A token classification model of transformers, as a detector and as a conservative policy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import torch

from sugarbush.errors import ParamsError
from sugarbush.training.crt.findings import Finding
from sugarbush.training.crt.sentences import split

_OUTSIDE = "O"
PAPER_PLAIN_SCORE = 0.9  # a token may be a secret if its score for "outside" is lower


class TokenClassifier:
    """Finds named entities by a model, given by name or path. A model in a folder needs no network.

    Code that comes with a model is never run.

    The model reads each sentence alone. A sentence that is too long for the model is cut into
    pieces. Neighbouring tokens with the same label are one finding. The score of a finding is the
    smallest score of its tokens. A batch contains several texts. A score depends on its own text
    alone, except for float rounding.
    """

    def __init__(self, name_or_path: str, *, device: str = "cpu", batch_size: int = 32) -> None:
        from transformers import AutoModelForTokenClassification, AutoTokenizer
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(
                name_or_path, use_fast=True, trust_remote_code=False
            )
            model: Any = AutoModelForTokenClassification.from_pretrained(
                name_or_path, trust_remote_code=False
            )
        except Exception as error:  # a damaged folder raises errors of many types
            raise ParamsError(
                f"{name_or_path!r} cannot be loaded ({type(error).__name__}). Name a folder with a "
                "token classification model, or a model that can be downloaded."
            ) from None
        if model.num_labels < 2 or "TokenClassification" not in str(model.config.architectures):
            raise ParamsError(
                f"{name_or_path!r} has no head for token classification: its labels would be "
                "random. Name a trained token classifier."
            )
        if not self._tokenizer.is_fast or len(self._tokenizer) <= len(
            self._tokenizer.all_special_tokens
        ):
            raise ParamsError(
                f"{name_or_path!r} has no fast tokenizer, so the positions of tokens are unknown. "
                "Name a folder with the model and its tokenizer.json."
            )
        self._model = model.to(device).eval()
        self._labels: dict[int, str] = model.config.id2label
        if _OUTSIDE not in self._labels.values():
            raise ParamsError(f"{name_or_path!r} has no label 'O' for tokens outside of entities")
        self._device, self._batch_size = device, batch_size
        longest = min(self._tokenizer.model_max_length, _positions(model))
        self._window = longest - self._tokenizer.num_special_tokens_to_add()

    @cached_property
    def identity(self) -> str:
        """A digest of the tokenizer, the labels and the weights."""
        labels = json.dumps(sorted(self._labels.items()))
        total = hashlib.sha256((self._tokenizer.backend_tokenizer.to_str() + labels).encode())
        for name, values in self._model.state_dict().items():
            total.update(
                name.encode() + values.cpu().reshape(-1).view(torch.uint8).numpy().tobytes()
            )
        return total.hexdigest()

    def find(self, texts: Sequence[str]) -> list[list[Finding]]:
        findings: list[list[Finding]] = [[] for _ in texts]
        for text, start, end, label, score in self._tokens(texts):
            text_findings, kind = findings[text], label.split("-")[-1]
            if label == _OUTSIDE:
                continue
            # A token continues the last finding if at most one space is between them.
            if (
                text_findings
                and text_findings[-1].label == kind
                and start - text_findings[-1].end <= 1
                and label[:2] != "B-"
            ):
                text_findings[-1] = Finding(
                    text_findings[-1].start, end, kind, min(text_findings[-1].score, score)
                )
            else:
                text_findings.append(Finding(start, end, kind, score))
        return findings

    def is_public(
        self, texts: Sequence[str], *, plain_score: float = PAPER_PLAIN_SCORE
    ) -> list[bool]:
        """Return whether all tokens of a text are "outside" with a score >= `plain_score`."""
        public = [True] * len(texts)
        for text, _, _, label, score in self._tokens(texts):
            public[text] = public[text] and label == _OUTSIDE and score >= plain_score
        return public

    def _tokens(self, texts: Sequence[str]) -> Iterator[tuple[int, int, int, str, float]]:
        """Yield (text, start, end, label, score) of each token, in order."""
        windows = [
            (number, start, piece)
            for number, text in enumerate(texts)
            for start, piece in self._windows(text)
        ]
        for first in range(0, len(windows), self._batch_size):
            batch = windows[first : first + self._batch_size]
            encoded = self._tokenizer(
                [piece for _, _, piece in batch],
                split_special_tokens=True,
                return_offsets_mapping=True,
                return_tensors="pt",
                padding=True,
                truncation=False,
            )
            offsets = encoded.pop("offset_mapping").tolist()
            with torch.inference_mode():
                logits = self._model(**encoded.to(self._device)).logits.float()
            scores, labels = logits.softmax(-1).max(-1)
            for (number, shift, _), piece_offsets, row, values in zip(
                batch, offsets, labels.tolist(), scores.tolist(), strict=True
            ):
                for (start, end), label, score in zip(piece_offsets, row, values, strict=True):
                    if end > start:
                        yield number, shift + start, shift + end, self._labels[label], score

    def _windows(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield the pieces of `text` that the model reads, and where they start."""
        offset = 0
        for sentence in split(text):
            if sentence.text:
                for start, piece in self._halves(sentence.text):
                    yield offset + start, piece
            offset += len(sentence.text) + len(sentence.space)

    def _halves(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield `text` if it fits into the model, else several pieces that fit. The text is cut
        between two tokens. A separate piece may have more tokens than inside the text, so its
        length is checked again."""
        offsets = self._tokenizer(
            text,
            add_special_tokens=False,
            split_special_tokens=True,
            return_offsets_mapping=True,
            verbose=False,
        )["offset_mapping"]
        if len(offsets) <= self._window or len(text) == 1:
            yield 0, text
            return
        cut = min(max(1, offsets[len(offsets) // 2 - 1][1]), len(text) - 1)
        yield from self._halves(text[:cut])
        for start, piece in self._halves(text[cut:]):
            yield cut + start, piece


def _positions(model: Any) -> int:
    """Return the largest number of tokens that a model reads. RoBERTa's positions begin after its
    padding index."""
    every: int = model.config.max_position_embeddings
    embeddings = getattr(model.base_model, "embeddings", None)
    padding = getattr(getattr(embeddings, "position_embeddings", None), "padding_idx", None)
    return every if padding is None else every - padding - 1
