"""Loads the templates of the pages and the card, and the style sheet and script of the pages."""

from __future__ import annotations

import base64
import hashlib

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sugarbush.privacy.accounting import rounded_down, rounded_up
from sugarbush.report.json_fields import json_number
from sugarbush.report.plots import interval, number

LOADER = PackageLoader("sugarbush.report", "templates")
TEMPLATES = Environment(
    loader=LOADER, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
TEMPLATES.filters |= {"interval": interval, "number": number, "enumerated": enumerate}
MARKDOWN = TEMPLATES.overlay(autoescape=False, keep_trailing_newline=True)


def plain(value: object) -> str:
    """Escape a value for Markdown and its HTML, because a title may contain any character."""
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    for character in "\\`*_|[]<>":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())


def upper_bound(value: float | str, figures: int = 4) -> str:
    """Round an upper bound up. An infinite epsilon is the text "infinity", as in JSON."""
    value = value if isinstance(value, str) else json_number(value)
    return value if isinstance(value, str) else rounded_up(value, figures)


TEMPLATES.filters |= {"upper_bound": upper_bound, "lower_bound": rounded_down}
MARKDOWN.filters = TEMPLATES.filters | {"plain": plain}


def inlined() -> dict[str, str]:
    """Return the style sheet, the script, and its digest for the content security policy."""
    script, _, _ = LOADER.get_source(TEMPLATES, "page.js")
    css, _, _ = LOADER.get_source(TEMPLATES, "page.css")
    return {
        "css": Markup(css),
        "script": Markup(script),
        "script_digest": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    }
