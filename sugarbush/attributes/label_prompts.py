"""Writes the prompt that asks for a text's attributes, and parses the answer.

The answer is a JSON object. A JSON schema lists the allowed values of each attribute. A missing or
unknown value becomes `other`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sugarbush.data.schema import Attribute
from sugarbush.errors import ParamsError
from sugarbush.generators.control_tokens import final_text
from sugarbush.generators.prompts import estimate_tokens


def label_prompt(text: str, attributes: Sequence[Attribute], *, room: int) -> str:
    """Write the prompt for `text`, with at most `room` tokens. The end of a long text is cut."""
    lines = [
        f"- {attribute.name}{f' ({attribute.description})' if attribute.description else ''}: "
        + ", ".join(_with_description(value, attribute) for value in attribute.domain)
        for attribute in attributes
    ]
    form = ", ".join(f"{json.dumps(attribute.name)}: ..." for attribute in attributes)
    head = (
        "Read the text below and choose for each attribute the value that fits it.\n\n"
        + "\n".join(lines)
        + "\n\nThe last value of each is for whatever no other value fits.\n\nText:\n"
    )
    tail = (
        f"\n\n(End of the text.) Answer with one JSON object, {{{form}}}, each value one of those "
        "listed for its attribute, and nothing else."
    )
    room -= estimate_tokens(head) + estimate_tokens(tail)
    if room <= 0:
        raise ParamsError(
            "params.yaml: the schema's attributes and values fill the model's context, so no text "
            "fits. Raise extract_metadata.llm.context_tokens, or lower max_tokens"
        )
    while estimate_tokens(text) > room:
        text = text[: len(text) * room // estimate_tokens(text)]
    return head + text + tail


def _with_description(value: str, attribute: Attribute) -> str:
    quoted, description = json.dumps(value, ensure_ascii=False), attribute.descriptions.get(value)
    return f"{quoted} ({description})" if description else quoted


def answer_schema(attributes: Sequence[Attribute]) -> dict[str, Any]:
    """Return the `response_format` of a chat completion: an object with one enum per attribute."""
    properties = {a.name: {"type": "string", "enum": list(a.domain)} for a in attributes}
    return {
        "type": "json_schema",
        "json_schema": {
            "name": "attributes",
            "strict": True,
            "schema": {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            },
        },
    }


def read_labels(answer: str, attributes: Sequence[Attribute]) -> list[int] | None:
    """Return the codes in the answer's JSON object, or None if the answer has no JSON object.

    The comparison ignores case and surrounding white space.
    """
    bare = final_text(answer)
    begin, end = bare.find("{"), bare.rfind("}")
    if not 0 <= begin < end:
        return None
    try:
        fields = json.loads(bare[begin : end + 1])
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    return [_code(attribute, fields.get(attribute.name)) for attribute in attributes]


def _code(attribute: Attribute, value: object) -> int:
    if not isinstance(value, str):
        return len(attribute.domain) - 1
    value = value.strip()
    if value in attribute.domain:
        return attribute.domain.index(value)
    folded = [entry.casefold() for entry in attribute.domain]
    return folded.index(value.casefold()) if value.casefold() in folded else len(folded) - 1
