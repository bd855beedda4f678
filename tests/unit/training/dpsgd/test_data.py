"""Tests that one record gives one training example: control codes, text, end token."""

import numpy as np
import pytest

from sugarbush.data.schema import Attribute, Schema
from sugarbush.errors import ParamsError
from sugarbush.privacy.data_types import Private
from sugarbush.training.dpsgd.data import control_codes, examples_of, probe_examples, truncated

SCHEMA = Schema(
    subject="complaints",
    attributes=(
        Attribute(name="product", values=("loan", "card"), column="product"),
        Attribute(name="issue", values=("fees",), column="issue"),
    ),
)
TEXTS = ["the man asked about fees", "it was late", "it was wrong " * 30, ""]
CODES = np.array([[0, 0], [1, 1], [0, 0], [2, 0]])


def encode(loaded, texts=TEXTS, codes=CODES, max_length=64):
    return examples_of(texts, codes, schema=SCHEMA, tokenizer=loaded[1], max_length=max_length)


def test_codes_are_written_as_names_and_values():
    assert control_codes(SCHEMA.decode((0, 0))) == "product: loan | issue: fees\n"


def test_an_example_is_codes_text_and_end(loaded):
    _, tokenizer = loaded
    decoded = [tokenizer.decode(unit[0].tokens) for unit in encode(loaded)]
    assert decoded[0] == "product: loan | issue: fees\nthe man asked about fees<|endoftext|>"
    assert decoded[1] == "product: card | issue: other\nit was late<|endoftext|>"
    assert decoded[3] == "product: other | issue: fees\n<|endoftext|>"


def test_the_loss_starts_after_the_codes(loaded):
    _, tokenizer = loaded
    ((example,), *_) = encode(loaded)
    text = tokenizer.decode(example.tokens[example.prompt_length :])
    assert text == "the man asked about fees<|endoftext|>"


def test_a_long_text_is_cut_and_has_no_end(loaded):
    _, tokenizer = loaded
    units = encode(loaded)
    assert [len(unit[0].tokens) for unit in units][2] == 64
    ends = [unit[0].tokens[-1] == tokenizer.eos_token_id for unit in units]
    assert ends == [True, True, False, True]
    assert truncated(Private(units), end=tokenizer.eos_token_id) == 1


@pytest.mark.parametrize("spare", [-1, 0, 1])
def test_a_text_is_cut_exactly_when_it_and_its_end_do_not_fit(loaded, spare):
    _, tokenizer = loaded
    texts = [TEXTS[0] * 3]
    needed = len(encode(loaded, texts, CODES[:1])[0][0].tokens)
    (unit,) = encode(loaded, texts, CODES[:1], max_length=needed + spare)
    assert (unit[0].tokens[-1] == tokenizer.eos_token_id) == (spare >= 0)


def test_an_example_depends_on_its_own_record_alone(loaded):
    together = encode(loaded)
    for place in range(len(TEXTS)):
        (alone,) = encode(loaded, TEXTS[place : place + 1], CODES[place : place + 1])
        assert alone[0].tokens.tolist() == together[place][0].tokens.tolist()


def test_codes_without_room_for_a_text_are_an_error_that_names_the_setting(loaded):
    with pytest.raises(ParamsError, match=r"methods\.dpft\.max_length=20 leaves no room"):
        encode(loaded, max_length=20)


def test_no_records_give_no_examples(loaded):
    assert encode(loaded, [], np.empty((0, 2), dtype=np.int64)) == []


def test_the_probe_is_two_records_of_unequal_length_with_repeated_tokens():
    one, other = probe_examples(300, max_length=64)
    assert len(one.tokens) != len(other.tokens)
    assert len(set(one.tokens.tolist())) < len(one.tokens)
    assert max(one.tokens) < 300
