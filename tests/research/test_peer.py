"""Tests of other programs: the files and lines between them and `research.peer`."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from research.benchmark_dataset import BenchmarkDataset, Variant
from research.leaderboard import Scale, runs, variants_of
from research.peer import Peer, TextSource, dpsda
from sugarbush.errors import PrivacyError
from sugarbush.evaluation import REAL

pytestmark = pytest.mark.slow

# Requests four texts for each released text, and a variation of two of them. Releases the texts
# that are nearest to the mean of the records, and one variation.
PROGRAM = """
import json, sys
from pathlib import Path
import numpy as np

folder = Path(sys.argv[1])
task = json.loads((folder / "task.json").read_text())
assert (task["epsilon"], task["delta"], task["color"]) == (2.0, 1e-6, "red"), task

def vectors(**request):
    print(json.dumps(request), flush=True)
    return np.load(folder / json.loads(sys.stdin.readline())["vectors"])

assert set(np.load(folder / "labels.npy")) == {-1}
first = vectors(random=4 * task["texts"], label=-1)
varied = vectors(vary=[0, 3])
every = np.concatenate([first, varied])
scores = every @ np.load(folder / "records.npy").mean(axis=0)
(folder / "release.json").write_text(json.dumps(np.argsort(-scores)[:task["texts"]].tolist()))
"""


def peer(folder: Path, program: str = PROGRAM, **fields: object) -> Peer:
    file = folder / "program.py"
    file.write_text(program)
    return Peer(
        command=(sys.executable, str(file)), description="a stand-in", options={"color": "red"},
        **fields,
    )  # fmt: skip


def test_a_program_chooses_texts_by_the_vectors_of_texts_and_records(
    dataset: BenchmarkDataset, tmp_path: Path
) -> None:
    release = peer(tmp_path, examples=3).run(dataset, texts=8, epsilon=2.0, seed=1)
    assert len(release.texts) == 8
    assert release.calls >= 34  # an unusable answer is requested again
    records = dataset.corpus.real_texts("train").texts
    mean = dataset.corpus.encode(records, private=True).mean(axis=0)
    scores = dataset.corpus.encode(release.texts, private=False) @ mean
    assert (np.diff(scores) <= 1e-6).all()
    again = peer(tmp_path, examples=3).run(dataset, texts=8, epsilon=2.0, seed=1)
    assert again == release  # the generator's seed is public, and this program draws no noise


def test_a_program_with_labels_gets_the_records_codes_and_texts_of_a_label(
    dataset: BenchmarkDataset, tmp_path: Path
) -> None:
    codes = dataset.corpus.real_texts("train").codes[:, 0].tolist()
    program = PROGRAM.replace("set(np.load(folder / \"labels.npy\")) == {-1}", (
        f"np.load(folder / 'labels.npy').tolist() == {codes}"
    )).replace("label=-1", "label=1")  # fmt: skip
    assert "label=1" in program
    release = peer(tmp_path, program, labels=True).run(dataset, texts=8, epsilon=2.0, seed=1)
    attribute = dataset.schema.attributes[0]
    source = TextSource(dataset, examples=0, seed=1, state=tmp_path)
    assert source.random(1, label=1) == source.texts
    assert source.request(None, label=1).attributes == ((attribute.name, attribute.domain[1]),)
    assert source.request(None, label=-1).attributes == ()
    assert len(release.texts) == 8


def test_a_program_that_fails_is_reported_with_its_last_line(
    dataset: BenchmarkDataset, tmp_path: Path
) -> None:
    with pytest.raises(RuntimeError, match=r"program.py failed: AssertionError: .*2\.5"):
        peer(tmp_path).run(dataset, texts=8, epsilon=2.5, seed=1)


@pytest.mark.parametrize("number", [-1, 34])
def test_a_program_releases_only_texts_that_it_requested(
    dataset: BenchmarkDataset, tmp_path: Path, number: int
) -> None:
    program = f"{PROGRAM}\n(folder / 'release.json').write_text('[{number}]')"
    with pytest.raises(RuntimeError, match="had not requested"):
        peer(tmp_path, program).run(dataset, texts=8, epsilon=2.0, seed=1)


def test_a_program_that_stops_before_its_answer_is_reported_too(
    dataset: BenchmarkDataset, tmp_path: Path
) -> None:
    program = "import sys\nprint('{\"random\": 1, \"label\": -1}', flush=True)\nsys.exit('no more')"
    with pytest.raises(RuntimeError, match=r"program.py failed: no more"):
        peer(tmp_path, program).run(dataset, texts=8, epsilon=2.0, seed=1)


def test_a_program_gets_no_private_data(dataset: BenchmarkDataset, tmp_path: Path) -> None:
    corpus, started = dataset.corpus, tmp_path / "started"
    privacy = corpus.settings.privacy.model_copy(update={"purpose": "release"})
    settings = corpus.settings.model_copy(update={"privacy": privacy})
    private = BenchmarkDataset(replace(corpus, settings=settings), name="private")
    program = f"open({str(started)!r}, 'w')"
    with pytest.raises(PrivacyError, match="needs public data"):
        peer(tmp_path, program).run(private, texts=8, epsilon=2.0, seed=1)
    assert not started.exists()


def test_a_leaderboard_has_methods_programs_and_real_texts(
    dataset: BenchmarkDataset, tmp_path: Path
) -> None:
    public: Variant = variants_of(Scale(variations=2, texts=8))["public"]
    rows = {REAL: None, "public": public, "other": peer(tmp_path)}
    found = list(runs(dataset, rows, texts=8, epsilons=[2.0], seeds=[4]))
    final = {own[-1]["arm"]: own[-1] for own in found}
    assert {row["set"] for row in final.values()} == {"letters-8-texts"}
    assert {name: row["epsilon"] for name, row in final.items()} == {
        REAL: math.inf, "public": 0.0, "other": 2.0,
    }  # fmt: skip
    assert {name: row["options"] for name, row in final.items() if row["options"]} == {
        "other": "a stand-in"
    }
    assert all((row["metric"], row["value"]) == ("texts", 8) for row in final.values())
    assert math.isnan(final[REAL]["calls"])
    assert final["other"]["calls"] >= 34
    done = {("letters-8-texts", "other", 2.0, 4), ("letters-8-texts", REAL, math.inf, 4)}
    left = runs(dataset, rows, texts=8, epsilons=[2.0], seeds=[4], done=done)
    assert [own[-1]["arm"] for own in left] == ["public"]


def test_rows_of_dpsda_say_its_commit_and_whether_its_files_are_modified(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        names = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        command = ["git", "-C", str(tmp_path), *names, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet")
    (tmp_path / "pe.py").write_text("1\n")
    git("add", "pe.py")
    git("commit", "--quiet", "--message", "one")
    commit = git("rev-parse", "--short", "HEAD")
    rows = dpsda(tmp_path, variations=4)
    assert all(row.description.startswith(f"DPSDA {commit}, unmodified") for row in rows.values())
    assert rows["dpsda-examples"].examples == 10
    (tmp_path / "pe.py").write_text("2\n")
    changed = dpsda(tmp_path, variations=4)["dpsda-once"]
    assert changed.description.startswith(f"DPSDA {commit}, modified")
