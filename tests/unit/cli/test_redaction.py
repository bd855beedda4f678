"""`sugarbush redact` and its messages."""

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from sugarbush.cli.main import app


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    rows = [("a", "call 555-010-2345"), ("b", "I am Ada Lane, ada@example.org")]
    pd.DataFrame(rows, columns=["id", "message"]).to_csv("in.csv", index=False)

    def invoke(*arguments):
        return CliRunner().invoke(app, ["redact", *arguments, "--detectors", "regex"])

    return invoke


def test_it_writes_the_redacted_text_and_prints_what_was_found(run, tmp_path):
    done = run("in.csv", "out.parquet", "--text", "message", "--keep", "id")
    assert done.exit_code == 0, done.output
    made = pd.read_parquet(tmp_path / "out.parquet")
    assert list(made.columns) == ["id", "message", "spans"]
    assert made["message"][0] == "call <MASK>"
    assert json.loads(made["spans"][0]) == [[5, 17, "PHONE"]]
    assert "PHONE" in done.output and "EMAIL" in done.output
    assert "555" not in done.output and "Ada" not in done.output


def test_surrogates_replace_masks(run, tmp_path):
    done = run("in.csv", "out.jsonl", "--text", "message", "--surrogates")
    assert done.exit_code == 0, done.output
    texts = [
        json.loads(line)["message"] for line in (tmp_path / "out.jsonl").read_text().splitlines()
    ]
    assert not any("MASK" in text or "Ada" in text or "2345" in text for text in texts)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("in.csv", "in.csv", "--text", "message"), "is the input"),
        (("in.csv", "out.csv", "--text", "nosuch"), "has no column 'nosuch' (asked for by --text)"),
        (("in.csv", "out.xlsx", "--text", "message"), "no .parquet"),
        (("none.csv", "out.csv", "--text", "message"), "not found"),
        (("in.csv", "out.csv", "--text", "message", "--threshold", "2"), "not between 0 and 1"),
    ],
)
def test_bad_arguments_are_one_clear_message(run, arguments, message):
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.output
