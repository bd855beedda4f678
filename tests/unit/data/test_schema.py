import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sugarbush.attributes.draft import schema_yaml
from sugarbush.data.schema import Attribute, Schema, load_schema
from sugarbush.errors import SchemaError


def schema_file(folder: Path, *attributes: dict[str, object], **more: object) -> Path:
    path = folder / "schema.yaml"
    path.write_text(yaml.safe_dump({"subject": "letters", "attributes": list(attributes), **more}))
    return path


def message_of(folder: Path, *attributes: dict[str, object], **more: object) -> str:
    with pytest.raises(SchemaError) as refusal:
        load_schema(schema_file(folder, *attributes, **more))
    return str(refusal.value)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"column": "c", "values": []}, "values is empty"),
        ({"column": "c", "values": ["a", "b", "a"]}, "repeats a"),
        ({"column": "c", "values": ["a", " "]}, "empty value"),
        ({"column": "c", "values": ["a", "\ud800"]}, "half a character"),
        ({"column": "c", "values": ["a", "other"]}, "repeats other"),
        ({"values": ["a"]}, "exactly one of"),
        ({"values": ["a"], "column": "c", "source": "llm"}, "exactly one of"),
        ({"values": ["a"], "source": "chatbot"}, "Input should be 'llm'"),
        ({"values": [], "source": "llm"}, "values is empty"),
        ({"column": "c", "keywords": {"a": ["x"]}, "values": ["a"]}, "exactly one of"),
        ({"keywords": {"b": ["x"]}, "values": ["a"]}, "not in values: b"),
        ({"column": "c", "values": ["a"], "descriptions": {"b": "x"}}, "is no value of the attr"),
        ({"column": "c", "values": ["a"], "descriptions": {"a": ""}}, "is empty for a"),
        ({"column": "c", "values": ["a"], "descriptions": {"a": None}}, "descriptions contains nu"),
        ({"column": "c", "values": ["a"], "descriptions": ["x"]}, "valid dictionary"),
        ({"column": "c", "values": ["a"], "description": {"a": "x"}}, "Describe values in"),
        ({"column": "c", "bins": [2, 4], "descriptions": {"2": "x"}}, "of the attribute: 2"),
        ({"zero_shot": {"a": ["x"]}, "values": ["a", "b"]}, "lacks a description of b"),
        ({"column": "c", "bins": [3, 1]}, "increasing"),
        ({"column": "c", "bins": []}, "increasing"),
        ({"column": "c", "bins": [1, float("inf")]}, "finite"),
        ({"column": "c", "groups": {"x": ["1"], "y": ["1"]}}, "share a raw value"),
        ({"column": "c", "values": ["a"], "colour": "red"}, "not a known setting"),
    ],
)
def test_a_domain_that_is_not_public_and_distinct_is_refused(
    tmp_path: Path, fields: dict[str, object], complaint: str
) -> None:
    message = message_of(tmp_path, {"name": "topic", **fields})
    assert complaint in message
    assert "schema.yaml" in message
    assert "topic" in message


@pytest.mark.parametrize("name", ["text", "id", "round", "weight", "requested_a", "confidence_a"])
def test_an_attribute_does_not_replace_a_column_of_the_release(tmp_path: Path, name: str) -> None:
    attribute = {"name": name, "values": ["a"], "column": "stars"}
    message = message_of(tmp_path, attribute)
    assert f"columns of a release have these names or beginnings: {name}" in message


def test_an_attribute_named_twice_is_refused(tmp_path: Path) -> None:
    attribute = {"name": "topic", "column": "c", "values": ["a"]}
    assert "have the same name: topic" in message_of(tmp_path, attribute, attribute)


def test_a_key_that_occurs_twice_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "schema.yaml"
    path.write_text("subject: letters\nattributes: []\nsubject: notes\n")
    with pytest.raises(SchemaError, match="line 3: the key 'subject' occurs twice"):
        load_schema(path)


@pytest.mark.parametrize("content", [b"", b"- a", b"subject: [", b"\xff\xfe", b"subject: x\n"])
def test_a_file_that_is_no_schema_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "schema.yaml"
    path.write_bytes(content)
    with pytest.raises(SchemaError, match=r"schema\.yaml"):
        load_schema(path)
    with pytest.raises(SchemaError, match="not found"):
        load_schema(tmp_path / "missing.yaml")


def test_a_value_outside_the_schema_falls_into_the_bucket() -> None:
    attribute = Attribute(name="topic", column="c", values=("a", "b"))
    assert attribute.domain == ("a", "b", "other")
    for value in ("c", "", None, float("nan"), 3, "other"):
        assert attribute.code(value) == 2


def test_a_number_is_one_value_however_it_is_written() -> None:
    attribute = Attribute.model_validate(
        {"name": "stars", "column": "c", "values": [1, 2.0, True, "no"]}
    )
    assert attribute.values == ("1", "2", "true", "no")
    assert [attribute.code(v) for v in (1, 1.0, "1", 2, True, "no")] == [0, 0, 0, 1, 2, 3]


def test_bins_are_half_open_and_strange_numbers_fall_into_the_bucket() -> None:
    attribute = Attribute(name="age", column="c", bins=(18.0, 65.0))
    assert attribute.domain == ("below 18", "18 to below 65", "65 and above", "other")
    assert [attribute.code(v) for v in (17.9, 18, "64", 65, 1e300)] == [0, 1, 1, 2, 2]
    assert [attribute.code(v) for v in (None, "old", float("nan"), 10**400)] == [3, 3, 3, 3]


def test_groups_gather_raw_values() -> None:
    attribute = Attribute.model_validate(
        {"name": "region", "column": "s", "groups": {"west": ["CA", "OR"], "east": ["NY"]}}
    )
    assert attribute.domain == ("west", "east", "other")
    assert [attribute.code(v) for v in ("CA", "OR", "NY", "west", "TX")] == [0, 0, 1, 2, 2]


@given(st.one_of(st.none(), st.text(), st.floats(), st.integers(), st.booleans()))
def test_every_value_has_a_place_in_the_domain(value: object) -> None:
    for attribute in (
        Attribute(name="a", column="c", values=("x", "1")),
        Attribute(name="b", column="c", bins=(0.0, 1.0)),
    ):
        assert 0 <= attribute.code(value) < len(attribute.domain)


def test_codes_become_pairs_of_name_and_value() -> None:
    schema = Schema(
        subject="letters",
        attributes=(
            Attribute(name="a", column="c", values=("x",)),
            Attribute(name="b", column="c", values=("y", "z")),
        ),
    )
    assert schema.decode((1, 1)) == (("a", "other"), ("b", "z"))
    assert schema.domain == {"a": 2, "b": 3}
    with pytest.raises(SchemaError, match="no attribute 'c'"):
        schema.attribute("c")


def test_a_wrong_attribute_is_one_message(tmp_path: Path) -> None:
    path = tmp_path / "schema.yaml"
    path.write_text("subject: s\nattributes:\n  - {name: a, values: [], column: c}\n")
    with pytest.raises(SchemaError) as error:
        load_schema(path)
    assert str(error.value).count("\n") == 0


def test_an_attribute_knows_how_its_value_is_found() -> None:
    asked = Attribute(name="mood", values=("up",), source="llm")
    given = Attribute(name="topic", values=("a",), column="c")
    told = Attribute(name="wish", values=("a",), keywords={"a": ["x"]})
    schema = Schema(subject="letters", attributes=(asked, given, told))
    assert [a.value_source for a in schema.attributes] == ["llm", "column", "keywords"]
    assert schema.asked_of_llm == (asked,)


def test_values_are_what_is_written(tmp_path: Path) -> None:
    """In YAML 1.1, an unquoted NO (Norway) is false and 12:30 is a number."""
    path = tmp_path / "schema.yaml"
    path.write_text(
        "subject: letters\n"
        "attributes:\n"
        "  - {name: open, column: a, values: [yes, no, 12:30, 2024-01-05, true]}\n"
        "  - {name: country, column: b, groups: {north: [NO, SE], south: [ES]}}\n"
    )
    opened, country = load_schema(path).attributes
    assert opened.values == ("yes", "no", "12:30", "2024-01-05", "true")
    assert [country.code(raw) for raw in ("NO", "ES", False)] == [0, 1, 2]
    assert opened.has_value(True)
    assert not opened.has_value(None)


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        (["1", "2"], (1, 2)),
        (["1.5", "2"], (1.5, 2)),
        (["02139", "10001"], None),
        (["1", "01"], None),
        (["1E5"], None),
        (["7.10", "7.1"], None),
        (["a", "1"], None),
        (["nan"], None),
    ],
)
def test_values_are_numbers_only_if_nothing_is_lost(
    values: list[str], numbers: tuple[float, ...] | None
) -> None:
    assert Attribute(name="code", column="code", values=tuple(values)).numbers == numbers


WRITTEN = [
    "01234", "90210", "1.10", "1_000", "0o17", "0b1", "0x1F", "+1", "-0", "1e3", "1E3", ".5", "5.",
    "True", "yes", "NO", "1:30", "12:30:00", "2024-01-05", "2024-1-5", "2024-01-05 10:00:00",
    ".inf", ".NaN", "1e-07", "=", "10%", "007",
]  # fmt: skip


def test_a_value_of_a_schema_is_the_text_that_is_written(tmp_path: Path) -> None:
    path = tmp_path / "schema.yaml"
    listed = ", ".join(WRITTEN)
    path.write_text(
        f"subject: 1e3\nattributes:\n  - {{name: a, column: 01, other: 0o1, values: [{listed}]}}\n"
        f"  - {{name: b, column: b, groups: {{01: [{listed}], 1.10: 5}}}}\n"
        f"  - {{name: c, keywords: {{1.0: [{listed}]}}, values: [1.0]}}\n"
        "  - {name: d, column: d, bins: [1_000], span: [0, 2e3], type: number, "
        "missing: [-09, no]}\n"
    )
    a, b, c, d = load_schema(path).attributes
    assert list(a.values) == WRITTEN and (a.column, a.other) == ("01", "0o1")
    assert b.groups == {"01": tuple(WRITTEN), "1.10": ("5",)}
    assert c.keywords == {"1.0": tuple(WRITTEN)}
    assert (d.bins, d.missing) == ((1000,), ("-09", "no"))


@pytest.mark.parametrize("null", ["null", "~", "Null", "", "NULL"])
@pytest.mark.parametrize("where", ["values: [x, {}]", "values:\n    - x\n    - {}"])
def test_a_null_among_values_needs_quotation_marks(tmp_path: Path, null: str, where: str) -> None:
    path = tmp_path / "schema.yaml"
    value = null or ("~" if "[" in where else "")
    path.write_text(
        f"subject: x\nattributes:\n  - name: a\n    column: a\n    {where.format(value)}"
    )
    with pytest.raises(SchemaError, match=r"schema\.yaml, line \d: .* quotation marks"):
        load_schema(path)
    path.write_text(path.read_text().replace(value, f"'{value}'") if value else "")
    if value:
        assert load_schema(path).attributes[0].values == ("x", value)


@pytest.mark.parametrize("value", ["a: b", "{a: b}", "[a, b]"])
def test_a_value_that_yaml_reads_as_a_mapping_or_a_list_needs_quotation_marks(
    tmp_path: Path, value: str
) -> None:
    path = tmp_path / "schema.yaml"
    path.write_text(f"subject: x\nattributes:\n  - {{name: a, column: a, values: [{value}, x]}}\n")
    with pytest.raises(SchemaError, match=r"mapping or a list\. Put it in quotation marks"):
        load_schema(path)
    path.write_text(
        f"subject: x\nattributes:\n  - {{name: a, column: a, values: ['{value}', x]}}\n"
    )
    assert load_schema(path).attributes[0].values == (value, "x")


def test_null_from_python_needs_another_value() -> None:
    with pytest.raises(SchemaError, match="values contains null"):
        Attribute(name="a", column="a", values=["x", None])  # type: ignore[arg-type]


@given(st.lists(st.one_of(st.text(min_size=1, max_size=9), st.sampled_from(WRITTEN)), min_size=1))
def test_a_drafted_schema_is_read_as_it_was_written(values: list[str]) -> None:
    listed = tuple(dict.fromkeys(text for v in values if (text := " ".join(v.split()))))
    if not listed or any("\ud800" <= c <= "\udfff" for text in listed for c in text):
        return
    drafted = Schema(
        subject="letters",
        attributes=(Attribute(name="a", column="a", values=listed, other="no such value"),),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schema.yaml"
        path.write_text(schema_yaml(drafted), encoding="utf-8", newline="")
        assert load_schema(path).attributes == drafted.attributes


@pytest.mark.parametrize("domain", [{"values": ["1", "0"]}, {"bins": [2]}])
def test_a_description_of_values_changes_no_key_of_a_private_result(
    tmp_path: Path, domain: dict[str, object]
) -> None:
    """Otherwise a better word in a prompt would be charged as a new table."""
    plain = load_schema(schema_file(tmp_path, {"name": "a", "column": "a", **domain}))
    told = {value: f"what {value} means" for value in plain.attributes[0].domain}
    described = load_schema(
        schema_file(tmp_path, {"name": "a", "column": "a", **domain, "descriptions": told})
    )
    assert described.attributes[0].descriptions == told
    assert described.fields_for_private_results() == plain.fields_for_private_results()
    assert "descriptions" not in str(plain.model_dump(mode="json"))


def test_a_described_value_that_a_model_reads_from_records_changes_their_key(
    tmp_path: Path,
) -> None:
    attribute = {"name": "a", "source": "llm", "values": ["x", "y"]}
    plain, described = (
        load_schema(schema_file(tmp_path, {**attribute, **more}))
        for more in ({}, {"descriptions": {"x": "what x means"}})
    )
    assert described.fields_for_private_results() != plain.fields_for_private_results()
