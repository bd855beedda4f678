import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from ruamel.yaml import YAML

from sugarbush.errors import ParamsError
from sugarbush.project.assignments import changed_settings, write_settings
from tests.settings import ROOT


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "params.yaml", tmp_path)
    return tmp_path


def test_one_setting_is_changed_and_the_comments_stay(project: Path) -> None:
    before = (project / "params.yaml").read_text()
    changed = changed_settings(project, assignments=["methods.mosaic.examples=3"])
    assert changed.names == ("methods.mosaic.examples",)
    write_settings(project, changed)
    after = (project / "params.yaml").read_text()
    assert yaml.safe_load(after)["methods"] == {"mosaic": {"examples": 3}}
    assert after.count("#") == before.count("#")


def test_a_key_that_occurs_twice_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("privacy:\n  epsilon: 1\n  epsilon: 20\n")
    with pytest.raises(ParamsError, match="line 3: the key 'epsilon' occurs twice"):
        changed_settings(tmp_path, assignments=["privacy.delta=1.0e-6"])


def methods_after(project: Path, *assignments: str) -> Any:
    write_settings(project, changed_settings(project, assignments=assignments))
    return yaml.safe_load((project / "params.yaml").read_text())["methods"]


def test_a_new_value_of_methods_replaces_the_methods_and_keeps_settings_and_comments(
    project: Path,
) -> None:
    before = (project / "params.yaml").read_text()
    assert methods_after(project, "methods={maple: {rounds: 3}}") == {"maple": {"rounds": 3}}
    both = methods_after(project, "methods={augpe: {}, maple: {}}", "methods.augpe.rounds=5")
    assert both == {"maple": {"rounds": 3}, "augpe": {"rounds": 5}}
    assert methods_after(project, "methods.maple.variations=2") == {
        "maple": {"variations": 2, "rounds": 3}, "augpe": {"rounds": 5},
    }  # fmt: skip
    assert methods_after(project, "methods={augpe: {}}") == {"augpe": {"rounds": 5}}
    after = (project / "params.yaml").read_text()
    assert [line.split("#")[1:] for line in after.splitlines()] == [
        line.split("#")[1:] for line in before.splitlines()
    ]


def test_a_setting_of_a_method_that_is_not_chosen_is_refused_with_the_value_to_write(
    project: Path,
) -> None:
    with pytest.raises(ParamsError, match=r"maple is not chosen \(methods: mosaic\)") as refused:
        changed_settings(project, assignments=["methods.maple.rounds=3"])
    assert "-S 'methods={maple: {}}'" in str(refused.value)


def test_without_a_value_the_method_is_mosaic(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("release: {texts: 20}\n")
    assert methods_after(tmp_path, "methods.mosaic.examples=3") == {"mosaic": {"examples": 3}}
    assert methods_after(tmp_path, "methods={dpft: {}}") == {"dpft": {}}


def test_an_overlay_holds_only_what_it_changes(project: Path) -> None:
    overlay = project / "mine.yaml"
    overlay.write_text("privacy: {dataset: mine}\nmethods: {augpe: {}}\n")
    changed = changed_settings(project, overlay=overlay)
    assert set(changed.names) == {"privacy.dataset", "methods"}
    write_settings(project, changed)
    settings = yaml.safe_load((project / "params.yaml").read_text())
    assert settings["methods"] == {"augpe": {}}
    assert settings["privacy"]["dataset"] == "mine"
    assert settings["privacy"]["epsilon"] == 1.0


def test_nothing_is_written_when_the_result_would_be_invalid(project: Path) -> None:
    before = (project / "params.yaml").read_text()
    for bad in (
        "privacy.epsilom=1",
        "privacy.epsilon=0",
        "privacy.epsilon",
        "methods=[",
        "methods=[maple]",
        "methods.maple.rounds=3",
        "x=1",
        "run.cluster=process",
    ):
        with pytest.raises(ParamsError):
            changed_settings(project, assignments=[bad])
        assert (project / "params.yaml").read_text() == before


def test_a_list_of_addresses(project: Path) -> None:
    """libyaml refuses a port inside [ ] without quotes."""
    addresses = ["http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"]
    listed = f"generator.openai.base_url=[{', '.join(addresses)}]"
    write_settings(project, changed_settings(project, assignments=[listed]))
    text = (project / "params.yaml").read_text()
    assert YAML(typ="safe").load(text)["generator"]["openai"]["base_url"] == addresses
    (project / "mine.yaml").write_text(f"generator: {{openai: {{base_url: [{addresses[0]}]}}}}\n")
    with pytest.raises(ParamsError, match="DVC cannot read this YAML"):
        changed_settings(project, overlay=project / "mine.yaml")


def test_a_missing_overlay_is_named(project: Path) -> None:
    with pytest.raises(ParamsError, match=r"gone\.yaml"):
        changed_settings(project, overlay=project / "gone.yaml")


def test_what_is_already_so_changes_nothing(project: Path) -> None:
    before = (project / "params.yaml").stat().st_mtime_ns
    changed = changed_settings(project, assignments=["privacy.epsilon=1.0"])
    assert changed.names == ()
    write_settings(project, changed)
    assert (project / "params.yaml").stat().st_mtime_ns == before


def test_trying_a_setting_writes_nothing(project: Path) -> None:
    before = (project / "params.yaml").read_bytes()
    assert changed_settings(project, assignments=["privacy.epsilon=2"]).params.privacy.epsilon == 2
    assert (project / "params.yaml").read_bytes() == before


def test_a_setting_that_is_not_in_the_file_is_added_to_its_section(project: Path) -> None:
    before = (project / "params.yaml").read_text()
    assert "purpose" not in before
    names = ["privacy.purpose=benchmark", "privacy.metadata_share=0.1", "evaluate.bootstrap=7"]
    changed = changed_settings(project, assignments=names)
    assert changed.names == ("privacy.purpose", "evaluate.bootstrap")  # 0.1 is a default
    write_settings(project, changed)
    after = (project / "params.yaml").read_text()
    kept = [line for line in after.splitlines() if line in before.splitlines()]
    assert kept == before.splitlines()  # every line and comment is kept, in order
    assert yaml.safe_load(after)["evaluate"] == {"bootstrap": 7}
    assert "privacy:\n  purpose: benchmark\n" in after


def test_a_value_of_the_file_can_be_set_back_to_its_default(project: Path) -> None:
    write_settings(project, changed_settings(project, assignments=["privacy.epsilon=2"]))
    changed = changed_settings(project, assignments=["privacy.epsilon=1.0"])
    assert changed.names == ("privacy.epsilon",)
    assert changed.params.privacy.epsilon == 1
