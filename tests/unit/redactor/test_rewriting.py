"""Redaction alone: files row by row, masks and surrogates, and one clear message for bad input."""

import json
import os
import re
import stat
import unicodedata

import pandas as pd
import pytest

import sugarbush as sb
from sugarbush.errors import InputError, ParamsError, StorageError
from sugarbush.redactor import rewriting
from sugarbush.redactor.rewriting import Rewriter, redact_file
from sugarbush.redactor.surrogates import with_surrogates
from sugarbush.training.crt.redact import TextSpan

KEY = bytes(32)


def rewriter():
    return Rewriter(("regex",), threshold=0.3, state=None)


@pytest.mark.parametrize("source", ["in.csv", "in.jsonl", "in.parquet"])
@pytest.mark.parametrize("output", ["out.csv", "out.jsonl", "out.parquet"])
def test_a_file_of_any_format_becomes_one_of_any_other(tmp_path, monkeypatch, source, output):
    monkeypatch.setattr(rewriting, "_ROWS", 2)
    frame = pd.DataFrame({"id": ["a", "b", "c"], "message": ["call 555-010-2345", "no", "x\ny"]})
    write = {"csv": frame.to_csv, "parquet": frame.to_parquet}.get(source[3:])
    if write is None:
        frame.to_json(tmp_path / source, orient="records", lines=True)
    else:
        write(tmp_path / source, index=False)
    done = []
    found = redact_file(
        tmp_path / source,
        tmp_path / output,
        rewriter(),
        text="message",
        keep=["id"],
        report=done.append,
    )
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet}.get(
        output[4:], lambda path: pd.read_json(path, lines=True)
    )
    made = read(tmp_path / output)
    assert list(made["message"]) == ["call <MASK>", "no", "x\ny"]
    assert list(made["id"]) == ["a", "b", "c"]
    spans = made["spans"][0]
    assert (json.loads(spans) if isinstance(spans, str) else spans)[0][:2] == [5, 17]
    assert found.total() == 1
    assert done == [2, 3]
    assert (tmp_path / output).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text\nw\xf6rld\n".encode("latin-1"), "line 2: is not UTF-8"),
        ("text\nwörld\n".encode("utf-16-le"), "is not UTF-8"),
        (b"note\nhello\n", r"has no column 'text', which --text names$"),
        (b"", "has no rows"),
        (b'text,n\n"open,1\n', "is not csv"),
    ],
)
def test_bad_input_is_named_and_leaves_no_output(tmp_path, content, message):
    (tmp_path / "in.csv").write_bytes(content)
    with pytest.raises(InputError, match=message):
        redact_file(tmp_path / "in.csv", tmp_path / "out.parquet", rewriter(), text="text")
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


@pytest.mark.parametrize("output", ["out.csv", "out.jsonl", "out.parquet"])
def test_half_of_a_utf16_pair_is_refused_by_row(tmp_path, output):
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n{"text": "b \\ud800"}\n')
    with pytest.raises(InputError, match="row 2: column 'text' has half a character"):
        redact_file(tmp_path / "in.jsonl", tmp_path / output, rewriter(), text="text")


def test_a_mask_of_the_input_is_counted_apart(tmp_path):
    (tmp_path / "in.csv").write_text("text\n<MASK> or 555-010-2345\n")
    found = redact_file(tmp_path / "in.csv", tmp_path / "out.csv", rewriter(), text="text")
    assert found == {"masked before": 1, "PHONE": 1}


def test_an_output_of_an_unknown_format_is_refused(tmp_path):
    (tmp_path / "in.csv").write_text("text\nhello\n")
    with pytest.raises(ParamsError, match=r"Name a \.parquet"):
        redact_file(tmp_path / "in.csv", tmp_path / "out.xlsx", rewriter(), text="text")


@pytest.mark.slow
def test_a_line_of_a_megabyte_is_redacted(tmp_path):
    line = "word " * 200_000 + "555-010-2345"
    (tmp_path / "in.csv").write_text(f"text\n{line}\n")
    found = redact_file(tmp_path / "in.csv", tmp_path / "out.jsonl", rewriter(), text="text")
    assert found.total() == 1
    assert json.loads((tmp_path / "out.jsonl").read_text())["text"].endswith("word <MASK>")


@pytest.mark.parametrize(
    "before",
    ["שלום ", "مرحبا ", "e\u0301\u0302 ", "\U0001f600\U0001f469\u200d\U0001f4bb ", "\u202e\u200f"],
)
def test_offsets_are_those_of_python_strings(before):
    text = f"{before}call 555-010-2345 \u0301now"
    made = sb.redact([text], detectors=["regex"])
    ((span,),) = made.spans
    assert text[slice(*span)] == "555-010-2345"
    assert made.texts == (text.replace("555-010-2345", "<MASK>"),)
    assert made.labels == (("PHONE",),)
    assert made.found == {"PHONE": 1}


def test_one_person_keeps_one_surrogate_within_a_text_and_not_between_texts():
    text = "Anna Berg called. ANNA, then Berg and anna."
    spans = [
        TextSpan(m.start(), m.end(), "NAME") for m in re.finditer(r"(?i)anna berg|anna|berg", text)
    ]
    made = with_surrogates(text, spans, key=KEY, record="1")
    first, last = re.match(r"(\w+) (\w+) called", made).groups()
    assert made == f"{first} {last} called. {first.upper()}, then {last} and {first.lower()}."
    assert not {first, last} & {"Anna", "Berg"}
    assert with_surrogates(text, spans, key=KEY, record="1") == made
    assert with_surrogates(text, spans, key=KEY, record="2") != made
    assert with_surrogates(text, spans, key=b"k" * 32, record="1") != made


@pytest.mark.parametrize("label", ["PATIENT", "CAPITALS", "FIRST_NAME", "B-PER", "HANDLE"])
def test_every_label_of_a_person_keeps_the_person(label):
    """Detectors may give different labels to one person."""
    text = "ANNA BERG is Anna Berg’s name, or @anna"
    spans = [TextSpan(0, 9, label), TextSpan(13, 24, "NAME"), TextSpan(34, 39, label)]
    made = with_surrogates(text, spans, key=KEY, record="1")
    first, last = re.search(r"is (\w+) (\w+)’s name", made).groups()
    assert made == f"{first.upper()} {last.upper()} is {first} {last}’s name, or @{first.lower()}"


def test_a_surrogate_has_the_format_of_its_secret_and_never_equals_it():
    for number in range(50):
        made = with_surrogates("AB-12", [TextSpan(0, 5, "NUMBER")], key=KEY, record=str(number))
        assert re.fullmatch(r"[A-Z]{2}-\d{2}", made)
        assert made != "AB-12"


@pytest.mark.parametrize("number", ["555-010-2345", "4111 1111 1111 1111", "۰۹۱۲۳۴۵۶۷۸۹", "Ⅳ½²"])
@pytest.mark.parametrize("label", ["NAME", "ADDRESS", "PHONE", ""])
def test_no_number_survives_in_a_span_that_starts_with_a_name(number, label):
    """Spans with only blanks between them are one span, with the label of the first."""
    text = f"Anna Berg {number} rang"
    made = with_surrogates(text, [TextSpan(0, len(text) - 5, label)], key=KEY, record="1")
    assert made.endswith(" rang")
    assert number not in made and "Anna" not in made and "Berg" not in made


def test_surrogates_of_a_name_beside_a_number(tmp_path):
    text = "Call Anna Smith 555-010-2345 or Anna."
    made = sb.redact([text], detectors=["regex"], surrogates=True, state=tmp_path)
    assert made.labels == (("NAME",),)
    assert not re.search("Smith|555-010|010-2345", made.texts[0])


@pytest.mark.parametrize("label", ["NAME", "PHONE"])
def test_no_vowel_sign_or_accent_of_a_secret_survives(label):
    text = "मेरा नाम अनीता, Rene\u0301e, דָּנָה"
    made = with_surrogates(text, [TextSpan(0, len(text), label)], key=KEY, record="1")
    assert not any(unicodedata.category(char).startswith("M") for char in made)


def test_a_mask_of_the_input_has_no_surrogate(tmp_path):
    text = "<MASK> <MASK>, 555-010-2345"
    made = sb.redact([text], detectors=["regex"], surrogates=True, state=tmp_path)
    assert re.fullmatch(r"<MASK> <MASK>, \d{3}-\d{3}-\d{4}", made.texts[0])


def test_surrogates_are_the_same_in_another_call(tmp_path):
    one, other = (
        sb.redact(["I am Ada Lane."], detectors=["regex"], surrogates=True, state=tmp_path).texts
        for _ in range(2)
    )
    assert one == other != ("I am Ada Lane.",)


def test_no_word_of_a_name_is_left_and_a_person_stays_one():
    """Surrogates also start with a J, so each word is tried again, and not only the whole name."""
    spans = [TextSpan(0, 8, "NAME"), TextSpan(10, 11, "NAME")]
    for number in range(200):
        made = with_surrogates("J. Smith, J", spans, key=KEY, record=str(number))
        first, last, later = re.findall(r"\w+", made)
        assert first != "J"
        assert last != "Smith"
        assert later == first


def test_the_surrogate_of_a_spelled_number_does_not_show_the_lengths_of_its_words():
    text = "four one nine seven"
    made = {
        tuple(map(len, with_surrogates(text, [TextSpan(0, 19, k)], key=KEY, record=str(n)).split()))
        for n in range(20)
        for k in ("NUMBER", "PHONE")
    }
    assert len(made) > 10


@pytest.mark.parametrize("secret", ["Ⓐⓝⓝⓐ Berg", "🅰nna Berg", "🇦nna Berg"])
@pytest.mark.parametrize("label", ["NAME", "NUMBER"])
def test_letters_that_are_symbols_do_not_survive(secret, label):
    made = with_surrogates(secret, [TextSpan(0, len(secret), label)], key=KEY, record="1")
    assert not set(secret) & set("Ⓐⓝⓐ🅰🇦") & set(made)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_redaction_in_a_shared_folder_writes_through_no_file_of_another_user(tmp_path, kind):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (tmp_path / "in.csv").write_text("text\ncall 555-010-2345\n")
    stolen = shared / "stolen"
    stolen.touch()
    stolen.chmod(0o666)
    output = shared / f"out.{kind}"
    planted = shared / f".out.{kind}.{os.getpid()}"  # the name of earlier versions
    planted.symlink_to(stolen)
    output.symlink_to(stolen)
    if os.geteuid() == 0:
        for path in (shared, stolen, planted, output):
            os.chown(path, 12345, 12345, follow_symlinks=False)
    redact_file(tmp_path / "in.csv", output, rewriter(), text="text")
    assert stolen.read_bytes() == b""
    status = output.lstat()
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (os.geteuid(), 0o600)
    assert stat.S_ISREG(status.st_mode)


def test_redacted_text_never_reaches_a_file_that_replaced_the_temporary_file(tmp_path):
    (tmp_path / "in.csv").write_text("text\ncall 555-010-2345\n")
    output, stolen = tmp_path / "out.csv", tmp_path / "stolen"
    stolen.touch()

    def replace(rows):
        (temporary,) = tmp_path.glob(".out.csv.*")
        stolen.replace(temporary)

    with pytest.raises(StorageError, match="replaced"):
        redact_file(tmp_path / "in.csv", output, rewriter(), text="text", report=replace)
    assert not output.exists()
    assert all(path.name == "in.csv" or path.read_bytes() == b"" for path in tmp_path.iterdir())


@pytest.mark.parametrize("label", ["ORDER_NUMBER", "PIN"])
@pytest.mark.parametrize("secret", ["7", "q", "Q", "b2", "Seven", "\uff17", "\uff51", "\u2460"])
def test_no_surrogate_equals_its_secret_in_any_case(secret, label):
    """A short secret has few surrogates, so chance alone would return it."""
    for record in range(1500):
        made = with_surrogates(
            secret, [TextSpan(0, len(secret), label)], key=KEY, record=str(record)
        )
        plain = (unicodedata.normalize("NFKC", one).casefold() for one in (made, secret))
        assert next(plain) != next(plain)
