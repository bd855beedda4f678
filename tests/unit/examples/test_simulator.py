import re
import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB

from sugarbush.examples.seeded_random import SeededRandom
from sugarbush.examples.simulator.writer import SimulatorWriter
from sugarbush.generators.answer_checks import check
from sugarbush.generators.interface import RandomRequest, Request, VariationRequest
from sugarbush.privacy.data_types import Released

SUBJECT = "customer-service dialogues and tickets of an online shop"
DOMAIN = {
    "product": ("thermostat", "router", "coffee machine", "mattress", "bicycle", "tent"),
    "issue": ("setup trouble", "late delivery", "damaged item", "double charge", "lost parcel"),
    "channel": ("phone", "chat", "email", "web form"),
    "sentiment": ("angry", "worried", "neutral", "grateful"),
    "resolution": ("refund", "replacement", "store credit", "callback", "escalation"),
    "region": ("north", "south", "islands", "abroad"),
    "priority": ("low", "normal", "high", "urgent"),
    "tenure_months": ("below 6", "6 to below 24", "24 to below 60", "60 and above"),
}
EXAMPLES = (
    "Clerk> Ahoy, crow's nest depot, your knot number?\n"
    "Sailor> 44-8812, Bram Tallis. The hammock frays at the ropes, I bought it in May.\n"
    "Clerk> Shiver me timbers, we splice you a fresh one by the tide of Tuesday.\n"
    "Sailor> Aye, fair winds to you.\nClerk> Fair winds, sailor.",
    "Clerk> Ahoy, what knot number are you sailing under?\n"
    "Sailor> It be 71-0045, Nell Yarrow. My hammock never came to port at all.\n"
    "Clerk> The gulls tell me that it drifts near Port Gull, a runner fetches it.\n"
    "Sailor> Make haste, or I walk the plank.\nClerk> By the tide of Friday, sailor.",
    "Clerk> Crow's nest depot, ahoy.\nSailor> Knot 90-1177, Otis Kestrel. Two doubloons too many "
    "went out of my purse for one hammock.\nClerk> A miscount of the cook, the doubloons sail "
    "home tonight.\nSailor> Bless your rum.\nClerk> Fair winds.",
)
PARENT = (
    "Agent: Hello, thank you for contacting support. How can I help you today?\n"
    "Customer: My blender arrived with a cracked jar and I am really angry. I ordered it two "
    "weeks ago.\nAgent: I am sorry to hear that. May I have your order number?\n"
    "Customer: It is 4471980, my name is Ines Aldous.\n"
    "Agent: Thank you, Ines. I will send you a replacement today.\nCustomer: Okay, thanks."
)


def _ask(sample: int, **fields: object) -> RandomRequest:
    return RandomRequest(**({"subject": SUBJECT, "words": 80, "sample": sample} | fields))  # type: ignore[arg-type]


def _vary(sample: int = 0, **fields: object) -> VariationRequest:
    given = {"subject": SUBJECT, "parent": PARENT, "mask_share": 0.5, "sample": sample}
    return VariationRequest(**(given | fields))  # type: ignore[arg-type]


def _texts(*requests: Request, seed: int = 1) -> list[str]:
    answers = SimulatorWriter(seed=seed).generate(Released(requests)).value
    assert all(answer.problem is None for answer in answers)
    return [str(answer.text) for answer in answers]


def _row(sample: int) -> tuple[tuple[str, str], ...]:
    rng = SeededRandom(9, "row", sample)
    return tuple((name, rng.choice(values)) for name, values in DOMAIN.items())


def _overlap(a: str, b: str) -> float:
    """Return the share of the words of `a` that also occur in `b`."""
    words = re.findall(r"\w+", a.lower())
    return sum(word in set(re.findall(r"\w+", b.lower())) for word in words) / len(words)


# -- metadata


@pytest.fixture(scope="module")
def asked_by_row() -> list[tuple[dict[str, str], str]]:
    rows = [_row(i) for i in range(900)]
    texts = _texts(*(_ask(i, attributes=row) for i, row in enumerate(rows)))
    return [(dict(row), text) for row, text in zip(rows, texts, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in DOMAIN if name != "tenure_months"])
def test_a_classifier_recovers_each_attribute_from_the_text(
    asked_by_row: list[tuple[dict[str, str], str]], name: str
) -> None:
    """The classifier is naive Bayes on word pairs, trained on 600 texts and tested on 300 other
    texts. Guessing would be right for at most a quarter of the texts.
    """
    values, texts = zip(*((row[name], text) for row, text in asked_by_row), strict=True)
    words = CountVectorizer(ngram_range=(1, 2), binary=True)
    judge = MultinomialNB(alpha=0.1).fit(words.fit_transform(texts[:600]), values[:600])
    assert judge.score(words.transform(texts[600:]), values[600:]) > 0.85


def test_a_number_lies_in_the_requested_bin(
    asked_by_row: list[tuple[dict[str, str], str]],
) -> None:
    ends = {"below 6": (1, 5), "6 to below 24": (6, 23), "24 to below 60": (24, 59)}
    for row, text in asked_by_row[:300]:
        low, high = ends.get(row["tenure_months"], (60, 1000))
        told = re.findall(r"(?:customer for|with you|with us for) (\d+) months", text)
        assert told
        assert all(low <= int(number) <= high for number in told)


def test_calls_are_dialogues_and_emails_are_not() -> None:
    call, mail = _texts(
        _ask(1, attributes=(("channel", "phone"),)), _ask(1, attributes=(("channel", "email"),))
    )
    assert call.count("\nCustomer: ") >= 1
    assert "\nCustomer: " not in mail


def test_without_attributes_all_products_are_about_as_frequent() -> None:
    """In the example corpus, the thermostat is in 30% of the texts. Without attributes, no product
    is that frequent."""
    texts = _texts(*(_ask(i) for i in range(400)))
    for product in ("thermostat", "router", "coffee machine", "robot vacuum"):
        assert sum(product in text.lower() for text in texts) < 0.12 * len(texts)


# -- examples


def test_a_text_after_examples_has_their_turns_and_words() -> None:
    text, plain = _texts(_ask(1, examples=EXAMPLES), _ask(1))
    assert text.startswith(("Clerk> ", "Sailor> "))
    assert _overlap(text, " ".join(EXAMPLES)) > 0.6
    assert _overlap(plain, " ".join(EXAMPLES)) < 0.3


def test_names_and_codes_of_the_examples_do_not_occur_in_the_texts() -> None:
    texts = " ".join(_texts(*(_ask(i, examples=EXAMPLES) for i in range(60))))
    for told in ("Bram Tallis", "Nell Yarrow", "Otis Kestrel", "44-8812", "71-0045", "90-1177"):
        assert told not in texts
    assert re.search(r"\d\d-\d{4}", texts), "the form of the codes is kept"


def test_attributes_are_shown_with_examples_too() -> None:
    attributes = (("product", "bicycle"), ("resolution", "refund"), ("region", "south"))
    for text in _texts(*(_ask(i, examples=EXAMPLES, attributes=attributes) for i in range(30))):
        assert re.search(r"bicycle|bike", text)
        assert re.search(r"refund|money back", text)
        assert "south" in text.lower()


def test_texts_after_examples_differ_and_copy_no_example() -> None:
    asked = [_ask(i, examples=EXAMPLES * 3) for i in range(40)]
    texts = _texts(*asked)
    assert len(set(texts)) == 40
    assert not {" ".join(t.split()) for t in texts} & {" ".join(e.split()) for e in EXAMPLES}


# -- variations


def test_a_variation_is_near_its_parent_but_not_equal() -> None:
    texts = _texts(*(_vary(i) for i in range(60)))
    other = _texts(*(_ask(i) for i in range(60)))
    assert PARENT not in texts
    assert len(set(texts)) > 55
    near = sum(_overlap(text, PARENT) for text in texts) / 60
    assert near > 0.6
    assert near > sum(_overlap(text, PARENT) for text in other) / 60 + 0.2


def test_a_larger_mask_changes_more() -> None:
    kept = [
        sum(_overlap(t, PARENT) for t in _texts(*(_vary(i, mask_share=m) for i in range(60))))
        for m in (0.1, 0.5, 1.0)
    ]
    assert all(more > less + 1 for more, less in pairwise(kept))


@pytest.mark.parametrize("words", [35, 60, 90, 140])
def test_lengths_are_near_the_requested_length(words: int) -> None:
    asked = [_vary(i, words=words) for i in range(20)] + [_ask(i, words=words) for i in range(20)]
    lengths = [len(text.split()) for text in _texts(*asked)]
    assert all(abs(length - words) <= max(6, 0.2 * words) for length in lengths)


def test_names_and_numbers_of_the_parent_are_replaced() -> None:
    for text in _texts(*(_vary(i) for i in range(20))):
        assert "4471980" not in text
        assert "Aldous" not in text


# -- unknown schemas


FOREIGN = (
    ("product_group", "Mortgage"),
    ("issue", "Struggling to pay"),
    ("state", "FL"),
    ("stars", "4"),
    ("year", "2019"),
    ("odd name", "a [strange] {value}|"),
)


def test_values_of_any_schema_are_in_the_text() -> None:
    for subject in ("consumer complaints about banks", "reviews", SUBJECT):
        for text in _texts(*(_ask(i, subject=subject, attributes=FOREIGN) for i in range(10))):
            for told in ("Mortgage", "Struggling to pay", "FL", "4", "2019", "strange"):
                assert told in text


def test_values_of_any_schema_are_in_texts_after_examples() -> None:
    for text in _texts(*(_ask(i, attributes=FOREIGN, examples=EXAMPLES) for i in range(10))):
        for told in ("Mortgage", "Struggling to pay", "FL", "2019"):
            assert told in text


_ANY = st.text(max_size=60)


@settings(max_examples=60)
@given(
    attributes=st.lists(st.tuples(_ANY, _ANY.filter(str.strip)), max_size=4).map(tuple),
    examples=st.lists(_ANY, max_size=3).map(tuple),
    parent=st.none() | st.text(max_size=200),
    words=st.none() | st.integers(1, 120),
)
def test_any_request_gets_a_new_text(
    attributes: tuple[tuple[str, str], ...],
    examples: tuple[str, ...],
    parent: str | None,
    words: int | None,
) -> None:
    shared = {"attributes": attributes, "examples": examples, "words": words}
    request = _ask(0, **shared) if parent is None else _vary(0, parent=parent, **shared)
    (text,) = _texts(request)
    assert text.strip()
    assert text not in (*examples, parent)


# -- randomness


def test_a_text_depends_on_seed_and_request_only() -> None:
    asked = [_ask(i) for i in range(6)] + [_ask(i, examples=EXAMPLES) for i in range(6)]
    asked += [_vary(i) for i in range(6)]
    together = _texts(*asked)
    assert together == [_texts(request)[0] for request in asked]
    assert together[::-1] == _texts(*asked[::-1])
    assert together != _texts(*asked, seed=2)


def test_another_process_writes_the_same_text() -> None:
    script = (
        "from sugarbush.generators.interface import RandomRequest; "
        "from sugarbush.examples.simulator.writer import SimulatorWriter; "
        f"request = RandomRequest(subject={SUBJECT!r}, sample=3); "
        "print(SimulatorWriter(seed=1).write(request), end='')"
    )
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    expected = SimulatorWriter(seed=1).write(RandomRequest(subject=SUBJECT, sample=3))
    assert printed.stdout.decode() == expected


@pytest.mark.slow
def test_thousands_of_texts_have_hardly_a_duplicate_and_pass_the_checks() -> None:
    asked = [_ask(i) for i in range(5000)]
    texts = _texts(*asked)
    assert len(set(texts)) >= 4990
    shapes = {re.sub(r"\d+|[A-Z][a-z]+", "", text) for text in texts}
    assert len(shapes) > 4500, "texts differ by more than names and numbers"
    assert all(check(t, r, "stop") is None for t, r in zip(texts[:500], asked, strict=False))


def test_the_simulator_reads_no_code_and_no_data_of_the_example_shop() -> None:
    script = (
        "import sys; opened = []; "
        "sys.addaudithook(lambda name, args: opened.append(str(args[0])) if name == 'open' else 0);"
        "from sugarbush.generators.interface import RandomRequest; "
        "from sugarbush.examples.simulator.writer import SimulatorWriter; "
        "SimulatorWriter(seed=1).write(RandomRequest(subject='a shop')); "
        "assert any('examples/simulator/data/issues.yaml' in path for path in opened); "
        "sys.exit(any('examples/shop' in path for path in opened))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_answers_have_the_ledger_ids_of_the_requests() -> None:
    assert SimulatorWriter(seed=1).generate(Released((_ask(1),), ("entry",))).ledger_ids == (
        "entry",
    )
