import inspect
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from sugarbush.attributes.agreement import Agreement
from sugarbush.attributes.reader import ReadAttribute
from sugarbush.data.schema import Attribute, Schema
from sugarbush.errors import InvariantError
from sugarbush.evaluation.interface import FINAL, REAL, MetricValue, read_values
from sugarbush.generators.interface import Usage
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.events import (
    DiscreteGaussian,
    DpSgdBound,
    GaussianDp,
    NonPrivate,
    PoissonGaussian,
)
from sugarbush.privacy.settings import Purpose
from sugarbush.report.dp_table import dependence
from sugarbush.report.model import (
    DpCounts,
    InternalData,
    PublicData,
    ScoredData,
    Spend,
)
from sugarbush.report.page import render_internal_page, render_public_page
from sugarbush.report.plots import score_ranks
from sugarbush.report.statements import in_plain_words
from sugarbush.report.svg import Axis, thinned
from sugarbush.report.tables import survivors_table, votes_table
from sugarbush.report.templating import LOADER, TEMPLATES
from sugarbush.report.verdict import Verdict
from tests.unit.report.sample import SCHEMA, VOTE_IDS, internal_data, public_data, release

ATTACK = "</script><img src=x onerror=\"document.title='owned'\"><script>'&\"`{{ 7*7 }}</textarea>"


class Tags(HTMLParser):
    """Counts the tags of a page, and collects the attributes of every element."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.unclosed: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.attributes += attrs
        if tag not in {"meta", "link", "input", "img", "br", "circle", "rect", "polygon"}:
            self.unclosed.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.unclosed:
            assert self.unclosed.pop() == tag


def content_of(page: str) -> dict[str, Any]:
    """The content of the text browser, as its script reads it."""
    found = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.S)
    assert found is not None
    content: dict[str, Any] = json.loads(found[1])
    return content


def attacked(data: PublicData) -> PublicData:
    method = data.methods[0]
    *rest, last = method.texts.value
    hostile_text = replace(last, text=ATTACK, examples=(0,))
    texts = Released((*rest, hostile_text), method.texts.ledger_ids)
    product = data.release.schema.attributes[0]
    hostile = Attribute(
        name="product", description=ATTACK, values=(ATTACK, *product.values[1:]), column="product"
    )
    schema = Schema(subject=ATTACK, attributes=(hostile, *data.release.schema.attributes[1:]))
    facts = replace(
        data.release, title=ATTACK, settings={"a": ATTACK}, encoder=ATTACK, schema=schema
    )
    methods = (replace(method, texts=texts), *data.methods[1:])
    return replace(data, release=facts, methods=methods, donated=(ATTACK,))


def test_the_public_page_takes_public_data_alone() -> None:
    assert list(inspect.signature(render_public_page).parameters) == ["data"]
    assert not any("Internal" in str(f.type) for f in PublicData.__dataclass_fields__.values())


def test_a_released_value_without_a_listed_ledger_entry_is_refused() -> None:
    data = public_data()
    stolen = DpCounts(source="x", counts=Released({}, ("unlisted",)))
    with pytest.raises(InvariantError, match="unlisted"):
        replace(data, metadata=stolen)
    with pytest.raises(InvariantError, match=VOTE_IDS[0]):
        replace(data, release=release(entries=release().entries[:1]))


def test_internal_values_are_on_the_internal_page_only() -> None:
    internal = InternalData(
        values=(
            MetricValue(method="maple", round=FINAL, space="encoder", metric="mauve", value=0.4321),
        )
    )
    assert "0.432" in render_internal_page(public_data(), internal)
    public = render_public_page(public_data())
    assert "0.432" not in public
    for word in ("MAUVE", "held-out", "held out", 'class="real-dots"', 'id="quality"'):
        assert word not in public


def test_a_method_without_votes_has_a_map_too() -> None:
    data = public_data()
    voted, public = data.methods
    page = render_public_page(replace(data, methods=(replace(public, map=voted.map),)))
    assert "Texts in two dimensions: public" in page
    assert "Votes and survivors" not in page
    assert render_public_page(data).count("Texts in two dimensions") == 1


def test_a_name_keeps_its_capital_in_the_title_of_a_chart() -> None:
    figures = tuple(
        MetricValue(method="maple", round=round_, space="attribute", metric="mean", value=0.1)
        for round_ in (0, FINAL)
    )
    page = render_internal_page(public_data(), InternalData(values=figures))
    assert "Mean JSD <small>" in page and "jensen" not in page


def test_a_private_method_and_distances_are_on_the_internal_page_only() -> None:
    figures = tuple(
        MetricValue(method=arm, round=round_, space="tf-idf", metric="mauve", value=0.5)
        for arm in ("maple", "nonprivate", REAL)
        for round_ in (0, FINAL)
    )
    page = render_internal_page(public_data(), InternalData(values=figures))
    assert "In the space of words" in page and "nonprivate" in page
    assert "nonprivate" not in render_public_page(public_data())


def test_methods_are_compared_by_number_of_texts_where_several_were_measured() -> None:
    by_texts = {
        count: [
            MetricValue(
                method=method, space="encoder", metric="mauve", value=0.5, low=0.4, high=0.6
            )
            for method in ("maple", REAL)
        ]
        for count in (250, 1000)
    }
    page = render_internal_page(public_data(), InternalData(by_texts=by_texts))
    assert "MAUVE, in the encoder&#39;s space by number of texts" in page
    for step in ("250 texts", "1,000 texts"):
        assert f"maple, {step}: 0.500 (0.400 to 0.600)" in page
        assert f"real, {step}" in page
    assert "by number of texts" not in render_internal_page(public_data(), internal_data())


def test_a_trained_metric_has_a_row_for_each_attribute_and_for_the_majority() -> None:
    figures = tuple(
        MetricValue(method="maple", round=FINAL, space=attribute, metric=metric, value=0.5)
        for attribute in ("product", "mood")
        for metric in ("accuracy", "majority_accuracy")
    )
    page = render_internal_page(public_data(), InternalData(values=figures))
    assert page.count("<h3>Accuracy: trained on these texts") == 1
    for row in ("product", "mood", "product: always the most common value"):
        assert f"<td>{row}" in page


def test_scores_are_not_described_as_votes() -> None:
    data = public_data()
    voted = render_public_page(data)
    rounds = [tuple(replace(r, name="scores") for r in m.rounds) for m in data.methods]
    both = zip(data.methods, rounds, strict=True)
    scored = render_public_page(
        replace(data, methods=tuple(replace(m, rounds=own) for m, own in both))
    )
    assert "votes for the nearest candidate" in voted and "scores every candidate" not in voted
    assert "votes for the nearest candidate" not in scored and "scores every candidate" in scored
    assert "Noisy scores by rank" in scored


def test_scores_without_rounds_have_a_chart_and_no_survivors() -> None:
    """A method that scores its candidates once has no round, and nothing survives."""
    data = public_data()
    first = data.methods[0].rounds[0]
    once = ScoredData(name="scores", votes=first.votes, stddev=first.stddev, written=first.written)
    method = replace(data.methods[0], rounds=(), scored=once)
    page = render_public_page(replace(data, methods=(method,)))
    assert "Noisy scores by rank" in page and "<h2>Scores</h2>" in page
    assert "Survivors" not in page and "<title>round 1</title>" not in page
    assert votes_table(replace(data, methods=(method,)))["round"].unique().tolist() == [1]


def test_the_internal_page_says_first_that_it_is_not_private() -> None:
    page = render_internal_page(public_data(), internal_data())
    assert page.index("not differentially private. Do not hand out.") < page.index("<h1>")
    assert "Do not hand out" not in render_public_page(public_data())


def test_the_page_begins_with_the_content_then_the_texts_and_explains_the_protection_later() -> (
    None
):
    for page, further in (
        (render_public_page(public_data()), []),
        (render_internal_page(public_data(), internal_data()), ["quality"]),
    ):
        sections = re.findall(r'<section id="(.*?)"', page)
        order = ["release", "texts", *further, "metadata", "votes", "promise", "cost", "made"]
        assert [name for name in sections if name in order] == order
        top = page[page.index('<section id="release"') : page.index('<section id="texts"')]
        parts = ("1,100 synthetic texts", 'class="button main"', "sb.open_release(", "epsilon = 1")
        assert sorted(parts, key=top.index) == list(parts)
        assert "noise multiplier" not in top and "ledger" not in top


def test_mechanisms_are_in_plain_words_and_the_exact_ones_are_behind_a_click() -> None:
    page = render_public_page(public_data())
    section = page[page.index('<section id="promise"') : page.index('<section id="cost"')]
    plain, _, exact = section.partition('<details id="ledger">')
    exact = exact.partition("</details>")[0]
    assert "Random noise was added to each sum" in plain and "about 90% of the budget" in plain
    for words in ("discrete Gaussian", "Gaussian-DP", VOTE_IDS[0][:8], release().ledger_head):
        assert words in exact and words not in plain


def test_every_mechanism_has_plain_words() -> None:
    events = (
        DiscreteGaussian(stddev=2.0),
        GaussianDp(mu=0.5),
        PoissonGaussian(noise_multiplier=1.0, rate=0.01, count=10),
        DpSgdBound(mu=0.5, noise_multiplier=1.0, rate=0.01, steps=10),
        NonPrivate(),
    )
    for event in events:
        assert len(in_plain_words(event).split()) > 5
        if not isinstance(event, NonPrivate):
            assert "random noise" in in_plain_words(event).lower()
    assert "nothing protects them" in in_plain_words(NonPrivate())


def test_the_verdict_is_above_the_downloads_and_the_adherence_below_the_texts() -> None:
    data = public_data()
    first, *rest = data.methods
    verdict = Verdict(grade="fair", reasons=("2 of 3 sources were <used>.", "40 repeats."))
    read = ReadAttribute(name="product", source="donated", requested=600, shown=0.375)
    judged = replace(first, verdict=Released(verdict), labels=Released((read,)))
    shown = render_public_page(replace(data, methods=(judged, *rest)))
    assert "<b>Fair</b>" in shown and "&lt;used&gt;" in shown and "<li>40 repeats.</li>" in shown
    assert ">product</td><td>by a classifier of donated texts<" in shown and ">38%<" in shown
    assert shown.index("<b>Fair</b>") < shown.index('id="texts"') < shown.index('id="adherence"')
    top, _, _ = LOADER.get_source(TEMPLATES, "release.html.jinja")
    assert top.index("verdict.html.jinja") < top.index("downloads")
    page, _, _ = LOADER.get_source(TEMPLATES, "page.html.jinja")
    assert page.index('id="texts"') < page.index("adherence.html.jinja") < page.index("internal.")


def test_a_page_without_files_has_no_buttons_and_no_code() -> None:
    page = render_public_page(replace(public_data(), downloads=()))
    assert 'class="button' not in page and "read_json" not in page


def test_markup_in_a_text_is_shown_as_text() -> None:
    clean, page = render_public_page(public_data()), render_public_page(attacked(public_data()))
    counted, attacked_tags = Tags(clean), Tags(page)
    assert sorted(counted.open) == sorted(attacked_tags.open)
    assert not any(name.startswith("on") for name, _ in attacked_tags.attributes)
    assert page.count("</script>") == 2
    assert content_of(page)["rows"][-46][0] == ATTACK == content_of(page)["donated"]["0"]
    assert "49" not in re.findall(r"<h1>(.*?)</h1>", page, re.S)[0]


def test_the_page_is_well_formed_and_loads_nothing() -> None:
    page = render_internal_page(public_data(), internal_data())
    tags = Tags(page)
    assert tags.unclosed == []
    links = [v for n, v in tags.attributes if n in {"src", "href", "xlink:href", "action"}]
    beside = {download.address for download in public_data().downloads}
    assert all(v == "data:," or v.startswith("#") or v in beside for v in links if v)
    assert beside <= set(links)
    assert "@import" not in page and "url(" not in page


def test_the_page_shows_how_many_texts_were_voted_on_and_the_first_texts_of_a_large_release() -> (
    None
):
    counts = {"maple": {"released": 600, "voted_on": 400, "written_afterwards": 200}}
    data = public_data(texts=counts)
    page = render_public_page(data)
    assert "The first 90 of the 1,100 texts of the release" in page
    assert "the records voted on 400, and 200 were written afterwards" in page
    (method, *_) = data.methods
    shown = sum(text.final for text in method.texts.value)
    rounds = tuple(replace(r, name="scores") for r in method.rounds)
    scored = replace(data, methods=(replace(method, rounds=rounds, final_texts=shown),))
    page = render_public_page(scored)
    assert "All 60 texts of the release" in page and "the records scored 400" in page


def test_a_text_has_its_row_its_parent_and_the_examples_of_its_prompt() -> None:
    data = public_data()
    method = data.methods[0]
    *rest, last = method.texts.value
    parent = next(text for text in rest if not text.final)
    known = replace(last, parent=parent.id, examples=(2, 0), codes=(1, 2, -1), votes=7)
    texts = Released((*rest, known), method.texts.ledger_ids)
    page = render_public_page(
        replace(data, methods=(replace(method, texts=texts),), donated=("one", "two", "three"))
    )
    content = content_of(page)
    row = dict(zip(content["columns"], content["rows"][-1], strict=True))
    assert content["attributes"][0] == ["product", list(SCHEMA.attributes[0].domain)]
    assert (row["text"], row["codes"], row["votes"]) == (last.text, [1, 2, -1], 7)
    assert content["rows"][row["parent"]][0] == parent.text
    assert [content["donated"][str(place)] for place in row["examples"]] == ["three", "one"]
    assert "two" not in content["donated"].values()


def test_every_identifier_is_unique() -> None:
    ids = [
        v
        for n, v in Tags(render_internal_page(public_data(), internal_data())).attributes
        if n == "id"
    ]
    assert len(ids) == len(set(ids))


def test_sections_without_data_are_left_out() -> None:
    data = public_data()
    bare = PublicData(release=release(entries=()), methods=(data.methods[1],))
    page = render_public_page(bare)
    assert 'id="votes"' not in page and 'id="metadata"' not in page
    assert "No private text was used" in page
    empty = replace(bare, methods=(replace(data.methods[1], texts=Released(()), spends=()),))
    assert "No texts are shown here." in render_public_page(empty)


def test_the_page_shows_unusable_answers_by_kind_and_their_share() -> None:
    usage = Usage(calls=190, cached_calls=10, problems={"copied_parent": 5, "refusal": 1})
    data = public_data()
    spends = (Spend(step="round 1", usage=usage),)
    one = replace(data, methods=(replace(data.methods[0], spends=spends),))
    said = " ".join(render_public_page(one).split())
    assert "dropped, 3.0% of all answers: copied parent 5, refusal 1." in said
    none = replace(
        one, methods=(replace(one.methods[0], spends=(Spend(step="1", usage=Usage()),)),)
    )
    assert "Unusable answers" not in render_public_page(none)


def test_how_attributes_are_read_is_shown_where_examples_are_labelled() -> None:
    row = Agreement(attribute="product", texts=40, share=0.85, low=0.71, high=0.93, commonest=0.3)
    page = render_public_page(replace(public_data(), agreements=(row,)))
    shown = re.findall(r"<td[^>]*>([^<]*)</td>", page.partition("How well attributes are read")[2])
    assert shown[:6] == ["product", "column", "40", "0.85", "0.71–0.93", "0.30"]
    assert "How well attributes are read" not in render_public_page(public_data())


def test_a_benchmark_page_says_that_it_is_not_publishable() -> None:
    page = render_public_page(public_data(purpose=Purpose.BENCHMARK))
    assert "Not publishable" in page


def test_one_candidate_and_no_survivor_make_a_chart() -> None:
    data = public_data()
    first = data.methods[0].rounds[0]
    lonely = replace(
        first,
        votes=Released(np.array([-3])),
        written=np.array([0]),
        survivors=np.array([], dtype=int),
    )
    page = render_public_page(replace(data, methods=(replace(data.methods[0], rounds=(lonely,)),)))
    assert "nan" not in re.findall(r'points="(.*?)"', page)
    assert "0 of 1" in page
    assert "nan" not in score_ranks([lonely], method="m")


def test_attributes_without_a_positive_count_have_no_chart() -> None:
    data = public_data()
    counts = {"product": np.array([-3, 0, -1, 0, 0, 0])}
    page = render_public_page(
        replace(
            data, methods=(data.methods[1],), metadata=DpCounts(source="x", counts=Released(counts))
        )
    )
    assert 'id="metadata"' not in page


def test_values_are_read_from_rows_and_a_missing_bound_is_none() -> None:
    row = {"method": "m", "round": 1, "space": "encoder", "metric": "mauve", "value": 0.5}
    assert read_values([row | {"low": float("nan")}])[0].low is None
    with pytest.raises(InvariantError, match="Omit the value"):
        read_values([row | {"value": float("nan")}])


def test_tables_contain_what_the_charts_show() -> None:
    data = public_data()
    votes = votes_table(data)
    assert list(votes.columns) == ["method", "round", "rank", "votes"]
    first = votes[votes["round"] == 1].votes.to_numpy()
    assert (np.diff(first) <= 0).all()
    assert first[0] == data.methods[0].rounds[0].votes.value.max()
    survivors = survivors_table(data)
    assert survivors[survivors["round"] == 2].survivors.sum() == 150
    assert len(votes_table(replace(data, methods=()))) == 0


def test_tables_keep_fractions_of_a_vote_where_records_score() -> None:
    data = public_data()
    (first, *rest) = data.methods
    scores = tuple(
        replace(r, name="scores", votes=r.votes.map(lambda v: v / 4096)) for r in first.rounds
    )
    own = replace(data, methods=(replace(first, rounds=scores), *rest))
    highest = first.rounds[0].votes.value.max() / 4096
    assert votes_table(own).votes[0] == pytest.approx(highest, abs=5e-4) != int(highest)


def test_ranks_are_thinned_to_few_and_keep_both_ends() -> None:
    ranks = thinned(20_000)
    assert ranks[0] == 1 and ranks[-1] == 20_000 and len(ranks) <= 200
    assert thinned(3).tolist() == [1, 2, 3]


@pytest.mark.parametrize("high", [1.0, 0.3, 7.0, 1234.0, 1e-3])
def test_ticks_are_round_and_within_the_range(high: float) -> None:
    ticks = Axis(low=0, high=high, start=0, end=100).ticks()
    assert 2 <= len(ticks) <= 7
    assert all(0 <= t <= high * (1 + 1e-9) for t in ticks)
    assert Axis(low=1, high=1, start=0, end=10)(1) == 5


def test_real_dependence_is_on_the_internal_page_only() -> None:
    public, internal = (
        render_public_page(public_data()),
        render_internal_page(public_data(), internal_data()),
    )
    table = public_data().table
    assert table is not None
    strength = dependence(table.rows.value, SCHEMA.names)["product", "problem"]
    for page in (public, internal):
        assert f'product × problem</td><td class="n">{strength:.3f}' in page
    assert "0.438" in internal and "Real, train" in internal
    assert "0.438" not in public and "Real, train" not in public


def test_each_measured_marginal_is_shown_with_its_round_noise_and_cost() -> None:
    page = render_public_page(public_data())
    found = re.findall(r'<table class="plain" id="measured">(.*?)</table>', page, re.S)[0]
    rows = re.findall(r"<tr>(.*?)</tr>", found, re.S)
    assert len(rows) == 1 + 1 + 14 + 1
    assert "each of 3 attributes alone" in rows[1] and "30.0%" in rows[1]
    assert "problem × stars" in rows[4] and "41.5" in rows[4]
    assert "7.0%" in rows[-1] and "93.0%" in rows[-1]
    assert "engine sugarbush" in page and "4,812 records" in page


def test_the_page_shows_rows_and_pairs_of_the_dp_table() -> None:
    page = render_public_page(public_data())
    rows = re.findall(r'<table id="rows">(.*?)</table>', page, re.S)[0]
    assert rows.count("<tr>") == 1 + 10
    pairs = re.findall(r'<table class="plain" id="pairs">(.*?)</table>', page, re.S)[0]
    assert pairs.index("product × problem") < pairs.index("product × stars")
    assert "not measured" in pairs[pairs.index("product × stars") :]


def test_a_table_without_dependence_shows_no_pairs_on_the_public_page() -> None:
    data = public_data()
    assert data.table is not None
    alone = [m for m in data.table.measurements if m.round == 0]
    given_up = [*data.table.measurements, *(replace(m, round=15) for m in alone)]
    for measured in (alone, given_up):
        flat = replace(data, table=replace(data.table, measurements=tuple(measured)))
        public = render_public_page(flat)
        assert "No dependence between attributes was larger than the noise" in public
        assert 'id="pairs"' not in public
        assert 'id="pairs"' in render_internal_page(flat, internal_data())
    assert "No dependence" not in render_public_page(data)


def test_a_dp_table_without_a_listed_ledger_entry_is_refused() -> None:
    data = public_data()
    assert data.table is not None
    with pytest.raises(InvariantError, match="the DP table"):
        unlisted = Released(data.table.rows.value, ("unlisted",))
        replace(data, table=replace(data.table, rows=unlisted))


def test_a_metric_of_another_package_has_its_row_without_a_label_of_its_own() -> None:
    added = MetricValue(metric="questions", space="text", value=0.4321, method="maple")
    page = render_internal_page(public_data(), InternalData(values=(added,)))
    variety = page.partition("<h3>Variety</h3>")[2]
    assert "<td>questions</td>" in variety and "0.432" in variety
