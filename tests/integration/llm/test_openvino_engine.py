"""Tests of the `huggingface` provider with OpenVINO GenAI, by tiny models."""

from __future__ import annotations

import json
import subprocess
import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Weights
from safetensors.torch import load_file
from scipy.stats import chisquare

from sugarbush.errors import ParamsError
from sugarbush.generators.answer_cache import Completion, open_cache
from sugarbush.generators.huggingface import engines, openvino_engine
from sugarbush.generators.huggingface.batch import TransformersWriter
from sugarbush.generators.huggingface.engines import open_writer
from sugarbush.generators.huggingface.model import load_model
from sugarbush.generators.huggingface.model_settings import LocalModelSettings
from sugarbush.generators.huggingface.openvino_engine import OpenVINOWriter
from sugarbush.generators.huggingface.settings import HuggingFace
from sugarbush.generators.huggingface.writer import Prompt, Writer
from sugarbush.generators.interface import Problem, Request
from sugarbush.privacy.data_types import Released
from sugarbush.randomness import public_rng
from tests.integration.llm.conftest import ROOT
from tests.integration.llm.test_gguf import write_gguf as write_gpt2_gguf
from tests.integration.llm.test_huggingface import (
    ASK,
    answers_of,
    generator_of,
    settings_for,
    texts_of,
)
from tests.integration.llm.test_huggingface import wishes as varied_wishes
from tests.integration.llm.tiny_gpt2 import END, save_tiny_gpt2, sentences
from tests.integration.llm.tiny_llama import save_random, save_tiny_llama, write_gguf


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_llama(tmp_path_factory.mktemp("llama"), chats=False)


@pytest.fixture(scope="module")
def plain(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(folder, tmp_path_factory.mktemp("gguf") / "plain.gguf")


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("chat")
    return write_gguf(save_tiny_llama(made, chats=True), made / "chat.gguf")


def wishes(count: int) -> list[Request]:
    """Return requests of which some share a beginning of more than a block of keys and values."""
    return [
        replace(ASK, sample=i, examples=tuple(sentences(i % 3 % 2, seed=7)), words=20)
        for i in range(count)
    ]


def written(writer: Writer, prompts: Sequence[Prompt]) -> list[tuple[str | None, str | None]]:
    found = {}
    for some in writer.write(prompts, missing=range(len(prompts))):
        found |= some
    return [(found[i].text, found[i].finish_reason) for i in range(len(prompts))]


def prompts_of(writer: Writer, count: int, *, limit: int = 24) -> list[Prompt]:
    texts = [" ".join(request.examples) or "The lamp" for request in varied_wishes(count)]
    return [
        Prompt(
            ids=array("i", writer.local.encode(text)), limit=limit, random=partial(public_rng, i)
        )
        for i, text in enumerate(texts)
    ]


@pytest.mark.parametrize(
    "weights",
    [
        Weights.F32,
        Weights.F16,
        Weights.Q8_0,
        Weights.Q4_0,
        Weights.Q4_1,
        Weights.Q5_0,
        Weights.Q6_K,
    ],
)
def test_the_likeliest_texts_are_those_of_transformers(tmp_path: Path, weights: Weights) -> None:
    """Every type of weights that the engine is given is read as transformers reads it."""
    made = save_tiny_llama(tmp_path, chats=False, size=256, trained=False)
    params = settings_for(write_gguf(made, tmp_path / "m.gguf", weights), temperature=1e-4)
    engine = open_writer(params)
    assert isinstance(engine, OpenVINOWriter)
    prompts = prompts_of(engine, 12)
    by_engine = written(engine, prompts)
    slow = TransformersWriter(load_model(params), params, steering={})
    assert [prompt.ids for prompt in prompts_of(slow, 12)] == [prompt.ids for prompt in prompts]
    by_transformers = written(slow, prompts)
    # Rounding to 16 bits may decide between two near scores. Other weights would change all texts.
    assert sum(a == b for a, b in zip(by_engine, by_transformers, strict=True)) >= 9
    assert len(set(by_engine)) > 6


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("tied", [False, True])
def test_a_folder_has_the_likeliest_texts_of_transformers(
    tmp_path: Path, kind: str, tied: bool
) -> None:
    """A wrong order of a head's numbers, or a lost bias, would change all texts."""
    folder = save_random(tmp_path, kind=kind, tied=tied)
    params = settings_for(folder, temperature=1e-4)
    engine = open_writer(params)
    assert isinstance(engine, OpenVINOWriter)
    prompts = prompts_of(engine, 12)
    by_engine = written(engine, prompts)
    slow = TransformersWriter(load_model(params), params, steering={})
    assert [prompt.ids for prompt in prompts_of(slow, 12)] == [prompt.ids for prompt in prompts]
    assert engine.local.context_tokens == slow.local.context_tokens
    assert engine.local.end_ids == slow.local.end_ids
    by_transformers = written(slow, prompts)
    assert sum(a == b for a, b in zip(by_engine, by_transformers, strict=True)) >= 11
    assert len(set(by_engine)) > 6


def test_a_model_of_the_hub_that_is_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = tmp_path / "models--owner--model"
    save_random(cached / "snapshots" / ("1" * 40))
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("1" * 40)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert isinstance(open_writer(settings_for(Path("owner/model"))), OpenVINOWriter)
    with pytest.raises(ParamsError, match="the Hugging Face hub did not give it"):
        open_writer(settings_for(Path("owner/other")))


def test_other_weights_or_words_have_other_answers(tmp_path: Path) -> None:
    """Else a cached answer of another model would be returned."""
    one, other = save_random(tmp_path / "one"), save_random(tmp_path / "other", seed=2)
    again = save_random(tmp_path / "again")
    prints = [open_writer(settings_for(path)).local.fingerprint for path in (one, other, again)]
    assert prints[0] == prints[2] != prints[1]
    tokenizer = json.loads((again / "tokenizer.json").read_text())
    words = tokenizer["model"]["vocab"]
    first, second = list(words)[100:102]
    words[first], words[second] = words[second], words[first]
    (again / "tokenizer.json").write_text(json.dumps(tokenizer))
    openvino_engine._load.cache_clear()
    assert open_writer(settings_for(again)).local.fingerprint != prints[0]


def test_a_model_writes_usable_texts(plain: Path, chat: Path, folder: Path) -> None:
    for model in (plain, chat, folder):
        answers = answers_of(model, *wishes(20))
        good = [answer for answer in answers if answer.problem is None]
        assert len(good) >= 17
        assert sum("I bought" in str(a.text) for a in good) >= len(good) // 2
        assert len({a.text for a in good}) > 10


@pytest.mark.parametrize("kind", ["plain", "chat"])
def test_a_text_depends_only_on_its_seed_and_its_prompt(
    kind: str, request: pytest.FixtureRequest
) -> None:
    model, asked = request.getfixturevalue(kind), wishes(16)
    together = texts_of(model, *asked, batch_tokens=100_000)
    assert texts_of(model, *asked, batch_tokens=64) == together
    assert texts_of(model, *asked[::-1], batch_tokens=1000)[::-1] == together
    assert texts_of(model, *asked, seed=2) != together
    assert len(set(together)) > 8


class _Tokens(OpenVINOWriter):
    """Collects the tokens of all answers."""

    def __init__(self, writer: Writer, params: HuggingFace) -> None:
        assert isinstance(writer, OpenVINOWriter)
        super().__init__(writer.local, params)
        self.tokens: list[int] = []

    def _completion(self, prompt: Prompt, request: Any) -> Completion:
        self.tokens += request.tokens
        return super()._completion(prompt, request)


def test_tokens_are_drawn_from_the_whole_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3,000 tokens against the probabilities of transformers, with a chi-square test. A correct
    sampler fails for one seed in a million. Other distributions, such as the nucleus of
    0.9, are rejected.
    """
    made = save_tiny_llama(tmp_path, chats=False, trained=False)
    path = write_gguf(made, tmp_path / "m.gguf")
    params = settings_for(path, temperature=1.5, batch_tokens=2000)
    slow = load_model(params)
    with torch.inference_mode():
        scores = slow.model(torch.tensor([slow.encode("The lamp")])).logits[0, -1]
    expected = torch.softmax(scores / 1.5, dim=-1).double().numpy()
    expected *= 3000 / expected.sum()

    def p_value(**changes: Any) -> float:
        changed = params.model_copy(update=changes)
        writer = _Tokens(open_writer(changed), changed)
        ids = array("i", writer.local.encode("The lamp"))
        written(
            writer, [Prompt(ids=ids, limit=1, random=partial(public_rng, i)) for i in range(3000)]
        )
        counts = np.bincount(writer.tokens, minlength=len(expected))
        common = expected >= 8
        seen = np.append(counts[common], counts[~common].sum())
        return float(chisquare(seen, np.append(expected[common], expected[~common].sum())).pvalue)

    monkeypatch.setattr(LocalModelSettings, "top_p", 0.9)
    assert p_value() < 1e-6
    monkeypatch.setattr(LocalModelSettings, "top_p", 1.0)
    assert p_value() > 1e-6
    assert p_value(temperature=1.0) < 1e-6


def test_an_answer_ends_at_the_limit_the_end_token_or_the_separator(
    plain: Path, chat: Path
) -> None:
    cut = answers_of(chat, *wishes(4), max_tokens=4)
    assert {answer.problem for answer in cut} == {Problem.TRUNCATED}
    assert all(answer.completion_tokens == 8 for answer in cut)
    for model in (plain, chat):
        answers = answers_of(model, *wishes(8), max_tokens=200)
        assert all(answer.completion_tokens < 150 for answer in answers)
        assert all("###" not in str(a.text) and END not in str(a.text) for a in answers)


def test_the_name_of_a_special_token_in_a_text_is_text(plain: Path, tmp_path: Path) -> None:
    generator = generator_of(plain, tmp_path)
    local = generator._open().local
    assert local.end_ids == (0,)
    asked = wishes(1)[0]
    prompt = generator._prompt(local, type(asked)(subject=f"letters {END}", examples=(END,)))
    assert 0 not in prompt.ids


def test_a_stopped_run_keeps_its_answers_and_the_next_one_completes_them(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = texts_of(plain, *wishes(16))
    generator = generator_of(plain, tmp_path, batch_tokens=600)
    complete, calls = OpenVINOWriter._completion, iter(range(100))

    def stopped(self: Any, *arguments: Any) -> Any:
        if next(calls) == 9:
            raise KeyboardInterrupt
        return complete(self, *arguments)

    monkeypatch.setattr(OpenVINOWriter, "_completion", stopped)
    with pytest.raises(KeyboardInterrupt):
        generator.generate(Released(tuple(wishes(16))))
    monkeypatch.undo()
    with open_cache(tmp_path) as cache:
        kept = cache.size().answers
    assert 5 <= kept <= 9
    answers = generator.generate(Released(tuple(wishes(16)))).value
    assert [answer.text for answer in answers] == whole
    assert sum(answer.cached for answer in answers) >= kept - 1


def test_another_version_of_the_engine_is_asked_anew(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator_of(plain, tmp_path).generate(Released(tuple(wishes(3))))
    before = settings_for(plain).identity()
    assert before["engine"].startswith("openvino-genai 20")
    monkeypatch.setattr(openvino_engine, "version", lambda package: "2099.1")
    openvino_engine._load.cache_clear()
    answers = generator_of(plain, tmp_path).generate(Released(tuple(wishes(3)))).value
    openvino_engine._load.cache_clear()
    assert not any(answer.cached for answer in answers)
    assert settings_for(plain).identity()["engine"] == "openvino-genai 2099.1"


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Iterator[Any]:
    return lambda: capsys.readouterr().out


def test_transformers_runs_what_the_engine_does_not_read(
    folder: Path, tmp_path: Path, said: Any
) -> None:
    """A wrong position of a token would change the texts without an error."""
    gpt2 = write_gpt2_gguf(
        save_tiny_gpt2(tmp_path / "gpt2", chats=False), tmp_path / "tiny-gpt2.gguf"
    )
    scaled = write_gguf(folder, tmp_path / "scaled.gguf", **{"llama.rope.scaling.factor": 2.0})
    longer = save_random(
        tmp_path / "longer",
        rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0},
    )
    biased = save_random(tmp_path / "biased", attention_bias=True)
    old = save_random(tmp_path / "old")
    shards = list(old.glob("model*.safetensors"))
    weights = {name: values for shard in shards for name, values in load_file(shard).items()}
    torch.save(weights, old / "pytorch_model.bin")
    for path in (*shards, old / "model.safetensors.index.json"):
        path.unlink()
    for path, reason in (
        (gpt2, "gpt2"),
        (scaled, "rope.scaling.factor"),
        (tmp_path / "gpt2", "gpt2"),
        (longer, "rope_parameters"),
        (biased, "attention_bias"),
        (old, "safetensors"),
    ):
        generator = generator_of(path, tmp_path)
        assert isinstance(generator._open(), TransformersWriter)
        assert reason in said()
        assert "engine" not in settings_for(path).identity()


def test_without_the_extra_a_folder_runs_in_transformers(
    folder: Path, monkeypatch: pytest.MonkeyPatch, said: Any, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "openvino_genai", None)
    assert isinstance(generator_of(folder, tmp_path)._open(), TransformersWriter)
    assert "pip install '.[gguf]'" in said()


def test_transformers_runs_steering_and_gpus(
    folder: Path, plain: Path, monkeypatch: pytest.MonkeyPatch, said: Any, tmp_path: Path
) -> None:
    steered = generator_of(plain, tmp_path).with_released(
        steering=Released({1: np.ones(64)}, ("entry-1",))
    )
    assert isinstance(steered._open(), TransformersWriter)
    assert not said()
    monkeypatch.setattr(engines, "device_of", lambda name: torch.device("cuda"))
    assert "engine" not in settings_for(plain, device="auto").identity()


def test_a_damaged_file_is_refused_by_its_setting(plain: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(plain.read_bytes()[:20_000])
    for path in (damaged, tmp_path / "missing.gguf"):
        with pytest.raises(ParamsError, match=r"generator\.huggingface\.model"):
            generator_of(path, tmp_path).check()


OFFLINE = """
import sys
from pathlib import Path

def refuse(event, arguments):
    assert not event.startswith("socket."), (event, arguments)

sys.addaudithook(refuse)
from tests.integration.llm.test_huggingface import ASK, generator_of
from sugarbush.privacy.data_types import Released
answers = generator_of(Path(sys.argv[1]), Path(sys.argv[2])).generate(Released((ASK,))).value
assert "openvino_genai" in sys.modules and answers
assert not sys.modules["openvino_telemetry"]
"""


def test_the_engine_opens_no_connection_and_writes_no_file(plain: Path, tmp_path: Path) -> None:
    """OpenVINO's telemetry would send an event at import, and write an identifier to ~/intel."""
    temporary, state = tmp_path / "temporary", tmp_path / "state"
    temporary.mkdir()
    subprocess.run(
        [sys.executable, "-c", OFFLINE, plain, state],
        check=True, cwd=ROOT, env={"PATH": "", "TMPDIR": str(temporary), "HOME": str(tmp_path)},
    )  # fmt: skip
    assert not [path for path in temporary.rglob("*") if path.is_file()]
    assert {path.name for path in state.iterdir()} == {"answers"}
    assert {path.name for path in tmp_path.iterdir()} == {"temporary", "state"}
