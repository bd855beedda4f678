"""Reads a sweep file and lists its points: methods x epsilons x seeds, on public data.

A sweep file lists data sets, epsilons, seeds, and methods with changed settings. A method with
changed settings is called an arm (section `arms`). A data set is a settings file that is merged
into params.yaml. The settings of the section `evolution` are applied first, to all arms with a
method that has these settings. So all methods have equal rounds, candidates and variations by
default. A point is one arm on one data set
at one epsilon and seed. A point has a complete params.yaml. The data must be declared public.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, Field, ValidationError

from sugarbush.deep_merge import deep_merge
from sugarbush.errors import ParamsError
from sugarbush.methods import method_class
from sugarbush.privacy import Purpose
from sugarbush.run import ProjectSettings, parse_params
from sugarbush.settings import Section

_Epsilons = Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1)]
_Seeds = Annotated[tuple[int, ...], Field(min_length=1)]


def _installed(name: str) -> str:
    """Return the name. Raises ValueError if no installed method has this name."""
    try:
        return method_class(name).name
    except ParamsError as error:
        raise ValueError(str(error)) from None


MethodName = Annotated[str, AfterValidator(_installed)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]


class Arm(Section):
    """A method, with settings that replace settings of params.yaml.

    `sets` limits the arm to some of the data sets. `epsilons` and `seeds` replace the epsilons and
    seeds of the sweep.
    """

    method: MethodName
    settings: dict[str, Any] = Field(default_factory=dict)
    sets: tuple[str, ...] | None = None
    epsilons: _Epsilons | None = None
    seeds: _Seeds | None = None


class PublicSet(Section):
    """A data set: a settings file (path relative to the checkout), and changed settings."""

    file: str
    settings: dict[str, Any] = Field(default_factory=dict)


class Kind(StrEnum):
    """The kind of a grid's points: complete pipelines, or trained models for attacks."""

    PIPELINES = "pipelines"
    LEAKAGE = "leakage"


class Sweep(Section):
    """The content of a sweep file."""

    kind: Literal[Kind.PIPELINES]
    sets: Annotated[dict[Name, PublicSet], Field(min_length=1)]
    epsilons: _Epsilons
    seeds: _Seeds
    settings: dict[str, Any]
    evolution: dict[str, Any]
    arms: Annotated[dict[Name, Arm], Field(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class Point:
    """A point of the sweep, which is one run.

    `epsilon` is 0 for a method without private data, and infinity for a method without noise.
    """

    set_name: str
    arm: str
    epsilon: float
    seed: int
    fields: dict[str, Any]
    params: ProjectSettings

    @property
    def name(self) -> str:
        """The name of the point's folder within the folder of its data set."""
        return f"{self.arm}-epsilon-{self.epsilon:g}-seed-{self.seed}"


def kind_of(path: Path) -> Kind:
    """Return the kind of points in a grid file. Raises ParamsError if the kind is missing or
    unknown."""
    try:
        return Kind(str(load_fields(path).get("kind")))
    except ValueError:
        raise ParamsError(f"{path}: kind: expected one of {', '.join(Kind)}") from None


def load_sweep(path: Path) -> Sweep:
    """Read a sweep file. Raises ParamsError with the file and the invalid key."""
    fields = load_fields(path)
    try:
        sweep = Sweep.model_validate(fields)
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in found["loc"])
        raise ParamsError(f"{path}: {where}: {found['msg']}") from None
    for name, arm in sweep.arms.items():
        unknown = set(arm.sets or ()) - set(sweep.sets)
        if unknown:
            raise ParamsError(f"{path}: arms.{name}.sets: not in this sweep: {unknown}")
    return sweep


def load_fields(path: Path) -> dict[str, Any]:
    """Read the sections of a YAML file."""
    try:
        fields = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        raise ParamsError(f"{path}: not found, or is not YAML") from None
    if not isinstance(fields, dict):
        raise ParamsError(f"{path}: expected sections, such as 'arms:'")
    return fields


def points(
    sweep: Sweep, *, base: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]]
) -> Iterator[Point]:
    """Return all points, ordered by arm. A stopped sweep then has its first arms on all data sets.
    `base` is a complete params.yaml, and `files` contains the settings files of the data sets.
    Raises ParamsError if the settings of a point are invalid, or if its data is not declared
    public. The data must be public: a sweep compares methods with real texts, so the choice of a
    method depends on the real texts.
    """
    for arm_name, arm in sweep.arms.items():
        for set_name in sweep.sets if arm.sets is None else arm.sets:
            for epsilon in _epsilons(arm, sweep):
                for seed in arm.seeds or sweep.seeds:
                    fields = copy.deepcopy(dict(base))
                    deep_merge(fields, copy.deepcopy(dict(files[set_name])))
                    deep_merge(fields, copy.deepcopy(sweep.sets[set_name].settings))
                    _set_point(fields, sweep, arm, epsilon=epsilon, seed=seed)
                    params = parse_params(fields, source=f"sweep point {set_name}/{arm_name}")
                    if params.privacy.purpose is not Purpose.BENCHMARK:
                        raise ParamsError(
                            f"sweep: data set '{set_name}' is not declared public. A sweep "
                            "compares methods with real texts. If everybody may read the data, set "
                            "'privacy.purpose: benchmark' in its settings file"
                        )
                    yield Point(
                        set_name=set_name, arm=arm_name, epsilon=epsilon, seed=seed,
                        fields=fields, params=params,
                    )  # fmt: skip


def _epsilons(arm: Arm, sweep: Sweep) -> tuple[float, ...]:
    without_budget = {"public": (0.0,), "nonprivate": (math.inf,)}
    return without_budget.get(arm.method) or arm.epsilons or sweep.epsilons


def _set_point(
    fields: dict[str, Any], sweep: Sweep, arm: Arm, *, epsilon: float, seed: int
) -> None:
    """Merge the method, epsilon and seed of a point, and the settings of its arm, into `fields`."""
    deep_merge(fields, copy.deepcopy(sweep.settings))
    own = fields["methods"].get(arm.method) or {}
    known = method_class(arm.method).model_fields
    deep_merge(own, {name: value for name, value in sweep.evolution.items() if name in known})
    fields["methods"] = {arm.method: own}
    fields["seed"] = seed
    if 0 < epsilon < math.inf:
        fields["privacy"]["epsilon"] = epsilon
    deep_merge(fields, copy.deepcopy(arm.settings))
