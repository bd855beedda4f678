"""Phrases of a profile in the schema that it proposes."""

from __future__ import annotations

from pathlib import Path

from sugarbush.data.schema import load_schema
from sugarbush.profiling.bins import LENGTHS, NUMBERS, YEARS
from sugarbush.profiling.draft import draft_from_profile, schema_text
from sugarbush.profiling.layout import KINDS, MEASURES
from sugarbush.profiling.release import Column, Profile
from sugarbush.profiling.style import LANGUAGES, RULES

TERMS = {
    "north": {"late": 300, "late flight": 250, "gate": 90},
    "south": {"gate": 200, "bag": 80},
    "elsewhere": {"taxi": 70},
    "": {"parcel": 60},
}


def profile(*, terms: dict[str, dict[str, int]], column: str | None) -> Profile:
    shop = Column(
        name="shop",
        kinds={kind: 2000 if kind == "text" else 0 for kind in KINDS},
        numbers=(0,) * (len(NUMBERS.edges) + 1),
        months=(0,) * 12,
        years=(0,) * (len(YEARS.edges) + 1),
        values={"north": 1000, "south": 900},
    )
    return Profile(
        records=2000,
        lengths={measure: (0,) * (len(LENGTHS.edges) + 1) for measure in MEASURES},
        records_per_user=None,
        style=dict.fromkeys(RULES, 0),
        languages=dict.fromkeys(LANGUAGES, 0),
        columns=(shop,),
        terms=terms,
        terms_column=column,
        stddev=dict.fromkeys(("sizes", "style", "columns", "values", "terms"), 5.0),
        threshold={"values": 30, "terms": 60},
        epsilon=0.2,
        delta=1e-6,
        unit="record",
        dataset="letters",
    )


def test_the_schema_has_the_terms_by_value_and_over_all_texts(tmp_path: Path) -> None:
    found = profile(terms=TERMS, column="shop")
    draft = draft_from_profile(found, subject="letters")
    shop = draft.schema.attribute("shop")
    # A phrase replaces its words. Values that the attribute does not list are counted in all texts.
    assert shop.phrases == {"north": ("late flight", "gate"), "south": ("gate", "bag")}
    assert draft.schema.phrases == ("gate", "late flight", "bag", "taxi", "parcel")
    path = tmp_path / "schema.yaml"
    path.write_text(schema_text(draft, found), encoding="utf-8")
    assert load_schema(path) == draft.schema
    assert "phrases: [gate, late flight, bag, taxi, parcel]" in path.read_text()


def test_terms_of_all_texts_are_phrases_of_the_schema_alone() -> None:
    draft = draft_from_profile(profile(terms={"": TERMS["north"]}, column=None), subject="letters")
    assert draft.schema.phrases == ("late flight", "gate")
    assert draft.schema.attribute("shop").phrases is None


def test_a_profile_without_terms_writes_no_phrases() -> None:
    found = profile(terms={}, column=None)
    draft = draft_from_profile(found, subject="letters")
    assert draft.schema.phrases == () and "phrases" not in schema_text(draft, found)


def test_the_most_frequent_phrases_are_in_the_schema() -> None:
    many = {f"word{letter}{other}": 100 + 26 * ord(letter) + ord(other)
            for letter in "abcd" for other in "abcdefghijklmnopqrstuvwxyz"}  # fmt: skip
    draft = draft_from_profile(profile(terms={"": many}, column=None), subject="letters")
    assert len(draft.schema.phrases) == 40
    assert set(draft.schema.phrases) == set(sorted(many, key=lambda term: -many[term])[:40])
