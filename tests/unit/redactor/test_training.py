"""The recipe, with very few texts: it learns, is cached once, and never measures itself."""

import json
import shutil

import numpy as np
import pytest
import torch

import sugarbush as sb
from sugarbush.errors import InputError, ParamsError, StorageError
from sugarbush.redactor import cache, redaction
from sugarbush.redactor.detector import (
    LearnedDetector,
    Word,
    findings_of,
    groups,
    secret_score,
)
from sugarbush.redactor.labels import for_training, use_of
from sugarbush.redactor.shapes import shape_of
from sugarbush.redactor.texts import generated_texts
from sugarbush.redactor.train import Recipe, train_redactor
from sugarbush.redactor.values import KINDS
from sugarbush.training.crt.findings import DESCRIPTION
from sugarbush.training.crt.policies import make_policy, make_public_policy
from sugarbush.training.crt.recall import LabelledText, measure

TINY = Recipe(texts=60, checked=20, learning_rate=1e-3)


@pytest.fixture(scope="module")
def redactor(tmp_path_factory):
    folder = tmp_path_factory.mktemp("redactor") / "made"
    return train_redactor(TINY, folder)


def word(text, start, end, kind="", score=0.0):
    scores = [score if kind == own else 0.0 for own in KINDS]
    assert text[start:end].strip() == text[start:end]
    return Word(start, end, tuple(scores))


def test_a_strong_word_takes_its_weak_neighbours_and_signs_with_it():
    text = "at 12 Elm St , NY 10001 today"
    kinds = {"12": 0.4, "Elm": 0.9, "St": 0.3, "10001": 0.4}
    words, place = [], 0
    for own in text.split():
        start = text.index(own, place)
        place = start + len(own)
        words.append(word(text, start, place, "ADDRESS", kinds.get(own, 0.0)))
    (found,) = findings_of(text, words, weak=0.2)
    assert text[found.start : found.end] == "12 Elm St , NY 10001"
    assert found.label == "ADDRESS"
    assert found.score == 0.9
    (strict,) = findings_of(text, words, weak=0.2, power=20)
    assert strict.score < 0.3  # under the default threshold of a policy


def test_punctuation_at_its_edges_is_no_part_of_a_finding():
    text = '("Ada Berg"),'
    words = [word(text, 0, 5, "NAME", 0.9), word(text, 6, 13, "NAME", 0.9)]
    (found,) = findings_of(text, words, weak=0.2)
    assert text[found.start : found.end] == "Ada Berg"


def test_places_and_organisations_are_no_secrets():
    assert findings_of("Paris", [word("Paris", 0, 5, "PLACE", 1.0)], weak=0.2) == []


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_groups_of_sentences_are_the_text(size):
    text = "  One. Two!\n\nThree? Four.  Five\n"
    assert all(text[start : start + len(piece)] == piece for start, piece in groups(text, size))
    assert "".join(piece for _, piece in groups(text, size)).split() == text.split()


def test_words_have_shapes():
    words = ["ada", "Ada", "ADA", "McAda", "12", "a1", "-", "愛"]
    assert [shape_of(own) for own in words] == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.slow
def test_findings_do_not_depend_on_the_other_texts(redactor):
    texts = ["I am Ada Berg.", "Call 555-010-2345", "x", "a longer text " * 30, ""]
    scores = list(redactor.words(texts))
    for text, own in zip(texts, scores, strict=True):
        assert [*redactor.words([text])] == [own]


@pytest.mark.slow
def test_no_bit_of_a_score_depends_on_the_other_texts(redactor):
    """In batches of another shape, bfloat16 (a CPU with AMX) changes scores by up to 0.03."""
    texts = [one.text for one in generated_texts(5, 40)]
    longer = [f"{text} {text} Ada Lovelace." for text in texts]
    alone = [next(redactor.words([text])) for text in texts[:8]]
    assert [*redactor.words(texts)][:8] == alone
    assert [*redactor.words([*longer, *texts[:8]])][len(longer) :] == alone


@pytest.mark.slow
def test_the_shape_of_a_batch_depends_only_on_the_length_of_its_pieces(redactor, monkeypatch):
    """On some CPUs, float32 gives equal bits in batches of any shape."""
    rows: dict[int, set[int]] = {}
    probabilities = redactor.probabilities

    def watched(pieces, *, length):
        rows.setdefault(length, set()).add(len(pieces))
        return probabilities(pieces, length=length)

    monkeypatch.setattr(redactor, "probabilities", watched)
    texts = [one.text for one in generated_texts(5, 12)]
    for some in (texts, texts[:1], texts[:3]):
        list(redactor.words(some))
    assert all(len(counts) == 1 for counts in rows.values())


@pytest.mark.slow
def test_right_to_left_text_and_combining_characters_keep_their_offsets(redactor):
    text = "שלום e\u0301 \U0001f469\u200d\U0001f4bb Ada\u0301 555-010-2345 مرحبا"
    (words,) = redactor.words([text])
    assert [text[w.start : w.end] for w in words] == text.split()


@pytest.mark.slow
def test_a_sentence_without_an_end_is_read_in_pieces(redactor, monkeypatch):
    seen = []
    monkeypatch.setattr(
        redactor, "probabilities", lambda pieces, **_: seen.extend(pieces) or stand_in(pieces)
    )
    text = "word " * 20_000
    (words,) = redactor.words([text])
    assert len(words) == 20_000
    assert max(map(len, seen)) < 2_000  # every piece fits the model
    assert sum(map(len, seen)) == len(text)


def stand_in(pieces):
    scores = torch.zeros((len(pieces), 1, len(KINDS)))
    return scores, [[(0, len(piece))] for piece in pieces]


@pytest.mark.slow
def test_it_is_trained_once_and_found_by_its_recipe(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path))
    monkeypatch.setattr(cache, "Recipe", lambda: Recipe(texts=12, checked=4))
    cache._open.cache_clear()
    made = sb.redact(["Call 555-010-2345 now"])
    assert "555" not in made.texts[0]
    assert "The redactor is trained once on this machine" in capsys.readouterr().out
    monkeypatch.setattr(cache, "train_redactor", None)  # a second training would fail
    cache._open.cache_clear()
    assert make_policy(["regex", "learned"], threshold=0.3).identities
    (folder,) = (p for p in (tmp_path / "redactor").iterdir() if p.is_dir())
    assert folder.name == Recipe(texts=12, checked=4).digest
    assert make_policy([str(folder)], threshold=0.3).trained_on == frozenset()
    cache._open.cache_clear()


@pytest.mark.slow
def test_it_is_a_conservative_policy_too(redactor):
    policy = make_public_policy(str(redactor.folder))
    texts = ["Call 555-010-2345", ""]
    (words, _) = policy.words(texts)
    secret = any(secret_score(word) >= policy.weak for word in words)
    assert policy.is_public(texts) == [not secret, True]


def test_a_recipe_has_another_digest_when_it_changes():
    assert Recipe().digest == Recipe().digest != Recipe(seed=2).digest


@pytest.mark.slow
def test_own_labels_are_split_between_training_and_measuring(redactor, tmp_path):
    sample = [
        LabelledText(text=f"Member Zorblax{i} called", spans=((7, 14 + len(str(i)), "PERSON"),))
        for i in range(30)
    ]
    own = for_training(sample)
    assert {use_of(one.text) for one in own} == {"train"}
    assert 5 < len(own) < 25
    assert all(one.spans[0][2] == "NAME" for one in own)
    tuned = train_redactor(
        Recipe(texts=5, checked=5), tmp_path / "tuned", start=redactor.folder, labelled=own
    )
    # Its weights and its digests come from private texts.
    assert tuned.folder.stat().st_mode & 0o077 == 0
    policy = make_policy(["regex", str(tuned.folder)], threshold=0.3)
    measured = measure(sample, policy, name="own")
    assert measured.left_out == len(own)
    assert measured.missed.total == len(sample) - len(own)
    with pytest.raises(InputError, match="trained with all of these texts"):
        measure(own, policy, name="own")


@pytest.mark.slow
def test_tuning_masks_no_fewer_words_of_the_texts_than_before(redactor, tmp_path):
    """Labels of some kinds teach that other words are no secrets, so a threshold that was chosen on
    generated texts would miss secrets of the other kinds."""
    own = [LabelledText(text=f"Member Zorblax{i} called twice", spans=()) for i in range(12)]
    texts = [one.text for one in own]

    def scores(detector):
        return np.array([secret_score(w) for words in detector.words(texts) for w in words])

    start = tmp_path / "start"
    shutil.copytree(redactor.folder, start)
    strong = float(np.median(scores(redactor)))
    assert strong > 0.02  # the smallest threshold
    described = json.loads((start / DESCRIPTION).read_text())
    described["thresholds"] = {"strong": strong, "weak": strong / 2}
    (start / DESCRIPTION).write_text(json.dumps(described))
    before = (scores(redactor) >= strong).sum()
    recipe = Recipe(texts=5, checked=5, learning_rate=1e-5)
    tuned = train_redactor(recipe, tmp_path / "tuned", start=start, labelled=own)
    assert (scores(tuned) >= tuned.strong).sum() >= before > 0


@pytest.mark.parametrize(
    "description",
    [
        {},
        {"thresholds": {"strong": float("nan"), "weak": float("nan")}},
        {"thresholds": {"strong": 1, "weak": 0.5}},
        {"thresholds": {"strong": 0, "weak": 0}},
        {"thresholds": {"strong": 0.5, "weak": 0.5}, "trained_on": 5},
    ],
)
def test_a_folder_without_a_redactor_is_refused(tmp_path, description):
    (tmp_path / DESCRIPTION).write_text(json.dumps(description))
    with pytest.raises(ParamsError, match="is not a redactor"):
        LearnedDetector(tmp_path)


def test_a_redactor_with_other_kinds_is_refused(redactor, tmp_path):
    """Otherwise its labels would be read as other kinds."""
    own = shutil.copytree(redactor.folder, tmp_path / "own")
    config = json.loads((own / "config.json").read_text())
    config["id2label"]["1"] = "PER"
    (own / "config.json").write_text(json.dumps(config))
    with pytest.raises(ParamsError, match="is a redactor with other kinds of secrets"):
        LearnedDetector(own)


def test_a_damaged_redactor_in_the_cache_is_named_with_what_to_do(tmp_path):
    (tmp_path / DESCRIPTION).write_text('{"thresholds": {"strong": 0.5, "weak": 0.5}}')
    with pytest.raises(StorageError, match=r"is damaged\. Delete the folder"):
        cache._open(tmp_path)


@pytest.mark.parametrize(
    ("labelled", "output", "message"),
    [((), "made", "--output needs --labelled"), (("l.jsonl",), None, "needs --output")],
)
def test_the_command_names_the_missing_option(tmp_path, labelled, output, message):
    files = [tmp_path / name for name in labelled]
    with pytest.raises(ParamsError, match=message):
        redaction.train(files, output and tmp_path / output, text="text", share=0.5, console=None)
