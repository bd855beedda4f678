"""The templates of `sugarbush.report` and of this folder."""

from __future__ import annotations

from jinja2 import ChoiceLoader, PackageLoader

from sugarbush import report

_OWN = PackageLoader("research.report", "templates")
TEMPLATES = report.TEMPLATES.overlay(loader=ChoiceLoader([_OWN, report.LOADER]))
