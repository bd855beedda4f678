"""`sugarbush redact` and its messages."""

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from sugarbush.cli.main import app
from sugarbush.redactor import redaction
from sugarbush.redactor.cache import redactor_folder
from sugarbush.redactor.train import Recipe
from sugarbush.training.crt.findings import DESCRIPTION


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


def test_the_name_of_the_output_is_printed_as_it_is(run, tmp_path):
    (tmp_path / "a[").mkdir()
    done = run("in.csv", "a[/b].csv", "--text", "message")
    assert done.exit_code == 0, done.output
    assert "a[/b].csv" in done.output


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
        (("in.csv", "out.csv", "--text", "nosuch"), "has no column 'nosuch', which --text names"),
        (("in.csv", "out.xlsx", "--text", "message"), "Name a .parquet"),
        (("none.csv", "in.csv", "--text", "message"), "none.csv: not found"),
        (("in.csv", "out.csv", "--text", "message", "--detectors", "a,b"), "one by one"),
        (("none.csv", "out.csv", "--text", "message"), "not found"),
        (("in.csv", "out.csv", "--text", "message", "--threshold", "2"), "not between 0 and 1"),
    ],
)
def test_bad_arguments_are_one_clear_message(run, arguments, message):
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.output


def labelled(name, label="AGE", end=17):
    span = {"start": 5, "end": end, "label": label}
    row = {"message": "call 555-010-2345", "spans": [span]}
    Path(name).write_text("".join(json.dumps(row) + "\n" for _ in range(20)))


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("data", "data: exists and is not a redactor"),
        ("in.csv", "in.csv: exists and is not a redactor"),
        ("in.csv/redactor", "in.csv/redactor: in.csv is a file"),
        (None, "is the default redactor"),
    ],
)
def test_training_does_not_replace_anything_but_a_tuned_redactor(run, tmp_path, output, message):
    """The folder may have private data: a new redactor replaces its folder as a whole."""
    (tmp_path / "data").mkdir()
    labelled("own.jsonl", "PHONE")
    if output is None:
        default = redactor_folder(Recipe())
        default.mkdir(parents=True)
        (default / DESCRIPTION).touch()
    named = output or str(default)
    done = CliRunner().invoke(
        app, ["train-redactor", "--labelled", "own.jsonl", "--output", named, "--text", "message"]
    )
    assert done.exit_code == 2
    assert message in done.stderr.replace("\n", "")
    assert output == "in.csv/redactor" or (tmp_path / named).exists()


@pytest.mark.parametrize(
    ("label", "end", "message"),
    [
        ("AGE", 17, "No secrets: AGE. If one is a secret, rename it to one of NAME, "),
        ("PHONE", 18, "row 1: a span is not within its text"),
    ],
)
def test_labels_that_cannot_train_are_named(run, label, end, message):
    labelled("own.jsonl", label, end)
    done = CliRunner().invoke(
        app, ["train-redactor", "--labelled", "own.jsonl", "--output", "new", "--text", "message"]
    )
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


@pytest.mark.parametrize("output", ["a.csv", "out.csv"])
def test_the_output_is_not_in_the_folder_of_the_input(run, tmp_path, output):
    """It would replace a part, or be read as one the next time."""
    parts = tmp_path / "parts"
    parts.mkdir()
    original = (tmp_path / "in.csv").read_bytes()
    (parts / "a.csv").write_bytes(original)
    done = run("parts", f"parts/{output}", "--text", "message")
    assert done.exit_code == 2
    assert "is in the folder of the input" in done.stderr
    assert [path.read_bytes() for path in parts.iterdir()] == [original]


@pytest.mark.parametrize("output", ["out.csv", "out.jsonl", "out.parquet"])
@pytest.mark.parametrize("bad", ["message", "id"])
def test_half_a_character_is_one_message_with_its_row(run, tmp_path, output, bad):
    row = {"message": "call 555-010-2345", "id": "a"}
    rows = [row, row | {bad: "Ada Lane \ud800"}]
    (tmp_path / "half.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    done = run("half.jsonl", output, "--text", "message", "--keep", "id")
    assert done.exit_code == 2
    assert f"half.jsonl, row 2: column '{bad}' has half a character" in done.stderr
    assert "Ada" not in done.output and "Traceback" not in done.output
    assert not [path for path in tmp_path.iterdir() if "out" in path.name]


def test_a_kept_column_may_have_dates(run, tmp_path):
    frame = pd.DataFrame({"message": ["call 555-010-2345"], "day": [pd.Timestamp("2026-01-02")]})
    frame.to_parquet(tmp_path / "dates.parquet")
    done = run("dates.parquet", "out.jsonl", "--text", "message", "--keep", "day")
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "out.jsonl").read_text())["day"].startswith("2026-01-02")


def test_an_unknown_error_of_a_command_does_not_quote_the_text(run, monkeypatch):
    def fail(*arguments, **settings):
        raise ValueError("could not convert 'I am Ada Lane'")

    monkeypatch.setattr(redaction, "redact_file", fail)
    done = run("in.csv", "out.csv", "--text", "message")
    assert done.exit_code == 70
    assert "ValueError (its message is hidden" in done.stderr
    assert "Ada" not in done.output
