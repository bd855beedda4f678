"""All settings of a project, read from params.yaml and checked together."""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError, model_validator

from sugarbush.attributes.settings import ExtractMetadataSettings
from sugarbush.data.settings import EXAMPLE_FILE, EXAMPLE_FOLDER, PrepareSettings
from sugarbush.deep_merge import deep_merge
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.errors import InvariantError, ParamsError
from sugarbush.evaluation.settings import EvaluateSettings
from sugarbush.evolution.settings import EvolutionSettings, InitialiseSettings, PromptContent
from sugarbush.examples.settings import MakeExampleSettings
from sugarbush.generators.settings import SHARED_BY_ENDPOINTS, GeneratorSettings
from sugarbush.methods.augpe import AugPE
from sugarbush.methods.maple import Maple
from sugarbush.methods.nonprivate import NonPrivate
from sugarbush.methods.public import Public
from sugarbush.privacy.settings import PrivacySettings, Purpose
from sugarbush.privacy.unit import Unit
from sugarbush.report.settings import ReportSettings
from sugarbush.settings import Section
from sugarbush.tables.settings import Engine, SynthesizeMetadataSettings
from sugarbush.training.crt.settings import CrtSettings
from sugarbush.training.dpsgd.settings import FinetuneSettings, GenerateSettings, PretrainSettings

FILE = "params.yaml"


class Method(StrEnum):
    """The methods that turn metadata and votes into texts."""

    MAPLE = "maple"
    AUGPE = "augpe"
    PUBLIC = "public"
    DPFT = "dpft"
    CRT = "crt"
    NONPRIVATE = "nonprivate"

    @property
    def votes(self) -> bool:
        """Whether it draws noisy votes from the budget."""
        return self in (Method.MAPLE, Method.AUGPE)

    @property
    def trains(self) -> bool:
        """Whether it fine-tunes a model by DP-SGD, and so neither starts nor evolves candidates."""
        return self is Method.DPFT

    @property
    def stays_private(self) -> bool:
        """Whether it has no DP guarantee, and so stays an arm in the private root."""
        return self in (Method.CRT, Method.NONPRIVATE)

    @property
    def uses_metadata(self) -> bool:
        """Whether it starts from the DP table of AIM."""
        return self in (Method.MAPLE, Method.DPFT)

    @property
    def uses_labels(self) -> bool:
        """Whether it starts from DP counts of one label."""
        return self is Method.AUGPE


class EvolveSettings(Section):
    """Evolution, by method. Methods that train a model have none."""

    maple: Maple = Maple()
    augpe: AugPE = AugPE()
    public: Public = Public()
    dpft: None = None
    """Evolves nothing: see finetune."""
    crt: None = None
    """Evolves nothing: see crt."""
    nonprivate: NonPrivate = NonPrivate()
    seed: int = 1
    """Seed of selection and prompts."""

    def of(self, method: Method) -> EvolutionSettings:
        """The preset of a method that evolves candidates."""
        if method.trains or method is Method.CRT:
            raise InvariantError(f"{method} evolves no candidates")
        return getattr(self, method.value)  # type: ignore[no-any-return]


class ProjectSettings(Section):
    """All settings of a project, checked together. `ProjectSettings()` is the example's."""

    methods: Annotated[tuple[Method, ...], Field(min_length=1)] = (Method.MAPLE,)
    """Methods to run: maple, augpe, public, dpft, crt, nonprivate."""
    privacy: PrivacySettings = PrivacySettings()
    make_example: MakeExampleSettings = MakeExampleSettings()
    prepare: PrepareSettings = PrepareSettings()
    extract_metadata: ExtractMetadataSettings = ExtractMetadataSettings()
    synthesize_metadata: SynthesizeMetadataSettings = SynthesizeMetadataSettings()
    generator: GeneratorSettings = GeneratorSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    initialise: InitialiseSettings = InitialiseSettings()
    evolve: EvolveSettings = EvolveSettings()
    pretrain: PretrainSettings = PretrainSettings()
    finetune: FinetuneSettings = FinetuneSettings()
    generate: GenerateSettings = GenerateSettings()
    crt: CrtSettings = CrtSettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    report: ReportSettings = ReportSettings()

    @property
    def trains(self) -> bool:
        """Whether one of the methods fine-tunes a model."""
        return any(method.trains for method in self.methods)

    @property
    def evolving(self) -> tuple[Method, ...]:
        """The methods that ask a generator for candidates."""
        return tuple(m for m in self.measured if not m.trains)

    @property
    def released(self) -> tuple[Method, ...]:
        """The methods whose texts are released: all that have a DP guarantee."""
        return tuple(method for method in self.methods if not method.stays_private)

    @property
    def measured(self) -> tuple[Method, ...]:
        """The methods that the metrics compare: those released, and the ceiling without noise."""
        return tuple(method for method in self.methods if method is not Method.CRT)

    @property
    def redacts(self) -> bool:
        """Whether one of the methods trains on a redacted corpus."""
        return Method.CRT in self.methods

    @model_validator(mode="before")
    @classmethod
    def _derive(cls, fields: Any) -> Any:
        return _derived(fields) if isinstance(fields, dict) else fields

    @model_validator(mode="after")
    def _distinct(self) -> ProjectSettings:
        if len(set(self.methods)) != len(self.methods):
            raise ValueError("methods names a method twice")
        return self

    @model_validator(mode="after")
    def _noiseless_on_public_data(self) -> ProjectSettings:
        """What it asks the generator for is made of real metadata and exact votes."""
        if Method.NONPRIVATE in self.methods and self.privacy.purpose is Purpose.RELEASE:
            raise ValueError(
                "methods: nonprivate adds no noise anywhere and protects nobody. It is for data "
                "that everybody may read: set privacy.purpose: benchmark if that is so, or leave "
                "it out"
            )
        return self

    @model_validator(mode="after")
    def _trained_on_whole_rows(self) -> ProjectSettings:
        if self.synthesize_metadata.attributes and any(m.trains for m in self.methods):
            raise ValueError(
                "synthesize_metadata.attributes limits the DP table, and a trained model is asked "
                "by all attributes of the schema: set it to null, or leave the method out"
            )
        return self

    @model_validator(mode="after")
    def _whom_it_protects(self) -> ProjectSettings:
        """Refuses what is not proved, or would not do what it seems to, for the unit."""
        person = self.privacy.unit is Unit.USER
        if person and self.prepare.user_column is None:
            raise ValueError(
                "privacy.unit: user needs prepare.user_column: the column that says whose a "
                "record is"
            )
        if not person and self.prepare.user_column is not None:
            raise ValueError(
                "prepare.user_column is set, but privacy.unit: record protects each record and "
                "not the person. Set privacy.unit: user, or user_column: null"
            )
        if person and self.redacts:
            raise ValueError(
                "methods: crt protects a secret and no person: with privacy.unit: user leave it out"
            )
        if self.privacy.records_per_user > 1 and (
            self.synthesize_metadata.engine is Engine.SMARTNOISE
        ):
            raise ValueError(
                "synthesize_metadata.engine: smartnoise reckons with the noise of one record a "
                "person: set engine: sugarbush, or privacy.records_per_user: 1"
            )
        return self

    @model_validator(mode="after")
    def _example_is_the_example(self) -> ProjectSettings:
        """Its ledger lies in the checkout, to be thrown away with it: for no other corpus."""
        example = self.privacy.purpose is Purpose.EXAMPLE
        if example and self.prepare.file != EXAMPLE_FILE:
            raise ValueError(
                "privacy.purpose: example is for the embedded corpus. For the file that "
                "prepare.file names set privacy.purpose: release (or benchmark, if it is public) "
                "and give privacy.dataset a name of its own"
            )
        return self


def load_params(path: Path = Path(FILE)) -> ProjectSettings:
    """The settings in a YAML file. Raises ParamsError naming file and setting."""
    try:
        fields = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ParamsError(f"{path}: not found; run in the project's folder") from None
    except (OSError, UnicodeDecodeError):
        raise ParamsError(f"{path}: cannot be read as UTF-8 text") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise ParamsError(f"{path}{where}: is not YAML") from None
    return parse_params(fields, source=str(path))


def parse_params(fields: Any, *, source: str = FILE) -> ProjectSettings:
    """The settings in a mapping. Raises ParamsError naming `source` and setting."""
    if not isinstance(fields, dict):
        raise ParamsError(f"{source}: expected sections, such as 'privacy:'")
    try:
        return ProjectSettings.model_validate(fields)
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False)
        raise ParamsError("\n".join(_explain(source, fields, p) for p in problems)) from None


def default_fields() -> dict[str, Any]:
    """Every setting with its default, as a complete params.yaml has it.

    What is derived from other settings is null (`privacy.dataset`, `privacy.purpose`) or left out
    (the limits that `extract_metadata.llm` shares with `generator.openai`).
    """
    fields = ProjectSettings().model_dump(mode="json", by_alias=True)
    fields["privacy"] |= {"dataset": None, "purpose": None}
    llm = fields["extract_metadata"]["llm"]
    fields["extract_metadata"]["llm"] = {
        name: value for name, value in llm.items() if name not in {*SHARED_BY_ENDPOINTS, "mode"}
    }
    return fields


def complete_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in a mapping, and the default of everything that it leaves out."""
    whole = default_fields()
    deep_merge(whole, copy.deepcopy(dict(fields)))
    return whole


def _derived(fields: dict[str, Any]) -> dict[str, Any]:
    """The settings with what follows from the data file.

    With a file of the user's own, the example's donated examples are not shown to the generator,
    and its ledger is not charged.
    """
    fields = {name: _fields_of(section) for name, section in fields.items()}
    sections = [dict(_section(fields, name)) for name in ("prepare", "privacy", "crt", "evolve")]
    prepare, privacy, crt, evolve = sections
    file = str(prepare.get("file", EXAMPLE_FILE))
    example = file == EXAMPLE_FILE
    if not example:
        for section, kind, names in (
            (prepare, PrepareSettings, ("donated",)),
            (crt, CrtSettings, ("labelled", "known")),
        ):
            for name in names:
                given = section.get(name, kind.model_fields[name].default)
                section[name] = None if str(given).startswith(EXAMPLE_FOLDER) else given
    if privacy.get("dataset") in (None, ""):
        privacy["dataset"] = "example" if example else _slug(Path(file).stem)
    if privacy.get("purpose") is None:
        privacy["purpose"] = "example" if example else "release"
    if "donated" in prepare and prepare["donated"] is None:
        evolve |= _without_examples(evolve)
    derived = dict(zip(("prepare", "privacy", "crt", "evolve"), sections, strict=True))
    refused = {name for name in derived if not isinstance(fields.get(name, {}), dict)}
    fields |= {name: section for name, section in derived.items() if name not in refused}
    return fields | _with_shared_limits(fields)


def _fields_of(section: Any) -> Any:
    """A section as it stands in a file: what was given, and no defaults."""
    if isinstance(section, Section):
        return section.model_dump(by_alias=True, exclude_unset=True)
    return section


def _section(fields: dict[str, Any], name: str) -> dict[str, Any]:
    """A section of the fields; an empty one where it is missing or, to be refused, no mapping."""
    section = fields.get(name)
    return section if isinstance(section, dict) else {}


def _without_examples(evolve: dict[str, Any]) -> dict[str, Any]:
    """The methods whose prompt has metadata and examples, with metadata alone."""
    changed = {}
    for method, field in EvolveSettings.model_fields.items():
        own = evolve.get(method, {})
        if not (isinstance(field.default, EvolutionSettings) and isinstance(own, dict)):
            continue
        if own.get("prompt", field.default.prompt) == PromptContent.BOTH:
            changed[method] = {**own, "prompt": PromptContent.METADATA.value}
    return changed


def _with_shared_limits(fields: dict[str, Any]) -> dict[str, Any]:
    """The section `extract_metadata`, its endpoint with the limits of the generator's."""
    section, other = fields.get("extract_metadata", {}), _section(fields, "generator").get("openai")
    if not (isinstance(section, dict) and isinstance(other, dict)):
        return {}
    own = section.get("llm", {})
    if not isinstance(own, dict):
        return {}
    shared = {name: other[name] for name in SHARED_BY_ENDPOINTS if name in other}
    return {"extract_metadata": {**section, "llm": {**shared, **own}}}


def _slug(name: str) -> str:
    """A dataset's name from a file's: a-z, 0-9, '.', '_' and '-', at most 64 of them."""
    return re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("._-")[:64] or "data"


def _explain(source: str, fields: Any, problem: Any) -> str:
    place = ".".join(str(part) for part in problem["loc"])
    arrived = _at(fields, problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"{source}: {place} is not a known setting{_meant(problem['loc'])}"
    if problem["type"] == "missing":
        return f"{source}: {place} is missing."
    message = problem["msg"].removeprefix("Value error, ")
    got = "" if isinstance(arrived, dict | list) else f" (got {arrived!r})"
    return f"{source}: {place or 'settings'}: {message.removesuffix('.')}{got}."


def _at(fields: Any, location: tuple[str | int, ...]) -> Any:
    for part in location:
        try:
            fields = fields[part]
        except (KeyError, IndexError, TypeError):
            return {}
    return fields


def _meant(location: tuple[str | int, ...]) -> str:
    model: Any = ProjectSettings
    for part in location[:-1]:
        field = getattr(model, "model_fields", {}).get(str(part))
        model = field.annotation if field is not None else None
    names = [f.alias or n for n, f in getattr(model, "model_fields", {}).items()]
    close = difflib.get_close_matches(str(location[-1]), names, n=1)
    return f"; did you mean {close[0]}?" if close else "."
