"""Tests the profile of a file with a shape: what it measures, what it costs, and its schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import sugarbush as sb
from sugarbush.cli.main import app
from sugarbush.data.schema import load_schema
from sugarbush.data.shapes.declaration import TextForm
from sugarbush.errors import ParamsError
from sugarbush.pipeline.opening import open_project
from sugarbush.privacy.accounting import epsilon
from sugarbush.privacy.events import DiscreteGaussian
from sugarbush.profiling.draft import draft_from_profile
from sugarbush.profiling.layout import MEASURES
from sugarbush.profiling.plan import SIZES, plan_profile
from sugarbush.profiling.requests import profile_of_project
from sugarbush.project.drafts import write_draft
from sugarbush.project.profiles import read_profile
from sugarbush.run.ledgers import profile_charges

RECORDS = 10_000  # of 6,000, the noise of a bin (4% of them) once gave conversations a turn of 2
TICKET: dict[str, Any] = {
    "type": "object",
    "required": ["note", "item"],
    "properties": {
        "item": {"enum": ["lamp", "chair"]},
        "note": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))


def rows() -> list[dict[str, Any]]:
    """Return invented records with a conversation, two text fields and a JSON record each.

    A subject has 2 to 4 words and a body 20 to 30; a conversation has 4 or 6 turns of 5 words.
    """
    rng = np.random.default_rng(1)
    found = []
    for number in range(RECORDS):
        body = " ".join(["parcel"] * int(rng.integers(20, 31)))
        turns = [f"the lamp came {number} late."] * int(rng.choice([4, 6]))
        found.append(
            {
                "subject": " ".join(["late"] * int(rng.integers(2, 5))),
                "body": body,
                "messages": [
                    {"role": ("user", "assistant")[i % 2], "content": text}
                    for i, text in enumerate(turns)
                ],
                "record": {"item": ("lamp", "chair")[number % 2], "note": body, "tags": []},
                "shop": ("north", "south")[number % 2],
            }
        )
    return found


def init(*options: str, columns: str = "shop") -> str:
    Path("data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows()))
    Path("ticket.json").write_text(json.dumps(TICKET))
    arguments = ["init", "project", "--from", "data.jsonl", "--profile", "--columns", columns]
    done = CliRunner().invoke(app, [*arguments, *options], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.slow
def test_a_profile_of_fields_releases_the_length_of_each() -> None:
    init("--text", "subject,body")
    schema = load_schema(Path("project/data/public/schema.yaml"))
    assert schema.text is not None and schema.text.fields == ("subject", "body")
    assert set(schema.text.words["subject"]) <= {1, 2, 3, 4, 5}
    assert all(15 <= words <= 50 for words in schema.text.words["body"])
    assert schema.attribute("shop").values in {("north", "south"), ("south", "north")}
    profile = read_profile(Path("project"))
    assert profile is not None and "parcel" in profile.term_counts()
    assert not {"subject", "body"} & set(profile.term_counts()), "labels are no words of a text"


@pytest.mark.slow
def test_a_profile_of_conversations_releases_turns_and_words_per_turn() -> None:
    said = init("--conversation", "messages")
    assert "words per turn" in said
    schema = load_schema(Path("project/data/public/schema.yaml"))
    assert schema.text is not None and schema.text.conversation is not None
    assert set(schema.text.conversation.turns) <= {3, 4, 5, 6, 7}
    assert set(schema.text.conversation.words_per_turn) <= {4, 5, 6}
    assert "speaker names" not in schema.style
    project = open_project(Path("project"))
    before = len(profile_charges(project))
    assert before and profile_of_project(project).lengths["turns"]
    assert len(profile_charges(project)) == before, "requested lengths make no new profile"
    # a draft in the finished project keeps the shape
    write_draft(project, subject="x", output=Path("new.yaml"), seed=1)
    assert load_schema(Path("new.yaml")).text == schema.text


@pytest.mark.slow
def test_a_profile_of_json_records_keeps_the_json_schema_and_its_attributes() -> None:
    init("--text", "record", "--json-schema", "ticket.json")
    schema = load_schema(Path("project/data/public/schema.yaml"))
    assert schema.text is not None and schema.text.json_schema == TICKET
    assert set(schema.text.words) == {"note", "tags"}
    assert schema.attribute("item").column == "record.item"
    assert schema.names[:2] == ("item", "shop")


@pytest.mark.slow
def test_a_profile_of_a_frame_with_a_shape() -> None:
    import pandas as pd

    frame = pd.DataFrame(rows())[["messages", "shop"]]
    privacy = sb.Privacy(epsilon=1, delta=1e-6, dataset="chats")
    text = {"conversation": {"alternate": True, "roles": ["user", "assistant"]}}
    profile = sb.profile(frame, text=text, privacy=privacy, epsilon=0.5)
    schema = profile.schema("chats")
    assert schema.text is not None and schema.text.conversation is not None
    assert schema.text.conversation.alternate and schema.text.conversation.turns
    assert [column.name for column in profile.values.columns] == ["shop"]
    profile.save("saved", subject="chats")
    assert load_schema(Path("saved/schema.yaml")) == schema
    with pytest.raises(ParamsError, match="text: needs exactly one of fields"):
        sb.profile(frame, text={}, privacy=privacy)


@pytest.mark.slow
def test_the_draft_never_requests_more_turns_than_the_largest_number() -> None:
    form = TextForm.model_validate({"conversation": {"max_turns": 5, "words_per_turn": [9]}})
    init("--conversation", "messages")
    profile = read_profile(Path("project"))
    assert profile is not None
    text = draft_from_profile(profile, subject="x", form=form).schema.text
    assert text is not None and text.conversation is not None
    assert max(text.conversation.turns) == 5
    assert text.conversation.words_per_turn == (9,), "the user's own numbers stay"


@pytest.mark.parametrize("columns", [0, 3])
@pytest.mark.parametrize("by_user", [False, True])
def test_more_lengths_are_paid_and_hardly_change_the_noise(columns: int, by_user: bool) -> None:
    def plan(measures: tuple[str, ...]) -> Any:
        return plan_profile(
            epsilon=0.5, delta=1e-6, slack=1e-8, columns=columns, by_user=by_user, measures=measures
        )

    plain, more = plan(MEASURES), plan((*MEASURES, "words of a", "words of b"))
    event = more.events[SIZES]
    assert isinstance(event, DiscreteGaussian)
    assert event.count == plain.events[SIZES].count + 2, "one bin of each further histogram"
    assert epsilon(more.events.values(), delta=1e-6) <= 0.5
    assert more.stddev(SIZES) == pytest.approx(plain.stddev(SIZES), rel=0.05)
