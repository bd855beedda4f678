"""The templates of the pages, and what each page carries within itself."""

from __future__ import annotations

import base64
import hashlib

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sugarbush.report.plots import interval, number

LOADER = PackageLoader("sugarbush.report", "templates")
TEMPLATES = Environment(
    loader=LOADER,
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters["interval"] = interval
TEMPLATES.filters["number"] = number


def inlined() -> dict[str, str]:
    """Style sheet, script and the script's digest, which the page's policy allows alone."""
    script = _source("page.js")
    return {
        "css": Markup(_source("page.css")),
        "script": Markup(script),
        "script_digest": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    }


def _source(name: str) -> str:
    assert TEMPLATES.loader is not None
    return TEMPLATES.loader.get_source(TEMPLATES, name)[0]
