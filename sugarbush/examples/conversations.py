"""The spoken cases of the embedded example as a corpus of conversations, with its schema."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from sugarbush.examples.simulator.knowledge import SPOKEN_CHANNELS
from sugarbush.examples.simulator.utterances import parse, role_of

ROLES = ("agent", "customer")
_HEAD = """\
# The schema of the embedded example of conversations. It contains only what is known without
# reading the corpus.
"""


def conversation_of(record: dict[str, Any]) -> dict[str, Any] | None:
    """Return a record of the example with `messages` instead of its text, or None for a ticket."""
    if record["channel"] not in SPOKEN_CHANNELS:
        return None
    utterances = parse(record["text"])
    turns = groupby(utterances, key=lambda each: role_of(each.speaker, utterances))
    messages = [
        {"role": role.value, "content": " ".join(each.text for each in said)}
        for role, said in turns
    ]
    kept = {name: value for name, value in record.items() if name not in ("text", "spans")}
    return {**kept, "messages": messages}


def conversation_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the conversations, from the schema of the whole example."""
    attributes = [
        {**each, "values": [v for v in each["values"] if v in SPOKEN_CHANNELS]}
        if each["name"] == "channel"
        else each
        for each in schema["attributes"]
    ]
    conversation = {
        "column": "messages", "format": "openai", "roles": list(ROLES), "first": "agent",
        "alternate": True, "max_turns": 40,
    }  # fmt: skip
    return {
        "subject": "customer-service dialogues of an online shop",
        "text": {"conversation": conversation},
        "attributes": attributes,
    }


def conversation_schema_yaml(schema: dict[str, Any]) -> str:
    """Return the schema of the conversations as a file."""
    import yaml

    text: str = yaml.safe_dump(conversation_schema(schema), sort_keys=False, width=100)
    return _HEAD + text
