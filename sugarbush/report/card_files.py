"""Renders the release card as Markdown and as a page for two printed sheets."""

from __future__ import annotations

from typing import Any

from sugarbush.report.card import CARD_FILE, Card, card_json
from sugarbush.report.officer import stated_rows
from sugarbush.report.renewal import renewal_lines
from sugarbush.report.templating import MARKDOWN, TEMPLATES
from sugarbush.report.uses import NOT_MEASURED


def card_markdown(card: Card) -> str:
    """Write the card as Markdown."""
    return MARKDOWN.get_template("release_card.md.jinja").render(**_view(card))


def card_html(card: Card) -> str:
    """Write the card as a page for two printed sheets. The page needs no other file."""
    return TEMPLATES.get_template("release_card.html.jinja").render(**_view(card))


def card_files(card: Card) -> dict[str, str]:
    """Return the card in all its forms, by the name of the file."""
    return {
        CARD_FILE: card_json(card),
        "release_card.md": card_markdown(card),
        "release_card.html": card_html(card),
    }


def _view(card: Card) -> dict[str, Any]:
    """Return the variables of the templates."""
    return {
        "card": card,
        "news": renewal_lines(card),
        "stated": stated_rows(card.publication),
        "published": card.published,
        "not_measured": NOT_MEASURED,
    }
