"""Tests of `research.little_writer` at a small size: its lists have the format of prompts, and the
`huggingface` provider can use its model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from research.fine_tuning import Texts
from research.little_writer import LONGEST, MOST_EXAMPLES, documents, lists_of, trained
from sugarbush.data.schema import Attribute, Schema
from sugarbush.generators.huggingface.generator import HuggingFaceGenerator
from sugarbush.generators.huggingface.settings import HuggingFace
from sugarbush.generators.interface import RandomRequest
from sugarbush.generators.prompts import SEPARATOR
from sugarbush.privacy.data_types import Released
from sugarbush.randomness import public_rng
from sugarbush.training.dpsgd import models
from sugarbush.training.dpsgd.data import plain_examples
from sugarbush.training.dpsgd.language_modelling import perplexity

THINGS = ("lamp", "chair")
SCHEMA = Schema(
    subject="letters to a shop",
    attributes=(Attribute(name="thing", column="thing", values=THINGS),),
)
LETTERS = Texts(
    texts=tuple(f"The {THINGS[n % 2]} number {n} broke. Please help." for n in range(60)),
    codes=np.array([[n % 2] for n in range(60)]),
)


def test_a_list_is_a_prompt_with_texts_of_its_metadata_and_no_text_twice() -> None:
    for written in documents(LETTERS, SCHEMA, count=30, rng=public_rng(1, "lists")):
        heading, *texts, end = written.split(f"\n{SEPARATOR}\n")
        assert end == ""
        thing = "lamp" if "thing: lamp" in heading else "chair"
        assert heading == f"Letters to a shop (thing: {thing}), about 7 words each:"
        assert 1 <= len(texts) <= MOST_EXAMPLES + 1 and len(set(texts)) == len(texts)
        assert all(f"The {thing}" in text for text in texts)


def test_long_texts_are_left_out() -> None:
    long = Texts(
        texts=(*LETTERS.texts, "word " * (LONGEST + 1)), codes=np.zeros((61, 1), dtype=int)
    )
    written = documents(long, SCHEMA, count=60, rng=public_rng(1, "lists"))
    assert not any("word word" in text for text in written)


def test_the_model_learns_the_lists_and_the_provider_writes_by_it(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    lists = lists_of({"letters": (LETTERS, SCHEMA)}, count=120, seed=1)
    shape = models.ModelShape(layers=1, width=32, heads=4, context=128)
    writer = trained(lists[:100], shape=shape, vocabulary=300, batch_size=4, seed=1)
    unseen = [e for (e,) in plain_examples(lists[100:], tokenizer=writer.tokenizer, max_length=128)]
    untrained = models.new_model(writer.tokenizer, shape, seed=1)
    before, after = (perplexity(m, unseen, batch_size=20) for m in (untrained, writer.model))
    assert after < before / 3
    models.save(writer.model, writer.tokenizer, tmp_path)
    params = HuggingFace(
        model=str(tmp_path), device="cpu", dtype="float32", temperature=0.5, top_p=0.9,
        max_tokens=40, batch_tokens=4096,
    )  # fmt: skip
    asked = [RandomRequest(subject=SCHEMA.subject, words=7, sample=i) for i in range(4)]
    generator = HuggingFaceGenerator(params, seed=1, state=tmp_path / "state", say=print)
    answers = generator.generate(Released(tuple(asked))).value
    assert all(answer.completion_tokens for answer in answers)
