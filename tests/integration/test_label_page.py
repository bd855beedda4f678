"""The label page: used by keyboard in a headless Chromium, and closed to everybody else."""

from __future__ import annotations

import http.client
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sugarbush.errors import InputError, ParamsError, StorageError
from sugarbush.redactor.labels import open_labels, use_of
from sugarbush.redactor.page import LabelServer
from sugarbush.training.crt.patterns import RegexDetector
from sugarbush.training.crt.recall import load_labelled
from sugarbush.training.crt.redact import Policy
from tests.integration.browser import chromium, open_page

TEXTS = [
    "Call Ada Lovelace at 555-010-1234 today.",
    "\U0001f600 שלום e\u0301 Zoë, naïve \U0001f469\u200d\U0001f4bb at 12 Elm Street",
    "Nothing to see here.",
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LabelServer]:
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    labels = open_labels(
        source,
        tmp_path / "private" / "labels.jsonl",
        text="text",
        count=10,
        policy=Policy([RegexDetector()]),
    )
    with LabelServer(labels) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def asked(server: LabelServer, path: str, *, body: str | None = None, **headers: str) -> int:
    """The status of a request with the given headers."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
    method = "GET" if body is None else "POST"
    if body is not None:
        headers = {"Origin": f"http://127.0.0.1:{server.server_port}"} | headers
    connection.request(method, path, body, headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_a_request_needs_the_token_the_host_and_the_origin_of_this_start(
    server: LabelServer,
) -> None:
    text = f"/{server.token}/texts/0"
    json_type = {"Content-Type": "application/json"}
    assert asked(server, text) == 200
    assert asked(server, f"/{'0' * 48}/texts/0") == 403
    assert asked(server, "/texts/0") == asked(server, "/") == 403
    assert asked(server, text, Host="attacker.example") == 403
    assert asked(server, text, Origin="http://attacker.example") == 403
    assert asked(server, text, body='{"spans": []}') == 400  # a form can send no JSON
    assert asked(server, text, body='{"spans": []}', **json_type) == 200
    foreign = {"Origin": "http://attacker.example", **json_type}
    assert asked(server, text, body='{"spans": []}', **foreign) == 403
    assert asked(server, text, body='{"spans": []}', Origin="null", **json_type) == 403
    assert asked(server, f"/{server.token}/texts/99") == 400
    assert asked(server, f"/{server.token}/../key") == 404
    outside = '{"spans": [{"start": 0, "end": 999, "label": "NAME"}]}'
    assert asked(server, text, body=outside, **json_type) == 400
    assert asked(server, text, body="[" * 100_000, **json_type) == 400
    unlabelled = '{"spans": [{"start": 0, "end": 1, "label": null}]}'
    assert asked(server, text, body=unlabelled, **json_type) == 400
    assert server.server_address[0] == "127.0.0.1"


def test_labels_are_private_and_continue(server: LabelServer, tmp_path: Path) -> None:
    labels = server.labels
    labels.label(0, [{"start": 0, "end": 4, "label": "NAME"}])
    assert labels.path.stat().st_mode & 0o777 == 0o600
    assert labels.path.parent.stat().st_mode & 0o777 == 0o700
    again = open_labels(tmp_path / "in.jsonl", labels.path, text="text", count=10, policy=None)
    assert again.spans == labels.spans
    with pytest.raises(InputError, match="overlaps"):
        labels.label(
            1,
            [{"start": 0, "end": 4, "label": "NAME"}, {"start": 2, "end": 6, "label": "PHONE"}],
        )


def test_a_second_page_on_the_same_file_is_refused(server: LabelServer) -> None:
    """Each page would overwrite the labels of the other page."""
    with pytest.raises(ParamsError, match="is open in another label page"):
        LabelServer(server.labels)


def test_a_label_that_is_not_written_does_not_count(
    server: LabelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.labels.label(0, [])

    def fail(self: Path, other: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(StorageError):
            server.labels.label(1, [])
    assert server.labels.page_entry(1)["done"] == 1


def test_an_error_prints_no_text_and_no_traceback(
    server: LabelServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(number: int) -> None:
        raise RuntimeError(TEXTS[number])

    monkeypatch.setattr(server.labels, "page_entry", fail)
    with pytest.raises(http.client.RemoteDisconnected):
        asked(server, f"/{server.token}/texts/0")
    monkeypatch.setattr(server.labels, "label", lambda number, spans: time.sleep(0.3))
    body = json.dumps({"spans": ["x" * 2**20]})
    with socket.create_connection(("127.0.0.1", server.server_port)) as connection:
        address = f"127.0.0.1:{server.server_port}"
        host = f"Host: {address}\r\nOrigin: http://{address}\r\nContent-Type: application/json"
        head = f"POST /{server.token}/texts/0 HTTP/1.1\r\n{host}\r\nContent-Length: {len(body)}"
        connection.sendall(f"{head}\r\n\r\n{body}".encode())
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    time.sleep(0.6)
    assert capsys.readouterr().err == "label page: RuntimeError\n"


def test_labels_in_a_shared_folder_are_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(ParamsError, match="others can read"):
        open_labels(tmp_path / "in.csv", tmp_path / "l.jsonl", text="text", count=1, policy=None)


def test_half_a_character_is_refused_before_anything_is_labelled(tmp_path: Path) -> None:
    rows = ({"text": "call Bob"}, {"text": "Ada \ud800 Lane"})
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    labels = tmp_path / "own" / "l.jsonl"
    with pytest.raises(InputError, match="row 2: column 'text' has half a character") as refused:
        open_labels(tmp_path / "in.jsonl", labels, text="text", count=2, policy=None)
    assert "Ada" not in str(refused.value)


def test_texts_that_measure_have_no_suggestions(server: LabelServer) -> None:
    for number, text in enumerate(server.labels.texts):
        shown = server.labels.page_entry(number)
        if use_of(text) == "measure":
            assert shown["spans"] == []
        elif "555" in text:
            assert shown["spans"]


def test_a_small_sample_of_a_large_file_has_texts_of_both_uses(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({"text": f"text {i}"}) + "\n" for i in range(4000)))
    labels = open_labels(source, tmp_path / "p" / "l.jsonl", text="text", count=200, policy=None)
    training = sum(use_of(text) == "train" for text in labels.texts)
    assert 60 < training < 140


@pytest.mark.slow
@pytest.mark.skipif(chromium() is None, reason="no Chromium")
def test_it_is_used_by_keyboard_alone(server: LabelServer, tmp_path: Path) -> None:
    number = next(i for i, text in enumerate(server.labels.texts) if "Zoë" in text)
    with open_page(tmp_path / "profile") as page:
        page.call("Page.navigate", url=server.url)
        waited(page, "typeof state !== 'undefined' && state !== null")
        for _ in range(number):
            page.press("n")
            time.sleep(0.2)
        waited(page, f"state && state.number === {number}")
        page.evaluate("spans = []; draw()")
        names = page.evaluate(
            "words.map(w => Array.from(state.text).slice(w.start, w.end).join(''))"
        )
        for _ in range(names.index("Zoë")):
            page.press("ArrowRight")
        page.press("1")
        page.view(width=900)
        page.screenshot(tmp_path / "labels.png")
        held = {"type": "keyDown", "key": "Enter", "code": "Enter", "autoRepeat": True}
        page.call("Input.dispatchKeyEvent", **held)  # a held key labels no text
        time.sleep(0.5)
        assert page.evaluate("state.number") == number
        assert not server.labels.spans
        page.press("Enter")
        waited(page, "at('message').textContent.length > 0")
        page.press("q")
        waited(page, "document.body.textContent.includes('Finished')")
        assert not page.problems
        assert all(url.startswith((server.url, "data:")) for url in page.requests)
    (one,) = load_labelled(server.labels.path, text_column="text")
    ((start, end, label),) = one.spans
    assert (one.text[start:end], label) == ("Zoë", "NAME")


def waited(page: object, expression: str) -> None:
    """Wait until an expression is true in the page."""
    while not page.evaluate(expression):  # type: ignore[attr-defined]
        time.sleep(0.05)


def test_the_command_line_of_the_browser_has_no_token(
    server: LabelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    server.open_in_browser()
    (address,) = opened
    file = Path(address.removeprefix("file://"))
    assert server.token not in address
    assert server.url in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert asked(server, f"/{'0' * 48}/") == 403
    assert file.exists()
    assert asked(server, f"/{server.token}/") == 200
    assert not file.exists()


@pytest.mark.parametrize("length", ["abc", "-1", "9" * 5000])
def test_a_length_that_is_no_number_is_refused(server: LabelServer, length: str) -> None:
    headers = {"Content-Type": "application/json", "Content-Length": length}
    assert asked(server, f"/{server.token}/texts/0", body="{}", **headers) == 400


def test_a_label_that_cannot_be_written_does_not_stop_the_next(server: LabelServer) -> None:
    with pytest.raises(InputError, match="half a character"):
        server.labels.label(0, [{"start": 0, "end": 1, "label": "\ud800"}])
    server.labels.label(1, [])
    assert server.labels.path.exists()
