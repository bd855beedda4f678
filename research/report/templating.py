"""The product's templates, extended by those of research."""

from __future__ import annotations

from jinja2 import ChoiceLoader, PackageLoader

from sugarbush.report import templating

_OWN = PackageLoader("research.report", "templates")
TEMPLATES = templating.TEMPLATES.overlay(loader=ChoiceLoader([_OWN, templating.LOADER]))
