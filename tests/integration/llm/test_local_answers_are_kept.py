"""Tests that the stored answers of a local model survive kill -9.

A resumed run writes the same texts as an uninterrupted run.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GPT2LMHeadModel

from sugarbush.errors import StorageError
from sugarbush.generators.answer_cache import AnswerCache, open_cache
from sugarbush.generators.huggingface import batch as batch_module
from sugarbush.generators.huggingface import model as model_module
from sugarbush.generators.huggingface.generator import HuggingFaceGenerator
from sugarbush.generators.huggingface.settings import HuggingFace
from sugarbush.generators.interface import Answer, RandomRequest
from sugarbush.privacy.data_types import Released
from tests.integration.llm.conftest import ROOT
from tests.integration.llm.tiny_gpt2 import save_tiny_gpt2, sentences

WANTED = 24
# The program of a process that generates its answers one by one. It writes only to the cache.
PROGRAM = (
    "import sys; from pathlib import Path;"
    "from tests.integration.llm.test_local_answers_are_kept import generator_of, wishes;"
    "model, state = map(Path, sys.argv[1:]);"
    "generator_of(model, state, batch_tokens=64).generate(wishes())"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_gpt2(tmp_path_factory.mktemp("model"), chats=False)


def wishes() -> Released[tuple[RandomRequest, ...]]:
    """Return requests of different lengths, two of which are equal."""
    ask = RandomRequest(subject="complaints", words=20)
    asked = [replace(ask, sample=i, examples=tuple(sentences(i % 4))) for i in range(WANTED - 1)]
    return Released((*asked, asked[5]))


def generator_of(
    model: Path, state: Path, *, seed: int = 1, **changes: Any
) -> HuggingFaceGenerator:
    fields = {
        "model": str(model), "device": "cpu", "dtype": "bfloat16", "temperature": 0.8,
        "max_tokens": 48, "batch_tokens": 600,
    }  # fmt: skip
    params = HuggingFace.model_validate(fields | changes)
    return HuggingFaceGenerator(params, seed=seed, state=state, say=print)


def texts_of(answers: Released[tuple[Answer, ...]]) -> list[tuple[str | None, str | None]]:
    return [(answer.text, answer.problem) for answer in answers.value]


def kept(state: Path) -> int:
    with open_cache(state) as cache:
        return cache.size().answers


@dataclass
class Batches:
    """Records the batches that the model gets, each as a tuple of prompts.

    The model raises KeyboardInterrupt at the batch with the number `deadly`.
    """

    written: list[tuple[tuple[int, ...], ...]]
    deadly: int | None = None


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> Batches:
    seen, write = Batches([]), batch_module.write_batch

    def watched(local: Any, rows: Any, params: Any, **steering: Any) -> Any:
        if len(seen.written) == seen.deadly:
            raise KeyboardInterrupt
        seen.written.append(tuple((*row.ids, round(row.uniforms[0] * 1e9)) for row in rows))
        return write(local, rows, params, **steering)

    monkeypatch.setattr(batch_module, "write_batch", watched)
    return seen


def test_kill_9_loses_nothing_that_was_kept_and_changes_no_text(
    model: Path, tmp_path: Path, batches: Batches
) -> None:
    state = tmp_path / "killed"
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, model, state], cwd=ROOT)
    while not (state / "answers").exists() or kept(state) < 3:
        assert process.poll() is None
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    had = kept(state)
    assert 3 <= had < WANTED - 1
    resumed = generator_of(model, state, batch_tokens=64).generate(wishes())
    in_second_run = len(batches.written)
    whole = generator_of(model, tmp_path / "whole", batch_tokens=64).generate(wishes())
    in_whole_run = len(batches.written) - in_second_run
    assert in_second_run == in_whole_run - had  # one text per batch
    assert texts_of(resumed) == texts_of(whole)
    assert sum(a.completion_tokens for a in resumed.value) < sum(
        a.completion_tokens for a in whole.value
    )


def test_dead_at_any_batch_the_rest_is_written_in_the_batches_of_a_whole_run(
    model: Path, tmp_path: Path, batches: Batches
) -> None:
    """In bfloat16, the text for a prompt may depend on the other prompts of its batch."""
    whole = texts_of(generator_of(model, tmp_path / "whole").generate(wishes()))
    of_whole = batches.written
    assert len(of_whole) > 3
    assert max(map(len, of_whole)) > 2
    for deadly in range(len(of_whole)):
        generator = generator_of(model, tmp_path / str(deadly))
        batches.written, batches.deadly = [], deadly
        with pytest.raises(KeyboardInterrupt):
            generator.generate(wishes())
        batches.deadly = None
        assert texts_of(generator.generate(wishes())) == whole
        assert batches.written == of_whole


def test_what_is_kept_is_not_written_again_and_costs_nothing(
    model: Path, tmp_path: Path, batches: Batches
) -> None:
    generator = generator_of(model, tmp_path)
    first = generator.generate(wishes())
    batches.written = []
    again = generator.generate(wishes())
    assert batches.written == []
    assert texts_of(again) == texts_of(first)
    assert all(a.cached and a.prompt_tokens == a.completion_tokens == 0 for a in again.value)
    assert [a.completion_tokens > 0 for a in first.value] == [True] * (WANTED - 1) + [False]


def _other_weights(folder: Path) -> None:
    changed = GPT2LMHeadModel.from_pretrained(folder)
    with torch.no_grad():
        changed.transformer.h[1].mlp.c_fc.weight.mul_(1.01)
    changed.save_pretrained(folder)


@pytest.mark.parametrize("changes", [{"temperature": 0.9}, {"seed": 2}, {"dtype": "float32"}])
def test_another_question_is_asked_anew(
    model: Path, tmp_path: Path, batches: Batches, changes: dict[str, Any]
) -> None:
    generator_of(model, tmp_path).generate(wishes())
    before, batches.written = len(batches.written), []
    generator_of(model, tmp_path, **changes).generate(wishes())
    assert len(batches.written) >= before - 1  # the batch for second attempts may not be needed


def test_other_weights_in_the_same_folder_are_another_model(
    model: Path, tmp_path: Path, batches: Batches
) -> None:
    generator_of(model, tmp_path).generate(wishes())
    batches.written = []
    moved = shutil.copytree(model, tmp_path / "moved")
    generator_of(moved, tmp_path).generate(wishes())
    assert batches.written == []
    _other_weights(moved)
    model_module._load.cache_clear()  # as in a new process
    generator_of(moved, tmp_path).generate(wishes())
    assert batches.written


def test_a_disk_that_refuses_ends_the_run(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(cache: AnswerCache) -> Callable[..., None]:
        raise OSError(28, "No space left on device")

    with open_cache(tmp_path) as cache:
        monkeypatch.setattr(type(cache._cache), "transact", refuse)
    with pytest.raises(StorageError, match=r"answers.*No space left"):
        generator_of(model, tmp_path).generate(wishes())
