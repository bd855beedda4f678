import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from sugarbush.errors import ParamsError
from sugarbush.pipeline.settings import load_params, parse_params
from tests.settings import settings

ROOT = Path(__file__).parents[2]
COMMITTED: dict[str, Any] = yaml.safe_load((ROOT / "params.yaml").read_text())


def changed(setting: str, value: object) -> dict[str, Any]:
    fields = copy.deepcopy(COMMITTED)
    *path, last = setting.split(".")
    section = fields
    for part in path:
        section = section[part]
    section[last] = value
    return fields


def message_of(fields: object) -> str:
    with pytest.raises(ParamsError) as refusal:
        parse_params(fields)
    return str(refusal.value)


def test_the_committed_settings_are_complete() -> None:
    assert load_params(ROOT / "params.yaml").privacy.dataset == "example"


@pytest.mark.parametrize(
    ("setting", "value", "complaint"),
    [
        ("privacy.epsilon", 0, "greater than 0"),
        ("privacy.epsilon", -1, "greater than 0"),
        ("privacy.epsilon", float("inf"), "finite"),
        ("privacy.epsilon", float("nan"), "finite"),
        ("privacy.delta", 1, "less than 1"),
        ("privacy.delta", 0, "greater than 0"),
        ("privacy.shares.metadata", 0.5, "add up to 1"),
        ("privacy.unit", "user", "needs prepare.user_column"),
        ("privacy.records_per_user", 3, "for unit: user"),
        ("prepare.user_column", "author", "protects each record and not the person"),
        ("evolve.maple.rounds", -1, "greater than or equal to 0"),
        ("evolve.augpe.selection", "herded", "goes with by_label: false"),
        ("evolve.maple.noise_multipler", 4.0, "not a known setting"),
        ("synthesize_metadata.engine", "magic", "engine"),
        ("methods", [], "methods"),
        ("methods", ["maple", "maple"], "twice"),
        ("prepare", None, "prepare"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(
    setting: str, value: object, complaint: str
) -> None:
    message = message_of(changed(setting, value))
    assert complaint in message
    assert setting.partition(".")[0] in message
    assert message.startswith("params.yaml")


def test_an_unknown_key_gets_a_suggestion() -> None:
    message = message_of(changed("privacy.epsilom", 1.0))
    assert "privacy.epsilom is not a known setting; did you mean epsilon?" in message


def test_a_missing_setting_is_named() -> None:
    fields = copy.deepcopy(COMMITTED)
    del fields["privacy"]["cap"]
    assert "privacy.cap is missing" in message_of(fields)


def test_every_problem_is_told_at_once() -> None:
    fields = changed("privacy.epsilon", 0)
    fields["privacy"]["delta"] = 2
    message = message_of(fields)
    assert "privacy.epsilon" in message
    assert "privacy.delta" in message


@pytest.mark.parametrize("content", ["", "- 1", "methods: [", "methods: maple"])
def test_a_file_that_holds_no_settings_is_refused_by_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(content)
    with pytest.raises(ParamsError, match=r"params\.yaml"):
        load_params(path)
    with pytest.raises(ParamsError, match="not found"):
        load_params(tmp_path / "missing.yaml")


def test_how_answers_are_got_does_not_change_which() -> None:
    fields = changed("generator.provider", "openai")
    before = parse_params(fields).generator.identity()
    fields["generator"]["openai"] |= {"concurrency": 1, "timeout_s": 1.0, "max_retries": 0}
    assert parse_params(fields).generator.identity() == before
    fields["generator"]["openai"]["model"] = "another"
    assert parse_params(fields).generator.identity() != before


def test_three_settings_are_enough_for_ones_own_data() -> None:
    fields = copy.deepcopy(COMMITTED)
    fields["prepare"] |= {"file": "in/Tickets 2026.csv", "text_column": "m", "schema": "s.yaml"}
    params = parse_params(fields)
    assert params.privacy.dataset == "tickets-2026"
    assert params.privacy.purpose.value == "release"
    assert params.prepare.donated is None
    assert params.crt.labelled is None
    assert params.crt.known is None  # the example's sentences are known to nobody else
    assert params.evolve.maple.prompt.value == "metadata"


def test_the_examples_ledger_is_never_charged_for_ones_own_data() -> None:
    fields = changed("prepare.file", "mine.csv")
    fields["privacy"]["purpose"] = "example"
    assert "privacy.purpose" in message_of(fields)


@pytest.mark.parametrize("file", ["tickets.csv", "../../tickets.csv", "corpus.jsonl.csv"])
def test_no_other_file_is_the_example_wherever_its_path_begins(file: str) -> None:
    """Neither by default nor when asked for."""
    fields = settings(prepare__file=f"data/public/example/{file}")
    assert parse_params(fields, source="params.yaml").privacy.purpose == "release"
    with pytest.raises(ParamsError, match=r"privacy\.purpose"):
        parse_params({**fields, "privacy": fields["privacy"] | {"purpose": "example"}}, source="p")


def test_own_donated_examples_are_shown() -> None:
    fields = changed("prepare.file", "mine.csv")
    fields["prepare"]["donated"] = "given.csv"
    params = parse_params(fields)
    assert params.prepare.donated == "given.csv"
    assert params.evolve.maple.prompt.value == "both"


def test_the_endpoint_for_labels_shares_limits_and_nothing_else() -> None:
    own = parse_params(
        settings(
            generator__openai__concurrency=7,
            generator__openai__model="writer",
            generator__openai__max_calls=3,
            generator__openai__mode="batch",
            extract_metadata__llm__timeout_s=9,
        )
    )
    labels = own.extract_metadata.llm
    assert (labels.concurrency, labels.timeout_s) == (7, 9)
    assert labels.model == "my-model"
    assert labels.max_calls is None
    assert labels.mode == "direct"
    assert labels.trusted is False


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("trustd", True, "did you mean trusted"),
        ("mode", "batch", "one call a text"),
        ("base_url", "localhost", "http(s) address"),
        ("max_cost", 2.0, "prices has none for model 'my-model'"),
    ],
)
def test_a_wrong_setting_of_the_endpoint_for_labels_is_named(
    setting: str, value: object, said: str
) -> None:
    with pytest.raises(ParamsError, match=r"extract_metadata\.llm") as refusal:
        parse_params(settings(**{f"extract_metadata__llm__{setting}": value}))
    assert said in str(refusal.value)


def test_the_settings_that_the_readme_shows_for_real_models_are_known() -> None:
    """And plain: DVC reads numbers, texts, lists and mappings, and stops at a date."""
    section = (ROOT / "README.md").read_text().partition("## Real models")[2]
    shown = yaml.safe_load(section.partition("```yaml\n")[2].partition("```")[0])
    endpoint = COMMITTED["generator"]["openai"] | shown["generator"]["openai"]
    generator = COMMITTED["generator"] | shown["generator"] | {"openai": endpoint}
    params = parse_params(COMMITTED | {"generator": generator})
    assert params.generator.openai.model in params.generator.openai.prices
    json.dumps(shown)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"methods": ["crt"]}, "protects a secret and no person"),
        (
            {"privacy__records_per_user": 2, "synthesize_metadata__engine": "smartnoise"},
            "noise of one record",
        ),
        ({"privacy__records_per_user": 0}, "greater than or equal to 1"),
    ],
)
def test_what_is_not_made_for_persons_is_refused_for_them(
    changes: dict[str, Any], complaint: str
) -> None:
    persons = {"privacy__unit": "user", "prepare__user_column": "author"}
    assert parse_params(settings(**persons)).privacy.promise == ["user", 1, 1e-6]
    assert complaint in message_of(settings(**persons, **changes))


def test_digests_of_draws_for_records_are_what_they_were() -> None:
    assert parse_params(settings()).privacy.promise == ["record", 1e-6]
