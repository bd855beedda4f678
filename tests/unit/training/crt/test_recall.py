"""Tests of the measured recall: missed secrets by label, rules for found spans, and bounds."""

import json
import re

import pandas as pd
import pytest

from sugarbush.errors import InputError
from sugarbush.training.crt.findings import Finding
from sugarbush.training.crt.patterns import PlainWords, RegexDetector
from sugarbush.training.crt.recall import (
    LabelledText,
    load_labelled,
    measure,
    of_kinds,
    public_changes,
    replayed,
    text_digest,
)
from sugarbush.training.crt.redact import Policy

POLICY = Policy([RegexDetector(["PHONE"])])


def labelled(text, *secrets):
    spans = tuple((text.index(s), text.index(s) + len(s), label) for s, label in secrets)
    return LabelledText(text=text, spans=spans)


SAMPLE = [
    labelled("call 555-010-2345 or Anna", ("555-010-2345", "PHONE"), ("Anna", "NAME")),
    labelled("call 555-010-2345 now", ("call 555-010-2345", "PHONE")),
    labelled("nothing 555-010-9999 here"),
]


def test_a_span_counts_as_found_only_when_it_is_masked_whole():
    measured = measure(SAMPLE, POLICY, name="sample")
    assert measured.missed_by_label["PHONE"].count == 1
    assert measured.missed_by_label["NAME"].count == 1
    assert (measured.missed.count, measured.missed.total) == (2, 3)
    assert (measured.precision.count, measured.precision.total) == (2, 3)
    assert measured.sample == "sample"


def test_gamma_is_the_upper_bound_and_not_the_rate():
    measured = measure(SAMPLE, POLICY, name="sample")
    assert measured.gamma > measured.missed.value
    assert measured.delta_2 == 0


def test_the_bounds_of_gamma_and_delta_2_hold_at_once():
    # If none of n cases is a miss, the upper bound of the share of misses at confidence c is
    # 1 - (1 - c)^(1/n).
    sample = [labelled(f"call 555-010-{i:04d}", (f"555-010-{i:04d}", "PHONE")) for i in range(20)]
    alone = measure(sample, POLICY, name="s")
    both = measure(sample, POLICY, name="s", conservative=PlainWords())
    assert alone.gamma == pytest.approx(1 - 0.05 ** (1 / 20))
    assert both.gamma == both.delta_2 == pytest.approx(1 - 0.025 ** (1 / 20))
    assert both.missed == alone.missed
    assert (alone.confidence_each, both.confidence_each) == (0.95, 0.975)
    assert alone.confidence == both.confidence == 0.95


def test_a_secret_that_is_masked_whole_and_leaves_a_trace_counts_for_gamma():
    # The detector masks "Yes" before a name, but not before a mask. So the text shows that there
    # was a name.
    names = [f"Jean {last}" for last in ("Horning", "Peterson", "Alvarez", "Hughes")]
    sample = [labelled(f"Yes {name}.", (name, "NAME")) for name in names]
    measured = measure(sample, Policy([RegexDetector(["NAME"])]), name="s")
    assert (measured.missed.count, measured.traced.count) == (0, 4)
    assert measured.gamma == 1
    plain = [labelled("call 555-010-2345", ("555-010-2345", "PHONE"))] * 20
    assert measure(plain, POLICY, name="s").traced.count == 0


def test_gamma_counts_distinct_secrets_and_no_copies():
    # 400 copies of one number are one case. If spans were counted, the bound for five missed names
    # would be 2.6%.
    copies = [labelled("call 555-010-2345", ("555-010-2345", "PHONE"))] * 400
    names = [labelled(f"I am {name}", (name, "NAME")) for name in ("Ann", "Bo", "Cy", "Di", "Ed")]
    measured = measure([*copies, *names], POLICY, name="s", conservative=PlainWords())
    for share in (measured.missed, measured.traced):
        assert (share.count, share.total) == (5, 6)
    assert measured.public.total == 6
    phone = measured.missed_by_label["PHONE"]
    assert (phone.count, phone.total) == (0, 1)
    assert measured.gamma > 0.99
    once = measure([copies[0], *names], POLICY, name="s", conservative=PlainWords())
    assert (once.gamma, once.delta_2) == (measured.gamma, measured.delta_2)


def test_spans_that_differ_in_case_width_or_white_space_are_one_secret():
    written = ("Anna Berg", "anna berg", "ANNA  BERG", "Anna\nBerg", "\uff21nna Berg")
    sample = [labelled(f"I am {name}", (name, "NAME")) for name in written]
    assert measure(sample, POLICY, name="s").missed.total == 1
    other = labelled("I am Anna Berg", ("Anna Berg", "PLACE"))
    assert measure([*sample, other], POLICY, name="s").missed.total == 2


class AfterCall:
    """Finds the words after "call ", and nothing in other texts."""

    def find(self, texts):
        return [
            [Finding(5, len(text), "PHONE", 1.0)] if text.startswith("call ") else []
            for text in texts
        ]


def test_a_secret_counts_as_missed_if_any_of_its_spans_is():
    found = [labelled("call 555-010-2345", ("555-010-2345", "PHONE"))] * 9
    missed = labelled("dial 555-010-2345", ("555-010-2345", "PHONE"))
    measured = measure([*found, missed], Policy([AfterCall()]), name="s")
    assert (measured.missed.count, measured.missed.total) == (1, 1)
    alone = measure(found, Policy([AfterCall()]), name="s")
    assert (alone.missed.count, alone.missed.total) == (0, 1)


def test_delta_2_counts_the_secrets_that_show_in_the_public_part():
    sample = [
        labelled("It is late. My pin is seven.", ("seven", "PIN")),
        labelled("It is late. Call me 1.", ("1", "PIN")),
        labelled("Call 555-010-2345 now.", ("555-010-2345", "PHONE")),
    ]
    measured = measure(sample, POLICY, name="s", conservative=PlainWords())
    assert (measured.public.count, measured.public.total) == (1, 3)
    assert measured.delta_2 == measured.public.upper


def test_a_secret_that_moves_the_end_of_a_sentence_shows():
    # If the secret is masked, the full stop after the mask ends a sentence. So "Good bye." is then
    # a separate sentence in the public view.
    sample = [labelled("I am Smith J. Good bye.", ("Smith J", "NAME"))]
    assert public_changes(replayed(sample, POLICY), PlainWords()) == [True]
    ends = [labelled("Room A. Dr. Hi.", ("Dr", "TITLE"))]

    class Nothing:
        def is_public(self, texts):
            return [False] * len(texts)

    assert public_changes(replayed(ends, POLICY), Nothing()) == [True]


@pytest.mark.parametrize("span", [(0, 99, "X"), (3, 3, "X"), (-1, 2, "X")])
def test_a_label_outside_its_text_is_refused(span):
    with pytest.raises(InputError, match="record 1: a span is not within its text"):
        measure([LabelledText(text="abcdef", spans=(span,))], POLICY, name="s")


def test_a_sample_without_labels_is_refused():
    with pytest.raises(InputError, match="no labelled span"):
        measure([LabelledText(text="abc", spans=())], POLICY, name="s")


def write_labelled(path, text, spans):
    rows = [{"text": text, "spans": [{"start": a, "end": b, "label": k} for a, b, k in spans]}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([(0, 99, "NAME")], "row 1: a span is not within its text"),
        ([(0, 4, "NAME"), (2, 6, "PHONE")], "row 1: a span overlaps"),
    ],
)
def test_a_file_with_impossible_labels_is_refused_by_row(tmp_path, spans, message):
    path = write_labelled(tmp_path / "l.jsonl", "Ada and Bert", spans)
    with pytest.raises(InputError, match=message) as refused:
        load_labelled(path, text_column="text")
    assert "NAME" not in str(refused.value)  # a wrong column as the label would be quoted
    assert "12" not in str(refused.value).removeprefix(str(path))  # the length of the text


@pytest.mark.parametrize(
    "row",
    [
        {"text": "Ada", "spans": [{"start": 0.5, "end": 3, "label": "NAME"}]},
        {"text": "Ada", "spans": [{"start": "0", "end": 3, "label": "NAME"}]},
        {"text": "Ada", "spans": {"start": 0}},
        {"text": "Ada", "spans": None},
        {"text": "Ada", "spans": "[" * 100_000},
        {"text": None, "spans": []},
    ],
)
def test_a_row_that_is_no_labelled_text_is_refused(tmp_path, row):
    (tmp_path / "l.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(InputError, match="row 1: needs 'text' and 'spans'"):
        load_labelled(tmp_path / "l.jsonl", text_column="text")


@pytest.mark.parametrize(("text", "label"), [("Ada \ud800", "NAME"), ("Ada", "N\ud800")])
def test_half_a_character_is_refused_by_row(tmp_path, text, label):
    """No tokenizer can read half a character."""
    path = write_labelled(tmp_path / "l.jsonl", text, [(0, 3, label)])
    with pytest.raises(InputError, match=r"row 1: .* half a character") as refused:
        load_labelled(path, text_column="text")
    assert "Ada" not in str(refused.value)


def test_labels_count_code_points(tmp_path):
    text = "\U0001f600 שלום e\u0301 Ada"
    start = text.index("Ada")
    path = write_labelled(tmp_path / "l.jsonl", text, [(start, start + 3, "NAME")])
    (one,) = load_labelled(path, text_column="text")
    assert one.text[slice(*one.spans[0][:2])] == "Ada"


class Trained(RegexDetector):
    """A detector that was trained with the first text of SAMPLE."""

    trained_on = frozenset({text_digest(SAMPLE[0].text)})


def test_texts_that_trained_the_policy_do_not_measure_it():
    policy = Policy([Trained(["PHONE"])])
    measured = measure(SAMPLE, policy, name="s")
    assert measured.left_out == 1
    assert measured.missed == measure(SAMPLE[1:], POLICY, name="s").missed
    with pytest.raises(InputError, match="trained with all of these texts"):
        measure(SAMPLE[:1], policy, name="s")


def test_secrets_that_trained_the_policy_do_not_measure_it_in_other_texts():
    """A redactor that only knows the secrets of its texts by heart must not have a small gamma."""
    sample = [labelled(f"ask Staff{i % 20} about case {i}", (f"Staff{i % 20}", "NAME"))
              for i in range(200)]  # fmt: skip
    fresh = [labelled(f"ask Guest{i} about it", (f"Guest{i}", "NAME")) for i in range(10)]

    class KnowsByHeart:
        trained_on = frozenset(text_digest(one.text) for one in sample[:100])

        def find(self, texts):
            return [[Finding(m.start(), m.end(), "NAME", 1.0) for m in re.finditer(r"Staff\d+", t)]
                    for t in texts]  # fmt: skip

    measured = measure([*sample, *fresh], Policy([KnowsByHeart()]), name="s")
    assert (measured.left_out, measured.missed.count, measured.missed.total) == (100, 10, 10)
    assert measured.gamma == 1
    assert measured.precision.value == 1  # a mask over a known secret is no mistake
    with pytest.raises(InputError, match="texts or secrets"):
        measure(sample, Policy([KnowsByHeart()]), name="s")


def test_texts_that_were_labelled_with_suggestions_do_not_measure(tmp_path):
    """People accept suggestions, so such labels are what the detectors find."""
    rows = [
        {"text": "ring 555-010-2345", "spans": [{"start": 5, "end": 17, "label": "PHONE"}]},
        {"text": "ask Ada", "spans": [{"start": 4, "end": 7, "label": "NAME"}]},
    ]
    used = [rows[0] | {"use": "train"}, rows[1] | {"use": "measure"}]
    for name, write in (("l.jsonl", pd.DataFrame.to_json), ("l.parquet", pd.DataFrame.to_parquet)):
        options = {"orient": "records", "lines": True} if name.endswith("l") else {}
        write(pd.DataFrame(used), tmp_path / name, **options)
        measured = measure(load_labelled(tmp_path / name, text_column="text"), POLICY, name="s")
        assert (measured.left_out, measured.missed.count, measured.missed.total) == (1, 1, 1)
    (tmp_path / "l.jsonl").write_text(json.dumps(used[0]) + "\n")
    with pytest.raises(InputError, match="labelled with suggestions"):
        measure(load_labelled(tmp_path / "l.jsonl", text_column="text"), POLICY, name="s")


def test_only_the_kinds_that_must_be_found_count():
    measured = measure(SAMPLE, POLICY, name="s", must_find=["PHONE"])
    assert set(measured.missed_by_label) == set(measured.traced_by_label) == {"PHONE"}
    assert measured.missed.total == measured.missed_by_label["PHONE"].total
    assert measured.left_out_labels == ("NAME",)
    assert measure(SAMPLE, POLICY, name="s").left_out_labels == ()
    assert measure(SAMPLE, POLICY, name="s", must_find=["phone"]) == measured
    with pytest.raises(InputError, match=r"has no label CARD, which methods\.crt\.must_find names"):
        measure(SAMPLE, POLICY, name="s", must_find=["PHONE", "CARD"])


def test_a_message_shows_few_labels_and_their_first_characters_only():
    """A user may write a private text in place of a label."""
    private = "Ada Lane of 12 Elm Street has a cold"
    sample = [LabelledText(text="Ada", spans=((0, 3, private),))]
    sample += [LabelledText(text="Ada", spans=((0, 3, f"L{i:02}"),)) for i in range(30)]
    with pytest.raises(InputError, match=r"are Ada Lane of 12 Elm Stree…, L00, .*L08 and 21"):
        of_kinds(sample, ["CARD"], name="s")


def test_gamma_by_kind_is_a_bound_of_that_kind():
    measured = measure(SAMPLE, POLICY, name="s")
    assert measured.traced.total == sum(s.total for s in measured.traced_by_label.values())
    assert all(s.upper >= s.value for s in measured.traced_by_label.values())
