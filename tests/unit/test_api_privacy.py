"""Tests that the API keeps private texts private and charges each draw."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sugarbush as sb
from sugarbush.pipeline import corpus_of_project, open_project
from sugarbush.privacy.events import DiscreteGaussian
from tests.settings import params

SCHEMA = {
    "subject": "letters",
    "attributes": [{"name": "topic", "values": ["late"], "keywords": {"late": ["late"]}}],
}
METHOD = sb.Maple(rounds=1, candidates=8, variations=2, prompt="metadata")
SIMULATOR = sb.Simulator(any_texts=True)


def letters(count: int = 300) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "message": [f"Order {i} arrived late" for i in range(count)],
            "who": [f"user {i % (count // 2)}" for i in range(count)],
        }
    )


def prepared(
    state: Path, *, generator: Any = SIMULATOR, settings: Any = None, **privacy: Any
) -> sb.Corpus:
    return sb.prepare(
        letters(),
        text="message",
        schema=SCHEMA,
        generator=generator,
        settings=settings,
        user="who" if privacy.get("unit") == "user" else None,
        privacy=sb.Privacy(dataset="letters", **privacy),
        state=state,
    )


@pytest.mark.parametrize(
    "other",
    [{"records_per_user": 1}, {"records_per_user": 3}, {"unit": "record", "records_per_user": 1}],
    ids=["fewer records", "more records", "another unit"],
)
def test_a_prepared_corpus_keeps_its_unit(tmp_path: Path, other: dict[str, Any]) -> None:
    corpus = prepared(tmp_path, unit="user", records_per_user=2)
    settings: dict[str, Any] = {"privacy": other}
    if "unit" in other:
        settings["prepare"] = {"user_column": None}
    with pytest.raises(sb.ParamsError, match="Prepare the corpus again"):
        sb.synthesize(corpus, method=METHOD, settings=settings)
    assert not sb.open_ledger("letters", unit="user", user_column="who", state=tmp_path).entries()


@pytest.mark.parametrize("section", ["pool", "pretrain"])
def test_texts_that_become_public_after_prepare_are_refused(tmp_path: Path, section: str) -> None:
    """`prepare` removes them from the private records, and a release may contain them unchanged."""
    letters().to_csv(tmp_path / "public.csv", index=False)
    sources = [{"file": str(tmp_path / "public.csv"), "text_column": "message"}]
    settings: dict[str, Any] = (
        {"generator": {"provider": "pool", "pool": {"sources": sources}}}
        if section == "pool"
        else {"pretrain": {"sources": sources}}
    )
    with pytest.raises(
        sb.ParamsError, match="Prepare the corpus again with these settings, which removes"
    ):
        sb.synthesize(prepared(tmp_path), method=METHOD, settings=settings)
    with pytest.raises(sb.InputError, match="fewer private records"):
        prepared(tmp_path, settings=settings)


def test_a_sample_of_private_records_is_refused(tmp_path: Path) -> None:
    """Which records it contains depends on how many there are."""
    project = open_project(
        tmp_path, settings=params(privacy__purpose="release", prepare__file="x.csv")
    )
    with pytest.raises(sb.PrivacyError, match="only for public data"):
        corpus_of_project(project, limit=5)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_encoder")
def test_a_release_can_be_pickled_and_holds_no_private_text(tmp_path: Path) -> None:
    release = sb.synthesize(prepared(tmp_path), method=METHOD)
    stored = pickle.dumps(release)
    assert not [text for text in letters()["message"] if text.encode() in stored]
    assert pickle.loads(stored).texts == release.texts
    assert (release.save(tmp_path / "out") / "release.json").exists()


def test_a_prepared_corpus_and_its_embeddings_refuse_pickling(tmp_path: Path) -> None:
    corpus = prepared(tmp_path)
    for part in (corpus, corpus.private, corpus.embeddings[True]):
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(part)


@pytest.mark.parametrize(
    "wrong",
    [
        {"categories": ["a", "a"]},
        {"categories": []},
        {"user": "who"},
        {"privacy": sb.Privacy()},
        {"privacy": sb.Privacy(dataset="letters").model_copy(update={"records_per_user": 0})},
        {"privacy": sb.Privacy(dataset="letters").model_copy(update={"delta": 0.5})},
    ],
    ids=str,
)
def test_a_bad_histogram_is_refused_before_the_charge(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    privacy = sb.Privacy(epsilon=1, delta=1e-6, dataset="letters")
    asked: dict[str, Any] = {"categories": ["a", "b"], "privacy": privacy} | wrong
    with pytest.raises(sb.ParamsError):
        sb.private_histogram(["a"], state=tmp_path, **asked)
    assert not sb.open_ledger("letters", state=tmp_path).entries()


@pytest.mark.parametrize("records", [1, 3])
def test_a_histogram_of_users_is_charged_for_all_values_of_a_user(
    tmp_path: Path, records: int
) -> None:
    """The noise grows with the values of a user, so the cost stays the same."""
    counts = sb.private_histogram(
        ["a", "b"] * 50,
        categories=["a", "b"],
        privacy=sb.Privacy(
            epsilon=1, delta=1e-6, dataset="letters", unit="user", records_per_user=records
        ),
        user="who",
        state=tmp_path,
    )
    ledger = sb.open_ledger("letters", unit="user", user_column="who", state=tmp_path)
    (entry,) = ledger.entries()
    assert isinstance(entry.event, DiscreteGaussian)
    assert entry.event.sensitivity == records
    assert 0.98 < ledger.total() <= 1.0
    assert counts.ledger_ids == (entry.id,)
