"""All settings of a project, read from params.yaml and checked together."""

from __future__ import annotations

import difflib
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_args

import yaml
from pydantic import Field, ValidationError, model_validator

from sugarbush.attributes.settings import ExtractMetadataSettings
from sugarbush.data.settings import EXAMPLE_FILE, EXAMPLE_FOLDER, PrepareSettings
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.errors import InvariantError, ParamsError
from sugarbush.evaluation.settings import EvaluateSettings
from sugarbush.evolution.settings import EvolutionSettings, InitialiseSettings, PromptContent
from sugarbush.examples.settings import MakeExampleSettings
from sugarbush.generators.openai.settings import SHARED_BY_ENDPOINTS, CallMode
from sugarbush.generators.settings import GeneratorSection, generator_class
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
    """The presets, by method. Those that train a model have none: their texts come from it."""

    maple: EvolutionSettings
    augpe: EvolutionSettings
    public: EvolutionSettings
    dpft: None
    crt: None
    nonprivate: EvolutionSettings
    seed: int

    def of(self, method: Method) -> EvolutionSettings:
        """The preset of a method that evolves candidates."""
        if method.trains or method is Method.CRT:
            raise InvariantError(f"{method} evolves no candidates")
        return getattr(self, method.value)  # type: ignore[no-any-return]


class ProjectSettings(Section):
    """The whole of params.yaml."""

    methods: Annotated[tuple[Method, ...], Field(min_length=1)]
    privacy: PrivacySettings
    make_example: MakeExampleSettings
    prepare: PrepareSettings
    extract_metadata: ExtractMetadataSettings
    synthesize_metadata: SynthesizeMetadataSettings
    generator: GeneratorSection
    embedding: EmbeddingSettings
    initialise: InitialiseSettings
    evolve: EvolveSettings
    pretrain: PretrainSettings
    finetune: FinetuneSettings
    generate: GenerateSettings
    crt: CrtSettings
    evaluate: EvaluateSettings
    report: ReportSettings

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
        raise ParamsError(f"{path}: not found; run in the folder that holds it") from None
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
        return ProjectSettings.model_validate(_filled_in(fields))
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False)
        raise ParamsError("\n".join(_explain(source, fields, p) for p in problems)) from None


def _filled_in(fields: dict[str, Any]) -> dict[str, Any]:
    """The settings with what follows from the data file.

    Whoever names a file of their own leaves the example behind: its donated examples are not
    shown to the generator, and its ledger is not charged.
    """
    prepare, privacy, evolve = (fields.get(k) for k in ("prepare", "privacy", "evolve"))
    if not (isinstance(prepare, dict) and isinstance(privacy, dict) and isinstance(evolve, dict)):
        return fields
    file = str(prepare.get("file", ""))
    example = file == EXAMPLE_FILE
    prepare, privacy, evolve = dict(prepare), dict(privacy), dict(evolve)
    if not example and str(prepare.get("donated", "")).startswith(EXAMPLE_FOLDER):
        prepare["donated"] = None
    crt = fields.get("crt")
    if isinstance(crt, dict) and not example:
        ours = [k for k in ("labelled", "known") if str(crt.get(k)).startswith(EXAMPLE_FOLDER)]
        fields = {**fields, "crt": {**crt, **dict.fromkeys(ours)}}
    if "dataset" in privacy and privacy["dataset"] is None:
        privacy["dataset"] = "example" if example else _slug(Path(file).stem)
    if "purpose" in privacy and privacy["purpose"] is None:
        privacy["purpose"] = "example" if example else "release"
    if "donated" in prepare and prepare["donated"] is None:
        for method, settings in evolve.items():
            if isinstance(settings, dict) and settings.get("prompt") == PromptContent.BOTH:
                evolve[method] = {**settings, "prompt": PromptContent.METADATA.value}
    filled = {"prepare": prepare, "privacy": privacy, "evolve": evolve}
    return {**fields, **filled, "extract_metadata": _with_shared_limits(fields)}


def _with_shared_limits(fields: dict[str, Any]) -> Any:
    """The section `extract_metadata`, its endpoint with the limits of the generator's."""
    section, generator = fields.get("extract_metadata"), fields.get("generator")
    own = section.get("llm") if isinstance(section, dict) else None
    other = generator.get("openai") if isinstance(generator, dict) else None
    if not (isinstance(section, dict) and isinstance(own, dict) and isinstance(other, dict)):
        return section
    shared = {name: other[name] for name in SHARED_BY_ENDPOINTS if name in other}
    return {**section, "llm": {**shared, "mode": CallMode.DIRECT.value, **own}}


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
        if field is not None:
            model = next((t for t in get_args(field.annotation) if t), field.annotation)
        else:
            model = generator_class(str(part)) if model is GeneratorSection else None
    names = [f.alias or n for n, f in getattr(model, "model_fields", {}).items()]
    close = difflib.get_close_matches(str(location[-1]), names, n=1)
    return f"; did you mean {close[0]}?" if close else "."
