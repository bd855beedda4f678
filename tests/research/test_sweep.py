"""Tests of the points of a sweep file. Each point has a complete params.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from research.sweep_points import Kind, Sweep, kind_of, load_fields, load_sweep, points
from sugarbush.errors import ParamsError
from sugarbush.methods.maple import Maple
from sugarbush.methods.mosaic import Mosaic
from sugarbush.methods.nonprivate import NonPrivatePE
from sugarbush.methods.public import Public
from tests.settings import ROOT, method_in, settings

PUBLIC: dict[str, Any] = {
    "prepare": {"file": "letters.jsonl"},
    "privacy": {"purpose": "benchmark", "dataset": "letters"},
}


def sweep_of(**changes: Any) -> Sweep:
    fields: dict[str, Any] = {
        "kind": "pipelines",
        "sets": {"letters": {"file": "letters.yaml"}},
        "epsilons": [1.0, 4.0],
        "seeds": [1, 2],
        "settings": {"evaluate": {"max_texts": 50}},
        "evolution": {"candidates": 40, "rounds": 2},
        "arms": {
            "public": {"method": "public", "settings": {"methods": {"public": {}}}},
            "maple": {"method": "maple"},
            "weak": {"method": "maple", "settings": {"methods": {"maple": {"rounds": 1}}}},
        },
    }
    return Sweep.model_validate(fields | changes)


def points_of(sweep: Sweep, own: dict[str, Any] | None = None) -> list[Any]:
    files = dict.fromkeys(sweep.sets, PUBLIC if own is None else own)
    return list(points(sweep, base=settings(), files=files))


def test_every_private_arm_has_a_point_at_each_epsilon_and_seed() -> None:
    names = [point.name for point in points_of(sweep_of())]
    assert names[:3] == [
        "public-epsilon-0-seed-1", "public-epsilon-0-seed-2", "maple-epsilon-1-seed-1",
    ]  # fmt: skip
    assert len(names) == len(set(names)) == 2 + 2 * 4


def test_arms_have_equal_evolutions_but_for_what_they_say_themselves() -> None:
    found = {point.arm: point.params for point in points_of(sweep_of())}
    assert method_in(found["public"], Public).candidates == 40
    assert method_in(found["maple"], Maple).candidates == 40
    assert method_in(found["maple"], Maple).rounds == 2
    assert method_in(found["weak"], Maple).rounds == 1
    assert {params.evaluate.max_texts for params in found.values()} == {50}


def test_a_method_gets_only_the_common_settings_that_it_has() -> None:
    arms = {"mosaic": {"method": "mosaic"}, "dpft": {"method": "dpft"}}
    found = {point.arm: point.params for point in points_of(sweep_of(arms=arms))}
    assert method_in(found["mosaic"], Mosaic).candidates == 40
    assert list(found["dpft"].methods.by_name) == ["dpft"]


def test_a_point_has_its_own_epsilon_method_and_public_seeds() -> None:
    point = points_of(sweep_of())[-1]
    assert list(point.params.methods.by_name) == ["maple"]
    assert point.params.privacy.epsilon == 4.0
    assert point.params.seed == 2


def test_points_share_nothing_that_could_be_changed() -> None:
    first, *others = points_of(sweep_of())
    first.fields["evaluate"]["max_texts"] = 99
    first.fields["generator"]["pool"]["sources"].append("x")
    assert all(p.fields["evaluate"]["max_texts"] == 50 for p in others)
    assert not any(p.fields["generator"]["pool"]["sources"] for p in others)


@pytest.mark.parametrize("purpose", ["release", None])
def test_data_that_is_not_declared_public_is_refused(purpose: str | None) -> None:
    own = PUBLIC | {"privacy": {"purpose": purpose, "dataset": "letters"}}
    with pytest.raises(ParamsError, match="not declared public"):
        points_of(sweep_of(), own)


def test_the_example_is_no_benchmark_either() -> None:
    with pytest.raises(ParamsError, match="not declared public"):
        points_of(sweep_of(), {"seed": 2})


def test_an_arm_cannot_make_its_data_private_again() -> None:
    arm = {"method": "maple", "settings": {"privacy": {"purpose": "release"}}}
    with pytest.raises(ParamsError, match="not declared public"):
        points_of(sweep_of(arms={"sly": arm}))


def test_a_wrong_setting_names_the_point() -> None:
    arm = {"method": "maple", "settings": {"methods": {"maple": {"round": 1}}}}
    with pytest.raises(ParamsError, match=r"letters/bad.*methods\.maple\.round is not a known"):
        points_of(sweep_of(arms={"bad": arm}))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"epsilons": [0.0]}, "epsilons"),
        ({"arms": {}}, "arms"),
        ({"arms": {"../up": {"method": "maple"}}}, "arms"),
        ({"arms": {"a": {"method": "mapel"}}}, "arms.a.method"),
        ({"colour": 1}, "colour"),
        ({"arms": {"a": {"method": "maple", "sets": ["elsewhere"]}}}, "elsewhere"),
    ],
)
def test_a_wrong_file_is_refused_by_name(
    change: dict[str, Any], named: str, tmp_path: Path
) -> None:
    fields = load_fields(ROOT / "research/settings/sweep.yaml") | change
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(fields))
    with pytest.raises(ParamsError, match=rf"sweep\.yaml.*{named}"):
        load_sweep(tmp_path / "sweep.yaml")


@pytest.mark.parametrize("name", ["sweep", "confirm", "distractors"])
def test_the_sweeps_of_the_benchmark_sets_are_valid(name: str) -> None:
    sweep = load_sweep(ROOT / f"research/settings/{name}.yaml")
    files = {name: load_fields(ROOT / own.file) for name, own in sweep.sets.items()}
    found = list(points(sweep, base=settings(), files=files))
    # All arms of a sweep are measured on all of their texts, so each arm writes the same number.
    (texts,) = {point.params.release.texts for point in found}
    assert texts is not None
    assert all(texts <= point.params.evaluate.max_texts for point in found)


def test_an_arm_may_have_epsilons_and_seeds_of_its_own() -> None:
    arms = {"maple": {"method": "maple", "epsilons": [2.0], "seeds": [7]}}
    assert [p.name for p in points_of(sweep_of(arms=arms))] == ["maple-epsilon-2-seed-7"]


def test_an_arm_without_noise_has_one_point_a_seed_and_epsilon_infinity() -> None:
    arms = {"nonprivate": {"method": "nonprivate"}}
    found = points_of(sweep_of(arms=arms))
    assert [p.name for p in found] == [
        "nonprivate-epsilon-inf-seed-1", "nonprivate-epsilon-inf-seed-2",
    ]  # fmt: skip
    assert method_in(found[0].params, NonPrivatePE).candidates == 40
    assert found[0].params.released == ()


def test_every_committed_grid_names_its_kind() -> None:
    files = (ROOT / "research" / "settings").glob("*.yaml")
    grids = {path.name: path for path in files if {"arms", "models"} & load_fields(path).keys()}
    kinds = {name: kind_of(path) for name, path in grids.items()}
    assert kinds["sweep.yaml"] is Kind.PIPELINES
    assert kinds["crt_figures.yaml"] is Kind.LEAKAGE


@pytest.mark.parametrize("line", ["sets: {}", "kind: other"])
def test_a_grid_of_no_kind_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "grid.yaml").write_text(line)
    with pytest.raises(ParamsError, match="kind: expected one of pipelines, leakage"):
        kind_of(tmp_path / "grid.yaml")
