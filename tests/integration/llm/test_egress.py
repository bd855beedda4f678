"""The whole pipeline as a flow, every private record marked: the marks are found nowhere outside.

An endpoint that writes sees released text; one that labels sees the private texts, and is trusted.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
import yaml

from sugarbush.randomness import public_rng
from tests.integration.canary import files_with, unpacked
from tests.integration.llm.server import KEY, Body, FaultServer, Reply, completion, running
from tests.integration.project import PRODUCTS, Project, as_lines, letters, make_project

pytestmark = [pytest.mark.xdist_group("egress"), pytest.mark.slow]
MARK = "canary7731x"
RECORDS = 120
DONATED = 6
WORDS = (
    "the a this that lamp chair kettle box door table shop street morning evening week month "
    "arrived came went broke stopped worked called wrote asked waited paid returned opened found "
    "late early twice again never always under over with without before after from customer agent "
    "parcel courier receipt colour handle screw light cable wood steel paper small large heavy new"
)


def written(number: int, body: Body) -> Reply:
    """Forty words by chance: no two answers alike."""
    rng = public_rng(number, json.dumps(body, sort_keys=True))
    return completion(" ".join(rng.choice(WORDS.split(), size=40)).capitalize() + ".")


def labelled(number: int, body: Body) -> Reply:
    text = str(body["messages"][0]["content"]).partition("Text:\n")[2]
    return completion(json.dumps({"mood": "calm" if "another one" in text else "angry"}))


@dataclass(frozen=True)
class Finished:
    """What the flow left, who was asked what, and what it printed."""

    project: Project
    writer: FaultServer
    reader: FaultServer
    prefect: Path
    printed: str

    @property
    def released(self) -> list[Path]:
        """Everything but the private root, the internal reports and the user's own file."""
        base = self.project.path
        own = {base / "letters.jsonl", base / "data", base / "reports", base / ".git"}
        data = {base / "data" / name for name in ("released", "public", "stamps")}
        return [*(set(base.iterdir()) - own), *data, base / "reports/public", self.project.state]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    folder = tmp_path_factory.mktemp("egress")
    with contextlib.ExitStack() as stack:
        writer = stack.enter_context(running(FaultServer(behave=written)))
        reader = stack.enter_context(running(FaultServer(behave=labelled)))
        project = marked_project(folder, writer, reader)
        run = project.run(  # a process of its own, with a database of Prefect's own
            sys.executable, "-m", "flows.pipeline",
            OPENAI_API_KEY=KEY, PREFECT_HOME=str(folder / "prefect"),
        )  # fmt: skip
        yield Finished(project, writer, reader, folder / "prefect", run.stdout + run.stderr)


def marked_project(folder: Path, writer: FaultServer, reader: FaultServer) -> Project:
    endpoint = {"requests_per_minute": 1e6, "tokens_per_minute": 1e9, "model": "tiny"}
    project = make_project(
        folder / "checkout", folder / "state", records=RECORDS,
        prepare__id_column="id",
        generator__provider="openai",
        **{f"generator__openai__{k}": v for k, v in endpoint.items()},
        generator__openai__base_url=writer.base_url,
        extract_metadata__llm__base_url=reader.base_url,
        extract_metadata__llm__model="tiny",
        extract_metadata__llm__key_variable="OPENAI_API_KEY",
        extract_metadata__llm__trusted=True,
    )  # fmt: skip
    schema = project.path / "letters.schema.yaml"
    fields = yaml.safe_load(schema.read_text())
    fields["attributes"].append({"name": "mood", "values": ["angry", "calm"], "source": "llm"})
    schema.write_text(yaml.safe_dump(fields))
    donated, private = letters(RECORDS + DONATED)[:DONATED], letters(RECORDS + DONATED)[DONATED:]
    for i, record in enumerate(private):
        record["id"] = f"{MARK}id{i}"
        record["text"] = record["text"].replace("Dear shop", f"Dear {MARK}{i}")
        record[f"{MARK}column"] = f"{MARK}value{i}"  # of which the schema knows nothing
        if i % 10 == 0:
            record["product"] = f"{MARK}product{i}"
    for i, record in enumerate(donated):
        record["mood"] = "angry" if i % 2 else "calm"
    (project.path / "letters.jsonl").write_text(as_lines(private))
    (project.path / "donated.jsonl").write_text(as_lines(donated))
    project.git("commit", "--quiet", "--all", "--message=marked")
    return project


def test_the_endpoint_for_labels_was_sent_every_private_text(finished: Finished) -> None:
    """The search below would mean nothing if the marks had been lost on the way."""
    sent = finished.reader.raw.decode()
    assert all(f"{MARK}{i}," in sent for i in range(RECORDS))
    private = finished.project.path / "data" / "private"
    assert files_with(MARK, [private / "prepared"])
    assert len(finished.writer.answered) > 10


def test_no_request_to_the_writing_endpoint_holds_a_mark(finished: Finished) -> None:
    assert MARK.encode() not in finished.writer.raw
    assert KEY.encode() in finished.writer.raw  # what was recorded are whole requests


def test_no_file_outside_the_private_root_holds_a_mark(finished: Finished) -> None:
    assert files_with(MARK, finished.released) == []


@pytest.mark.parametrize(
    "place", [".dvc/cache", "dvc.lock", "data/released", "reports/public", "data/stamps"]
)
def test_what_was_searched_is_there(finished: Finished, place: str) -> None:
    path = finished.project.path / place
    assert path.exists()
    assert any(path == one or one in path.parents for one in finished.released)
    assert files_with("", [path])


def test_released_tables_and_kept_answers_were_searched_unpacked(finished: Finished) -> None:
    final = finished.project.path / "data/released/evolve/maple/final.parquet"
    text = pd.read_parquet(final)["text"][0]
    assert final.name in {Path(f).name for f in files_with(text, finished.released)}
    assert any("answers" in f for f in files_with(text, [finished.project.state]))


def test_prefects_database_and_the_terminal_hold_no_mark(finished: Finished) -> None:
    kept = unpacked(finished.prefect / "prefect.db")
    assert "Running stage 'extract_metadata'" in kept
    assert MARK not in kept
    assert files_with(MARK, [finished.prefect]) == []
    assert "extract_metadata" in finished.printed
    assert MARK not in finished.printed


def test_private_answers_are_kept_under_the_private_root_alone(finished: Finished) -> None:
    labels = finished.project.path / "data/private/labels"
    assert labels.stat().st_mode & 0o077 == 0
    assert files_with("mood", [labels / "answers"])
    assert not files_with("mood", [finished.project.state / "answers"])
    assert len(finished.reader.asked) >= RECORDS


def test_the_report_says_who_was_sent_what_and_how_labels_agree(finished: Finished) -> None:
    base, public = finished.project.path, finished.project.path / "reports/public"
    found = json.loads((base / "data/public/donated/agreement.json").read_text())
    rows = {row["attribute"]: row for row in found}
    assert (rows["mood"]["texts"], rows["mood"]["share"]) == (DONATED, 1.0)
    assert "As labelled" in (public / "index.html").read_text()
    card = (public / "release_card.md").read_text()
    assert "EVERY PRIVATE TEXT was sent to it" in card
    assert finished.reader.base_url in card
    assert set(PRODUCTS) <= set(card.replace(",", " ").split())
