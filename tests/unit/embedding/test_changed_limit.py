"""A changed `embedding.max_tokens` loses no embedding that it does not change, and says what it
does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from sugarbush import progress
from sugarbush.embedding.cache import EmbeddingCache, EmbeddingsInMemory
from sugarbush.embedding.encoder import Encoder
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.embedding.transformer import Transformer
from sugarbush.generators.interface import GeneratorContext
from sugarbush.generators.pool import Pool
from tests.environments import TINY_ENCODER

WORD = "lamp "
SHORT = [f"{WORD * n}number {n}" for n in range(1, 9)]
LONG = [f"{WORD * n}number {n}" for n in (40, 80, 300, 600)]


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that the model has embedded."""
    texts: list[str] = []
    embed = Transformer.embed

    def noted(self: Transformer, given: Sequence[str], max_tokens: int) -> object:
        texts.extend(given)
        return embed(self, given, max_tokens)

    monkeypatch.setattr(Transformer, "embed", noted)
    return texts


def encoder(folder: Path, limit: int, *, in_memory: bool = False) -> Encoder:
    disk = EmbeddingCache(folder)
    settings = EmbeddingSettings(max_tokens=limit)
    return Encoder(settings, cache=EmbeddingsInMemory(disk) if in_memory else disk)


@pytest.mark.slow
@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("limits", [(64, 32), (32, 64), (512, 1024), (1024, 64)])
def test_only_the_texts_that_one_of_both_limits_cuts_are_embedded_again(
    tmp_path: Path,
    embedded: list[str],
    capsys: pytest.CaptureFixture[str],
    limits: tuple[int, int],
    in_memory: bool,
) -> None:
    old, new = limits
    texts = [*SHORT, *LONG]
    before = encoder(tmp_path, old, in_memory=in_memory).encode(texts)
    assert embedded == texts
    assert "max_tokens" not in capsys.readouterr().err
    embedded.clear()
    found = encoder(tmp_path, new, in_memory=in_memory).encode(texts)
    assert set(embedded) == {text for text in LONG if text.count(WORD) > min(old, new) - 5}
    said = capsys.readouterr().err
    assert f"embedding.max_tokens is {new} now and was {old} before" in said
    assert f"texts of more than {min(old, new)} tokens are embedded again" in said
    assert "lamp" not in said
    fresh = Encoder(EmbeddingSettings(max_tokens=new), cache=None).encode(texts)
    assert np.array_equal(found, fresh)
    embedded.clear()
    for limit, vectors in ((new, found), (old, before)):
        assert np.array_equal(encoder(tmp_path, limit).encode(texts), vectors)
    assert embedded == []
    assert "max_tokens" not in capsys.readouterr().err


def test_a_model_that_hides_its_tokens_says_that_every_text_is_embedded_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(TINY_ENCODER)
    for limit in (64, 32):
        settings = EmbeddingSettings(model="tiny", max_tokens=limit)
        Encoder(settings, cache=EmbeddingCache(tmp_path)).encode(SHORT)
    assert "the texts are embedded again" in capsys.readouterr().err


def test_damaged_notes_of_the_limits_cost_only_time(tmp_path: Path) -> None:
    encoder(tmp_path, 64).encode(SHORT)
    for damage in ("", "[]", '{"a": 5}', "\0"):
        (tmp_path / "limits.json").write_text(damage)
        assert len(encoder(tmp_path, 32).encode(SHORT)) == len(SHORT)


@pytest.mark.slow
def test_the_index_of_a_pool_shows_its_progress_text_by_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first texts are the longest ones, so a block of hundreds may take minutes."""
    monkeypatch.setattr(progress, "_FIRST_LINE_S", 0.0)
    monkeypatch.setattr(progress, "_LINE_EVERY_S", 0.0)
    embed = Encoder(EmbeddingSettings(), cache=EmbeddingCache(tmp_path), private=False).encode
    texts = [f"{WORD * (n % 50)} order {n}" for n in range(200)]
    context = GeneratorContext(
        seed=1, state=tmp_path, account="letters", stage="check", base=tmp_path, embed=embed,
        say=print,
    )  # fmt: skip
    Pool(texts=texts).open(context)
    lines = capsys.readouterr().err.splitlines()
    shown = [line for line in lines if line.startswith("embeddings of public texts: ")]
    assert len({line.partition("%")[0] for line in shown}) > 10
    assert any("of 200 texts" in line for line in shown)
