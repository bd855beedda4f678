"""Tests of the `huggingface` provider with a tiny model that the tests train and save."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
import transformers

from sugarbush.errors import GeneratorError, ParamsError, PrivacyError
from sugarbush.generators import answers as llm_answers
from sugarbush.generators.huggingface.batch import pack, pad_left
from sugarbush.generators.huggingface.generator import HuggingFaceGenerator, _first_of_list
from sugarbush.generators.huggingface.model import load_model
from sugarbush.generators.huggingface.settings import HuggingFace
from sugarbush.generators.interface import Answer, Problem, RandomRequest, Request, VariationRequest
from sugarbush.generators.prompts import render
from sugarbush.generators.shared_prefixes import SharedPrefix
from sugarbush.privacy.data_types import Private, Released
from tests.integration.llm.tiny_gpt2 import CONTEXT_TOKENS, save_tiny_gpt2, sentences

ASK = RandomRequest(subject="complaints", words=20)
LONG = "The lamp that I bought has not come yet. Nobody answered my letter. " * 8


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_gpt2(tmp_path_factory.mktemp("plain"), chats=False)


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_gpt2(tmp_path_factory.mktemp("chat"), chats=True)


def settings_for(model: Path, **changes: Any) -> HuggingFace:
    fields = {
        "model": str(model), "device": "cpu", "dtype": "auto", "temperature": 0.8,
        "max_tokens": 48, "batch_tokens": 4096,
    }  # fmt: skip
    return HuggingFace.model_validate(fields | changes)


def generator_of(
    model: Path, state: Path, *, seed: int = 1, **changes: Any
) -> HuggingFaceGenerator:
    params = settings_for(model, **changes)
    return HuggingFaceGenerator(params, seed=seed, state=state, say=print)


def answers_of(
    model: Path, *requests: Request, seed: int = 1, **changes: Any
) -> tuple[Answer, ...]:
    """Return the answers of a new generator with an empty answer cache."""
    with TemporaryDirectory() as state:
        generator = generator_of(model, Path(state), seed=seed, **changes)
        return generator.generate(Released(requests)).value


def texts_of(model: Path, *requests: Request, **changes: Any) -> list[str | None]:
    return [answer.text for answer in answers_of(model, *requests, **changes)]


def wishes(count: int) -> list[Request]:
    """Return requests of very different lengths, so that batches are padded."""
    return [
        replace(ASK, sample=i, examples=tuple(sentences(i % 4, seed=i)), words=15 + i)
        for i in range(count)
    ]


@pytest.mark.parametrize("kind", ["plain", "chat"])
def test_a_local_model_writes_usable_texts(kind: str, request: pytest.FixtureRequest) -> None:
    answers = answers_of(
        request.getfixturevalue(kind), *(replace(ASK, sample=i) for i in range(20))
    )
    good = [answer for answer in answers if answer.problem is None]
    assert len(good) >= 18
    assert all("that I bought" in str(a.text) and str(a.text)[-1] in ".?" for a in good)
    assert len({a.text for a in good}) > 10
    assert all(a.prompt_tokens > 0 and 8 < a.completion_tokens <= 96 for a in answers)


def test_the_ledger_ids_of_the_requests_stay_with_the_answers(plain: Path, tmp_path: Path) -> None:
    generator = generator_of(plain, tmp_path)
    assert generator.generate(Released((ASK,), ("entry-7",))).ledger_ids == ("entry-7",)


def test_nothing_asked_nothing_answered(plain: Path) -> None:
    assert answers_of(plain) == ()


def test_equal_seeds_write_equal_texts_and_other_seeds_others(plain: Path) -> None:
    asked = wishes(8)
    first = texts_of(plain, *asked)
    assert texts_of(plain, *asked) == first
    assert texts_of(plain, *asked, seed=2) != first


def test_the_sample_tells_equal_requests_apart(plain: Path) -> None:
    one, same, other = texts_of(plain, ASK, ASK, replace(ASK, sample=5))
    assert one == same != other


@pytest.mark.parametrize("kind", ["plain", "chat"])
def test_a_text_does_not_depend_on_its_batch(kind: str, request: pytest.FixtureRequest) -> None:
    """The test fails if the attention mask is missing, or if all texts of a batch share one stream
    of random numbers.
    """
    model = request.getfixturevalue(kind)
    asked = wishes(16)
    together = texts_of(model, *asked, batch_tokens=100_000)
    one_by_one = texts_of(model, *asked, batch_tokens=64)
    backwards = texts_of(model, *asked[::-1], batch_tokens=1000)
    assert together == one_by_one == backwards[::-1]
    assert len(set(together)) > 8


def test_a_model_with_a_chat_template_is_asked_in_its_format(chat: Path, plain: Path) -> None:
    (asked,), (continued,) = answers_of(chat, ASK), answers_of(plain, ASK)
    tokenizer = load_model(settings_for(chat)).tokenizer
    content = render(ASK, context_tokens=CONTEXT_TOKENS, max_tokens=48)
    expected = f"<|user|>\n{content}\n<|assistant|>\n"
    assert asked.prompt_tokens == len(tokenizer(expected)["input_ids"])
    assert continued.prompt_tokens < asked.prompt_tokens


def test_the_sampling_defaults_of_a_model_do_not_count(plain: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(plain, changed)
    path = changed / "generation_config.json"
    path.write_text(
        json.dumps(
            json.loads(path.read_text())
            | {"do_sample": True, "top_k": 1, "temperature": 0.1, "repetition_penalty": 9.0}
        )
    )
    assert texts_of(changed, *wishes(6)) == texts_of(plain, *wishes(6))


def test_the_temperature_of_the_settings_counts(plain: Path) -> None:
    cold = texts_of(plain, *(replace(ASK, sample=i) for i in range(6)), temperature=0.01)
    assert len(set(cold)) == 1


def test_a_model_is_loaded_once(plain: Path) -> None:
    first = load_model(settings_for(plain))
    assert load_model(settings_for(plain, temperature=0.5, max_tokens=20)).model is first.model


def test_long_examples_are_trimmed_to_the_context(
    chat: Path, plain: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(llm_answers, "_ATTEMPTS", 1)
    request = replace(ASK, examples=(LONG, *sentences(3), *(f"{LONG}{i}" for i in range(3))))
    for model in (chat, plain):
        (answer,) = answers_of(model, request)
        assert 200 < answer.prompt_tokens <= CONTEXT_TOKENS - 48
        assert "of 7 examples were left out" in capsys.readouterr().out


TOO_LONG = VariationRequest(subject="complaints", parent=LONG * 4, mask_share=0.5)


def test_a_prompt_that_is_too_long_costs_no_other_its_answer(
    plain: Path, chat: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for model in (plain, chat):
        first, long, last = answers_of(model, ASK, TOO_LONG, replace(ASK, sample=1))
        assert "1 not requested" in capsys.readouterr().out
        assert (long.text, long.problem) == (None, Problem.FAILED)
        assert first.text
        assert last.text


def test_when_every_prompt_is_too_long_the_settings_to_change_are_told(plain: Path) -> None:
    with pytest.raises(GeneratorError, match="max_tokens"):
        answers_of(plain, TOO_LONG)


def test_an_answer_cut_off_is_asked_for_again_and_then_dropped(chat: Path) -> None:
    answers = answers_of(chat, *(replace(ASK, sample=i) for i in range(6)), max_tokens=4)
    assert {answer.problem for answer in answers} == {Problem.TRUNCATED}
    assert all(answer.text is None and answer.completion_tokens == 8 for answer in answers)


def test_the_second_try_has_another_seed_and_leaves_good_answers_alone(
    chat: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [replace(ASK, sample=i) for i in range(40)]
    second = answers_of(chat, *asked, max_tokens=18)
    monkeypatch.setattr(llm_answers, "_ATTEMPTS", 1)
    first = answers_of(chat, *asked, max_tokens=18)
    mended = [b for a, b in zip(first, second, strict=True) if a.problem and not b.problem]
    assert mended
    assert all(answer.completion_tokens > 18 for answer in mended)
    assert all(b == a for a, b in zip(first, second, strict=True) if a.problem is None)


def test_a_model_that_only_goes_on_is_cut_back_to_its_last_whole_sentence(plain: Path) -> None:
    answers = answers_of(plain, *(replace(ASK, sample=i, words=12) for i in range(20)))
    assert all(str(a.text)[-1] in ".?" for a in answers if a.text)
    assert all("###" not in str(a.text) for a in answers)


@pytest.mark.parametrize(
    ("text", "ended", "first"),
    [
        ("One. Two.\n###\nThree.", False, ("One. Two.\n", True)),
        ("One. Two.\n##\nThree.", False, ("One. Two.\n", True)),
        ("One. Two.\n\n##", True, ("One. Two.\n\n", True)),
        ("One. ## Two.", False, ("One. ## Two.", True)),
        ("One. Two. Thr", False, ("One. Two.", True)),
        ('He said "Yes." And', False, ('He said "Yes."', True)),
        ("One whole line\nanother", False, ("One whole line\n", True)),
        ("すみません。電話を", False, ("すみません。", True)),
        ("No. But then it goes on and on without an end", False, None),
        ("no end at all", False, None),
        ("no end at all", True, ("no end at all", True)),
        ("version 1.5 and mo", False, None),
        ("[Mood: calm; product: lamp]\n\nOne. Two", False, ("One.", True)),
        ("[sic] One. Two", False, ("[sic] One.", True)),
    ],
)
def test_the_first_text_of_a_list(text: str, ended: bool, first: tuple[str, bool] | None) -> None:
    assert _first_of_list(text, ended=ended) == (first or (text, False))


def test_only_released_requests_reach_a_model(plain: Path, tmp_path: Path) -> None:
    generator = generator_of(plain, tmp_path)
    for wrong in (Private([ASK]), [ASK], Released(("a text",)), Released((Private([ASK]),))):
        with pytest.raises(PrivacyError, match="released"):
            generator.generate(wrong)  # type: ignore[arg-type]


Break = Callable[[Path], dict[str, Any]]


def _no_folder(folder: Path) -> dict[str, Any]:
    shutil.rmtree(folder)
    return {}


def _no_weights(folder: Path) -> dict[str, Any]:
    (folder / "model.safetensors").unlink()
    return {}


def _no_tokenizer(folder: Path) -> dict[str, Any]:
    for path in folder.glob("tokenizer*"):
        path.unlink()
    return {}


def _unknown_architecture(folder: Path) -> dict[str, Any]:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "gpt17"}))
    return {}


def _half_of_the_weights(folder: Path) -> dict[str, Any]:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    return {}


def _template_for_another_chat(folder: Path) -> dict[str, Any]:
    (folder / "chat_template.jinja").write_text("{{ raise_exception('a system message first') }}")
    return {}


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        (_no_weights, "generator.huggingface.model"),
        (_no_tokenizer, "generator.huggingface.model"),
        (_unknown_architecture, "generator.huggingface.model"),
        (_half_of_the_weights, "generator.huggingface.model"),
        (_template_for_another_chat, "a system message first"),
        (_no_folder, "generator.huggingface.model"),
        (lambda _: {"device": "cuda:99"}, "generator.huggingface.device"),
        (lambda _: {"device": "abacus"}, "generator.huggingface.device"),
        (lambda _: {"max_tokens": CONTEXT_TOKENS}, "generator.huggingface.max_tokens"),
    ],
)
def test_settings_that_cannot_be_used_are_named(
    wrong: Break, place: str, plain: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(plain, folder)
    changes = wrong(folder)
    with pytest.raises(ParamsError, match=place):
        generator_of(folder, tmp_path, **changes).check()


def test_a_good_model_passes_the_check(plain: Path, tmp_path: Path) -> None:
    generator_of(plain, tmp_path).check()


def test_a_planned_prompt_that_cannot_fit_fails_the_check(
    plain: Path, chat: Path, tmp_path: Path
) -> None:
    for model in (plain, chat):
        generator = generator_of(model, tmp_path)
        generator.check(Released((ASK,)))
        with pytest.raises(GeneratorError, match="max_tokens"):
            generator.check(Released((ASK, TOO_LONG)))


def alone(count: int) -> list[SharedPrefix]:
    return [SharedPrefix(length=0, leader=index) for index in range(count)]


def test_batches_keep_to_the_budget_and_hold_each_place_once() -> None:
    lengths, limits = [5, 90, 10, 300, 40, 41, 12], [10, 10, 20, 10, 10, 10, 30]
    batches = pack(lengths, limits, prefixes=alone(7), batch_tokens=200)
    assert sorted(place for batch in batches for place in batch) == list(range(7))
    for batch in batches:
        cost = len(batch) * (max(lengths[i] for i in batch) + max(limits[i] for i in batch))
        assert cost <= 200 or len(batch) == 1
    assert batches == [[3], [1, 5], [4, 6], [2, 0]]


def test_packing_fills_batches_as_far_as_they_go() -> None:
    batches = pack([10] * 10, [10] * 10, prefixes=alone(10), batch_tokens=80)
    assert [len(batch) for batch in batches] == [4, 4, 2]


def test_prompts_are_padded_on_the_left_under_a_mask() -> None:
    ids, mask = pad_left([[7, 8, 9], [5]], pad_id=0)
    assert ids.tolist() == [[7, 8, 9], [0, 0, 5]]
    assert mask.tolist() == [[1, 1, 1], [0, 0, 1]]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_is_used_where_there_is_one(plain: Path) -> None:
    local = load_model(settings_for(plain, device="auto"))
    assert local.device.type == "cuda"
    assert local.model.dtype is torch.bfloat16
    assert any(texts_of(plain, *wishes(4), device="auto"))


def test_a_list_is_another_prompt_of_a_chat_model(chat: Path, plain: Path, tmp_path: Path) -> None:
    own = generator_of(chat, tmp_path, form="list")
    local = load_model(settings_for(chat, form="list"))
    written = local.tokenizer.decode(list(own._prompt(local, ASK).ids))
    assert written.rstrip().endswith("###") and "Answer with the text alone" not in written
    assert load_model(settings_for(chat)).chats
    with pytest.raises(ParamsError, match="no chat template"):
        load_model(settings_for(plain, form="chat"))


def test_a_rehearsal_compares_both_forms_of_a_chat_model_only(chat: Path, plain: Path) -> None:
    def forms(model: Path, **how: Any) -> list[str]:
        one = settings_for(model, **how)
        return [each.form for each in one.alternatives(examples=True)]  # type: ignore[attr-defined]

    assert forms(chat) == ["chat", "list"]
    assert forms(plain) == ["auto"]
    assert forms(chat, form="chat") == ["chat"]
    both = settings_for(chat)
    assert both.alternatives(examples=False) == (both,)
    changed = both.alternatives(examples=True)[1]
    assert changed.differences(both) == ('generator.huggingface.form="list"',)
    assert both.identity()["form"] == "auto" and changed.identity()["form"] == "list"


def test_the_token_limit_of_a_list_follows_its_longest_example(plain: Path, tmp_path: Path) -> None:
    generator, local = generator_of(plain, tmp_path), load_model(settings_for(plain))
    short, long = sentences(2, seed=1), (" ".join(sentences(3, seed=2)),)

    def limit(*examples: str) -> int:
        return generator._prompt(local, replace(ASK, words=4, examples=examples)).limit

    assert limit() == 16
    assert limit(*short) < limit(*short, *long) <= 48


def test_a_name_that_the_hub_does_not_give_lists_the_ways_to_a_generator() -> None:
    with pytest.raises(ParamsError) as error:
        load_model(HuggingFace(model="no-such-owner/no-such-model"))
    message = str(error.value)
    for way in ("a folder", "a GGUF file", "an endpoint", "a pool", "hf download"):
        assert way in message


def test_a_hub_that_is_away_is_asked_once_and_only_the_message_is_shown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []

    def away(name: str, file: str) -> None:
        asked.append(name)
        logging.getLogger("huggingface_hub.utils._http").warning("Retrying in 1s")
        raise OSError("no network")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", away)
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", None)  # would ask again
    with pytest.raises(ParamsError, match="Ways to a generator"):
        load_model(HuggingFace(model="no-such-owner/no-such-model-2"))
    assert asked == ["no-such-owner/no-such-model-2"]
    assert "Retrying" not in caplog.text
