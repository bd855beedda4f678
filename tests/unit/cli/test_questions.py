"""Tests of the questions before a publication, on a real terminal and by a function."""

from __future__ import annotations

import io
import os
import pty
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from sugarbush.cli.questions import ask_publication
from sugarbush.errors import ParamsError
from sugarbush.run.settings import load_params
from tests.publication import COMPLETE

_ASK = (
    "from pathlib import Path; from rich.console import Console;"
    "from sugarbush.cli.questions import ask_publication; ask_publication(Path(), Console())"
)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    text = "# keep this comment\nprivacy:\n  dataset: letters\n"
    (tmp_path / "params.yaml").write_text(text)
    return tmp_path


def answering(answers: dict[str, list[str]]) -> Callable[[str], str]:
    """Return a reader that answers each question by its name, and skips all others."""
    left = {name: iter(own) for name, own in answers.items()}

    def read(question: str) -> str:
        own: Iterator[str] = left.get(question.split(" ", maxsplit=1)[0].rstrip(":"), iter(()))
        return next(own, "")

    return read


def said_by(base: Path, read: Callable[[str], str] | None = None) -> str:
    output = io.StringIO()
    ask_publication(base, Console(file=output, width=200), read=read)
    return output.getvalue()


def test_all_answers_make_the_settings_complete(base: Path) -> None:
    answers = {
        name: ["; ".join(value) if isinstance(value, list) else str(value)]
        for name, value in COMPLETE.items()
    }
    output = said_by(base, answering(answers))
    own = load_params(base / "params.yaml").publication
    assert list(own.missing()) == []
    assert own.curators == tuple(COMPLETE["curators"])
    assert "# keep this comment" in (base / "params.yaml").read_text()
    assert f"{len(COMPLETE)} answers written" in output


def test_every_question_may_be_skipped_and_keeps_its_value(base: Path) -> None:
    said_by(base, answering({"region": ["Atlantis"]}))
    before = (base / "params.yaml").read_text()
    assert "[Atlantis]" not in before
    questions: list[str] = []

    def read(question: str) -> str:
        questions.append(question)
        return ""

    assert "0 answers written" in said_by(base, read)
    assert (base / "params.yaml").read_text() == before
    assert "region [Atlantis]: " in questions
    assert len(questions) == len(COMPLETE) + 3


def test_a_wrong_answer_is_asked_again(base: Path) -> None:
    answers = {"sector": ["Farming", "Energy"], "languages": ["German", "de; en"]}
    output = said_by(base, answering({**answers, "review_date": ["soon", "2030-01-31"]}))
    own = load_params(base / "params.yaml").publication
    assert (own.sector, own.languages) == ("Energy", ("de", "en"))
    assert str(own.review_date) == "2030-01-31"
    assert "use BCP 47 tags" in output and "'Technology'" in output


def test_the_end_of_the_input_skips_the_rest(base: Path) -> None:
    def read(question: str) -> str:
        if question.startswith("contact"):
            raise EOFError
        return "City Library"

    assert "1 answers written" in said_by(base, read)
    fields = yaml.safe_load((base / "params.yaml").read_text())
    assert fields["publication"] == {"curators": ["City Library"]}


def test_without_a_terminal_nothing_is_asked(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("City Library\n"))
    with pytest.raises(ParamsError, match="--ask needs a terminal"):
        said_by(base)


# JAX, which other tests import, warns of every fork. The child here does not use it.
@pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning")
def test_on_a_terminal(base: Path) -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(base)
        os.execv(sys.executable, [sys.executable, "-c", _ASK])
    output = b""
    while b"curators (several: with ;): " not in output:
        output += os.read(terminal, 4096)
    os.write(terminal, b"City Library; Readers' Trust\n")
    while b"\ncontact: " not in output.replace(b"\r", b""):
        output += os.read(terminal, 4096)
    os.write(terminal, b"\x04")
    os.waitpid(child, 0)
    own = load_params(base / "params.yaml").publication
    assert own.curators == ("City Library", "Readers' Trust") and own.contact is None
