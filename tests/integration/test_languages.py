"""Tests of a German and a Spanish corpus, from `init` and `check` to a release.

The texts are invented. One corpus uses a pool, the other a language model behind a local server.
"""

from __future__ import annotations

import csv
import datetime
import json
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from typer.testing import CliRunner

from sugarbush.cli.main import app
from sugarbush.data.schema import load_schema
from sugarbush.generators.answer_checks import language
from sugarbush.pipeline.opening import open_project
from sugarbush.project.assignments import changed_settings, write_settings
from tests.integration.llm.server import MODEL, FaultServer, Reply, chosen, completion, running
from tests.settings import ROOT
from tests.unit.embedding.test_encode import save_transformer
from tests.unit.pipeline.small_project import run_stages

pytestmark = pytest.mark.slow
COUNT, DONATED = 160, 24


class Corpus(NamedTuple):
    """An invented corpus: the parts of its texts, and its columns."""

    language: str
    subject: str
    columns: tuple[str, str, str]  # text, stars, date
    openings: tuple[str, ...]
    faults: tuple[str, ...]
    endings: tuple[str, ...]
    days: str  # the form of a date

    def text(self, i: int, stars: int) -> str:
        parts = (self.openings, self.faults, self.endings)
        opening, fault, ending = (own[i // 5**n % len(own)] for n, own in enumerate(parts))
        return f"{opening} {fault}, {1000 + 7 * i}. {ending}".replace("*", str(stars))


GERMAN = Corpus(
    "de",
    "Beschwerden an einen Möbelladen",
    ("Größe der Beschwerde", "Sterne", "Eröffnet am"),
    ("Guten Tag, ich habe bei Ihnen eine Lampe gekauft und", "Sehr geehrte Damen und Herren,",
     "Leider muss ich mich beschweren, denn", "Hallo, vor einer Woche war ich bei Ihnen, aber",
     "Ich bin mit dem Tisch nicht zufrieden, weil"),
    ("die Lieferung kam viel zu spät und das Paket war für den Nachbarn",
     "der Stuhl ist zerbrochen und niemand hat mir auf meine Fragen geantwortet",
     "das Gerät lässt sich nicht öffnen und die Anleitung ist nur auf Englisch",
     "es fehlen die Schrauben, die auf der Liste stehen, und der Schlüssel",
     "die Farbe ist nicht die, die ich mit der Bestellung gewählt habe"),
    ("Ich gebe dem Laden * Sterne. Mit freundlichen Grüßen",
     "Das sind für mich * Sterne und nicht mehr.",
     "Bitte melden Sie sich bei mir, ich vergebe * Sterne.",
     "So werden es * Sterne, und das ist noch viel.", "Von mir gibt es * Sterne. Danke"),
    "%d.%m.%Y",
)  # fmt: skip
SPANISH = Corpus(
    "es",
    "opiniones sobre un restaurante",
    ("opinión", "estrellas", "fecha"),
    ("Ayer fui con mi familia a este restaurante y", "Buenas tardes, les escribo porque",
     "No sé si voy a volver, pero", "La señora de la mesa de al lado nos dijo que",
     "Es la segunda vez que vengo con los niños y"),
    ("el camarero no nos hizo caso en una hora y la sopa estaba fría",
     "la paella que pedí para dos era muy pequeña y no tenía sabor",
     "el vino de la casa es muy bueno y los precios no son caros",
     "la terraza con las vistas del mar es lo mejor de la ciudad",
     "el pescado del día no era del día, y me lo cobraron como fresco"),
    ("Le doy * estrellas por la atención.", "Son * estrellas y no más.",
     "Por eso pongo * estrellas, gracias.", "Mi nota es de * estrellas para el señor que cocina.",
     "Se merece * estrellas, y no lo digo por el precio."),
    "%Y-%m-%d",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def write(corpus: Corpus, path: Path, numbers: range) -> None:
    """Write a file as a spreadsheet of the country would: separated by semicolons."""
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, delimiter=";")
        lines.writerow(corpus.columns)
        for i in numbers:
            stars = 1 + (i * 7 % 25) // 5
            day = datetime.date(2024, 1, 1) + datetime.timedelta(days=i * 11 % 365)
            lines.writerow((corpus.text(i, stars), stars, day.strftime(corpus.days)))


def project(corpus: Corpus, folder: Path, *assignments: str) -> Path:
    """Make a project with `init`, edit its schema as a user does, and shorten its run."""
    write(corpus, Path("privat.csv"), range(COUNT))
    write(corpus, Path("gespendet.csv"), range(COUNT, COUNT + DONATED))
    done = CliRunner().invoke(
        app,
        ["init", str(folder), "--from", "privat.csv", "--text", corpus.columns[0],
         "--donated", "gespendet.csv", "--subject", corpus.subject],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    schema = folder / "data/public/schema.yaml"
    fields = yaml.safe_load(schema.read_text(encoding="utf-8"))
    assert fields["language"] == corpus.language, "init recognizes the donated texts"
    drafted = {each.pop("column", None): each for each in fields["attributes"]}
    day = drafted[corpus.columns[2]]
    assert day["type"] == "date" and all(re.match(r"202[45]-", edge) for edge in day["bins"])
    fields["attributes"] = [
        {"name": "stars", "column": corpus.columns[1], "type": "integer", "bins": [3],
         "span": [1, 5]},
        {"name": "day", "column": corpus.columns[2], "bins": ["2024-05-01", "2024-09-01"],
         "span": ["2024-01-01", "2024-12-31"]},
    ]  # fmt: skip
    schema.write_text(yaml.safe_dump(fields, allow_unicode=True), encoding="utf-8")
    changes = (
        "methods={mosaic: {candidates: 30, examples: 2}}", "release.texts=12",
        "privacy.epsilon=4", "privacy.cap=50", "prepare.min_records=20",
        "prepare.accept_overlap=true",  # the texts are made of the same parts
        "evaluate.bootstrap=0", "initialise.length.words=30", *assignments,
    )  # fmt: skip
    write_settings(folder, changed_settings(folder, assignments=changes))
    return folder


def checked(folder: Path) -> str:
    """Run `sugarbush check` as a user does, and return what it prints."""
    command = [sys.executable, "-m", "sugarbush", "check"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=folder, env=environment, text=True, capture_output=True, check=False
    )
    assert done.returncode in (0, 2), done.stdout + done.stderr
    return " ".join((done.stdout + done.stderr).split())


def released(folder: Path) -> list[dict[str, Any]]:
    run_stages(folder)
    lines = folder / "data/released/enlarge/mosaic/synthetic.jsonl"
    return [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]


def assert_typed(rows: list[dict[str, Any]]) -> None:
    assert len(rows) >= 10
    assert {type(row["stars"]) for row in rows} <= {int, type(None)}
    assert all(row["stars"] is None or 1 <= row["stars"] <= 5 for row in rows)
    assert all(row["day"] is None or re.fullmatch(r"2024-\d\d-\d\d", row["day"]) for row in rows)
    assert len({row["day"] for row in rows}) > 3


def test_a_spanish_corpus_a_pool_and_another_encoder(tmp_path: Path) -> None:
    write(SPANISH, Path("pool.csv"), range(1000, 1300))
    pool = f"[{{file: {tmp_path / 'pool.csv'}, text_column: {SPANISH.columns[0]}}}]"
    save_transformer(tmp_path / "encoder", prefix="query: ", pooling="cls")
    folder = project(
        SPANISH, tmp_path / "p", "generator.provider=pool", f"generator.pool.sources={pool}",
        f"embedding.model={tmp_path / 'encoder'}",
    )  # fmt: skip
    output = checked(folder)
    assert "rehearsal" in output and "encoder ok" in output
    assert "the bundled encoder" not in output
    rows = released(folder)
    assert_typed(rows)
    assert "es" in (read := {language(row["text"]) for row in rows}) and read <= {"es", None}
    for row in rows:
        (said,) = map(int, re.findall(r"(\d) estrellas", row["text"]))
        if row["stars"] is not None and (said < 3) == (row["stars"] < 3):
            assert row["stars"] == said, "the number of the text is released where the bin agrees"


def german(number: int, body: Any) -> Reply:
    """Answer in German if the prompt asks for German, and say the requested stars and date."""
    asked = str(body["messages"][0]["content"])
    if "Write in German." not in asked:
        return completion("The lamp which I ordered from the shop came late, and I am not happy.")
    stars = re.findall(r"- stars: (\d)", asked)
    day = re.findall(r"- day: (2024-\d\d-\d\d)", asked)
    opening, fault = chosen(body, GERMAN.openings, GERMAN.faults)
    said = f"Bestellt am {day[0]}. " if day else ""
    ending = f"Ich gebe {stars[0]} Sterne." if stars else "Danke."
    words = f"{opening} {fault}.".split()
    digest = zlib.crc32(json.dumps(body).encode())
    for place in range(4, len(words), 5):  # two letters share no run of eight words
        words[place] += f" ({10000 + digest * place % 90000})"
    return completion(f"{' '.join(words)} {said}{ending}")


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with running(FaultServer(behave=german, key=None)) as own:
        yield own


def test_a_german_corpus_and_a_language_model(tmp_path: Path, server: FaultServer) -> None:
    folder = project(
        GERMAN, tmp_path / "p", "generator.provider=openai",
        f"generator.openai.base_url='{server.base_url}'", f"generator.openai.model={MODEL}",
        "generator.openai.requests_per_minute=1000000",
        "generator.openai.tokens_per_minute=1000000000",
    )  # fmt: skip
    assert load_schema(folder / "data/public/schema.yaml").language == "de"
    output = checked(folder)
    assert "the bundled encoder learned English, and the texts are in German" in output
    rows = released(folder)
    assert_typed(rows)
    assert "de" in (read := {language(row["text"]) for row in rows}) and read <= {"de", None}
    prompts = [str(body["messages"][0]["content"]) for body in server.asked]
    first = [
        prompt
        for prompt in prompts
        if "Write one new text" in prompt and "to take up room" not in prompt  # no probe
    ]
    assert first and all("Write in German." in prompt for prompt in first)
    shown = [re.search(r"- day: ([^\n]*)", prompt) for prompt in first]
    assert all(re.fullmatch(r"2024-\d\d-\d\d", own[1]) for own in shown if own is not None)
    for row in rows:
        said = re.findall(r"am (2024-\d\d-\d\d)", row["text"])
        assert not said or row["day"] in (said[0], None), "text and column agree"
    assert open_project(folder).ledger().entries()
