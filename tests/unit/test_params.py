import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from sugarbush.data.settings import PrepareSettings
from sugarbush.errors import ParamsError
from sugarbush.evolution.inputs import ReleaseSettings
from sugarbush.evolution.settings import PromptContent
from sugarbush.extend import PartsMethod
from sugarbush.generators.pool import Pool
from sugarbush.methods.augpe import AugPE
from sugarbush.methods.crt import CRT
from sugarbush.methods.dpft import DPFT
from sugarbush.methods.maple import Maple
from sugarbush.methods.nonprivate import NonPrivatePE
from sugarbush.methods.public import Public
from sugarbush.methods.settings import MethodsSection
from sugarbush.registry import METHODS, load_plugin, plugin_names
from sugarbush.run.settings import (
    ProjectSettings,
    default_fields,
    load_params,
    parse_params,
)
from sugarbush.settings import meanings
from sugarbush.training.dpsgd.settings import Lora, Yue2023
from tests.settings import method_in, params, settings

ROOT = Path(__file__).parents[2]

# Settings with a section for every generator.
COMPLETE = parse_params(
    {"generator": {"openai": {"model": "my-model"}, "huggingface": {"model": "gpt2"}, "pool": {}}}
)


def changed(setting: str, value: object) -> dict[str, Any]:
    return settings(**{setting.replace(".", "__"): value})


def message_of(fields: object) -> str:
    with pytest.raises(ParamsError) as refusal:
        parse_params(fields)
    return str(refusal.value)


def test_the_settings_of_a_new_project_are_short_and_are_the_examples() -> None:
    text = (ROOT / "params.yaml").read_text()
    assert len(text.splitlines()) <= 60
    own = load_params(ROOT / "params.yaml")  # the example's; own data has the default
    assert own.release == ReleaseSettings(texts=300)
    (source,) = own.generator.of(Pool).sources
    assert (own.generator.provider, source.file) == ("pool", "data/public/example/pool.jsonl")
    default = {"release": COMPLETE.release, "generator": COMPLETE.generator}
    assert own.model_copy(update=default) == COMPLETE
    assert COMPLETE.output_settings() == ProjectSettings().output_settings()
    assert ProjectSettings().privacy.dataset == "example"


def test_every_setting_and_every_section_has_a_meaning_of_one_line() -> None:
    every = {name: {} for name in default_fields()["methods"]}
    methods = MethodsSection.model_validate(every)
    for name, meaning, is_section in meanings(ProjectSettings.model_construct(methods=methods)):
        assert meaning, name
        assert is_section or len(meaning) <= 100, name


def test_the_size_of_the_release_decides_the_scored_texts_of_mosaic() -> None:
    """DVC compares this number. A larger release has more candidates, so they are written again."""
    counts = {
        texts: params(methods=["mosaic"], release__texts=texts).chosen[0].output_settings()
        for texts in (300, 600, None)
    }
    assert [fields["candidates"] for fields in counts.values()] == [1200, 2000, None]


def test_a_preset_states_only_what_differs() -> None:
    for preset in (AugPE, Maple, NonPrivatePE, Public, Lora, Yue2023):
        parent = preset.__bases__[0]
        for name in preset.__annotations__.keys() & preset.model_fields.keys():
            fields = preset.model_fields, parent.model_fields
            if name in parent.model_fields:
                assert fields[0][name].default != fields[1][name].default, (preset, name)


def test_settings_from_code_derive_what_those_from_a_file_do() -> None:
    given = {"file": "in/tickets.csv", "schema": "s.yaml"}
    of_code = ProjectSettings(prepare=PrepareSettings.model_validate(given))
    assert of_code == parse_params({"prepare": given})
    assert of_code.privacy.dataset == ""
    assert method_in(of_code, Maple).prompt is PromptContent.METADATA


def test_what_does_not_affect_the_output_is_left_out_of_what_a_stage_depends_on() -> None:
    one = params().training
    other = params(training__processes=2, training__device="cpu").training
    assert one.output_settings() == other.output_settings()
    other = params(training__sampling__temperature=0.7).training
    assert one.output_settings() != other.output_settings()


def test_a_setting_with_the_value_of_the_preset_changes_nothing() -> None:
    preset = DPFT(preset="lora")
    assert preset.training == Lora()
    assert DPFT(preset="lora", epochs=20).output_settings() == preset.output_settings()
    assert DPFT(preset="lora", epochs=21).output_settings() != preset.output_settings()
    assert (preset.training.lora_rank, DPFT(lora_rank=0).training.lora_rank) == (8, None)


@pytest.mark.parametrize(
    ("setting", "value", "complaint"),
    [
        ("privacy.epsilon", 0, "greater than or equal to 0.001"),
        ("privacy.epsilon", -1, "greater than or equal to 0.001"),
        ("privacy.epsilon", True, "not numbers"),
        ("release.texts", True, "not numbers"),
        ("initialise.length.words_by_value", {"praise": True}, "not numbers"),
        ("privacy.epsilon", float("inf"), "finite"),
        ("privacy.epsilon", float("nan"), "finite"),
        ("privacy.delta", 1, "less than 1"),
        ("privacy.delta", 0, "greater than 0"),
        ("privacy.metadata_share", 1.0, "less than 1"),
        ("privacy.unit", "user", "needs prepare.user_column"),
        ("privacy.records_per_user", 3, "needs `unit: user`"),
        ("prepare.user_column", "author", "protects each record and not the user"),
        ("methods.maple.rounds", -1, "greater than or equal to 0"),
        ("methods", {"augpe": {"scorer": "kernel"}}, "needs by_label: false"),
        ("methods.maple.noise_multipler", 4.0, "not a known setting"),
        ("synthesize_metadata.engine", "magic", "engine"),
        ("methods", {}, "such as `methods: {mosaic: {}}`"),
        ("methods", None, "such as `methods: {mosaic: {}}`"),
        ("methods", {"mapel": {}}, "methods.mapel: did you mean maple?"),
        ("methods", {"maple": {"round": 3}}, "methods.maple.round is not a known setting; did you"),
        ("methods", {"maple": 3}, "methods.maple"),
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


def test_a_list_of_methods_is_refused_with_the_mapping_to_write() -> None:
    message = message_of({"methods": ["maple", "public"]})
    assert message.endswith("such as `methods: {maple: {}, public: {}}`.")
    assert "\n" not in message


def test_a_method_without_settings_may_be_empty() -> None:
    own = parse_params({"methods": {"public": None, "maple": {"rounds": 3}}})
    assert [method.name for method in own.chosen] == ["public", "maple"]
    assert own.methods == parse_params({"methods": {"public": {}, "maple": {"rounds": 3}}}).methods


def test_at_most_150_settings_of_which_a_new_project_shows_20() -> None:
    def count(value: Any) -> int:
        return sum(map(count, value.values())) if isinstance(value, dict) and value else 1

    fields = default_fields()
    evolving = [
        n for n in plugin_names(METHODS) if issubclass(load_plugin(METHODS, n), PartsMethod)
    ]
    of_private_evolution = sum(count(fields["methods"][name]) for name in evolving)
    assert count(fields["publication"]) <= 20  # answers for the card, which change no run
    assert count(fields) - count(fields["publication"]) - of_private_evolution <= 123
    assert count(yaml.safe_load((ROOT / "params.yaml").read_text())) <= 20


def test_one_seed_is_the_seed_of_all_public_choices() -> None:
    names = [name for name, _, _ in meanings(ProjectSettings())]
    assert [name for name in names if name.endswith("seed")] == ["seed"]


def test_an_unknown_key_gets_a_suggestion() -> None:
    message = message_of(changed("privacy.epsilom", 1.0))
    assert "privacy.epsilom is not a known setting; did you mean epsilon?" in message


def test_a_setting_that_is_left_out_has_its_default() -> None:
    fields = settings()
    whole = parse_params(fields)
    del fields["privacy"]["cap"]
    assert parse_params(fields) == whole
    assert whole.privacy.cap == ProjectSettings().privacy.cap


def test_a_missing_setting_is_named() -> None:
    fields = changed("generator.pool.sources", [{"text_column": "text"}])
    assert "generator.pool.sources.0.file is missing" in message_of(fields)


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


def test_a_key_that_occurs_twice_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text("privacy:\n  epsilon: 1\n  delta: 1.0e-6\n  epsilon: 20\n")
    with pytest.raises(ParamsError, match="line 4: the key 'epsilon' occurs twice"):
        load_params(path)


def test_a_mapping_may_repeat_a_key_of_the_mapping_that_it_merges(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text("privacy: {<<: {epsilon: 1}, epsilon: 2}\n")
    assert load_params(path).privacy.epsilon == 2


def test_how_answers_are_got_does_not_change_which() -> None:
    fields = changed("generator.provider", "openai")
    before = parse_params(fields).generator.identity()
    fields["generator"]["openai"] |= {"concurrency": 1, "timeout_s": 1.0, "max_retries": 0}
    assert parse_params(fields).generator.identity() == before
    fields["generator"]["openai"]["model"] = "another"
    assert parse_params(fields).generator.identity() != before


def test_four_settings_are_enough_for_ones_own_data() -> None:
    fields = settings()
    fields["prepare"] |= {"file": "in/Tickets 2026.csv", "text_column": "m", "schema": "s.yaml"}
    fields["privacy"]["dataset"] = "tickets"
    params = parse_params(fields)
    assert params.privacy.dataset == "tickets"
    assert params.privacy.purpose.value == "release"
    assert params.prepare.donated is None
    crt = method_in(params, CRT)
    assert (crt.labelled, crt.known) == (None, None)  # files of the example are for no other data
    assert method_in(params, Maple).prompt.value == "metadata"


def test_the_examples_ledger_is_never_charged_for_ones_own_data() -> None:
    fields = changed("prepare.file", "mine.csv")
    fields["privacy"]["purpose"] = "example"
    assert "privacy.purpose" in message_of(fields)


@pytest.mark.parametrize("file", ["tickets.csv", "../../tickets.csv", "corpus.jsonl.csv"])
def test_no_other_file_is_the_example_wherever_its_path_begins(file: str) -> None:
    """Only files of the example may have `privacy.purpose: example`, by default or by a setting."""
    fields = settings(prepare__file=f"data/public/example/{file}")
    assert parse_params(fields, source="params.yaml").privacy.purpose == "release"
    with pytest.raises(ParamsError, match=r"privacy\.purpose"):
        parse_params({**fields, "privacy": fields["privacy"] | {"purpose": "example"}}, source="p")


def test_own_donated_examples_are_shown() -> None:
    fields = changed("prepare.file", "mine.csv")
    fields["prepare"]["donated"] = "given.csv"
    params = parse_params(fields)
    assert params.prepare.donated == "given.csv"
    assert method_in(params, Maple).prompt.value == "both"


def test_the_endpoint_for_labels_shares_limits_and_nothing_else() -> None:
    own = parse_params(
        settings(
            generator__openai__concurrency=7,
            generator__openai__model="writer",
            generator__openai__max_calls=3,
            generator__openai__mode="batch",
            extract_metadata__llm={"model": "my-model", "timeout_s": 9},
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
        ("mode", "batch", "one call per text"),
        ("base_url", "localhost", "http(s) address"),
        ("max_cost", 2.0, "prices has none for model 'my-model'"),
    ],
)
def test_a_wrong_setting_of_the_endpoint_for_labels_is_named(
    setting: str, value: object, said: str
) -> None:
    with pytest.raises(ParamsError, match=r"extract_metadata\.llm") as refusal:
        parse_params(settings(extract_metadata__llm={"model": "my-model", setting: value}))
    assert said in str(refusal.value)


def test_the_settings_that_the_guide_shows_for_real_models_are_known() -> None:
    """The values of the settings must have types that DVC can read: numbers, texts, lists and
    mappings, but no dates.
    """
    guide = (ROOT / "docs/how-to/real-models.md").read_text()
    shown = [yaml.safe_load(part.partition("```")[0]) for part in guide.split("```yaml\n")[1:]]
    params = [parse_params(fields) for fields in shown]
    providers = [own.generator.provider for own in params if "generator" in own.model_fields_set]
    assert {"openai", "huggingface", "pool"} <= set(providers)
    paid, cached, several = [own for own in params if own.generator.provider == "openai"]
    assert paid.generator.chosen.price is not None
    assert cached.generator.chosen.price.cached < cached.generator.chosen.price.input
    assert len(str(several.generator.chosen.facts().endpoint).split(", ")) == 2
    assert any(own.extract_metadata.llm is not None for own in params)
    json.dumps(shown)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"methods": ["crt"]}, "not a user"),
        (
            {"privacy__records_per_user": 2, "synthesize_metadata__engine": "smartnoise"},
            "noise for one record",
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
