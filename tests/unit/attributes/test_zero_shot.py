"""Tests of zero-shot attribute values: the centres of values, calibration, and abstention."""

import numpy as np
import pandas as pd
import pytest

from sugarbush.attributes.donated import read_donated_codes
from sugarbush.attributes.settings import ExtractMetadataSettings
from sugarbush.attributes.zero_shot import (
    calibrate,
    calibrate_readers,
    nearest_values,
    read_by_others,
    zero_shot_readers,
)
from sugarbush.data.private_store import LABEL
from sugarbush.data.schema import Attribute, Schema

SCHEMA = Schema(
    subject="letters",
    attributes=(
        Attribute(name="stars", column="stars", values=("1", "2")),
        Attribute.model_validate(
            {
                "name": "mood",
                "values": ["up", "down", "flat"],
                "zero_shot": {"up": ["glad", "happy"], "down": ["sad"], "flat": ["even"]},
            }
        ),
    ),
)
PLACES = {"glad": (1, 0.1, 0), "happy": (1, -0.1, 0), "sad": (0, 1, 0), "even": (0, 0, 1)}


def embed(texts):
    rows = np.array([PLACES[text] for text in texts], dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def leaning(count, *, by, seed=1):
    """Return embeddings near the centres of their labels, all shifted by `by` towards the first
    centre, and these labels.
    """
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    rows = rng.normal(0, 0.08, (count, 3)) + 0.5 * np.eye(3)[labels] + [by, 0, 0]
    return rows, labels


def test_a_values_place_is_the_mean_of_its_descriptions():
    places = zero_shot_readers(SCHEMA, embed=embed)["mood"].centres
    np.testing.assert_allclose(places, np.eye(3), atol=1e-7)


def test_calibration_takes_off_what_draws_every_text_to_one_value():
    """Without calibration, the expected accuracy is about 0.78.

    The accuracy on 500 texts differs from 0.78 by more than 0.11 with probability 1e-8.
    """
    shown, shown_labels = leaning(50, by=0.45)
    asked, labels = leaning(500, by=0.45, seed=2)
    found = calibrate(shown, shown_labels)
    plain = nearest_values(asked, offsets=(), abstain=-1)
    calibrated = nearest_values(asked, offsets=found, abstain=-1)
    assert (plain == labels).mean() < 0.9
    assert (calibrated == labels).mean() > 0.97


def test_a_value_that_no_example_shows_is_neither_favoured_nor_ruled_out():
    rows, labels = leaning(60, by=0.45)
    found = calibrate(rows[labels != 2], labels[labels != 2])
    assert found[0] > found[1] and abs(found[2]) < 0.01
    told = nearest_values(rows, offsets=found, abstain=-1)
    assert (told == labels)[labels == 2].mean() > 0.7


def test_offsets_that_would_mislead_are_not_used():
    """Calibration is not used in two cases: if the labels do not depend on the text, and if the
    labels are predicted well without it.
    """
    kept = 0
    for seed in range(30):
        rows, _ = leaning(20, by=0.0, seed=seed)
        labels = np.random.default_rng(seed + 100).integers(0, 3, 20)
        kept += calibrate(rows, labels) != ()
    assert kept < 20
    clear, labels = leaning(60, by=0.0)
    assert calibrate(clear, labels) == ()  # all labels are right without offsets


def test_examples_without_a_label_within_the_schema_say_nothing():
    rows, labels = leaning(40, by=0.3)
    beside = np.concatenate([rows, rows[:9]])
    codes = np.concatenate([labels, np.full(9, 3)])
    assert calibrate(beside, codes) == calibrate(rows, labels)
    assert calibrate(rows, np.full(40, 3)) == ()


def test_readers_are_calibrated_on_their_own_labels_alone():
    rows, labels = leaning(40, by=0.3)
    names = ["up", "down", "flat"]
    readers = zero_shot_readers(SCHEMA, embed=embed)
    given = {"mood": [names[c] for c in labels], "stars": ["1"] * 40}
    found = calibrate_readers(readers, SCHEMA, embedded=rows, labels=given)
    assert found["mood"].offsets == calibrate(rows @ readers["mood"].centres.T, labels)
    untouched = calibrate_readers(readers, SCHEMA, embedded=rows, labels={"stars": ["1"] * 40})
    assert untouched == readers


@pytest.mark.parametrize("abstain", [0.0, 0.4, 0.9])
def test_the_bucket_takes_what_is_near_to_no_value_whatever_the_calibration(abstain):
    rows, labels = leaning(200, by=0.3)
    reader = calibrate_readers(
        zero_shot_readers(SCHEMA, embed=embed),
        SCHEMA,
        embedded=rows,
        labels={"mood": [SCHEMA.attribute("mood").values[c] for c in labels]},
    )["mood"]
    codes = reader.read(rows, abstain=abstain)
    told = codes < 3
    assert (rows[told, codes[told]] >= abstain - 1e-6).all()
    chosen = reader.read(rows, abstain=-1)
    assert (rows[~told, chosen[~told]] < abstain + 1e-6).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("count", [7, 12, 40])
def test_an_examples_own_label_never_moves_what_is_told_of_it(count, seed):
    """With few examples, one label moves the offsets of a calibration far."""
    rows, labels = leaning(count, by=0.45, seed=seed)
    attribute = SCHEMA.attribute("mood")
    reader = zero_shot_readers(SCHEMA, embed=embed)["mood"]
    given = [attribute.values[c] for c in labels]
    told = read_by_others(reader, attribute, rows, given, abstain=-1)
    for place in range(0, count, max(1, count // 7)):
        for label in ("none of these", *attribute.values):
            other = [*given[:place], label, *given[place + 1 :]]
            again = read_by_others(reader, attribute, rows, other, abstain=-1)
            assert again[place] == told[place]


@pytest.mark.parametrize("seed", range(6))
def test_the_accuracy_on_donated_texts_is_that_of_readers_that_have_not_seen_their_labels(seed):
    """With 20 examples, a reader that has seen them is right more often."""
    rows, labels = leaning(20, by=0.45, seed=seed)
    attribute, texts = SCHEMA.attribute("mood"), [f"text {number}" for number in range(20)]
    given = [attribute.values[code] for code in labels]
    vectors = {**PLACES, **dict(zip(texts, rows, strict=True))}

    def embed_all(wanted):
        return np.array([vectors[text] for text in wanted], dtype=np.float32)

    mood = Schema(subject="letters", attributes=(attribute,))
    found = read_donated_codes(
        pd.DataFrame({"id": texts, "text": texts, f"{LABEL}mood": given}),
        schema=mood,
        embed=embed_all,
        labeller=None,
        settings=ExtractMetadataSettings(zero_shot_abstain=-1.0),
    )
    (reader,) = zero_shot_readers(mood, embed=embed_all).values()
    others = read_by_others(reader, attribute, embed_all(texts), given, abstain=-1)
    (agreement,) = found.agreements
    assert agreement.share == (others == labels).mean()
    assert agreement.share < (found.codes[:, 0] == labels).mean()
