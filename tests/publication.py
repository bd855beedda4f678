"""Values of the settings `publication` for tests."""

from __future__ import annotations

from typing import Any

COMPLETE: dict[str, Any] = {
    "curators": ["City Library", "Readers' Trust"],
    "contact": "privacy@library.example",
    "intended_use": "Teaching how letters are answered: what goes wrong, and how to reply.",
    "recipients": "everybody",
    "region": "Atlantis",
    "sector": "Government",
    "licence": "cc-by-4.0",
    "languages": ["en"],
    "data_source": "static",
    "source_access": "Two librarians, on one machine without a network.",
    "source_retention": "Deleted after one year.",
    "exploration": "Nobody read the letters before.",
    "justification_of_epsilon": "An observer's belief changes from 50% to at most 74%.",
    "justification_of_unit": "Each writer sent one letter.",
    "intruder_test": "A colleague with the letters found no writer in two days.",
    "review_date": "2999-01-31",
}
