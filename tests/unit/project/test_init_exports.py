"""Files as programs export them: `init` reads each form right, or says in one message what to do.

All contents are invented. Each case names the options of `init`, and what the records are: their
texts, or a part of the message.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sugarbush.cli.main import app
from sugarbush.data.records import usable, wanted_columns
from sugarbush.data.remote import source_of
from sugarbush.data.schema import load_schema
from sugarbush.errors import InputError
from sugarbush.pipeline.opening import open_project
from sugarbush.preparation.corpus import file_batches
from sugarbush.project.check import check_header_rows
from sugarbush.run.settings import load_params
from tests.unit.data.formats import xlsx

SECRET = "sesame"
LAMP, CHAIR = f"The lamp flickers {SECRET}.", "The chair, sadly, is late."
TALK = [{"role": "user", "content": LAMP}, {"role": "assistant", "content": "We send one."}]
SAID = f"User: {LAMP}\nAssistant: We send one."


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _write(name: str, content: Any) -> None:
    if name.endswith(".xlsx"):
        xlsx(Path(name), content)
    elif isinstance(content, bytes):
        Path(name).write_bytes(content)
    elif isinstance(content, str):
        Path(name).write_text(content, encoding="utf-8", newline="")
    elif name.endswith(".jsonl"):
        Path(name).write_text("\n".join(map(json.dumps, content)))
    elif name.endswith(".json"):
        Path(name).write_text(json.dumps(content, indent=1))
    else:
        with Path(name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(content)


def _records(name: str, options: Sequence[str]) -> tuple[list[str], list[str], Counter[str]]:
    """Make a project, and return the texts and ids of its records, and what is left out."""
    done = CliRunner().invoke(app, ["init", "p", "--from", name, *options])
    assert SECRET not in done.output
    if done.exit_code != 0:
        raise InputError(" ".join(f"{done.output} {done.exception}".split()))
    base, params = Path("p"), load_params(Path("p/params.yaml")).prepare
    schema = load_schema(base / params.schema_)
    omitted, records = Counter[str](), []
    path = source_of(base, params.file, setting="prepare.file")
    for source, rows in file_batches(path, params, wanted_columns(params, schema, private=True)):
        found, _ = usable(
            rows, params, schema, source=source, setting="prepare.file", omitted=omitted
        )
        records += found
    return [r.text for r in records], [r.id for r in records], omitted


QUALTRICS = [
    ["StartDate", "EndDate", "Status", "Progress", "ResponseId", "Q1", "Q2_TEXT"],
    ["Start Date", "End Date", "Response Type", "Progress", "Response ID", "How satisfied are you?",
     "What should we improve, in your words?"],
    [f'{{"ImportId":"{name}"}}' for name in
     ("startDate", "endDate", "status", "progress", "_recordId", "QID1", "QID2_TEXT")],
    ["2026-01-05 09:12:33", "2026-01-05 09:14:00", "IP Address", "100", "R_1aB", "Very", LAMP],
    ["2026-01-06 10:00:01", "2026-01-06 10:03:00", "IP Address", "100", "R_2cD", "Hardly", CHAIR],
]  # fmt: skip
SURVEYMONKEY = [
    ["Respondent ID", "Collector ID", "Start Date", "Which did you buy?", "",
     "Any comments, please?"],
    ["", "", "", "Lamp", "Chair", "Open-Ended Response"],
    ["118001", "4001", "01/05/2026 09:12:33 AM", "Lamp", "", LAMP],
    ["118002", "4001", "01/06/2026 10:00:01 AM", "", "Chair", CHAIR],
]  # fmt: skip
GOOGLE_FORM = [
    ["Timestamp", "How happy are you? [Delivery]", "What, if anything, could we improve?"],
    ["2026/01/05 9:12:33 AM GMT+1", "4", LAMP],
    ["2026/01/06 10:00:01 AM GMT+1", "2", CHAIR],
]
LAYOUT = [
    ["Complaints of 2026", None, None, None],
    [None, None, None, None],
    [None, "no", "complaint", "stars"],
    [None, 1, LAMP, 2],
    [None, 2, CHAIR, 4],
]
ZENDESK = {
    "tickets": [
        {"id": 35436, "subject": "Help", "description": LAMP, "status": "open", "tags": ["a"],
         "via": {"channel": "web"}, "custom_fields": [{"id": 1, "value": None}]},
        {"id": 35437, "subject": "Chair", "description": CHAIR, "status": "closed", "tags": []},
    ],
    "users": [{"id": 9, "name": "Vera"}],
    "count": 2,
    "next_page": None,
}  # fmt: skip
INTERCOM = {
    "type": "conversation.list",
    "pages": {"type": "pages", "page": 1},
    "conversations": [
        {"type": "conversation", "id": "147", "source": {"type": "x", "body": "<p>x</p>"},
         "conversation_parts": {"type": "list", "conversation_parts": [
             {"part_type": "comment", "body": LAMP, "author": {"type": "user", "id": "u1"}},
             {"part_type": "assignment", "body": None, "author": {"type": "bot", "id": "b"}},
             {"part_type": "comment", "body": "We send one.", "author": {"type": "admin", "id": 1}},
         ]}},
    ],
}  # fmt: skip
FRESHDESK = [
    {"helpdesk_ticket": {"display_id": 1, "description": LAMP, "notes": [{"note": {"body": "x"}}]}},
    {"helpdesk_ticket": {"display_id": 2, "description": CHAIR, "notes": []}},
]
SLACK = [
    {"type": "message", "user": "U1", "text": "We send one.", "ts": "1767604400.000200",
     "thread_ts": "1767604300.000100", "blocks": []},
    {"type": "message", "user": "U2", "text": LAMP, "ts": "1767604300.000100",
     "thread_ts": "1767604300.000100", "client_msg_id": "x"},
    {"type": "message", "subtype": "channel_join", "user": "U3", "text": "joined",
     "ts": "1767604350.000100", "thread_ts": "1767604300.000100"},
]  # fmt: skip
TELEGRAM = {
    "about": "Here is the data you requested.",
    "chats": {"about": "", "list": [
        {"name": "Shop", "type": "personal_chat", "id": 4, "messages": [
            {"id": 1, "type": "service", "actor": "Vera", "action": "phone_call", "text": ""},
            {"id": 2, "type": "message", "date": "2026-01-05T09:12:33", "from": "Vera",
             "from_id": "user9", "text": ["See ", {"type": "link", "text": "example.org"}, "."]},
            {"id": 3, "type": "message", "from": "Shop", "text": "We send one."},
        ]},
    ]},
}  # fmt: skip
HELP_DESK = [
    ["ticket_id", "created_at", "author_type", "body", "product"],
    ["71", "2026-01-05 10:12:33", "agent", "We send one.", "lamp"],
    ["72", "2026-01-05 10:00:00", "customer", CHAIR, "chair"],
    ["71", "2026-01-05 09:12:33", "customer", LAMP, "lamp"],
    ["72", "2026-01-05 10:00:01", "system", "Ticket closed", ""],
]
OPENAI = [
    {"messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": LAMP, "name": "vera"},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "42"},
        {"role": "assistant", "content": "We send one.", "weight": 0},
    ], "tools": [], "parallel_tool_calls": False},
]  # fmt: skip
VISION = [
    {"messages": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": LAMP},
                                     {"type": "image_url", "image_url": {"url": "data:x"}}]},
        {"role": "assistant", "content": "We send one.", "refusal": None, "tool_calls": None},
    ]},
]  # fmt: skip
SHAREGPT = [
    {"id": "a1", "system": "Be brief.", "conversations": [
        {"from": "human", "value": LAMP}, {"from": "gpt", "value": "We send one."}]},
]  # fmt: skip
LMSYS = [
    {"question_id": "58", "model_a": "m", "model_b": "n", "winner": "a", "turn": 1,
     "conversation_a": TALK, "conversation_b": [{"role": "user", "content": "x"}] * 2},
]  # fmt: skip
ANTHROPIC = [
    {"messages": [
        {"role": "user", "content": [{"type": "text", "text": LAMP}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "?", "signature": "s"},
                                          {"type": "text", "text": "We send one."},
                                          {"type": "tool_use", "id": "t", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]},
    ]},
]  # fmt: skip
TWO = [LAMP, CHAIR]
CHAT = ("--conversation", "messages", "--roles", "user,assistant", "--other-turns", "drop")
THREAD = ("--thread", "ticket_id", "--speaker", "author_type", "--text", "body",
          "--time", "created_at", "--roles", "customer,agent")  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "options", "expected"),
    [
        ("q.csv", QUALTRICS, ("--text", "Q2_TEXT"), "set --header-rows to 3"),
        ("q.csv", QUALTRICS, ("--text", "Q2_TEXT", "--header-rows", "3"), TWO),
        ("q.csv", QUALTRICS, ("--text", "What should we improve, in your words?",
                              "--header-rows", "3", "--id", "Response ID"), TWO),
        ("q.tsv", "\n".join("\t".join(r) for r in QUALTRICS).encode("utf-16"),
         ("--text", "Q2_TEXT", "--header-rows", "3"), TWO),
        ("s.csv", SURVEYMONKEY, ("--text", "Any comments, please?"), "set --header-rows to 2"),
        ("s.csv", SURVEYMONKEY, ("--text", "Any comments, please?", "--header-rows", "2"), TWO),
        ("s.xlsx", {"Sheet": SURVEYMONKEY},
         ("--text", "Any comments, please?", "--header-rows", "2"), TWO),
        ("g.csv", GOOGLE_FORM, ("--text", "What, if anything, could we improve?"), TWO),
        ("g.csv", GOOGLE_FORM, ("--text", "What"), "has no column 'What'"),
        ("l.xlsx", {"data": LAYOUT}, ("--text", "complaint"), "set --header-rows to 3"),
        ("l.xlsx", {"data": LAYOUT}, ("--text", "complaint", "--header-rows", "3"), TWO),
        ("l.xlsx", {"notes": [["read me"]], "data": LAYOUT, "old": [["x"]]},
         ("--text", "complaint", "--header-rows", "3"), TWO),
        ("l.xlsx", {"2025": LAYOUT, "2026": LAYOUT},
         ("--text", "complaint", "--header-rows", "3"), "Name one of them in --table"),
        ("l.xlsx", {"2025": LAYOUT[:-1], "2026": LAYOUT},
         ("--text", "complaint", "--header-rows", "3", "--table", "2026"), TWO),
        ("n.xlsx", {"data": [*LAYOUT, [], [None, "Source: shop"]]},
         ("--text", "complaint", "--header-rows", "3"), "row 7: has no text in column 'complaint'"),
        ("n.xlsx", {"data": [*LAYOUT, [], [None, "Source: shop"]]},
         ("--text", "complaint", "--header-rows", "3", "-S", "prepare.bad_rows=drop"), TWO),
        ("a.csv", f"\ufeffsep=;\r\nno;text\r\n1;{LAMP}\r\n2;{CHAIR}\r\n", (), TWO),
        ("a.csv", f"# exported 2026\r\n# by shop\r\nno;text\r\n1;{LAMP}\r\n2;{CHAIR}\r\n",
         ("--text", "text"), "set --header-rows to 3"),
        ("a.csv", f"# exported 2026\r\n# by shop\r\nno;text\r\n1;{LAMP}\r\n2;{CHAIR}\r\n",
         ("--text", "text", "--header-rows", "3"), TWO),
        ("z.json", ZENDESK, ("--text", "description", "--id", "id"), TWO),
        ("z.json", ZENDESK, ("--text", "body"), "2 lists may be the records: tickets, users"),
        ("z.json", ZENDESK, ("--text", "description", "--records", "cases"),
         "has no rows|no list of records at cases"),
        ("two.json", {"open": ZENDESK["tickets"], "x": {"closed": ZENDESK["tickets"]}},
         ("--text", "description"), r"open, x.closed. Name the list of the records with --records"),
        ("two.json", {"open": [], "x": {"closed": ZENDESK["tickets"]}},
         ("--text", "description", "--records", "x.closed"), TWO),
        ("i.json", INTERCOM,
         ("--conversation", "conversation_parts.conversation_parts", "--roles", "user,admin",
          "--turn-keys", "author.type,body", "--other-turns", "drop"),
         [f"User: {LAMP}\nAdmin: We send one."]),
        ("f.json", FRESHDESK, ("--text", "helpdesk_ticket.description"), TWO),
        ("k.json", SLACK, ("--thread", "thread_ts", "--time", "ts", "--speaker", "user", "--text",
                           "text", "--roles", "U1,U2", "--other-turns", "drop"),
         [f"U2: {LAMP}\nU1: We send one."]),
        ("t.json", TELEGRAM,
         ("--records", "chats.list", "--conversation", "messages", "--turn-keys", "from,text",
          "--roles", "Shop,customer", "--other-turns", "customer"),
         ["Customer: See example.org.\nShop: We send one."]),
        ("h.csv", HELP_DESK, (*THREAD, "--other-turns", "drop"),
         [f"Customer: {LAMP}\nAgent: We send one.",
          f"Customer: {CHAIR}"]),
        ("h.csv", HELP_DESK, THREAD, "turn 2 has a role that is not in roles"),
        ("h.csv", HELP_DESK, THREAD[:-2], "needs --speaker, the column of the"),
        ("h.csv", HELP_DESK, (*THREAD, "--id", "created_at"), "Leave out --id"),
        ("h.csv", HELP_DESK, (*THREAD, "--user", "author_type"), "several users in column"),
        ("o.jsonl", OPENAI, CHAT, [SAID]),
        ("o.jsonl", OPENAI, CHAT[:4], "--other-turns"),
        ("v.jsonl", VISION, CHAT, [SAID]),
        ("c.jsonl", ANTHROPIC, CHAT, [SAID]),
        ("r.jsonl", SHAREGPT, (), [f"Human: {LAMP}\nGpt: We send one."]),
        ("y.jsonl", LMSYS, ("--conversation", "conversation_a"), [SAID]),
        ("one.json", {"messages": TALK, "id": "c1"}, (), [SAID]),
        ("e.json", {"data": {"conversations": [{"messages": TALK}]}}, (), [SAID]),
        ("b.json", '{"tickets": [{"text": "a"}, {"text": ' + SECRET, ("--text", "text",
         "--records", "tickets"), "row 2: is not JSON"),
    ],
)  # fmt: skip
def test_an_export_is_read_right_or_refused_with_what_to_do(
    name: str, content: Any, options: Sequence[str], expected: list[str] | str
) -> None:
    _write(name, content)
    if isinstance(expected, str):
        with pytest.raises(InputError, match=expected) as error:
            _records(name, options)
        assert SECRET not in str(error.value)
    else:
        assert _records(name, options)[0] == expected


def test_the_id_of_a_conversation_is_its_thread() -> None:
    _write("h.csv", HELP_DESK)
    texts, ids, omitted = _records("h.csv", (*THREAD, "--other-turns", "drop"))
    assert ids == ["71", "72"] and len(texts) == 2
    assert omitted["turns of other speakers: dropped"] == 1
    schema = Path("p/data/public/schema.yaml").read_text()
    assert "product" in schema and "created_at" not in schema


def test_init_says_where_it_found_the_records() -> None:
    _write("z.json", ZENDESK)
    done = CliRunner().invoke(app, ["init", "p", "--from", "z.json", "--text", "description"])
    assert "The records are the list tickets" in " ".join(done.output.split())
    assert load_params(Path("p/params.yaml")).prepare.table == "tickets"


def test_check_refuses_header_rows_that_settings_by_hand_leave_out() -> None:
    _write("q.csv", QUALTRICS)
    _records("q.csv", ("--text", "Q2_TEXT", "--header-rows", "3"))
    settings = Path("p/params.yaml")
    check_header_rows(open_project(Path("p")))
    settings.write_text(settings.read_text().replace("header_rows: 3", "header_rows: null"))
    with pytest.raises(InputError, match=r"set prepare\.header_rows to 3"):
        check_header_rows(open_project(Path("p")))
