"""Refuses settings with which ids, users or private columns would reach texts or attributes.

A name is a column, or a dotted path to a value inside an object, such as `ticket.customer`. A path
has no positions in lists: `ticket.notes.author` names the authors of all notes. A column contains
all paths below it.
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


def private_name(column: str, private: Mapping[str, str]) -> str | None:
    """Return the name among `private` (`private_names`) that a column or path belongs to, or None.

    The name of a column also means each property of an object with this name, in any case of its
    letters, because it probably has the same values: `rec.Customer` for `customer`, and the other
    way round. For the id, only equal names count, because the id of an article is not the id of a
    record.

    >>> private = {"customer": "prepare.user_column", "key": "prepare.id_column"}
    >>> private_name("rec.Customer", private), private_name("rec.key", private)
    ('customer', None)
    >>> private_name("customer", {"rec.customer": "prepare.user_column"})
    'rec.customer'
    """
    return overlap(column, private) or next(
        (
            name
            for name, setting in private.items()
            if setting != _ID and (_is_property(column, name) or _is_property(name, column))
        ),
        None,
    )


def refuse_private_columns(
    schema: Schema, prepare: PrepareSettings, private_columns: Iterable[str]
) -> None:
    """Raise InputError if a text or an attribute contains an id, a user or a private column.

    `private_columns` are those of the settings `publication`. The name of a column also means each
    property of an object with this name (`private_name`). For the id, a property of a JSON record
    itself counts, too.
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
            named = {name: setting}
            if attribute.name == name or (
                attribute.column is not None and private_name(attribute.column, named)
            ):
                raise InputError(
                    f"the schema's attribute '{attribute.name}' comes from a private column, or "
                    f"has its name ({setting}: {name}). Remove the attribute from the schema, or "
                    f"name another column in {setting}"
                )


def _property(name: str, paths: Mapping[str, tuple[str, int]], *, at_top: bool) -> str | None:
    """Return the path of a property with the name, or None. With `at_top`, it is a property of a
    JSON record itself."""
    own = name.casefold()
    return next(
        (
            path
            for path, (last, depth) in paths.items()
            if (last.casefold() == own and (depth == 1 if at_top else depth > 0))
            or (not at_top and _is_property(path, name))
        ),
        None,
    )


def _is_property(path: str, name: str) -> bool:
    """Return whether a path ends with a property that has the name."""
    _, dot, last = path.rpartition(".")
    return bool(dot) and last.casefold() == name.casefold()
