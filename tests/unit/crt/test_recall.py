"""Misses by label, whole spans only, with bounds that cover."""

import pytest

from sugarbush.crt.patterns import PlainWords, RegexDetector
from sugarbush.crt.recall import Labelled, measure
from sugarbush.crt.redact import Policy
from sugarbush.errors import InputError

POLICY = Policy([RegexDetector(["PHONE"])])


def labelled(text, *secrets):
    spans = tuple((text.index(s), text.index(s) + len(s), label) for s, label in secrets)
    return Labelled(text=text, spans=spans)


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


def test_delta_2_counts_unmasked_secrets_in_public_texts():
    sample = [labelled("my pin is seven", ("seven", "PIN")), labelled("call me 1", ("1", "PIN"))]
    measured = measure(sample, POLICY, name="s", conservative=PlainWords())
    assert (measured.public.count, measured.public.total) == (1, 2)
    assert measured.delta_2 == measured.public.upper


@pytest.mark.parametrize("span", [(0, 99, "X"), (3, 3, "X"), (-1, 2, "X")])
def test_a_label_outside_its_text_is_refused(span):
    with pytest.raises(InputError, match="record 1: a span of X"):
        measure([Labelled(text="abcdef", spans=(span,))], POLICY, name="s")


def test_a_sample_without_labels_is_refused():
    with pytest.raises(InputError, match="no labelled span"):
        measure([Labelled(text="abc", spans=())], POLICY, name="s")
