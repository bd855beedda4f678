"""Tests of the `openai` provider with a server that has a real model: `transformers serve`.

The model is made here: two untrained GPT-2 layers and a vocabulary of sixty English words. Its
texts have no meaning; the tests only check the requests and the form of the answers.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import (
    GenerationConfig,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
)

from sugarbush.errors import GeneratorError
from sugarbush.generators.openai.cost import journal_path, read_journal
from sugarbush.generators.openai.generator import OpenAiGenerator
from tests.integration.llm.conftest import endpoint_params, wishes

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("serve")]  # one server

WORDS = """
the a an and or but that this it she he they was were is are had has have been be not to of for in
on with from at by as about after before when who customer agent called order parcel late found
sent paid refund broken helped asked said today again soon new old very their his her which could
"""


def save_model(folder: Path) -> None:
    """Save a GPT-2 with two layers, a tokenizer of whole words and a chat template."""
    vocabulary = {"<unk>": 0, "<eos>": 1} | {word: i + 2 for i, word in enumerate(WORDS.split())}
    words = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", eos_token="<eos>", pad_token="<eos>"
    )
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(vocabulary), n_positions=2048, n_embd=32, n_layer=2, n_head=2,
        bos_token_id=1, eos_token_id=1, pad_token_id=1, tie_word_embeddings=False,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    model.generation_config = GenerationConfig(
        do_sample=True, eos_token_id=1, pad_token_id=1, bos_token_id=1
    )
    model.save_pretrained(folder)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Start a server. Return its base URL and the name of its model."""
    folder = tmp_path_factory.mktemp("model")
    save_model(folder)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    program = Path(sys.executable).with_name("transformers")
    log = (folder / "log").open("wb")
    options = ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    server = subprocess.Popen(
        [program, "serve", str(folder), *options],
        env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "2"},
        stdout=log,
        stderr=log,
    )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", server)
        yield f"http://127.0.0.1:{port}/v1", str(folder)
    finally:
        server.kill()
        server.wait()
        log.close()


def _wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    while True:
        assert server.poll() is None, "transformers serve ended"
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.25)


def generator(base_url: str, model: str, state: Path) -> OpenAiGenerator:
    params = endpoint_params(
        base_url, model=model, key_variable=None, max_tokens=300, context_tokens=1500,
        concurrency=4, timeout_s=120,
    )  # fmt: skip
    return OpenAiGenerator(
        params, seed=1, state=state, account="tickets", stage="evolve", say=print
    )


def test_texts_are_generated_counted_and_kept(served: tuple[str, str], tmp_path: Path) -> None:
    base_url, model = served
    generator(base_url, model, tmp_path).check()
    answers = generator(base_url, model, tmp_path).generate(wishes(8)).value
    texts = [a.text for a in answers if a.text is not None]
    assert len(texts) >= 4  # the other answers are unusable or were cut off at max_tokens twice
    assert len(set(texts)) == len(texts)
    assert all(word in WORDS.split() for text in texts for word in text.split())
    assert all(a.completion_tokens > 0 and a.prompt_tokens > 0 for a in answers)
    paid = read_journal(journal_path(tmp_path, "tickets"))
    again = generator(base_url, model, tmp_path).generate(wishes(8)).value
    assert [a.text for a in again] == [a.text for a in answers]
    assert len(read_journal(journal_path(tmp_path, "tickets"))) == len(paid)


def test_a_model_that_is_not_served_is_told(served: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(GeneratorError, match="another-model"):
        generator(served[0], "another-model", tmp_path).check()


def test_a_path_without_v1_is_told(served: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(GeneratorError, match=r"base_url.*usually ends in /v1"):
        generator(served[0].removesuffix("/v1"), served[1], tmp_path).check()
