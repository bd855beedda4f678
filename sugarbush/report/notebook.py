"""Objects that a notebook shows as HTML: the report of a release, and a picture."""

from __future__ import annotations

import tempfile
import webbrowser
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from sugarbush.errors import FailureError

_HEIGHT = 720  # pixels of a report in a notebook


@dataclass(frozen=True)
class ReportPage:
    """The public report of a release, as one HTML page that needs no other file.

    A notebook shows the page. It contains public and released values only.
    """

    html: str = field(repr=False)

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.html)}" width="100%" height="{_HEIGHT}" '
            'style="border:1px solid #ccc"></iframe>'
        )

    def save(self, file: str | Path) -> Path:
        """Write the page into a file, for example `report.html`."""
        path = Path(file)
        path.write_text(self.html, encoding="utf-8")
        return path

    def open(self) -> Path:
        """Open the page in the browser, from a temporary file. Raises FailureError if no browser
        can be started."""
        path = self.save(Path(tempfile.mkdtemp(prefix="sugarbush-report-")) / "report.html")
        if not webbrowser.open(path.as_uri()):
            raise FailureError(f"no browser could be started. Open {path} yourself")
        return path


@dataclass(frozen=True)
class Picture:
    """A chart as SVG, with its colours. A notebook shows the chart."""

    svg: str = field(repr=False)

    def _repr_html_(self) -> str:
        return f"<div>{self.svg}</div>"

    def save(self, file: str | Path) -> Path:
        """Write the chart into a file, for example `quality.svg`."""
        path = Path(file)
        path.write_text(self.svg, encoding="utf-8")
        return path
