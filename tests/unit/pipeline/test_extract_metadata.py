"""Tests of stage `extract_metadata`: its calibration, and which encoder embeds which texts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from sugarbush.attributes.donated import load_readers
from sugarbush.attributes.extract import extract_codes
from sugarbush.data.private_store import HELDOUT, TRAIN
from sugarbush.embedding.encoder import Encoder
from sugarbush.errors import ParamsError
from sugarbush.methods.settings import MethodsSection
from sugarbush.pipeline.in_memory import corpus_of_project
from sugarbush.pipeline.opening import open_project
from sugarbush.pipeline.stages import extract_metadata, prepare
from sugarbush.pipeline.stages.fingerprint import forget_digests_without_files
from sugarbush.run.context import Project
from sugarbush.run.records import private_store
from tests.settings import params

WORDS = {"lamp": 0, "chair": 1}
SCHEMA = {
    "subject": "letters",
    "attributes": [
        {
            "name": "product",
            "values": ["lamp", "chair"],
            "zero_shot": {"lamp": ["about a lamp"], "chair": ["about a chair"]},
        },
        {"name": "wish", "values": ["refund"], "keywords": {"refund": ["money back"]}},
    ],
}


class Watched:
    """Replaces the embedding model, and records which encoder (private or public) embedded a text.

    A vector depends on the words of the text. All vectors are shifted towards the word "lamp".
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: dict[bool, list[str]] = {True: [], False: []}
        monkeypatch.setattr(Encoder, "_space", "watched", raising=False)
        monkeypatch.setattr(Encoder, "_embed", self._embedder())

    def _embedder(self) -> Any:
        seen = self.seen

        def embed(encoder: Any, texts: Any, places: Any, _: Any) -> Any:
            if not places:
                return
            asked = [texts[i] for i in places]
            seen["private" in str(encoder._cache._folder)].extend(asked)
            rows = np.array(
                [[1.0 * ("lamp" in t), 1.0 * ("chair" in t), 0.0] for t in asked], dtype=np.float32
            )
            letters = np.array([["letter" in t] for t in asked])
            rows += letters * np.array([1.2, 0, 0.5], dtype=np.float32)
            yield list(places), rows / np.linalg.norm(rows, axis=1, keepdims=True)

        return embed


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def letters(count: int, *, first: int = 0) -> list[dict[str, str]]:
    return [
        {"text": f"letter {i} on my {'lamp' if i % 2 else 'chair'}"}
        for i in range(first, first + count)
    ]


def project(folder: Path, *, donated: list[dict[str, Any]]) -> Project:
    (folder / "schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    (folder / "letters.jsonl").write_text("".join(json.dumps(r) + "\n" for r in letters(60)))
    pd.DataFrame(donated).to_parquet(folder / "donated.parquet")
    settings = params(
        prepare__file="letters.jsonl",
        prepare__schema="schema.yaml",
        prepare__donated="donated.parquet",
        privacy__purpose="benchmark",
        privacy__dataset="letters",
        prepare__min_records=10,
    )
    own = open_project(folder, settings=settings)
    prepare.run(own)
    return own


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))


def labelled(**more: Any) -> list[dict[str, Any]]:
    return [
        {**record, "product": "lamp" if "lamp" in record["text"] else "chair", **more}
        for record in letters(20, first=100)
    ]


def told(folder: Path) -> float:
    """Return the share of the private letters with a correctly extracted product."""
    codes = pd.read_parquet(folder / "data/private/metadata/train.parquet")["product"]
    texts = pd.read_parquet(folder / "data/private/prepared/train.parquet")["text"]
    truth = np.array([0 if "lamp" in text else 1 for text in texts])
    return float((codes.to_numpy() == truth).mean())


def test_labels_of_donated_examples_calibrate_what_is_told_from_private_texts(
    tmp_path: Path, watched: Watched
) -> None:
    extract_metadata.run(project(tmp_path, donated=letters(20, first=100)))
    assert told(tmp_path) < 0.7
    (tmp_path / "again").mkdir()
    extract_metadata.run(project(tmp_path / "again", donated=labelled()))
    assert told(tmp_path / "again") == 1.0


def test_agreement_is_that_of_examples_which_did_not_calibrate(
    tmp_path: Path, watched: Watched
) -> None:
    """All extracted codes are right, and one label in five is wrong, so codes and labels agree for
    four in five examples.
    """
    donated = labelled()
    for record in donated[::5]:
        record["product"] = "chair" if record["product"] == "lamp" else "lamp"
    extract_metadata.run(project(tmp_path, donated=donated))
    (found,) = json.loads((tmp_path / "data/public/donated/agreement.json").read_text())
    assert found["attribute"] == "product"
    assert found["share"] == pytest.approx(0.8, abs=0.11)
    codes = pd.read_parquet(tmp_path / "data/public/donated/donated.parquet")["product"]
    assert codes.tolist() == [0 if "lamp" in record["text"] else 1 for record in donated]


def test_no_text_is_embedded_twice_and_no_private_one_by_the_public_encoder(
    tmp_path: Path, watched: Watched
) -> None:
    own = project(tmp_path, donated=labelled())
    for _ in range(2):
        extract_metadata.run(own)
    everything = watched.seen[True] + watched.seen[False]
    assert len(everything) == len(set(everything))
    assert set(watched.seen[True]) == {r["text"] for r in letters(60)}
    descriptions = {"about a lamp", "about a chair"}
    assert set(watched.seen[False]) == {r["text"] for r in labelled()} | descriptions


def test_later_stages_read_texts_as_this_one_did(tmp_path: Path, watched: Watched) -> None:
    own = project(tmp_path, donated=labelled())
    extract_metadata.run(own)
    embed = own.inputs.encoder(private=False).encode
    readers = load_readers(tmp_path / "data/public/donated", own.schema, embed=embed)
    assert readers["product"].offsets[0] > readers["product"].offsets[1]
    texts = [record["text"] for record in letters(10, first=300)]
    codes = extract_codes(
        own.schema,
        texts,
        {},
        embed=embed,
        readers=readers,
        params=own.settings.extract_metadata,
    )
    assert codes[:, 0].tolist() == [0 if "lamp" in text else 1 for text in texts]


def test_without_donated_examples_descriptions_alone_tell(tmp_path: Path, watched: Watched) -> None:
    settings = project(tmp_path, donated=labelled()).settings
    prepared = settings.prepare.model_copy(update={"donated": None})
    alone = settings.model_copy(update={"prepare": prepared})
    extract_metadata.run(open_project(tmp_path, settings=alone))
    donated = tmp_path / "data/public/donated"
    assert json.loads((donated / "calibrations.json").read_text()) == {"product": []}
    assert json.loads((donated / "agreement.json").read_text()) == []
    assert len(pd.read_parquet(donated / "donated.parquet")) == 0
    assert told(tmp_path) < 0.7


def test_records_get_values_only_if_a_method_a_metric_or_an_audit_uses_them(
    tmp_path: Path, watched: Watched
) -> None:
    """The values keep their name, so a method that is removed and added again costs nothing."""
    own = project(tmp_path, donated=labelled())
    stamps = tmp_path / "data/stamps"

    def extracted(**changes: Any) -> tuple[bool, str]:
        now = open_project(tmp_path, settings=own.settings.model_copy(update=changes))
        forget_digests_without_files(now)
        if not (stamps / "train_codes.json").exists():  # DVC runs the stage if a stamp is missing
            extract_metadata.run(now)
        written = private_store(now).codes_file(TRAIN).exists()
        assert private_store(now).codes_file(HELDOUT).exists() == written
        return written, now.inputs.names()["codes"]

    crt = {"methods": MethodsSection.of("crt")}
    assert extracted(**crt)[0] is False
    assert watched.seen[True] == []
    with pytest.raises(ParamsError, match=r"set audit\.enabled: true"):
        corpus_of_project(open_project(tmp_path, settings=own.settings.model_copy(update=crt)))
    written, name = extracted()
    assert written
    assert extracted(methods=MethodsSection.of("crt", "maple")) == extracted(**crt) == (True, name)
    extract_metadata.run(open_project(tmp_path, settings=own.settings.model_copy(update=crt)))
    assert extracted(**crt) == (False, "no values")
    audit = own.settings.audit.model_copy(update={"enabled": True})
    assert extracted(**crt, audit=audit) == (True, name)
