"""Parses the section `generator` of the settings."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from sugarbush.errors import ParamsError
from sugarbush.generators.interface import GeneratorSettings
from sugarbush.registry import GENERATORS, load_plugin, plugin_names
from sugarbush.settings import Section, parse_sections

T = TypeVar("T", bound=GeneratorSettings)


class GeneratorSection(Section):
    """The section `generator`. `provider` names the generator. Each generator has its settings in
    its own section.

    A plug-in's section is parsed by the class that the plug-in registers. Only generators with a
    section are imported.
    """

    model_config = ConfigDict(extra="allow")

    provider: str = "simulator"
    """The generator: simulator, pool, openai, huggingface, or the name of a plug-in."""
    max_dropped_share: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Stop if a larger share of the answers is unusable. Above 0, one of several may be
    unusable.
    """

    @property
    def chosen(self) -> GeneratorSettings:
        """The settings of the generator in `provider`."""
        return self.of(generator_class(self.provider))

    def of(self, kind: type[T]) -> T:
        """Return the settings of a generator, or its defaults if it has no section."""
        section = (self.__pydantic_extra__ or {}).get(kind.name)
        return section if isinstance(section, kind) else kind()

    def identity(self) -> dict[str, Any]:
        return {"provider": self.provider, **self.chosen.identity()}

    def output_settings(self) -> dict[str, Any]:
        return {**super().output_settings(), self.provider: self.chosen.output_settings()}

    @field_validator("provider")
    @classmethod
    def _is_installed(cls, provider: str) -> str:
        generator_class(provider)
        return provider

    @model_validator(mode="before")
    @classmethod
    def _parse_sections(cls, fields: Any) -> Any:
        """Parse the section of each generator with its settings class.

        Errors name the section and the field.
        """
        if not isinstance(fields, dict):
            return fields
        common_fields = {name: value for name, value in fields.items() if name in cls.model_fields}
        sections = {str(name): value for name, value in fields.items() if name not in common_fields}
        provider = common_fields.get("provider", cls.model_fields["provider"].default)
        if provider in plugin_names(GENERATORS):
            sections.setdefault(provider, {})
        kinds = {name: _kind(name) for name in sections}
        return common_fields | parse_sections(kinds, sections)


def generator_class(name: str) -> type[GeneratorSettings]:
    """Return the settings class of a generator. Raises ValueError for an unknown name."""
    try:
        settings_class: type[GeneratorSettings] = load_plugin(GENERATORS, name)
    except ParamsError as error:
        raise ValueError(str(error)) from None
    return settings_class


def _kind(name: str) -> Any:
    """Return the type of the section `name`. The type of an unknown section refuses all values."""
    try:
        return generator_class(name)
    except ValueError as error:
        reason = f"is not a setting, and {error}"

    def refuse(_: object) -> object:
        raise ValueError(reason)

    return Annotated[Any, BeforeValidator(refuse)]
