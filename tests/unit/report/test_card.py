import json
import math
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from sugarbush.data.schema import Attribute, Schema
from sugarbush.errors import StorageError
from sugarbush.evaluation.public_figures import COVERAGE, PublicFigure
from sugarbush.methods.dpft import DPFT
from sugarbush.methods.interface import card_remarks
from sugarbush.privacy.accounting import epsilon
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.entries import CapRaise
from sugarbush.privacy.events import DpSgdBound, NonPrivate, PoissonGaussian, event_from_dict
from sugarbush.privacy.settings import Purpose
from sugarbush.privacy.unit import Unit
from sugarbush.report.card import Card, card_json, read_card
from sugarbush.report.card_files import card_files, card_html, card_markdown
from sugarbush.report.card_values import release_card
from sugarbush.report.model import GeneratorFacts, PublicQuality
from sugarbush.report.officer import with_publication
from sugarbush.report.settings import PublicationSettings
from tests.unit.report.sample import AIM_ID, SCHEMA, VOTE_IDS, entry, release, the_plan

EVENT_FIELDS = {"kind", "stddev", "sensitivity", "count", "mu", "noise_multiplier", "rate"}


def recomputed(card: dict[str, Any]) -> float:
    """Compute epsilon from the card alone, as a privacy officer would do it."""
    events = []
    for fields in card["budget"]["events"]:
        known = {k: v for k, v in fields.items() if k in EVENT_FIELDS}
        if known["kind"] == "non_private":
            known.pop("count")
        events.append(event_from_dict(known))
    return epsilon(events, delta=card["promise"]["delta"])


def test_epsilon_can_be_recomputed_from_the_card_alone() -> None:
    card = json.loads(card_json(release_card(release())))
    assert card["promise"]["epsilon"] == pytest.approx(recomputed(card), abs=1e-9)
    assert 0.99 < card["promise"]["epsilon"] <= 1.0


def test_the_card_names_every_event_with_its_ledger_entry() -> None:
    events = release_card(release()).budget.events
    assert [e.id for e in events] == [AIM_ID, *VOTE_IDS]
    fields = {"kind", "stage", "time", "mechanism", "count"}
    assert all(fields <= set(e.to_json()) for e in events)
    markdown = card_markdown(release_card(release()))
    assert all(id_ in markdown for id_ in (AIM_ID, *VOTE_IDS))


def test_the_card_holds_no_fingerprint_and_no_digest_of_inputs() -> None:
    card = release_card(release())
    assert "secret" not in card_json(card) + card_markdown(card)


def test_only_a_private_release_is_publishable_and_other_headings_say_why() -> None:
    assert release_card(release()).publishable
    for purpose, word in ((Purpose.BENCHMARK, "Not publishable"), (Purpose.EXAMPLE, "invented")):
        card = release_card(release(purpose=purpose))
        assert not card.publishable and word in card.heading
        assert card_markdown(card).index(card.heading) < 200


def test_an_infinite_epsilon_is_text_in_valid_json() -> None:
    facts = release(entries=(entry("n0", NonPrivate(), "evolve@nonprivate"),))
    card = release_card(facts)
    assert math.isinf(card.promise.epsilon)
    assert json.loads(card_json(card))["promise"]["epsilon"] == "infinity"
    assert not card.publishable and card.heading.startswith("NOT PRIVATE")
    assert json.loads(card_json(card))["promise"]["in_other_words"] is None
    assert "infinity" in card_markdown(card)


@pytest.mark.parametrize(("unit", "whom"), [(Unit.RECORD, "a record"), (Unit.USER, "a person")])
def test_the_card_states_what_all_releases_of_a_dataset_promise_together(
    unit: Unit, whom: str
) -> None:
    said = card_markdown(release_card(release(total=1.46, cap=4.0, unit=unit)))
    assert "epsilon 1.46 of a cap of 4." in said
    assert f"valid for {whom} that was in the dataset every time" in said
    assert "against an observer who sees every release" in said


def test_the_card_states_every_raise_of_the_cap() -> None:
    raised = CapRaise(time="2026-11-20", raised_from=1.0, raised_to=2.5)
    said = card_markdown(release_card(release(cap_raises=(raised,))))
    assert "The cap was raised on 2026-11-20 from 1 to 2.5." in said


def test_where_records_vote_the_card_states_what_an_embedding_depends_on() -> None:
    assert "bits of its text alone" in card_markdown(release_card(release()))
    table = (entry(AIM_ID, the_plan().of("metadata").event, "synthesize_metadata"),)
    trained = release(entries=table, remarks=card_remarks(DPFT(), SCHEMA))
    assert "bits of its text alone" not in card_markdown(release_card(trained))
    mood = Attribute(
        name="mood",
        values=("angry", "calm"),
        zero_shot={"angry": ("furious",), "calm": ("polite",)},
    )
    schema = Schema(subject="calls", attributes=(mood,))
    read = release(entries=table, schema=schema, remarks=card_remarks(DPFT(), schema))
    assert "bits of its text alone" in card_markdown(release_card(read))


def test_without_a_charge_the_card_says_that_nothing_private_was_used() -> None:
    card = release_card(release(entries=(), total=0.0))
    assert card.promise.epsilon == 0
    assert "No private text was used" in card.promise.statement


def test_the_card_says_that_donated_examples_are_not_protected() -> None:
    assert "NOT protected" in " ".join(release_card(release()).assumed_public)
    assert "donated" not in " ".join(release_card(release(donated=0)).assumed_public)


def test_the_card_lists_what_is_not_covered() -> None:
    said = " ".join(release_card(release()).not_covered).casefold()
    for topic in (
        "groups",
        "timing",
        "pass or fail",
        "error messages",
        "one person in several records",
        "internal report",
        "attacks that failed",
    ):
        assert topic in said


def test_a_per_person_promise_says_how_many_records_it_covers() -> None:
    card = release_card(release(unit=Unit.USER, records_per_unit=5))
    assert "one person with all of their records" in card.promise.statement
    assert card.promise.records_per_unit == 5
    assert "| unit | user (at most 5 records of each person are used) |" in card_markdown(card)
    assert "| unit | record |" in card_markdown(release_card(release()))
    assert "in several records" not in " ".join(card.not_covered)


def test_the_card_names_an_endpoint_and_what_it_saw() -> None:
    generator = GeneratorFacts(provider="openai", model="m-1", endpoint="https://llm.example/v1")
    said = " ".join(release_card(release(generator=generator)).not_covered)
    assert "https://llm.example/v1" in said
    assert "released and public text only" in said
    assert "EVERY PRIVATE TEXT" not in said


@pytest.mark.parametrize(
    ("counts", "shown"),
    [((60, 0, 35), "60"), ((60, 20, 40), "60: 20 that the records voted on or scored, 40 written")],
)
def test_the_numbers_of_texts_add_up(counts: tuple[int, int, int], shown: str) -> None:
    texts = dict(zip(("released", "voted_on", "written_afterwards"), counts, strict=True))
    (line,) = (
        line
        for line in card_markdown(release_card(release(texts={"maple": texts}))).splitlines()
        if line.startswith("| texts of maple")
    )
    assert line.startswith(f"| texts of maple | {shown} ")


def test_the_card_names_an_endpoint_that_received_private_texts() -> None:
    card = release_card(release(labels_endpoint="http://labels.example/v1"))
    (item,) = [i for i in card.not_covered if "http://labels.example/v1" in i]
    assert "EVERY PRIVATE TEXT was sent" in item


def test_the_card_names_another_package_whose_method_had_the_private_texts() -> None:
    card = release_card(release(other_packages=("toy-package 1.0",), entries=()))
    (item,) = (i for i in card.not_covered if "toy-package 1.0" in i)
    assert "cannot check that this code charged every use" in item
    assert "No private text was used" not in card.promise.statement


def test_a_pool_names_the_public_corpora_that_it_draws_on() -> None:
    generator = GeneratorFacts(provider="pool", sources=("reviews", "tweets"))
    assert "reviews, tweets" in " ".join(release_card(release(generator=generator)).assumed_public)


@pytest.mark.slow
def test_the_card_names_floating_point_noise_where_it_is_used() -> None:
    sgd = entry("d0", PoissonGaussian(noise_multiplier=1.0, rate=0.01, count=10), "finetune")
    remarks = card_remarks(DPFT(), SCHEMA)
    said = " ".join(release_card(release(entries=(sgd,), remarks=remarks)).remarks)
    assert "sampled in floating point" in said
    assert "sampled in floating point" not in " ".join(release_card(release()).remarks)


def test_markup_in_a_title_or_a_value_does_not_become_markdown() -> None:
    card = release_card(replace(release(), title="a|b <script>*x*</script> [l](u)\n# h"))
    line = card_markdown(card).splitlines()[0]
    assert line.startswith("# Release card: a\\|b \\<script\\>\\*x\\*")
    assert "\n# h" not in card_markdown(card)


def test_equal_releases_give_equal_cards() -> None:
    assert card_json(release_card(release())) == card_json(release_card(release()))


def test_a_fine_tuned_model_is_named_with_what_it_starts_from() -> None:
    card = release_card(release(generator=None, starts_from="gpt2"))
    assert card.made_by.generator == {"fine-tuned": "gpt2"}
    assert any("starts from (gpt2)" in item for item in card.assumed_public)
    assert not any("The generator" in item for item in card.assumed_public)


def test_the_card_to_print_has_what_the_other_forms_have_and_no_script() -> None:
    card = release_card(release(donated=7, texts={"maple": {
        "released": 60, "voted_on": 20, "written_afterwards": 40}}))  # fmt: skip
    page = unescape(card_html(card))
    lists = ("assumed_public", "not_covered", "remarks", "unprotected_quantities")
    for item in [
        *(item for name in lists for item in getattr(card, name)),
        *card.deployment.actors,
    ]:
        assert item in page
    for event in card.budget.events:
        assert event.id in page and event.mechanism in page
    for sentence in (card.promise.statement, card.promise.data_domain, card.tuning):
        assert sentence in page
    assert card.budget.ledger_head in page and page.count("not stated") == 16
    assert "<script" not in page and "default-src 'none'" in page and "http://" not in page


def test_markup_in_the_card_to_print_is_escaped() -> None:
    settings = PublicationSettings(curators=("<b>Library</b>",), contact="a & b")
    page = card_html(release_card(release(title="<script>x</script>", publication=settings)))
    assert "<script>" not in page and "<b>" not in page
    assert "&lt;b&gt;Library&lt;/b&gt;" in page and "a &amp; b" in page


def test_every_form_of_the_card_is_written() -> None:
    card = release_card(release())
    files = card_files(card)
    assert files["release_card.json"] == card_json(card)
    assert files["release_card.md"] == card_markdown(card)
    assert files["release_card.html"] == card_html(card) and len(files) == 3


def cards() -> list[Card]:
    """Return cards with every kind of optional part."""
    quality = PublicQuality(
        figures=Released({"maple": (PublicFigure(name=COVERAGE, value=0.7, low=0.6, high=0.8),)}),
        facts={"maple": {"texts": 60, "share": 0.5}},
        rules=("coverage >= 0.9",),
        unmet={"maple": ("coverage >= 0.9",)},
    )
    generator = GeneratorFacts(provider="pool", sources=("reviews", "tweets"))
    raised = CapRaise(time="2026-11-20", raised_from=1.0, raised_to=2.5)
    steps = PoissonGaussian(noise_multiplier=1.0, rate=0.01, count=10)
    bound = DpSgdBound(mu=0.3, noise_multiplier=1.0, rate=0.01, steps=10)
    published = with_publication(
        release_card(release(quality=quality, generator=generator)),
        PublicationSettings(curators=("Library",), languages=("en",)),
        number=2,
        date="2026-11-20",
        others=("2026-11-01",),
    )
    return [
        published,
        release_card(release(cap_raises=(raised,), unit=Unit.USER, records_per_unit=5)),
        release_card(release(entries=(entry("n0", NonPrivate(), "evolve@nonprivate"),))),
        release_card(
            release(entries=(entry("d0", steps, "finetune"), entry("d1", bound, "finetune")))
        ),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4))
def test_a_card_that_was_read_is_the_one_that_was_written(number: int, tmp_path: Path) -> None:
    card, file = cards()[number], tmp_path / "release_card.json"
    file.write_text(card_json(card), encoding="utf-8")
    read = read_card(file)
    assert read == card
    assert card_files(read) == card_files(card)


def every_object(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the paths of all objects whose keys the card fixes."""
    open_keys = {"texts", "generator", "settings", "software", "attributes", "methods"}
    if isinstance(value, list):
        return [found for i, each in enumerate(value) for found in every_object(each, (*path, i))]
    if not isinstance(value, dict):
        return []
    below = [found for name, each in value.items() for found in every_object(each, (*path, name))]
    is_open = path and (path[-1] in open_keys | {"measured_on", "unmet_rules", "publication"})
    return below if is_open or "settings" in path else [path, *below]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4))
def test_a_card_with_a_missing_or_an_unknown_field_is_damaged(number: int, tmp_path: Path) -> None:
    """Also in a charge, a figure or another part, and for a value of another type."""
    file, optional = tmp_path / "release_card.json", {"plan", "slack", "published", "charged"}
    text = card_json(cards()[number])

    def refused(path: tuple[str | int, ...], name: str, value: Any) -> None:
        fields = part = json.loads(text)
        for step in path:
            part = part[step]
        if value is None:
            del part[name]
        else:
            part[name] = value
        file.write_text(json.dumps(fields))
        with pytest.raises(StorageError, match=r"release_card\.json: is damaged .*sugarbush run"):
            read_card(file)

    for path in every_object(json.loads(text)):
        part = json.loads(text)
        for step in path:
            part = part[step]
        for name in set(part) - optional:
            refused(path, name, None)
            refused(path, name, [[[0]]])
        refused(path, "elsewhere", 1)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 100_000, '{"format": NaN}'])
def test_a_file_that_is_no_card_is_damaged(text: str, tmp_path: Path) -> None:
    file = tmp_path / "release_card.json"
    file.write_text(text)
    with pytest.raises(StorageError, match="is damaged"):
        read_card(file)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"sugarbush release card 1"', '"sugarbush release card 2"'),
        ('"epsilon":', '"epsilon": 0.001, "epsilon":'),
        ('"delta": 1e-06', '"delta": -1e-06'),
        ('"delta": 1e-06', '"delta": 1.5'),
        ('"records_per_unit": 1', '"records_per_unit": 0'),
        ('"epsilon": ', '"epsilon": -'),
    ],
)
def test_a_card_of_another_format_or_with_an_impossible_promise_is_damaged(
    old: str, new: str, tmp_path: Path
) -> None:
    file, text = tmp_path / "release_card.json", card_json(cards()[0])
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(StorageError, match="is damaged"):
        read_card(file)
