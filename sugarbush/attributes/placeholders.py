"""Finds the placeholders of a draft schema that nobody has edited."""

from __future__ import annotations

from typing import Final

from sugarbush.data.schema import Attribute, Schema

SUBJECT: Final = "texts"  # the subject of a draft without --subject
VALUES: Final = ("first value", "second value")  # the values of a column that was not read
# A draft without donated examples has only this attribute, because any text has a tone.
TONE: Final = Attribute.model_validate(
    {
        "name": "tone",
        "description": "how the writer feels",
        "values": ["negative", "neutral", "positive"],
        "zero_shot": {
            "negative": ["a complaint by an unhappy writer", "an angry or sad text"],
            "neutral": ["a plain statement of facts", "a question without emotion"],
            "positive": ["praise by a happy writer", "a grateful or cheerful text"],
        },
    }
)


def placeholders(schema: Schema) -> tuple[str, ...]:
    """Return one sentence for each placeholder of a draft that is still in the schema.

    >>> placeholders(Schema(subject="support tickets", attributes=(TONE,)))
    ()
    """
    sentences = []
    if schema.subject.strip().casefold() == SUBJECT:
        sentences.append(
            f"`subject: {schema.subject}` does not say what the texts are. Write, for example, "
            "`subject: support tickets of a software company`"
        )
        if schema.attributes == (TONE,):
            sentences.append(
                "the only attribute is the draft's 'tone'. List attributes of your texts"
            )
    sentences += [
        f"attribute '{attribute.name}' has the value '{value}' of the draft. List public values"
        for attribute in schema.attributes
        for value in attribute.values
        if value in VALUES
    ]
    return tuple(sentences)
