"""Tests verdicts on real texts: no poor release is called good, in thirty bad ones.

The exact quality is MAUVE against held-out real texts. The verdict does not see these texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from sugarbush.attributes.reader import LabelReader
from sugarbush.data.schema import Schema
from sugarbush.embedding.encoder import Encoder
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.errors import PoorReleaseError
from sugarbush.evaluation.mauve import mauve
from sugarbush.evolution.parts import Lineage
from sugarbush.evolution.population import Population
from sugarbush.generators.interface import Usage
from sugarbush.paths import Roots
from sugarbush.pipeline.in_memory import EmbeddingsInMemory
from sugarbush.quality.judge import judge, require_not_poor, teaching
from sugarbush.report.verdict import Verdict
from sugarbush.run.settings import ProjectSettings
from tests.settings import ROOT, params

SETS = ROOT.parent / "shared/data"
COLUMNS = {"airline_tweets": "airline", "it_tickets": "ticket_type", "ner_real_names": ""}
DONATED, HELD_OUT, RELEASED = 40, 150, 120
POOR = 0.5  # MAUVE below this is a poor release


@cache
def encoder() -> Encoder:
    return Encoder(EmbeddingSettings(), cache=EmbeddingsInMemory())


@cache
def texts_of(name: str) -> tuple[str, ...]:
    frame = pd.read_parquet(SETS / name / f"{name}.parquet")
    frame = frame[frame["text"].str.split().str.len() > 3].sample(900, random_state=1)
    return tuple(text[:160] for text in frame["text"])


def embed(texts: Sequence[str]) -> NDArray[np.float32]:
    return encoder().encode(tuple(texts))


def same(own: Sequence[str], other: Sequence[str]) -> list[str]:
    return list(own[:RELEASED])


def one_kind(own: Sequence[str], other: Sequence[str]) -> list[str]:
    rows = embed(own[:400])
    return [own[i] for i in np.argsort(-(rows @ rows[0]))[:RELEASED]]


WORDS = [
    "order",
    "please",
    "thanks",
    "today",
    "problem",
    "account",
    "help",
    "number",
    "again",
    "soon",
]
BAD: dict[str, Callable[[Sequence[str], Sequence[str]], list[str]]] = {
    "other texts": lambda own, other: list(other[:RELEASED]),
    "half other texts": lambda own, other: [*own[: RELEASED // 2], *other[: RELEASED // 2]],
    "one text": lambda own, other: [own[0]] * RELEASED,
    "ten texts": lambda own, other: list(own[:10]) * (RELEASED // 10),
    "one kind": one_kind,
    "templates": lambda own, other: [f"This is entry {i} for the texts." for i in range(RELEASED)],
    "refusals": lambda own, other: [
        f"I am sorry, but I cannot write {WORDS[i % 10]} number {i}." for i in range(RELEASED)
    ],
    "three words": lambda own, other: [" ".join(text.split()[:3]) for text in own[:RELEASED]],
    "mixed words": lambda own, other: [
        " ".join(np.random.default_rng(i).permutation(" ".join(own[i::RELEASED]).split())[:20])
        for i in range(RELEASED)
    ],
    "invented words": lambda own, other: [
        " ".join(np.random.default_rng(i).choice(WORDS, 12)) for i in range(RELEASED)
    ],
}


def verdict_and_mauve(name: str, released: list[str]) -> tuple[Verdict, float]:
    every = texts_of(name)
    donated, held_out = every[:DONATED], every[DONATED : DONATED + HELD_OUT]
    schema = Schema.model_validate(
        {
            "subject": "texts",
            "attributes": [{"name": "kind", "values": ["a"], "keywords": {"a": ["a"]}}],
        }
    )
    final = Population.first(released, codes=np.zeros((len(released), 1), dtype=np.int64))
    reader = LabelReader(schema=schema, embed=embed, examples=donated)
    found = judge(
        Lineage(final=final, usage=Usage(), ledger_ids=()),
        reader.read(final.texts, final.codes),
        reader=reader,
        wanted=len(released),
    )
    exact = mauve(embed(held_out), embed(released), clusters=12, seed=1)
    return found, exact


@pytest.mark.slow
@pytest.mark.skipif(not SETS.exists(), reason="needs the shared data")
@pytest.mark.parametrize("name", COLUMNS)
def test_no_poor_release_of_thirty_is_called_good(name: str) -> None:
    names = list(COLUMNS)
    own = texts_of(name)[DONATED + HELD_OUT :]
    other = texts_of(names[(names.index(name) + 1) % len(names)])
    graded = {}
    for kind, make in BAD.items():
        verdict, exact = verdict_and_mauve(name, make(own, other))
        graded[kind] = (verdict.grade, round(exact, 3))
    wrong = {kind: v for kind, v in graded.items() if v[0] == "good" and v[1] < POOR}
    assert not wrong, graded
    assert sum(grade == "poor" for grade, _ in graded.values()) >= 6, graded
    verdict, exact = verdict_and_mauve(name, same(own, other))
    assert exact > POOR
    assert verdict.grade != "poor", verdict


def test_a_finished_poor_release_is_an_error_with_its_reasons(tmp_path: Path) -> None:
    roots = Roots(tmp_path)
    roots.published.mkdir(parents=True)

    def written(grade: str) -> None:
        found = Verdict(grade=grade, reasons=("the texts repeat",))  # type: ignore[arg-type]
        fields = found.to_json()
        (roots.published / "verdict.json").write_text(json.dumps({"mosaic": fields}))

    def of(**changes: object) -> ProjectSettings:
        return params(privacy__purpose="release", **changes)

    require_not_poor(roots, of())  # no report yet
    for grade in ("good", "fair"):
        written(grade)
        require_not_poor(roots, of())
    written("poor")
    with pytest.raises(PoorReleaseError, match=r"mosaic.*poor: the texts repeat"):
        require_not_poor(roots, of())
    assert PoorReleaseError.exit_code == 3
    require_not_poor(roots, of(report__accept_poor=True))
    require_not_poor(roots, params(privacy__purpose="benchmark"))


VALUES = ("lamp", "chair")
TOPICS = Schema.model_validate(
    {
        "subject": "letters",
        "attributes": [{"name": "topic", "column": "topic", "values": list(VALUES)}],
    }
)


def counted(texts: Sequence[str]) -> NDArray[np.float32]:
    """Embed texts by the topics that they name."""
    rows = np.array([[t.count(v) + 0.1 for v in VALUES] for t in texts], dtype=np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def reader_of_letters() -> LabelReader:
    examples = tuple(f"my {VALUES[i % 2]} {i} broke" for i in range(40))
    codes = (np.arange(40) % 2)[:, None]
    return LabelReader(schema=TOPICS, embed=counted, examples=examples, codes=codes)


def test_a_release_without_the_values_of_its_requests_teaches_less() -> None:
    """A model that learns from texts of one value knows less than one that learns from examples."""
    reader = reader_of_letters()
    asked = (np.arange(60) % 2)[:, None]
    both = teaching(reader, tuple(f"my {VALUES[i % 2]} fell {i}" for i in range(60)), asked)
    one = teaching(reader, tuple(f"my lamp fell {i}" for i in range(60)), asked)
    assert both is not None
    assert one is not None
    assert not both.less
    assert one.less
    assert teaching(LabelReader(schema=TOPICS, embed=counted), ("a",), asked[:1]) is None
    alike = replace(reader, codes=np.zeros((40, 1), dtype=np.int64))
    assert teaching(alike, ("my lamp fell",) * 20, asked[:20]) is None  # one value teaches nothing
    nothing = np.full((60, 1), -1)
    unread = replace(reader, embed=lambda texts: np.ones((len(texts), 2), dtype=np.float32))
    assert teaching(unread, ("a",) * 60, nothing) is None  # no NaN


def test_a_sorted_release_is_compared_by_a_sample() -> None:
    reader = reader_of_letters()
    asked = np.repeat([0, 1], 1500)[:, None]
    found = teaching(
        reader, tuple(f"my {VALUES[c]} fell {i}" for i, c in enumerate(asked[:, 0])), asked
    )
    assert found is not None
    assert not found.less
