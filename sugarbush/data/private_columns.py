"""Refuses settings with which ids, users or private columns would reach texts or attributes.

A name is a column, or a dotted path to a value inside an object, such as `ticket.customer`. Lists
have no place in a path: `ticket.notes.author` names the authors of all notes. A column contains all
paths below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sugarbush.data.records import shape_of
from sugarbush.data.schema import Schema
from sugarbush.data.settings import PrepareSettings
from sugarbush.errors import InputError

_ID, _USER = "prepare.id_column", "prepare.user_column"
PRIVATE = "publication.private_columns"
_IN_LISTS = re.compile(
    r"^\$\.|\[[^\]]*\]|\.(?:\d+|\*)(?=\.|$)"
)  # $.notes[0].author, notes.0.author


def private_names(prepare: PrepareSettings, further: Iterable[str]) -> dict[str, str]:
    """Map each private column or path to the setting that names it."""
    named = dict.fromkeys(further, PRIVATE)
    own = ((prepare.id_column, _ID), (prepare.user_column, _USER))
    return named | {name: setting for name, setting in own if name is not None}


def overlap(name: str, others: Iterable[str]) -> str | None:
    """Return a name among `others` that is equal to a name, contains it or is contained in it.

    >>> overlap("ticket.notes[0].author", ["ticket.body", "ticket.notes"])
    'ticket.notes'
    """
    forms = [f"{form}." for form in dict.fromkeys((name, _IN_LISTS.sub("", name)))]
    found = [
        other
        for other in others
        if any(form.startswith(f"{other}.") or f"{other}.".startswith(form) for form in forms)
    ]
    return name if name in found else next(iter(found), None)


def refuse_private_columns(
    schema: Schema, prepare: PrepareSettings, private_columns: Iterable[str]
) -> None:
    """Raise InputError if a text or an attribute contains an id, a user or a private column.

    `private_columns` are those of the settings `publication`. The name of a column also means each
    property of JSON records with this name, because it probably has the same values. For the id,
    only a property of the record itself counts: the id of an article is no id of a record.
    """
    paths = shape_of(schema, prepare).paths
    for name, setting in private_names(prepare, private_columns).items():
        found = overlap(name, paths) or _property(name, paths, at_top=setting == _ID)
        if found is not None:
            raise InputError(
                f"the texts contain '{found}', which is private ({setting}: {name}), so it would "
                "appear in prompts and texts. Take it out of the text in the schema, or name "
                f"another column in {setting}"
            )
        for attribute in schema.attributes:
            columns = () if attribute.column is None else (attribute.column,)
            if attribute.name == name or overlap(name, columns) is not None:
                raise InputError(
                    f"the schema's attribute '{attribute.name}' comes from a private column, or "
                    f"has its name ({setting}: {name}). Remove the attribute from the schema, or "
                    f"name another column in {setting}"
                )


def _property(name: str, paths: Mapping[str, tuple[str, int]], *, at_top: bool) -> str | None:
    """Return the path of a property of JSON records with the name, or None."""
    depths = range(1, 2) if at_top else range(1, len(paths) + 1)
    return next((p for p, (own, depth) in paths.items() if own == name and depth in depths), None)
