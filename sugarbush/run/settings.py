"""Reads all settings of a project from params.yaml, and checks them together."""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import ValidationError, field_validator, model_validator
from pydantic_core import SchemaError as ModelError

from sugarbush.attributes.settings import ExtractMetadataSettings
from sugarbush.audits.settings import AuditSettings
from sugarbush.data.settings import EXAMPLE_FILE, EXAMPLE_FILES, PrepareSettings, is_in_example
from sugarbush.deep_merge import deep_merge
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.errors import ParamsError
from sugarbush.evaluation.public_figures import FigureRule
from sugarbush.evaluation.settings import EvaluateSettings
from sugarbush.evolution.inputs import ReleaseSettings
from sugarbush.evolution.settings import InitialiseSettings
from sugarbush.generators.openai.endpoint_settings import SHARED_BY_ENDPOINTS
from sugarbush.generators.settings import GeneratorSection, generator_class
from sugarbush.methods import method_class
from sugarbush.methods.interface import Method, MethodContext
from sugarbush.methods.of_parts import PartsMethod
from sugarbush.methods.settings import MethodsSection
from sugarbush.privacy.remarks import DIFFERENT_SETTING, OVERLAP_SETTING, ROWS_SETTING
from sugarbush.privacy.settings import PrivacySettings, Purpose
from sugarbush.privacy.unit import ContributionBounds, Unit
from sugarbush.registry import GENERATORS, METHODS, package_of, plugin_names
from sugarbush.report.settings import PublicationSettings, ReportSettings
from sugarbush.run.profile_settings import ProfileSettings
from sugarbush.settings import NOT_IN_OUTPUT, SECRET, Section, has_secret
from sugarbush.tables.settings import Engine, SynthesizeMetadataSettings
from sugarbush.training.dpsgd.settings import PretrainSettings, TrainingSettings
from sugarbush.yaml_files import load_yaml, yaml_fault

FILE = "params.yaml"


class RunSettings(Section):
    """Settings of the processes in which stages compute."""

    cluster: Annotated[str, NOT_IN_OUTPUT] = "local"
    """local, processes (several on this machine, or one per GPU), or a Dask scheduler's address."""

    @field_validator("cluster")
    @classmethod
    def _known(cls, cluster: str) -> str:
        if cluster not in {"local", "processes"} and ":" not in cluster:
            raise ValueError("use local, processes, or an address such as tcp://scheduler:8786")
        return cluster


class ProjectSettings(Section):
    """All settings of a project, checked together.

    `ProjectSettings()` returns the settings of the example.
    """

    methods: MethodsSection = MethodsSection.of("mosaic")
    release: ReleaseSettings = ReleaseSettings()
    privacy: PrivacySettings = PrivacySettings()
    prepare: PrepareSettings = PrepareSettings()
    profile: ProfileSettings = ProfileSettings()
    extract_metadata: ExtractMetadataSettings = ExtractMetadataSettings()
    synthesize_metadata: SynthesizeMetadataSettings = SynthesizeMetadataSettings()
    generator: GeneratorSection = GeneratorSection()
    embedding: EmbeddingSettings = EmbeddingSettings()
    initialise: InitialiseSettings = InitialiseSettings()
    pretrain: PretrainSettings = PretrainSettings()
    training: TrainingSettings = TrainingSettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    audit: AuditSettings = AuditSettings()
    report: ReportSettings = ReportSettings()
    publication: PublicationSettings = PublicationSettings()
    run: RunSettings = RunSettings()
    seed: int = 1
    """Public seed of prompts, texts, samples and metrics. Noise has no seed."""

    def method(self, name: str) -> Method:
        """Return a chosen method, or a method with its defaults. Raises ParamsError if no method of
        that name is installed."""
        method = self.methods.by_name.get(name) or method_class(name)()
        return method.in_project(self._context)

    @property
    def chosen(self) -> tuple[Method, ...]:
        """The chosen methods, with the values that follow from other settings."""
        return tuple(self.method(name) for name in self.methods.by_name)

    @property
    def _context(self) -> MethodContext:
        return MethodContext(
            texts=self.release.texts,
            purpose=self.privacy.purpose,
            unit=self.privacy.unit,
            has_donated=self.prepare.donated is not None,
            is_example=self.prepare.file == EXAMPLE_FILE,
            table_attributes=self.synthesize_metadata.attributes,
            follows_requests=self.generator.chosen.follows_requests,
        )

    @property
    def released(self) -> tuple[Method, ...]:
        """The methods with a DP guarantee. Only these methods release texts."""
        return tuple(method for method in self.chosen if not method.stays_private)

    @property
    def looks(self) -> bool:
        """Whether a run begins with a first look, because records score texts."""
        return any(
            isinstance(method, PartsMethod) and method.parts().draws for method in self.released
        )

    @property
    def figures_share(self) -> float:
        """The share of mu^2 that measures the release; 0 if nothing measures it.

        By default, a run that spends nothing else is not measured either.
        """
        spends = any(method.budget_requests() for method in self.released)
        return self.evaluate.public_share if spends or self.evaluate.public is not True else 0.0

    @property
    def measured(self) -> tuple[Method, ...]:
        return tuple(method for method in self.chosen if method.facts.is_measured)

    @property
    def reads_codes(self) -> bool:
        """Whether a method, a metric or an audit uses attribute values of the private texts."""
        shown = self.evaluate.show and bool(self.measured or self.released)
        measures = self.audit.enabled or shown or bool(self.figures_share)
        return measures or any(method.facts.reads_codes for method in self.chosen)

    @property
    def reads_example(self) -> bool:
        """Whether the settings name a file of the embedded example."""
        public = [file for method in self.chosen for file, _ in method.facts.files]
        named = [self.prepare.file, self.prepare.donated, self.prepare.schema_, *public]
        return any(map(is_in_example, named))

    @property
    def contribution_bounds(self) -> ContributionBounds:
        """The unit and the maximum number of its records, for stage prepare."""
        return ContributionBounds(
            unit=self.privacy.unit,
            user_column=self.prepare.user_column,
            records_per_unit=self.privacy.records_per_user,
        )

    def output_settings(self) -> dict[str, Any]:
        """Return the settings that affect an output. `by_method` contains those of each method, and
        `methods` the names of the methods."""
        by_method = {method.name: _output_settings(method) for method in self.chosen}
        return {**super().output_settings(), "methods": list(by_method), "by_method": by_method}

    def changed_output_settings(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the settings `names` (dotted) that affect an output and differ from their default.
        The result contains no defaults, so that new settings of a later version change no digest.
        The result contains no paths of `prepare`, because DVC compares the content of these
        files."""
        default, found = type(self)().output_settings(), self.output_settings()
        for path in ("file", "donated", "schema"):
            found["prepare"][path] = default["prepare"][path]
        return {name: _difference(value_at(found, name), value_at(default, name)) for name in names}

    @model_validator(mode="before")
    @classmethod
    def _derive(cls, fields: Any) -> Any:
        return _derived(fields) if isinstance(fields, dict) else fields

    @model_validator(mode="after")
    def _suits_every_method(self) -> ProjectSettings:
        for method in self.chosen:
            method.check(self._context)
        return self

    @model_validator(mode="after")
    def _whom_it_protects(self) -> ProjectSettings:
        """Refuse settings without a proved guarantee for the unit, or without an effect."""
        person = self.privacy.unit is Unit.USER
        if person and self.prepare.user_column is None:
            raise ValueError(
                "`privacy.unit: user` needs prepare.user_column, the column that names the user of "
                "each record"
            )
        if not person and self.prepare.user_column is not None:
            raise ValueError(
                "prepare.user_column is set, but `privacy.unit: record` protects each record and "
                "not the user. Set `privacy.unit: user` or `prepare.user_column: null`"
            )
        if self.privacy.records_per_user > 1 and (
            self.synthesize_metadata.engine is Engine.SMARTNOISE
        ):
            raise ValueError(
                "`synthesize_metadata.engine: smartnoise` calibrates the noise for one record per "
                "user. Set `engine: sugarbush` or `privacy.records_per_user: 1`"
            )
        return self

    @property
    def declared(self) -> dict[str, tuple[str, ...]]:
        """What the settings declare and nobody can check, by the name of the setting."""
        are_independent = self.prepare.read_options.rows_are_independent
        declared = {
            ROWS_SETTING: ("",) if are_independent else (),
            OVERLAP_SETTING: ("",) if self.prepare.accept_overlap else (),
            DIFFERENT_SETTING: self.privacy.different_from,
        }
        return {setting: of for setting, of in declared.items() if of}

    @property
    def rules(self) -> tuple[FigureRule, ...]:
        """The rules of `release.accept_if`."""
        return tuple(FigureRule.of(name, said) for name, said in self.release.accept_if.items())

    @model_validator(mode="after")
    def _rules_are_about_public_figures(self) -> ProjectSettings:
        """Refuse a rule without public figures, because a rule on exact figures is not private."""
        if self.rules and not self.evaluate.public:
            raise ValueError(
                "release.accept_if is a rule on public figures. Set `evaluate.public: true`, or "
                "remove the rule"
            )
        return self

    @model_validator(mode="after")
    def _audits_public_data(self) -> ProjectSettings:
        if self.audit.enabled and self.privacy.purpose is Purpose.RELEASE:
            raise ValueError(
                "audit.enabled: an audit needs records that the attacker knows. Set audit.enabled: "
                "false or, if the data is public, set privacy.purpose: benchmark"
            )
        return self

    @model_validator(mode="after")
    def _example_is_the_example(self) -> ProjectSettings:
        """Refuse another corpus, because the example's ledger is deleted with the checkout."""
        example = self.privacy.purpose is Purpose.EXAMPLE
        if example and self.prepare.file not in EXAMPLE_FILES:
            raise ValueError(
                "`privacy.purpose: example` is only for the embedded corpus. For the file in "
                "prepare.file, set `privacy.purpose: release` (or `benchmark` if the file is "
                "public), and give privacy.dataset another name"
            )
        return self


def value_at(fields: Any, name: str) -> Any:
    """Return the value of a setting, by its dotted name. Raises KeyError if it is missing."""
    return reduce(lambda section, key: section[key], name.split("."), fields)


def _difference(value: Any, default: Any) -> Any:
    if not (isinstance(value, dict) and isinstance(default, dict)):
        return value
    return {
        name: _difference(own, default.get(name))
        for name, own in value.items()
        if name not in default or own != default[name]
    }


def load_params(path: Path = Path(FILE)) -> ProjectSettings:
    """Read the settings in a YAML file. Raises ParamsError with the file and the setting."""
    try:
        fields = load_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ParamsError(f"{path}: not found. Run the command in the project's folder") from None
    except (OSError, UnicodeDecodeError):
        raise ParamsError(f"{path}: cannot be read as UTF-8 text") from None
    except Exception as error:  # PyYAML raises ValueError for a malformed number or date
        raise ParamsError(f"{path}{yaml_fault(error)}") from None
    return parse_params(fields, source=str(path))


def parse_params(fields: Any, *, source: str = FILE) -> ProjectSettings:
    """Check the settings in a mapping. Raises ParamsError, which names `source` and the setting."""
    if not isinstance(fields, dict):
        raise ParamsError(f"{source}: expected sections, such as 'privacy:'")
    try:
        _require_names(fields, where=source)
        return ProjectSettings.model_validate(fields)
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False)
        raise ParamsError("\n".join(_explain(source, fields, p) for p in problems)) from None
    except RecursionError:
        raise ParamsError(f"{source}: a section contains itself, or is nested too deeply") from None
    except (UnicodeEncodeError, ModelError):  # pydantic cannot encode a lone surrogate
        raise ParamsError(
            f"{source}: a name contains a lone surrogate (half a character). Write the name again"
        ) from None


def _require_names(value: Any, *, where: str) -> None:
    """Raise ParamsError if YAML read a name as another value, such as `on` as true."""
    for name in value if isinstance(value, dict) else ():
        if not isinstance(name, str):
            raise ParamsError(f"{where}: YAML reads a name as {name!r}. Write the name in quotes")
        if has_secret(name):
            raise ParamsError(f"{where}: a name is a URL with a password. {SECRET}")
        _require_names(value[name], where=f"{where}: {name}")
    for each in value if isinstance(value, list) else ():
        _require_names(each, where=where)


def default_fields() -> dict[str, Any]:
    """Return every setting with its default. `methods` contains every installed method.
    `privacy.dataset` and `privacy.purpose` are null, because their values follow from other
    settings."""
    generator = GeneratorSection.model_validate(_every_generator())
    fields = ProjectSettings(generator=generator).model_dump(mode="json", by_alias=True)
    fields["privacy"] |= {"dataset": None, "purpose": None}
    fields["methods"] = {name: _method_defaults(name) for name in plugin_names(METHODS)}
    return fields


def _method_defaults(name: str) -> dict[str, Any]:
    kind = method_class(name)
    required = {n: "required" for n, field in kind.model_fields.items() if field.is_required()}
    method = kind.model_construct(None, **required) if required else kind()
    return method.model_dump(mode="json", warnings=False)


def _every_generator() -> dict[str, Any]:
    """Return a section for each installed generator, with `required` for a missing default."""
    classes = {name: generator_class(name) for name in plugin_names(GENERATORS)}
    return {
        name: {n: "required" for n, field in kind.model_fields.items() if field.is_required()}
        for name, kind in classes.items()
    }


def _output_settings(method: Method) -> dict[str, Any]:
    """Return a method's settings, and the versions of the packages that add it or its detectors."""
    package, others = package_of(METHODS, method.name), method.facts.packages
    return (
        method.output_settings()
        | ({} if package is None else {"package": package})
        | ({"packages": others} if others else {})
    )


def complete_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in a mapping, completed with defaults."""
    whole = default_fields()
    deep_merge(whole, copy.deepcopy(dict(fields)))
    return whole


def _derived(fields: dict[str, Any]) -> dict[str, Any]:
    """Add the settings that depend on the data file. With the user's own data file, the generator
    gets no donated examples of the embedded example, and another ledger is charged."""
    fields = {name: _fields_of(section) for name, section in fields.items()}
    prepare, privacy = (dict(_section(fields, name)) for name in ("prepare", "privacy"))
    example = str(prepare.get("file", EXAMPLE_FILE)) in EXAMPLE_FILES
    if not example:
        given = prepare.get("donated", PrepareSettings.model_fields["donated"].default)
        prepare["donated"] = None if is_in_example(str(given)) else given
    if privacy.get("dataset") is None:
        privacy["dataset"] = "example" if example else ""
    if privacy.get("purpose") is None:
        privacy["purpose"] = "example" if example else "release"
    for name, section in (("prepare", prepare), ("privacy", privacy)):
        if isinstance(fields.get(name, {}), dict):
            fields[name] = section
    return fields | _with_shared_limits(fields)


def _fields_of(section: Any) -> Any:
    if isinstance(section, Section):
        return section.model_dump(by_alias=True, exclude_unset=True)
    return section


def _section(fields: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a section, or {} if it is missing or malformed. pydantic reports the error."""
    section = fields.get(name)
    return section if isinstance(section, dict) else {}


def _with_shared_limits(fields: dict[str, Any]) -> dict[str, Any]:
    """Return `extract_metadata`, with missing limits copied from generator.openai."""
    section, other = fields.get("extract_metadata", {}), _section(fields, "generator").get("openai")
    if not (isinstance(section, dict) and isinstance(other, dict)):
        return {}
    own = section.get("llm")
    if not isinstance(own, dict):
        return {}
    shared = {name: other[name] for name in SHARED_BY_ENDPOINTS if name in other}
    return {"extract_metadata": {**section, "llm": {**shared, **own}}}


def dataset_name(file: str) -> str:
    """Return a dataset name for a file name: at most 64 characters of a-z, 0-9 and ._-"""
    return re.sub(r"[^a-z0-9._-]+", "-", Path(file).stem.lower()).strip("._-")[:64] or "data"


def _explain(source: str, fields: Any, problem: Any) -> str:
    place = ".".join(str(key) for key in problem["loc"])
    arrived = _at(fields, problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"{source}: {place} is not a known setting{_meant(problem['loc'])}"
    if problem["type"] == "missing":
        return f"{source}: {place} is missing."
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "string_type" and not isinstance(arrived, dict | list):
        message = "expected a text. Put it in quotation marks"
    # An address may contain a password, also without its scheme.
    hidden = isinstance(arrived, dict | list) or any(mark in str(arrived) for mark in ("://", "@"))
    got = "" if hidden else f" (got {arrived!r})"
    where = f"{source}: {place}" if place else source
    return f"{where}: {message.removesuffix('.')}{got}."


def _at(fields: Any, location: tuple[str | int, ...]) -> Any:
    for key in location:
        try:
            fields = fields[key]
        except (KeyError, IndexError, TypeError):
            return {}
    return fields


def _meant(location: tuple[str | int, ...]) -> str:
    model: Any = ProjectSettings
    for key in location[:-1]:
        field = getattr(model, "model_fields", {}).get(str(key))
        if field is not None:
            model = next((t for t in get_args(field.annotation) if t), field.annotation)
        else:
            classes = {GeneratorSection: generator_class, MethodsSection: method_class}
            model = classes[model](str(key)) if model in classes else None
    names = [f.alias or n for n, f in getattr(model, "model_fields", {}).items()]
    close = difflib.get_close_matches(str(location[-1]), names, n=1)
    return f"; did you mean {close[0]}?" if close else "."
