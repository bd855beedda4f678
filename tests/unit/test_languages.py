"""Tests of names of languages, and of words in scripts without spaces."""

from __future__ import annotations

from typing import Any

import pytest

from sugarbush.attributes.draft import attribute_name
from sugarbush.attributes.extract import by_keywords
from sugarbush.data.lengths import lengths_of
from sugarbush.data.schema import Attribute, Schema
from sugarbush.errors import SchemaError
from sugarbush.evaluation.copies import longest_shared_ngrams
from sugarbush.evaluation.texts import word_counts
from sugarbush.languages import count_words, language_code, language_name, script_of, words_in


@pytest.mark.parametrize(
    "text, words",
    [
        ("Das Paket fehlt.", 3), ("¿Dónde está mi paquete?", 4), ("包裹没有到", 5),
        ("我的iPhone坏了", 5), ("荷物が 届かない", 7), ("", 0), (" \n", 0), ("ไม่มา", 5),
        ("배송이 늦었습니다", 2), ("e\u0301te\u0301 naïve", 2),
    ],
)  # fmt: skip
def test_words_are_counted_by_unicode(text: str, words: int) -> None:
    assert count_words(text) == len(words_in(text)) == words
    assert word_counts([text]).tolist() == [words]


def test_lengths_of_a_draft_follow_these_words() -> None:
    assert set(lengths_of(["包裹没有到"] * 10)) == {5}


def test_keywords_inside_a_script_without_spaces() -> None:
    words = {"退款": ["退款"], "phone": ["iPhone"]}
    own = Attribute(name="x", values=["退款", "phone"], keywords=words)
    codes = by_keywords(own, ["我想要退款。", "我的iPhone坏了", "没有", "the iPhones", "退 款"])
    assert codes.tolist() == [0, 1, 2, 2, 2]


def test_keywords_of_german_are_whole_words_in_any_case() -> None:
    own = Attribute(name="x", values=["late"], keywords={"late": ["Verspätung", "zu spät"]})
    codes = by_keywords(own, ["Die VERSPÄTUNG", "kam zu  spät", "Verspätungen", "Zuspät"])
    assert codes.tolist() == [0, 0, 1, 1]


def test_copies_in_chinese_are_runs_of_characters() -> None:
    record = "我的包裹昨天没有到，请给我退款，谢谢你们的帮助。"
    (copied,) = longest_shared_ngrams([f"你好，{record}再见"], [record])
    assert copied >= 20


def test_names_of_languages() -> None:
    assert language_name("es") == "Spanish" and language_code("German") == "de"
    assert script_of("uk-UA") == "CYRILLIC" and script_of("de") == "LATIN"
    assert script_of("xx") is None and script_of("sr") is None


@pytest.mark.parametrize("language", ["German", "DE", "", "d", "de_DE", "de-"])
def test_a_language_is_a_code(language: str) -> None:
    fields: dict[str, Any] = {"subject": "x", "language": language}
    with pytest.raises(SchemaError, match="language"):
        Schema(**fields, attributes=[Attribute(name="a", column="a", values=["1"])])


def test_names_of_columns_keep_their_letters() -> None:
    names = [attribute_name(name) for name in ("Größe", "Año de emisión", "Название", "2. Preis")]
    assert names == ["grosse", "ano_de_emision", "column_", "column_2_preis"]
