"""The example formats on invented files that look like real ones, as `init` would read them."""

from __future__ import annotations

import base64
import json
import sys
import tomllib
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from sugarbush.data.reading import column_names, read_rows, row_batches
from sugarbush.errors import InputError
from tests.settings import ROOT

FOLDER = ROOT / "examples" / "formats"
SECRET = "sesame"


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the formats as pip does."""
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text())
    named = project["project"]
    info = tmp_path / "site" / "example_formats-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {named['name']}\nVersion: 1.0\n")
    ((group, points),) = named["entry-points"].items()
    lines = [f"[{group}]", *(f"{suffix} = {place}" for suffix, place in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.syspath_prepend(str(info.parent))
    for module in project["tool"]["setuptools"]["py-modules"]:
        sys.modules.pop(module, None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def rows_of(path: Path, *columns: str) -> list[dict[str, Any]]:
    wanted = dict.fromkeys(columns, "--text")
    column_names(path, required=wanted, setting="--from")
    return [dict(row.fields) for row in read_rows(path, setting="--from", wanted=wanted)]


def problem_of(path: Path, column: str) -> str:
    with pytest.raises(InputError) as error:
        rows_of(path, column)
    batches = row_batches(path, setting="--from", wanted={column: "--text"}, broken=True)
    (row,) = (row for _, rows in batches for row in rows if row.problem)
    assert row.problem in str(error.value) and f"row {row.number}" in str(error.value)
    assert SECRET not in str(error.value)
    return row.problem


def test_a_folder_of_texts(folder: Path) -> None:
    (folder / "1.txt").write_bytes("\ufeffLieber Laden,\r\n\r\ndie Lampe fehlt.\r\n".encode())
    (folder / "2.txt").write_text("My chair is late.", encoding="utf-16")
    assert rows_of(folder, "text", "name") == [
        {"name": "1.txt", "text": "Lieber Laden,\n\ndie Lampe fehlt."},
        {"name": "2.txt", "text": "My chair is late."},
    ]
    (folder / "3.txt").write_bytes(b"\xff\xfe\xff" + SECRET.encode())
    with pytest.raises(InputError, match=r"3\.txt, line 1: is not UTF-16"):
        rows_of(folder, "text")


def test_a_mail_with_an_alternative_an_encoded_header_and_an_attachment(folder: Path) -> None:
    mail = EmailMessage()
    mail["Subject"] = "Größe der Lampe"
    mail["From"] = '"Vera Müller" <Vera@Example.org>'
    mail["To"] = "shop@example.org, Help <help@example.org>"
    mail["Message-ID"] = "<1@example.org>"
    mail.set_content("Grüße,\n\ndie Lampe ist zu groß.\n", cte="quoted-printable")
    mail.add_alternative("<p>Grüße</p>", subtype="html")
    mail.add_attachment(SECRET.encode(), maintype="image", subtype="png", filename="x.png")
    content = bytes(mail).replace(b"\n", b"\r\n")
    assert b"=?utf-8?" in content and b"=C3=BC" in content
    (folder / "1.eml").write_bytes(b"\xef\xbb\xbf" + content)
    (row,) = rows_of(folder, "text")
    assert row["text"] == "Grüße,\n\ndie Lampe ist zu groß."
    assert row["subject"] == "Größe der Lampe" and row["from"] == "vera@example.org"
    assert row["to"] == "shop@example.org, help@example.org" and row["date"] is None


@pytest.mark.parametrize(
    ("body", "subtype", "text"),
    [
        ("It is late.\n\nOn Mon, 5 Jan 2026, Shop wrote:\n> Which?\n> Yours\n", "plain",
         "It is late."),
        ("> Which order?\nNumber 7.\n> Since when?\nMay.\n", "plain", "Number 7.\nMay."),
        ("Zu spät.\n\nAm 05.01.26 um 9:12 schrieb Laden:\n\nWelche?\n", "plain", "Zu spät."),
        ("Late.\n-----Original Message-----\nFrom: shop\nHello\n", "plain", "Late."),
        ("<style>p {}</style><p>My lamp<br>is <b>late</b>.</p><blockquote>Which?</blockquote>",
         "html", "My lamp\nis late."),
    ],
)  # fmt: skip
def test_a_reply_has_what_its_sender_wrote(
    folder: Path, body: str, subtype: str, text: str
) -> None:
    mail = EmailMessage()
    mail["Subject"] = "Re: Order"
    mail.set_content(body, subtype=subtype)
    (folder / "1.eml").write_bytes(bytes(mail))
    assert rows_of(folder / "1.eml", "text")[0]["text"] == text


@pytest.mark.parametrize(
    "content",
    [
        SECRET.encode(),
        b"",
        b"Subject: x\nContent-Type: text/plain; charset=utf-8\n\n\xff" + SECRET.encode(),
        b"Subject: x\nContent-Type: text/plain; charset=none\n\n" + SECRET.encode(),
    ],
)
def test_what_is_no_mail_is_named_and_not_quoted(folder: Path, content: bytes) -> None:
    (folder / "1.eml").write_bytes(content)
    assert "is no mail that can be read" in problem_of(folder, "text")


def test_a_transcript_of_each_kind_is_a_conversation(folder: Path) -> None:
    turns = [
        {"role": "Anna", "content": "Good morning. How can I help?"},
        {"role": "Dr. Ole", "content": "My lamp: it flickers."},
    ]
    (folder / "a.vtt").write_text(
        "\ufeffWEBVTT - Call\n\nNOTE by a program\n\n1\n00:01.000 --> 00:03.000 align:left\n"
        "<v Anna>Good morning.</v>\n\n00:03.500 --> 00:05.000\n<v.loud Anna>How can\n<i>I</i> help?"
        "\n\n00:00:06.000 --> 00:00:09.000\n<v Dr. Ole>My lamp: it flickers.\n"
    )
    (folder / "b.srt").write_bytes(
        b"1\r\n00:00:01,000 --> 00:00:03,000\r\nAnna: Good morning.\r\n\r\n2\r\n"
        b"00:00:03,000 --> 00:00:05,000\r\nHow can I\r\nhelp?\r\n\r\n3\r\n"
        b"00:00:06,000 --> 00:00:09,000\r\nDr. Ole: My lamp: it flickers.\r\n"
    )
    (folder / "c.transcript.txt").write_text(
        "Call of May\n\n[00:00:01] Anna: Good morning.\n  How can I help?\n"
        "(1:02) - Dr. Ole: My lamp: it flickers.\n"
    )
    rows = rows_of(folder, "messages", "name")
    assert [row["name"] for row in rows] == ["a.vtt", "b.srt", "c.transcript.txt"]
    assert [row["messages"] for row in rows] == [turns] * 3
    (folder / "d.srt").write_text(f"{SECRET}\n")
    assert "without a text below a time mark" in problem_of(folder / "d.srt", "messages")


def _note(text: str, **changes: Any) -> dict[str, Any]:
    data = base64.b64encode(text.encode()).decode()
    attachment = {"contentType": "text/plain; charset=utf-8", "data": data}
    html = {"contentType": "text/html", "data": base64.b64encode(b"<p>x</p>").decode()}
    return {
        "resourceType": "DocumentReference",
        "id": "n1",
        "type": {"coding": [{"system": "http://loinc.org", "display": "Progress note"}]},
        "subject": {"reference": "Patient/9"},
        "date": "2026-01-05T09:12:33Z",
        "content": [{"attachment": html}, {"attachment": attachment}],
    } | changes


def test_the_notes_of_a_bulk_export(folder: Path) -> None:
    file = folder / "1.DocumentReference.ndjson"
    file.write_text(json.dumps(_note("Cough for\r\n3 days – no fever.")) + "\n\n")
    assert rows_of(file, "text", "patient") == [
        {"id": "n1", "type": "Progress note", "date": "2026-01-05T09:12:33Z",
         "patient": "Patient/9", "text": "Cough for\n3 days – no fever."}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (json.dumps({"resourceType": "Patient", "id": SECRET}), "is no DocumentReference"),
        (json.dumps(_note("x", content=[{"attachment": {"url": f"Binary/{SECRET}"}}])),
         "no attachment with a plain text"),
        (json.dumps(_note("x", content=[{"attachment": {"data": f"%{SECRET}"}}])),
         "wrong encoding"),
        ('{"resourceType": ' + SECRET, "is no record of FHIR"),
        ("[1]", "is no record of FHIR"),
    ],
)  # fmt: skip
def test_what_is_no_note_is_named_and_not_quoted(folder: Path, line: str, says: str) -> None:
    (folder / "notes.fhir.ndjson").write_text(json.dumps(_note("x")) + "\n" + line + "\n")
    assert says in problem_of(folder, "text")


@pytest.mark.parametrize("name", ["1.txt", "1.eml", "1.vtt", "1.transcript.txt", "1.fhir.ndjson"])
def test_a_column_that_a_format_lacks_is_named(folder: Path, name: str) -> None:
    (folder / name).write_text("Subject: x\n\nx\n")
    with pytest.raises(InputError, match="has no column 'stars', which --text names"):
        rows_of(folder, "stars")
