"""Tests that the labels of a token classifier become findings, also in very long texts.

Such texts are longer than the window of the model. The tests make a tiny classifier.
"""

import json
import shutil

import pytest
import torch
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import BPE
from transformers import (
    BertConfig,
    BertForTokenClassification,
    BertTokenizerFast,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForTokenClassification,
)

from sugarbush.errors import ParamsError
from sugarbush.training.crt.dedup import MASK
from sugarbush.training.crt.redact import Policy
from sugarbush.training.crt.token_classifier import TokenClassifier

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "i", "am", "ada", "lovelace", "here", ".", "and"]


def test_other_weights_are_another_policy(folder, tmp_path):
    """Else a finished model would be restored for a policy that did not make its texts."""
    model = BertForTokenClassification.from_pretrained(folder)
    model.classifier.bias.data += 1
    model.save_pretrained(tmp_path)
    BertTokenizerFast.from_pretrained(folder).save_pretrained(tmp_path)
    one, same, other = (
        Policy([TokenClassifier(str(path))]).identities for path in (folder, folder, tmp_path)
    )
    assert one == same != other


def test_other_labels_or_another_tokenizer_are_another_policy(folder, tmp_path):
    labels, tokens = (shutil.copytree(folder, tmp_path / name) for name in ("labels", "tokens"))
    config = json.loads((labels / "config.json").read_text())
    (labels / "config.json").write_text(
        json.dumps(config | {"id2label": {0: "PER", 1: "O", 2: "X"}})
    )
    others = {w: i for i, w in enumerate(reversed(WORDS))}
    BertTokenizerFast(vocab=others, model_max_length=16).save_pretrained(tokens)
    paths = (folder, labels, tokens)
    assert len({Policy([TokenClassifier(str(path))]).identities for path in paths}) == 3


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("model.safetensors", b"\x10\0\0\0\0\0\0\0{"),
        ("tokenizer.json", b"{}"),
        ("tokenizer.json", None),
        ("config.json", b"["),
    ],
)
def test_a_damaged_folder_is_one_message(folder, tmp_path, file, content):
    own = shutil.copytree(folder, tmp_path / "own")
    (own / file).unlink()
    if content is not None:
        (own / file).write_bytes(content)
    with pytest.raises(ParamsError, match=r"own' (cannot be loaded|has no fast tokenizer)"):
        TokenClassifier(str(own))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Save a classifier with fixed labels, and return its folder.

    'ada' and 'lovelace' are labelled as a person. The label of 'here' is uncertain.
    """
    path = tmp_path_factory.mktemp("classifier")
    tokenizer = BertTokenizerFast(vocab={w: i for i, w in enumerate(WORDS)}, model_max_length=16)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=len(WORDS) + 1,
        num_hidden_layers=0,
        num_attention_heads=1,
        max_position_embeddings=16,
        id2label={0: "O", 1: "B-PER", 2: "I-PER"},
        label2id={"O": 0, "B-PER": 1, "I-PER": 2},
    )
    model = BertForTokenClassification(config).eval()
    with torch.no_grad():
        for parameter in model.bert.embeddings.parameters():
            parameter.zero_()
        model.bert.embeddings.LayerNorm.weight.fill_(1.0)
        model.bert.embeddings.word_embeddings.weight[:, : len(WORDS)] = torch.eye(len(WORDS))
        model.classifier.weight.zero_()
        model.classifier.bias.zero_()
        model.classifier.bias[0] = 4.0
        model.classifier.weight[0] = -3.0 * _onehot("ada", "lovelace") - 1.5 * _onehot("here")
        model.classifier.weight[1] = 3.0 * _onehot("ada")
        model.classifier.weight[2] = 3.0 * _onehot("lovelace")
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def _onehot(*words):
    row = torch.zeros(len(WORDS) + 1)
    row[[WORDS.index(word) for word in words]] = 1.0
    return row


def test_entities_are_masked_whole_and_offsets_are_those_of_the_text(folder):
    policy = Policy([TokenClassifier(str(folder))])
    assert policy.redact(["i am ada lovelace.  and\n ada here"]) == [
        f"i am {MASK}.  and\n {MASK} here"
    ]


def test_a_text_longer_than_the_model_is_read_whole(folder):
    text = "i am here and " * 30 + "ada lovelace and i"
    assert Policy([TokenClassifier(str(folder))]).redact([text]) == [
        "i am here and " * 30 + f"{MASK} and i"
    ]


@pytest.mark.parametrize("told", [{"model_max_length": 8}, {}])
def test_an_endless_sentence_is_read_by_a_model_that_spells_a_word_otherwise_at_its_start(
    tmp_path, told
):
    # " dada" is one token, but "dada" at the start of a piece would be three.
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    space = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(" ")[0][0]
    merges = [(space, "d"), ("a", "d"), (f"{space}d", "ad"), (f"{space}dad", "a")]
    words = ["<s>", "</s>", "<pad>", *alphabet, *("".join(pair) for pair in merges)]
    bpe = Tokenizer(BPE({word: i for i, word in enumerate(words)}, merges))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0), trim_offsets=True)
    PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", pad_token="<pad>", **told
    ).save_pretrained(tmp_path)  # fmt: skip
    config = RobertaConfig(
        vocab_size=len(words), hidden_size=4, num_hidden_layers=0, num_attention_heads=1,
        max_position_embeddings=11, pad_token_id=2, id2label={0: "O", 1: "B-PER"},
        label2id={"O": 0, "B-PER": 1},
    )  # fmt: skip
    model = RobertaForTokenClassification(config)
    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.copy_(torch.tensor([0.0, 9.0]))
    model.save_pretrained(tmp_path)
    text = "ad" + " dada" * 40 + "é" * 9
    (found,) = TokenClassifier(str(tmp_path)).find([text])
    assert {place for f in found for place in range(f.start, f.end)} >= {
        place for place, letter in enumerate(text) if letter != " "
    }
    assert found[-1].end == len(text)


def test_unsure_plain_text_is_not_public(folder):
    classifier = TokenClassifier(str(folder))
    assert classifier.is_public(["i am and", "i am here", "i am ada"]) == [True, False, False]


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ParamsError, match="cannot be loaded"):
        TokenClassifier(str(tmp_path))


def test_a_model_without_a_head_for_tokens_is_refused(folder, tmp_path):
    TokenClassifier(str(folder))._model.bert.save_pretrained(tmp_path)
    TokenClassifier(str(folder))._tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ParamsError, match="no head for token classification"):
        TokenClassifier(str(tmp_path))
