"""Trains the light encoder: it learns to give the vectors of the bundled MiniLM.

    python -m benchmarks.light_encoder TEXTS.jsonl --minutes 40 --to light.safetensors

TEXTS.jsonl has public texts of many kinds, one {"text": ...} a line. MiniLM's vectors of all texts
are computed first; 65,000 texts of 46 tokens take 25 CPU-minutes. The loss is the distance to these
vectors, and the squared error of the cosines of all pairs in a batch. The last 1,500 texts, in a
random order, are not learned. On them, the script prints the mean cosine with MiniLM, the
correlation of the cosines of pairs, and how often the nearest text is among MiniLM's ten nearest.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from sugarbush.embedding.bert import WordPieces
from sugarbush.embedding.encoder import BUNDLED, Encoder, model_folder
from sugarbush.embedding.light import GROUPS, MOST_LOGIT, minilm_words, write_weights
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.json_lines import read_json_lines
from sugarbush.randomness import public_rng

WIDTH, WIDENED, OWN, HIDDEN, WINDOW = 224, 448, 192, 512, 5
TOKENS, BATCH, HELD_OUT = 256, 256, 1_500
RATE, WARM_UP, OF_PAIRS = 3e-3, 200, 3.0


class Learner(nn.Module):
    """`sugarbush.embedding.light.Light` in a form that learns, for texts of different lengths."""

    minilm: Tensor

    def __init__(self, words: Tensor) -> None:
        super().__init__()
        self.register_buffer("minilm", words, persistent=False)
        dim, joined = words.shape[1], 3 * WIDTH + OWN
        self.conv = nn.Linear(dim, 3 * WIDTH, bias=False)
        self.cb = nn.Parameter(torch.zeros(WIDTH))
        self.st = nn.Linear(dim, OWN, bias=False)
        self.gs, self.gc = nn.Linear(dim, GROUPS), nn.Linear(WIDTH, GROUPS)
        for block in "12":
            self.add_module(f"n{block}", nn.LayerNorm(WIDTH))
            self.add_module(f"a{block}", nn.Linear(WIDTH, WIDENED))
            self.add_module(f"x{block}", nn.Linear(WIDTH, WIDENED, bias=False))
            self.add_module(f"b{block}", nn.Linear(WIDENED, WIDTH))
        self.dw = nn.Parameter(torch.empty(WINDOW, WIDTH).uniform_(-0.35, 0.35))
        self.ln = nn.LayerNorm(joined)
        self.skip, self.h = nn.Linear(joined, dim), nn.Linear(joined, HIDDEN)
        self.o = nn.Linear(HIDDEN, dim)
        for layer, share in (("o", 0.3), ("b1", 0.5), ("b2", 0.5)):
            weight = self.get_parameter(f"{layer}.weight")
            weight.data *= share

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return unit vectors (n, dim) of token ids (n, tokens) where `mask` is 1."""
        distinct, positions = torch.unique(ids, return_inverse=True)
        words, mask = self.minilm[distinct], mask[..., None]
        counts = mask.sum(dim=1)
        left, middle, right = (
            functional.embedding(positions, each) * mask
            for each in self.conv(words).chunk(3, dim=1)
        )
        left = functional.pad(left[:, :-1], (0, 0, 1, 0))
        right = functional.pad(right[:, 1:], (0, 0, 0, 1))
        states = functional.relu(left + middle + right + self.cb) * mask
        parts = [states.sum(dim=1) / counts]
        for block in "12":
            normed = self.get_submodule(f"n{block}")(states) * mask
            mean = normed.sum(dim=1) / counts
            if block == "2":
                normed = self._mixed(normed)
            widened = self.get_submodule(f"a{block}")(normed)
            of_text = self.get_submodule(f"x{block}")(mean)[:, None]
            states = states + self.get_submodule(f"b{block}")(functional.relu(widened + of_text))
        states = states * mask
        parts.append(states.sum(dim=1) / counts)
        parts.append(_weighted(states, self.gc(states), mask))
        alone, logits = (
            functional.embedding(positions, layer(words)) for layer in (self.st, self.gs)
        )
        parts.append(_weighted(alone, logits, mask))
        joined = self.ln(torch.cat(parts, dim=1))
        vectors = self.skip(joined) + self.o(functional.relu(self.h(joined)))
        return functional.normalize(vectors, dim=1)

    def _mixed(self, states: Tensor) -> Tensor:
        reach, tokens = WINDOW // 2, states.shape[1]
        padded = functional.pad(states, (0, 0, reach, reach))
        moved = (padded[:, i : i + tokens] * self.dw[i] for i in range(WINDOW))
        return states + torch.stack(list(moved)).sum(dim=0)


def _weighted(states: Tensor, logits: Tensor, mask: Tensor) -> Tensor:
    rows, tokens, _ = states.shape
    weights = torch.exp(logits.clamp(-MOST_LOGIT, MOST_LOGIT)) * mask
    weights = weights / weights.sum(dim=1, keepdim=True)
    grouped = states.view(rows, tokens, GROUPS, -1) * weights[..., None]
    return grouped.sum(dim=1).reshape(rows, -1)


class Lesson:
    """Token ids and MiniLM's vectors of texts."""

    def __init__(self, texts: Sequence[str]) -> None:
        tokenizer = WordPieces.of(model_folder(BUNDLED))
        self.ids = tokenizer(texts, max_length=TOKENS)["input_ids"]
        self.lengths = np.array([len(ids) for ids in self.ids])
        settings = EmbeddingSettings(max_tokens=TOKENS)
        encoder = Encoder(settings, cache=None, private=False)
        self.vectors = torch.tensor(encoder.encode(texts))

    def batch(self, chosen: NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor]:
        ids = [torch.tensor(self.ids[i]) for i in chosen]
        padded = nn.utils.rnn.pad_sequence(ids, batch_first=True)
        mask = torch.arange(padded.shape[1]) < torch.tensor(self.lengths[chosen])[:, None]
        return padded, mask.float(), self.vectors[chosen]

    def batches(self, indices: NDArray[np.int64], epoch: int) -> Iterator[NDArray[np.int64]]:
        """Yield batches of similar length, in a random order."""
        rng = public_rng(epoch, "batches")
        order, large = rng.permutation(indices), 16 * BATCH
        batches: list[NDArray[np.int64]] = []
        for start in range(0, len(order), large):
            some = order[start : start + large]
            some = some[np.argsort(self.lengths[some], kind="stable")]
            batches += [some[i : i + BATCH] for i in range(0, len(some), BATCH)]
        for index in rng.permutation(len(batches)):
            yield batches[index]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--minutes", type=float, default=40)
    parser.add_argument("--to", type=Path, default=Path("light.safetensors"))
    asked = parser.parse_args(arguments)
    torch.manual_seed(0)
    texts = [
        row["text"]
        for row in read_json_lines(asked.texts.read_text(encoding="utf-8"))
        if row["text"].strip()
    ]
    distinct = list(dict.fromkeys(texts))
    if len(distinct) < HELD_OUT + BATCH:
        parser.error(f"needs at least {HELD_OUT + BATCH} different texts")
    lesson = Lesson(distinct)
    order = public_rng(0, "held out").permutation(len(lesson.ids))
    learner = Learner(minilm_words(model_folder(BUNDLED)))
    train(learner, lesson, order[:-HELD_OUT], seconds=60 * asked.minutes)
    write_weights(asked.to, learner.state_dict())
    print(judged(learner.eval(), lesson, order[-HELD_OUT:]))


def train(learner: Learner, lesson: Lesson, indices: NDArray[np.int64], *, seconds: float) -> None:
    optimizer = torch.optim.AdamW(
        learner.parameters(), lr=RATE, weight_decay=0.01, betas=(0.9, 0.98)
    )
    start, step, epoch = time.monotonic(), 0, 0
    while True:
        epoch += 1
        for chosen in lesson.batches(indices, epoch):
            passed = (time.monotonic() - start) / seconds
            if passed >= 1:
                return
            rate = RATE * min(1, (step + 1) / WARM_UP) * (0.5 + 0.5 * math.cos(math.pi * passed))
            for group in optimizer.param_groups:
                group["lr"] = rate + 1e-6
            ids, mask, expected = lesson.batch(chosen)
            found = learner(ids, mask)
            cosines = (found * expected).sum(dim=1)
            pairs = found @ found.T - expected @ expected.T
            loss = (1 - cosines).mean() + OF_PAIRS * pairs.square().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(learner.parameters(), 1.0)
            optimizer.step()
            step += 1
            if step % 200 == 0:
                print(f"epoch {epoch}, step {step}: cosine {cosines.mean():.3f}", flush=True)


@torch.no_grad()
def judged(learner: Learner, lesson: Lesson, indices: NDArray[np.int64]) -> str:
    given = [lesson.batch(indices[i : i + 100]) for i in range(0, len(indices), 100)]
    found = torch.cat([learner(ids, mask) for ids, mask, _ in given])
    expected = torch.cat([vectors for _, _, vectors in given])
    above = torch.triu_indices(len(found), len(found), 1).unbind()
    cosines = [own @ own.T - 2 * torch.eye(len(own)) for own in (found, expected)]
    correlation = torch.corrcoef(torch.stack([own[above] for own in cosines]))[0, 1]
    nearest, ten = cosines[0].argmax(dim=1), cosines[1].topk(10, dim=1).indices
    return (
        f"cosine with MiniLM {(found * expected).sum(dim=1).mean():.3f}, correlation of pairs "
        f"{correlation:.3f}, nearest among the ten nearest "
        f"{(ten == nearest[:, None]).any(dim=1).float().mean():.1%}"
    )


if __name__ == "__main__":
    main()
