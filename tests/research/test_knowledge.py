"""Facts: what a corpus teaches, what is chance, and what group privacy allows."""

import numpy as np
import pytest

from research.knowledge import TEMPLATES, advantages, make_facts, planted, values
from sugarbush.randomness import public_rng

CORPUS = [f"the printer number {i} does not print on paper" for i in range(200)]
COUNTS = {2: 8, 10: 4, 0: 4}


@pytest.fixture
def facts():
    return make_facts(COUNTS, known={"printer"}, rng=public_rng(1, "facts"))


def asked(texts, facts, epsilon=1.0):
    rows = values(texts, facts, epsilon=epsilon, delta=1e-6)
    return {(row["metric"], row["space"]): row["value"] for row in rows}


def test_a_fact_has_its_number_of_carriers(facts):
    texts = planted(CORPUS, facts, rng=public_rng(1, "places"))
    for fact in facts:
        carriers = [t for t in texts if fact.product in t and fact.procedure in t]
        assert len(carriers) == fact.carriers
    assert sum(a != b for a, b in zip(texts, CORPUS, strict=True)) == 8 * 2 + 4 * 10


def test_the_corpus_teaches_every_planted_fact_and_no_other(facts):
    found = asked(planted(CORPUS, facts, rng=public_rng(1, "places")), facts)
    assert found["retrieved", "2 carriers"] == found["retrieved", "10 carriers"] == 1
    assert found["cloze", "2 carriers"] == found["cloze", "10 carriers"] == 1
    assert found["retrieved", "0 carriers"] == found["mismatched", "2 carriers"] == 0


def test_texts_without_facts_teach_none(facts):
    found = asked(CORPUS, facts)
    assert found["retrieved", "10 carriers"] == 0
    assert found["cloze", "10 carriers"] == pytest.approx(1 / 8)


def test_wrong_pairs_are_counted_apart(facts):
    first, second = facts[0], facts[1]
    text = TEMPLATES[0].format(product=first.product, procedure=second.procedure)
    found = asked([text], facts)
    assert found["retrieved", "2 carriers"] == 0
    assert found["mismatched", "2 carriers"] == pytest.approx(1 / (8 * 7))


def test_the_bound_grows_with_carriers_and_any_mechanism_may_reveal_more():
    bounds = [advantages(k, epsilon=1.0, delta=1e-6) for k in (0, 1, 5, 50, 500)]
    for metric in ("advantage", "advantage_any"):
        assert np.all(np.diff([b[metric] for b in bounds]) >= 0)
        assert bounds[0][metric] == 0
    assert all(b["advantage"] <= b["advantage_any"] + 1e-12 for b in bounds)
    # One record at epsilon 1: (e - 1) / (e + 1), and a GDP mechanism with the same guarantee less.
    assert bounds[1]["advantage_any"] == pytest.approx(0.4621, abs=1e-3)
    assert bounds[1]["advantage"] < 0.12
