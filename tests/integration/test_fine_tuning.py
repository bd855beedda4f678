"""A released file of conversations is read by a program for fine-tuning without a conversion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sugarbush as sb
from tests.integration.llm.tiny_gpt2 import make_tokenizer
from tests.synthesized import synthesize_frame

STEPS, BATCH = 30, 8
SCHEMA = {
    "subject": "chats of a shop",
    "text": {"conversation": {"first": "user", "alternate": True}},
    "attributes": [{"name": "thing", "values": ["lamp"], "keywords": {"lamp": ["lamp"]}}],
}


def chats(count: int, *, seed: int) -> list[list[dict[str, str]]]:
    """Return invented conversations of two or four turns."""
    rng = np.random.default_rng(seed)
    things, faults = ("lamp", "chair", "clock"), ("is late", "is broken", "is too small")
    found = []
    for number in range(count):
        thing, fault = things[rng.integers(3)], faults[rng.integers(3)]
        turns = [f"My {thing} {fault}, order {number}.", f"Sorry. We send another {thing}."]
        turns += ["Thank you.", "You are welcome."] * int(rng.integers(2))
        roles = ("user", "assistant")
        found.append([{"role": roles[i % 2], "content": t} for i, t in enumerate(turns)])
    return found


def test_a_released_file_of_conversations_trains_a_chat_model(tmp_path: Path) -> None:
    datasets, torch = pytest.importorskip("datasets"), pytest.importorskip("torch")
    from transformers import GPT2Config, GPT2LMHeadModel

    release = synthesize_frame(
        pd.DataFrame({"messages": chats(400, seed=1)}),
        schema=SCHEMA,
        generator=sb.Pool(
            texts=[
                "\n".join(f"{turn['role']}: {turn['content']}" for turn in chat)
                for chat in chats(300, seed=2)
            ]
        ),
        method=sb.Mosaic(candidates=80, prompt="metadata"),
        texts=40,
        accept_poor=True,
        state=tmp_path / "state",
        privacy=sb.Privacy(epsilon=1, delta=1e-6, dataset="chats"),
        settings={"prepare": {"accept_overlap": True}},
    )
    release.save(tmp_path / "release")
    file = tmp_path / "release" / "synthetic.parquet"
    data = datasets.load_dataset(
        "parquet", data_files=str(file), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert len(data) == 40
    assert {turn["role"] for row in data for turn in row["messages"]} == {"user", "assistant"}

    tokenizer = make_tokenizer(chats=True)
    tokens = data.map(
        lambda row: {"ids": tokenizer.apply_chat_template(row["messages"], return_dict=False)},
        remove_columns=data.column_names,
    )["ids"]
    torch.manual_seed(1)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(tokenizer),
            n_positions=512,
            n_embd=64,
            n_layer=2,
            n_head=2,
            bos_token_id=tokenizer.eos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    losses = _trained(torch, model, [row[:512] for row in tokens])
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])


def _trained(torch: Any, model: Any, rows: list[list[int]]) -> list[float]:
    """Train for STEPS steps, and return the loss of each."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    losses = []
    for step in range(STEPS):
        batch = [rows[(step * BATCH + i) % len(rows)] for i in range(BATCH)]
        longest = max(map(len, batch))
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in batch])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in batch])
        loss = model(
            input_ids=ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100)
        ).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses
