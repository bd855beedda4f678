"""Trains the redactor: the bundled MiniLM, fine-tuned as a token classifier on labelled texts.

    generated texts (and files of labelled texts) -> token classifier -> thresholds -> a folder

The word vectors of the encoder are not trained, so that the vector of an unseen name stays near
other names. The thresholds are chosen on generated texts. No training text has the carriers and
locales of these texts.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sugarbush.paths import atomic_directory, make_owner_only
from sugarbush.progress import progress
from sugarbush.randomness import public_rng, seed_of
from sugarbush.redactor.detector import (
    MOST_TOKENS,
    LearnedDetector,
    encode,
    fast_bfloat16,
    groups,
    secret_score,
)
from sugarbush.redactor.shapes import COUNT
from sugarbush.redactor.texts import generated_texts
from sugarbush.redactor.values import KINDS, SECRET_KINDS
from sugarbush.training.crt.findings import DESCRIPTION
from sugarbush.training.crt.recall import LabelledText, text_digest

OUTSIDE = "O"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings of the training. Equal recipes share one redactor."""

    texts: int = 6_500
    """Number of generated texts."""
    epochs: float = 1.0
    learning_rate: float = 2e-4
    batch_tokens: int = 2048
    checked: int = 400
    """Number of generated texts for choosing the thresholds."""
    over_masking: float = 0.02
    """Largest share of words without a secret that may be masked."""
    seed: int = 1

    @staticmethod
    def copies_of(labelled: Sequence[LabelledText]) -> int:
        """Return how often to read labelled texts. The training then takes about a minute."""
        return max(1, min(12, _LABELLED_CHARACTERS // max(1, sum(len(o.text) for o in labelled))))

    @property
    def digest(self) -> str:
        """A digest of the recipe, the version of its code, its data files and Faker's version."""
        content = {
            **asdict(self),
            "version": _VERSION,
            "faker": version("faker"),
            "data": _data_files(),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:20]


_LEAST = 0.02  # the smallest threshold
_ENCODED = 256  # number of pieces that are tokenized at once
_LABELLED_CHARACTERS = 250_000  # number of characters in all copies together

# For tuning on labelled texts. The training adds some generated texts, so that the model forgets
# nothing.
OWN_LABELS = Recipe(texts=800, learning_rate=1e-4, checked=200)

_VERSION = 3  # increase it when the code makes another redactor for an equal recipe


def _data_files() -> str:
    files = (Path(__file__).with_name(name) for name in ("carriers.txt", "values.yaml"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def train_redactor(
    recipe: Recipe,
    output: Path,
    *,
    start: Path | None = None,
    labelled: Sequence[LabelledText] = (),
    copies: int = 1,
    device: torch.device | None = None,
) -> LearnedDetector:
    """Train a redactor and write it to the folder `output`. The folder is replaced only at the end.

    Training starts from the bundled encoder, or from the redactor in `start`. Each of the
    `labelled` texts is read `copies` times. Spans with labels outside KINDS do not count as
    secrets.
    """
    from sugarbush.embedding.encoder import BUNDLED, model_folder

    device = device or torch.device("cpu")
    began = time.monotonic()
    texts = [*generated_texts(recipe.seed, recipe.texts), *(list(labelled) * copies)]
    source = start or model_folder(BUNDLED)
    tokenizer, model = _start(source, seed=recipe.seed, new=start is None)
    model.to(device)
    _fit(model, _examples(texts, tokenizer), recipe, device)
    model.to("cpu").eval()
    description: dict[str, Any] = {
        "recipe": asdict(recipe),
        "trained_on": sorted({text_digest(labelled_text.text) for labelled_text in labelled}),
        "seconds": round(time.monotonic() - began, 1),
        "thresholds": {"strong": 0.5, "weak": 0.5},
    }
    if labelled:  # the folder has weights and digests of private texts
        make_owner_only(output.parent)
    with atomic_directory(output, private=bool(labelled)) as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        (folder / DESCRIPTION).write_text(json.dumps(description, indent=1) + "\n")
        detector = LearnedDetector(folder)
        strong = _threshold(detector, recipe)
        if start and labelled:
            strong = min(strong, _threshold_as(LearnedDetector(start), detector, labelled))
        strong, weak = round(strong, 4), round(max(_LEAST / 2, strong / 2), 4)
        description["thresholds"] = {"strong": strong, "weak": weak}
        (folder / DESCRIPTION).write_text(json.dumps(description, indent=1) + "\n")
    return LearnedDetector(output)


def _start(source: Path, *, seed: int, new: bool) -> tuple[Any, Any]:
    from transformers import AutoTokenizer, BertForTokenClassification
    from transformers.utils import logging

    labels = (OUTSIDE, *KINDS)
    # transformers would warn about the new head.
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(seed, "redactor") % 2**63)
        model: Any = BertForTokenClassification.from_pretrained(
            source,
            trust_remote_code=False,
            id2label=dict(enumerate(labels)),
            label2id={label: i for i, label in enumerate(labels)},
            # On a CPU, the fused attention has no fast backward pass, and plain attention is twice
            # as fast.
            attn_implementation="eager",
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False, use_fast=True)
    if new:
        types = model.bert.embeddings.token_type_embeddings
        wider = nn.Embedding(COUNT, types.embedding_dim)
        with torch.no_grad():
            wider.weight.copy_(types.weight[:1].expand(COUNT, -1))
        model.bert.embeddings.token_type_embeddings = wider
        model.config.type_vocab_size = COUNT
    model.bert.embeddings.word_embeddings.weight.requires_grad_(False)
    return tokenizer, model


@dataclass(frozen=True)
class _Example:
    """The tokens of one piece, the shapes of their words, and their kinds (-100: no word)."""

    tokens: Tensor
    shapes: Tensor
    kinds: Tensor


def _examples(texts: Sequence[LabelledText], tokenizer: Any) -> list[_Example]:
    """Return the pieces of the texts as the detector reads them."""
    pieces = [
        (piece, start, labelled_text.spans)
        for labelled_text in texts
        for start, piece in groups(labelled_text.text)
    ]
    pieces.sort(key=lambda item: len(item[0]))
    examples = []
    for first in range(0, len(pieces), _ENCODED):
        some = pieces[first : first + _ENCODED]
        encoded = encode(tokenizer, [piece for piece, _, _ in some])
        offsets = encoded.pop("offset_mapping").tolist()
        for row, (piece_offsets, (_, shift, spans)) in enumerate(zip(offsets, some, strict=True)):
            length = min(MOST_TOKENS, int(encoded["attention_mask"][row].sum()))
            kinds = [
                _kind(shift + start, shift + end, spans) if end > start else -100
                for start, end in piece_offsets[:length]
            ]
            examples.append(
                _Example(
                    encoded["input_ids"][row, :length],
                    encoded["token_type_ids"][row, :length],
                    torch.tensor(kinds),
                )
            )
    return examples


def _kind(start: int, end: int, spans: Sequence[tuple[int, int, str]]) -> int:
    """Return the class of a token: the class of the span that it overlaps, or 0."""
    return next(
        (KINDS.index(kind) + 1 for a, b, kind in spans if a < end and b > start and kind in KINDS),
        0,
    )


def _fit(model: Any, examples: Sequence[_Example], recipe: Recipe, device: torch.device) -> None:
    batches = list(_batches(examples, recipe))
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=recipe.learning_rate, weight_decay=0.01, fused=True)
    steps = len(batches)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=recipe.learning_rate, total_steps=max(2, steps), pct_start=0.1,
        anneal_strategy="linear",
    )  # fmt: skip
    model.train()
    with progress(steps, what="training of the redactor", private=True) as advance:
        for batch in batches:
            loss = _loss(model, batch, device)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            schedule.step()
            advance()


def _loss(model: Any, batch: Sequence[_Example], device: torch.device) -> Tensor:
    def together(rows: list[Tensor], padding: int) -> Tensor:
        return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=padding).to(device)

    mask = together([torch.ones_like(example.tokens) for example in batch], 0)
    with torch.autocast(device.type, torch.bfloat16, enabled=fast_bfloat16(device)):
        logits = model(
            input_ids=together([example.tokens for example in batch], 0),
            token_type_ids=together([example.shapes for example in batch], 0),
            attention_mask=mask,
        ).logits
    targets = together([example.kinds for example in batch], -100)
    return nn.functional.cross_entropy(
        logits.float().flatten(0, 1), targets.flatten(), ignore_index=-100
    )


def _batches(examples: Sequence[_Example], recipe: Recipe) -> Iterator[list[_Example]]:
    """Yield the batches of `recipe.epochs` epochs, in random order. A batch has examples of similar
    length."""
    rng = public_rng(recipe.seed, "batches")
    for epoch in range(int(np.ceil(recipe.epochs))):
        share = min(1.0, recipe.epochs - epoch)
        chosen = rng.permutation(len(examples))[: round(share * len(examples))]
        batches: list[list[_Example]] = [[]]
        for index in sorted(chosen, key=lambda index: len(examples[index].tokens)):
            length = len(examples[index].tokens)
            if batches[-1] and (len(batches[-1]) + 1) * length > recipe.batch_tokens:
                batches.append([])
            batches[-1].append(examples[index])
        for number in rng.permutation(len(batches)):
            yield batches[number]


def _threshold(detector: LearnedDetector, recipe: Recipe) -> float:
    """Choose the smallest threshold that masks few words without a secret. At most a share
    `over_masking` of these words is masked."""
    checked = list(generated_texts(recipe.seed, recipe.checked, checked=True))
    plain: list[float] = []
    for labelled_text, words in zip(
        checked, detector.words([c.text for c in checked]), strict=True
    ):
        for word in words:
            kinds = {k for a, b, k in labelled_text.spans if word.start < b and word.end > a}
            if not kinds & set(SECRET_KINDS):
                plain.append(secret_score(word))
    return min(max(float(np.quantile(plain, 1 - recipe.over_masking)), _LEAST), 0.6)


def _threshold_as(
    start: LearnedDetector, tuned: LearnedDetector, labelled: Sequence[LabelledText]
) -> float:
    """Choose the threshold at which `tuned` masks as many words of the texts as `start` does.

    If the labels have only some kinds, `tuned` learns not to mask words of the other kinds. With
    the threshold of generated texts, `tuned` would mask fewer words than `start` and miss more
    secrets.
    """
    texts = [labelled_text.text for labelled_text in labelled]
    before, after = (
        np.array([secret_score(word) for words in detector.words(texts) for word in words])
        for detector in (start, tuned)
    )
    share = float((before >= start.strong).mean())
    return max(float(np.quantile(after, 1 - share)), _LEAST)
