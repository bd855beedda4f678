"""Finds secrets with the trained token classifier, which scores each word.

Neighbouring words with scores of at least the weak threshold are one finding. The default threshold
of a policy is 0.3. The scaled score of a finding is 0.3 if its best word is at the strong
threshold. So by default a finding counts if one of its words reaches the strong threshold. The
training chooses the two thresholds on generated texts.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sugarbush.errors import ParamsError
from sugarbush.redactor.shapes import token_types
from sugarbush.redactor.values import ADDRESS, KINDS, SECRET_KINDS
from sugarbush.training.crt.findings import DESCRIPTION, Finding
from sugarbush.training.crt.redact import PAPER_THRESHOLD
from sugarbush.training.crt.sentences import split
from sugarbush.training.crt.token_classifier import TokenClassifier

SENTENCES = 4  # number of sentences that are read together
MOST_TOKENS = 160  # largest number of tokens in a piece
_WORD = re.compile(r"\S+")
_EDGES = ".,;:!?\"'()[]{}<>|=“”‘’«»"
_BATCH_TOKENS = 512
_LENGTH_STEP = 16  # pieces are padded to a multiple of this number of tokens
_CHUNK = 512  # number of texts that are put into batches together


@dataclass(frozen=True)
class Word:
    """A word of a text. The score of a kind is its largest probability for a token of the word."""

    start: int
    end: int
    scores: tuple[float, ...]


class LearnedDetector(TokenClassifier):
    """The redactor in a folder that `train_redactor` wrote.

    The findings in a text depend on that text alone. In a batch of another shape, a matrix product
    rounds a row differently. In bfloat16, scores then changed by up to 0.03. So the shape of a
    batch depends only on the length of its pieces. All pieces are padded to one length, and empty
    pieces fill the batch. In batches of equal shape all scores were bitwise equal, at any position
    (docs/decisions/redactor.md). `trained_on` contains digests of the labelled texts that the
    redactor was trained on.
    """

    def __init__(self, folder: Path, *, device: str = "cpu") -> None:
        try:
            self.description: dict[str, Any] = json.loads((folder / DESCRIPTION).read_text())
            thresholds = self.description["thresholds"]
            self.strong, self.weak = float(thresholds["strong"]), float(thresholds["weak"])
            self.trained_on = frozenset(map(str, self.description.get("trained_on", ())))
            if not (0 < self.strong < 1 and 0 < self.weak < 1):
                raise ValueError("thresholds are not between 0 and 1")
        except (OSError, ValueError, KeyError, TypeError):
            raise ParamsError(
                f"{folder}: is not a redactor. Make one with sugarbush train-redactor"
            ) from None
        super().__init__(str(folder), device=device)
        if [self._labels[i] for i in sorted(self._labels)][1:] != list(KINDS):
            raise ParamsError(
                f"{folder}: is a redactor with other kinds of secrets. Make one with sugarbush "
                "train-redactor"
            )
        self.folder = folder
        if fast_bfloat16(device):
            self._model.to(torch.bfloat16)
        self._window = min(self._window, MOST_TOKENS)

    @cached_property
    def identity(self) -> str:
        """A digest of the weights and thresholds."""
        total = hashlib.sha256(json.dumps(self.description["thresholds"]).encode())
        for path in sorted(self.folder.glob("*.safetensors")):
            total.update(path.read_bytes())
        return total.hexdigest()

    def find(self, texts: Sequence[str]) -> list[list[Finding]]:
        power = math.log(PAPER_THRESHOLD) / math.log(self.strong)
        return [
            findings_of(text, words, weak=self.weak, power=power)
            for text, words in zip(texts, self.words(texts), strict=True)
        ]

    def is_public(self, texts: Sequence[str], *, plain_score: float = 0.0) -> list[bool]:
        """Return, for each text, whether all its words have low scores.

        A score is low if it is below the weak threshold and below 1 - `plain_score`.
        """
        limit = min(self.weak, 1 - plain_score)
        return [all(secret_score(w) < limit for w in words) for words in self.words(texts)]

    def words(self, texts: Sequence[str]) -> Iterator[list[Word]]:
        for first in range(0, len(texts), _CHUNK):
            yield from self._scored(texts[first : first + _CHUNK])

    def _scored(self, texts: Sequence[str]) -> list[list[Word]]:
        pieces = [
            (number, start, piece)
            for number, text in enumerate(texts)
            for start, piece in self._windows(text)
        ]
        tokens: list[list[tuple[int, int, tuple[float, ...]]]] = [[] for _ in texts]
        for batch, scores, offsets in self._batches(pieces):
            for (number, shift, _), row, piece_offsets in zip(batch, scores, offsets, strict=True):
                tokens[number] += [
                    (shift + start, shift + end, tuple(values))
                    for (start, end), values in zip(piece_offsets, row, strict=True)
                    if end > start
                ]
        return [
            _words(text, sorted(text_tokens))
            for text, text_tokens in zip(texts, tokens, strict=True)
        ]

    def _batches(
        self, pieces: list[tuple[int, int, str]]
    ) -> Iterator[tuple[list[tuple[int, int, str]], list[Any], list[Any]]]:
        if not pieces:
            return
        by_length: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
        tokens = self._tokenizer([p for _, _, p in pieces], split_special_tokens=True)["input_ids"]
        for piece, token_ids in zip(pieces, tokens, strict=True):
            by_length[-(-len(token_ids) // _LENGTH_STEP) * _LENGTH_STEP].append(piece)
        for length, alike in by_length.items():
            count = max(1, _BATCH_TOKENS // length)
            for batch in (alike[start : start + count] for start in range(0, len(alike), count)):
                filled = [piece for _, _, piece in batch] + [""] * (count - len(batch))
                probabilities, offsets = self.probabilities(filled, length=length)
                yield batch, probabilities[: len(batch)].tolist(), offsets[: len(batch)]

    def probabilities(self, pieces: list[str], *, length: int) -> tuple[Tensor, list[Any]]:
        """Return probabilities, (pieces, length, kinds), and the offsets of the tokens."""
        encoded = encode(self._tokenizer, pieces, length=length)
        offsets = encoded.pop("offset_mapping").tolist()
        with torch.inference_mode():
            logits = self._model(**{k: v.to(self._device) for k, v in encoded.items()}).logits
        return logits.float().softmax(-1)[..., 1:].cpu(), offsets

    def _windows(self, text: str) -> Iterator[tuple[int, str]]:
        for start, piece in groups(text):
            for shift, half in self._halves(piece):
                yield start + shift, half


def groups(text: str, size: int = SENTENCES) -> Iterator[tuple[int, str]]:
    """Yield `size` neighbouring sentences of `text` at a time, and where they start."""
    start, sentences = 0, split(text)
    for first in range(0, len(sentences), size):
        chunk = sentences[first : first + size]
        piece = "".join(s.text + s.space for s in chunk)
        if piece.strip():
            yield start, piece
        start += len(piece)


def encode(tokenizer: Any, pieces: list[str], *, length: int | None = None) -> Any:
    """Make the input of the network: tokens, their offsets and the shapes of their words.

    The input is padded to `length` tokens, or to the longest piece if `length` is None.
    """
    encoded = tokenizer(
        pieces,
        split_special_tokens=True,
        return_offsets_mapping=True,
        return_tensors="pt",
        padding=True if length is None else "max_length",
        max_length=length,
        truncation=False,
    )
    encoded["token_type_ids"] = token_types(encoded, pieces)
    return encoded


def fast_bfloat16(device: torch.device | str) -> bool:
    """Return whether the device multiplies bfloat16 matrices much faster than float32."""
    kind = torch.device(device).type
    return kind == "cuda" or bool(torch.cpu._is_amx_tile_supported())  # noqa: SLF001 (no other name)


def findings_of(
    text: str, words: Sequence[Word], *, weak: float, power: float = 1.0
) -> list[Finding]:
    """Return the runs of neighbouring words above the weak threshold.

    The score of a finding is the score of its best word, raised to the given power.
    """
    runs: list[list[Word]] = []
    skipped: list[Word] = []  # words after the end of the last run
    for word in words:
        if secret_score(word) < weak:
            skipped.append(word)
            continue
        if runs and _continues(text, runs[-1][-1], skipped, word):
            runs[-1] += [*skipped, word]
        else:
            runs.append([word])
        skipped = []
    findings = []
    for run in runs:
        best = max(run, key=secret_score)
        score = min(1.0, secret_score(best)) ** power
        start, end = trimmed(text, run[0].start, run[-1].end)
        findings.append(Finding(start, end, kind_of(best), score))
    return findings


def secret_score(word: Word) -> float:
    """Return the probability that a word belongs to a secret."""
    return sum(word.scores[: len(SECRET_KINDS)])


def kind_of(word: Word) -> str:
    """Return the most probable secret kind of a word."""
    secret = word.scores[: len(SECRET_KINDS)]
    return KINDS[max(range(len(secret)), key=lambda kind: secret[kind])]


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Remove punctuation at the edges of a span. A span of punctuation alone stays."""
    left, right = start, end
    while left < right and text[left] in _EDGES:
        left += 1
    while right > left and text[right - 1] in _EDGES:
        right -= 1
    return (left, right) if right > left else (start, end)


def _continues(text: str, first: Word, skipped: Sequence[Word], second: Word) -> bool:
    """Return whether two words belong to one finding. Two such words have only signs and at most
    one line break between them. An address may also have one short word between them, such as a
    state."""
    plain = [word for word in skipped if any(c.isalnum() for c in text[word.start : word.end])]
    short = len(plain) == 1 and plain[0].end - plain[0].start <= 3
    if plain and not (short and kind_of(first) == kind_of(second) == ADDRESS):
        return False
    return len(skipped) <= 3 and "\n\n" not in text[first.end : second.start]


def _words(text: str, tokens: Sequence[tuple[int, int, tuple[float, ...]]]) -> list[Word]:
    """Return the words of `text`, each with the largest scores of its tokens."""
    words: list[Word] = []
    index = 0
    for match in _WORD.finditer(text):
        scores = [0.0] * len(KINDS)
        while index < len(tokens) and tokens[index][0] < match.end():
            if tokens[index][1] > match.start() and text[tokens[index][0]].isalnum():
                scores = [max(pair) for pair in zip(scores, tokens[index][2], strict=True)]
            index += 1
        words.append(Word(match.start(), match.end(), tuple(scores)))
    return words
