"""Tests that dvc.yaml, tasks/ and the cache keys of draws agree with the declarations of stages."""

from __future__ import annotations

import ast
import json
import types
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date
from enum import Enum
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from zlib import crc32

import numpy as np
import pytest

from sugarbush import registry
from sugarbush.data.private_store import CorpusInMemory
from sugarbush.data.schema import Schema
from sugarbush.data.settings import MessageColumns
from sugarbush.evolution.inputs import MetadataRelease
from sugarbush.evolution.population import NO_PARENT, Population
from sugarbush.generators.pool_files import PoolSource
from sugarbush.generators.prices import Price
from sugarbush.methods import dpft
from sugarbush.methods.dpft import DPFT
from sugarbush.methods.interface import Method, MethodInputs
from sugarbush.methods.nonprivate import NonPrivatePE
from sugarbush.methods.of_parts import PartsMethod
from sugarbush.pipeline.dvc import dvc_yaml, parameter_keys
from sugarbush.pipeline.graph import STAGES, stage_named
from sugarbush.pipeline.metadata import MetadataRequest
from sugarbush.pipeline.plan import plan_of
from sugarbush.pipeline.stages import fingerprint
from sugarbush.privacy import budget
from sugarbush.privacy.budget import BudgetAllocation, BudgetPlan, Subsampling
from sugarbush.privacy.events import PoissonGaussian
from sugarbush.privacy.settings import Purpose
from sugarbush.rehearsal.rehearse import require_rehearsal
from sugarbush.run.context import Gate, Project
from sugarbush.run.inputs import FolderInputs
from sugarbush.run.settings import ProjectSettings
from sugarbush.run.tools import method_inputs
from sugarbush.settings import Section, _NotInOutput
from tests.settings import ROOT, params

EVERY_METHOD = ["mosaic", "maple", "augpe", "public", "nonprivate", "dpft", "crt"]
EVOLVING = ["mosaic", "maple", "augpe", "public", "nonprivate"]
SCHEMA = Schema.model_validate(
    {
        "subject": "letters",
        "attributes": [
            {"name": "topic", "column": "topic", "values": ["a", "b"]},
            {"name": "mood", "column": "mood", "values": ["glad", "sad"]},
        ],
    }
)


def test_dvc_never_restores_a_digest_whose_private_half_is_of_another_run() -> None:
    """A method without a DP guarantee writes its results to data/private.

    DVC gets only a random identifier of these results, and must not restore an old one from its
    cache.
    """
    for stage in STAGES:
        if stage.by_method:
            assert all(output.persist for output in stage.outputs), stage.name


METADATA = MetadataRelease(
    rows=np.zeros((4, 2), dtype=np.int64), record_count=4000.0, labels=np.array([3, 1, 0])
)
FIRST = Population(
    ids=np.arange(2),
    texts=("one", "two"),
    codes=np.zeros((2, 2), dtype=np.int64),
    labels=np.zeros(2, dtype=np.int64),
    parents=np.full(2, NO_PARENT),
    rounds=np.zeros(2, dtype=np.int64),
)
# For each result, the stages that draw it. If a setting in the cache key of the result changes, DVC
# must run one of these stages.
KEYS = {
    "metadata": ("synthesize_metadata",),
    "mosaic": ("evolve@mosaic",),
    "maple": ("evolve@maple",),
    "augpe": ("evolve@augpe",),
    "public": ("evolve@public",),
    "nonprivate": ("initialise@nonprivate", "evolve@nonprivate"),
    "dpft": ("finetune@dpft",),
}


# --- what is generated


def test_dvc_yaml_is_what_the_declarations_say() -> None:
    assert (ROOT / "dvc.yaml").read_text() == dvc_yaml()


def test_every_stage_has_one_thin_module_and_nothing_else_lies_beside_them() -> None:
    found = {path.stem: path for path in (ROOT / "tasks").glob("*.py") if path.stem != "__init__"}
    assert set(found) == {stage.name for stage in STAGES}
    for name, path in found.items():
        body = ast.parse(path.read_text()).body
        assert [type(node) for node in body] == [ast.Expr, ast.ImportFrom, ast.If], name
        (call,) = body[2].body  # type: ignore[attr-defined]
        assert ast.unparse(call) == f"run_stage('{name}')"


# --- what a stage depends on


def with_subsampling(
    plan: BudgetPlan, trainings: Mapping[str, Subsampling], *, epsilon: float
) -> BudgetPlan:
    """Replace the search for the noise of training. The result depends on all arguments."""
    noise = 1 + crc32(repr((plan, trainings, epsilon)).encode()) / 2**32

    def known(allocation: BudgetAllocation) -> BudgetAllocation:
        if allocation.name not in trainings:
            return allocation
        rate, steps = trainings[allocation.name].rate, trainings[allocation.name].steps
        event = PoissonGaussian(noise_multiplier=noise, rate=rate, count=steps)
        return replace(allocation, subsampled=event)

    return replace(plan, allocations=tuple(map(known, plan.allocations)))


class PreparedInputs(FolderInputs):
    """Records that were prepared for the settings."""

    def records(self) -> CorpusInMemory:
        bounds = self._settings.contribution_bounds
        return CorpusInMemory({}, {}, fingerprint=(), bounds=bounds)


class World:
    """A project with fixed data and changing settings."""

    def __init__(self, base: Path) -> None:
        self._base = base

    def keys(self, settings: ProjectSettings) -> dict[str, str]:
        """Return the cache key of every result, as JSON."""
        project = self._project(settings)
        found: dict[str, Mapping[str, Any]] = {"metadata": MetadataRequest(project).cache_key()}
        for method in settings.chosen:
            inputs = method_inputs(project, method, stage="evolve", metadata=METADATA)
            # CRT restores no results: its checkpoints are deleted when it ends.
            if method.name != "crt":
                found[method.name] = _key_of(method, inputs)
        return {name: json.dumps(key, sort_keys=True, default=str) for name, key in found.items()}

    def tracked(self, settings: ProjectSettings) -> dict[str, str]:
        """Return the setting values that DVC compares, for every stage, as JSON."""
        resolved = fingerprint.resolved_settings(self._project(settings))
        found = {}
        for stage in STAGES:
            for method in settings.methods.by_name if stage.by_method else [""]:
                keys = [key.replace("{method}", method) for key in parameter_keys(stage)]
                name = f"{stage.name}@{method}" if method else stage.name
                found[name] = json.dumps([_at(resolved, key) for key in keys], sort_keys=True)
        return found

    def _project(self, settings: ProjectSettings) -> Project:
        return Project(
            self._base,
            settings,
            inputs=PreparedInputs(self._base, settings, schema=SCHEMA),
            gate=Gate(rehearse=require_rehearsal, plan=plan_of),
        )


def _key_of(method: Method, inputs: MethodInputs) -> Mapping[str, Any]:
    if isinstance(method, NonPrivatePE):
        catching = replace(inputs.private, open_store=lambda stage, key, **_: key)
        key: Any = method._open_store(replace(inputs, private=catching), None, forced=False)
        assert isinstance(key, Mapping)
        return key
    if isinstance(method, PartsMethod):
        return method.cache_key(inputs, FIRST)
    assert isinstance(method, DPFT)
    return method._cache_key(inputs, method._mechanism(inputs))


def _at(fields: Mapping[str, Any], key: str) -> Any:
    value: Any = fields
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


@cache
def installed(**wanted: str) -> EntryPoints:
    return entry_points(**wanted)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    for name in ("train_texts", "train_codes"):
        path = tmp_path / "data/stamps" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"stamp": name}))
    (tmp_path / "data/public/pretrained").mkdir(parents=True)
    (tmp_path / "data/public/pretrained/pretrain.json").write_text('{"digest": "start"}')
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    encoder = types.SimpleNamespace(encode=lambda texts: np.zeros((len(texts), 1)))
    monkeypatch.setattr(FolderInputs, "encoder", lambda self, *, private: encoder)
    monkeypatch.setattr(FolderInputs, "donated", lambda self: None)
    # The result is cached, because `entry_points` reads a file for each package.
    monkeypatch.setattr(registry, "entry_points", installed)
    monkeypatch.setattr(fingerprint, "code_digest", lambda: "code")
    monkeypatch.setattr(dpft, "with_subsampling", with_subsampling)
    # This replacement skips the computation of epsilon. The noise of a plan still depends on all
    # its arguments, but is quick to compute.
    for name in ("epsilon_of", "rough_epsilon"):
        monkeypatch.setattr(budget, name, lambda events, *, delta: 0.0)
    return World(tmp_path)


@cache
def base_settings(**changes: Any) -> ProjectSettings:
    """Return settings with every method, for data that is declared public."""
    source = {"file": "pool.jsonl", "text_column": "text"}
    return params(
        methods=EVERY_METHOD,
        privacy__purpose="benchmark",
        privacy__epsilon=4.0,
        methods__dpft__model="folder/gpt2",
        generator__pool__sources=[source],
        extract_metadata__llm={"model": "reader"},
        **({"initialise__length": {"words": 80}} | changes),
    )


# --- every single setting, and a changed value of it


# the path of a setting, and whether it is marked with NOT_IN_OUTPUT
Leaf = tuple[tuple[str, ...], bool]


def leaves(section: Section, place: tuple[str, ...] = (), marked: bool = False) -> Iterator[Leaf]:
    for name, value in section:
        field = type(section).model_fields.get(name)
        own = field is not None and any(isinstance(m, _NotInOutput) for m in field.metadata)
        if isinstance(value, Section):
            yield from leaves(value, (*place, name), marked or own)
        else:
            yield (*place, name), marked or own


def changed(section: Any, place: tuple[str, ...]) -> Any:
    """Return the settings with another value at `place`.

    The new settings are not validated, so any value is accepted.
    """
    name, *rest = place
    old = getattr(section, name)
    if rest:
        new = changed(old, tuple(rest))
    elif name in OTHERS:
        new = OTHERS[name]
    else:
        field = type(section).model_fields.get(name)
        new = another(old, None if field is None else field.annotation)
    assert new != old, place
    return section.model_copy(update={name: new})


def another(value: Any, kind: Any) -> Any:
    """Return another value of the same type."""
    if isinstance(value, Enum):
        return next(member for member in type(value) if member is not value)
    choices = [choice for choice in _choices(kind) if choice != value]
    if choices:
        return choices[0]
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value * 1.25 + 0.125
        case str():
            return value + "-x"
        case tuple():
            return value[:-1] if value else ("x",)
        case dict():
            return {**value, "x": 1}
        case None:
            return _of_type(kind)
    raise AssertionError(f"no other value of {value!r}")


def _choices(kind: Any) -> tuple[Any, ...]:
    if get_origin(kind) is Literal:
        return get_args(kind)
    return tuple(choice for part in _parts(kind) for choice in _choices(part))


def _parts(kind: Any) -> tuple[Any, ...]:
    if get_origin(kind) is Annotated:
        return (get_args(kind)[0],)
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else ()


def _of_type(kind: Any) -> Any:
    """Return a value for an optional setting that is null."""
    known: dict[Any, Any] = {str: "x", int: 7, float: 7.5, bool: True}
    if kind in known:
        return known[kind]
    if get_origin(kind) is tuple:
        return ("topic",)
    if get_origin(kind) is dict:
        return {"a": 7}
    return next((_of_type(p) for p in _parts(kind) if p is not type(None)), 7)


# Other values for settings that refuse an arbitrary value of the same type.
OTHERS: dict[str, Any] = {
    "review_date": date(2031, 1, 2),
    "provider": "pool",
    "delta": 2e-6,
    "label": "mood",
    "accept_if": {"coverage": ">= 0.5"},
    "mix": {"topic": {"a": 1.0}},
    "messages": MessageColumns(thread="thread", speaker="speaker"),
    "sources": (PoolSource(file="other.jsonl", text_column="text"),),
    "prices": {"my-model": Price(input=1.0, output=2.0, date="2026-11-01")},
}
PROVIDERS = ("simulator", "pool", "openai", "huggingface")


def all_leaves() -> list[Leaf]:
    return list(leaves(base_settings()))


def provider_of(place: tuple[str, ...]) -> str:
    return place[1] if place[0] == "generator" and place[1] in PROVIDERS else "simulator"


@pytest.mark.slow
def test_a_setting_changes_a_cache_key_only_if_dvc_runs_the_stage_again(world: World) -> None:
    """If DVC did not run the stage, old results would be kept although a setting changed.

    The next run of the stage would then charge unexpectedly.
    """
    before = {
        name: (s := base_settings(generator__provider=name), world.keys(s), world.tracked(s))
        for name in PROVIDERS
    }
    wrong, counted = [], set()
    for place, marked in all_leaves():
        settings, keys, tracked = before[provider_of(place)]
        other = changed(settings, place)
        other_keys, other_tracked = world.keys(other), world.tracked(other)
        stale = {name for name in tracked if other_tracked.get(name) != tracked[name]}
        drawn = {name for name in keys if name in other_keys and other_keys[name] != keys[name]}
        setting = ".".join(place)
        if marked and (stale or drawn):
            wrong.append(f"{setting} is marked NOT_IN_OUTPUT and changes {sorted(stale | drawn)}")
        wrong += [
            f"{setting} changes the cache key of {name}, and DVC runs none of {KEYS[name]}"
            for name in sorted(drawn)
            if not stale & set(KEYS[name])
        ]
        counted |= {(name, setting) for name in drawn}
    assert not wrong, "\n".join(wrong)
    # Check the test itself: for each kind of result, it must find settings that change the cache
    # key.
    assert counted >= {
        ("metadata", "seed"),
        ("metadata", "privacy.epsilon"),
        ("maple", "methods.maple.rounds"),
        ("maple", "embedding.model"),
        ("augpe", "synthesize_metadata.label"),
        ("nonprivate", "methods.nonprivate.rounds"),
        ("nonprivate", "initialise.length.words"),
        ("public", "generator.openai.model"),
        ("dpft", "methods.dpft.learning_rate"),
        ("dpft", "privacy.delta"),
    }


@pytest.mark.slow
def test_every_setting_without_a_mark_makes_some_stage_stale_or_is_a_cap(world: World) -> None:
    """If no stage depends on a setting, a declaration in the graph is missing, or the setting
    should be marked with NOT_IN_OUTPUT.
    """
    free = {
        "privacy.cap",  # read when a charge is made
        "generator.max_dropped_share",
    }
    unseen = []
    for place, marked in all_leaves():
        settings = base_settings(generator__provider=provider_of(place))
        setting = ".".join(place)
        if marked or setting in free:
            continue
        if world.tracked(settings) == world.tracked(changed(settings, place)):
            unseen.append(setting)
    assert not unseen


@pytest.mark.slow
def test_the_number_of_records_per_user_is_in_every_cache_key_and_makes_prepare_stale(
    world: World,
) -> None:
    """The names of the records are equal here. They would also change if the records changed."""

    def of_users(records: int) -> ProjectSettings:
        return params(
            methods=["mosaic", "maple", "augpe", "dpft"],
            privacy__purpose="benchmark",
            privacy__epsilon=4.0,
            methods__dpft__model="folder/gpt2",
            privacy__unit="user",
            privacy__records_per_user=records,
            prepare__user_column="writer",
            initialise__length={"words": 80},
        )

    two, three = of_users(2), of_users(3)
    keys = [world.keys(settings) for settings in (two, three)]
    assert keys[0].keys() == {"metadata", "mosaic", "maple", "augpe", "dpft"}
    privacy = [{name: json.loads(key)["privacy"] for name, key in found.items()} for found in keys]
    assert {tuple(said) for said in privacy[0].values()} == {("user", 2, two.privacy.delta)}
    assert {tuple(said) for said in privacy[1].values()} == {("user", 3, two.privacy.delta)}
    tracked = [world.tracked(settings) for settings in (two, three)]
    stale = {name for name, values in tracked[0].items() if tracked[1][name] != values}
    assert stale >= {"prepare", "synthesize_metadata", "evolve@maple", "finetune@dpft"}


@pytest.mark.parametrize(
    ("provider", "setting", "value"),
    [
        ("huggingface", "model", "another-model"),
        ("openai", "model", "another-model"),
        ("openai", "reasoning_effort", "low"),
    ],
)
def test_another_model_makes_every_method_that_asks_it_stale(
    world: World, provider: str, setting: str, value: str
) -> None:
    own = base_settings(generator__provider=provider)
    other = base_settings(
        generator__provider=provider, **{f"generator__{provider}__{setting}": value}
    )
    before, after = world.tracked(own), world.tracked(other)
    drawn, again = world.keys(own), world.keys(other)
    for method in EVOLVING:
        assert drawn[method] != again[method]
        for stage in ("initialise", "evolve", "enlarge"):
            assert before[f"{stage}@{method}"] != after[f"{stage}@{method}"]
    for stage in ("synthesize_metadata", "finetune@dpft"):
        assert before[stage] == after[stage]


def test_a_stage_that_spends_depends_on_no_code() -> None:
    spending = [stage for stage in STAGES if stage.spends]
    names = [stage.name for stage in spending]
    assert names == ["look", "synthesize_metadata", "evolve", "finetune", "generate", "measure"]
    for stage in spending:
        assert "code" not in parameter_keys(stage) and stage.version is not None


def test_methods_name_stages_of_the_graph(world: World) -> None:
    assert base_settings().privacy.purpose is Purpose.BENCHMARK
    for method in base_settings().chosen:
        for name in method.stages:
            assert stage_named(name).by_method
