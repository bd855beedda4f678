"""Makes the settings of a project in memory from arguments of the Python API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sugarbush.data.settings import FRAME
from sugarbush.deep_merge import deep_merge
from sugarbush.errors import ParamsError
from sugarbush.generators.interface import GeneratorSettings
from sugarbush.methods.interface import Method
from sugarbush.privacy.settings import PrivacySettings
from sugarbush.run.settings import ProjectSettings, parse_params


def settings_of_frame(
    *,
    text: str,
    privacy: PrivacySettings,
    generator: GeneratorSettings | None,
    has_donated: bool,
    user: str | None,
    record_id: str | None,
    settings: Mapping[str, Any] | None,
) -> ProjectSettings:
    """Return the settings that prepare a frame. Without `generator`, none is set."""
    sections: dict[str, Any] = {
        "privacy": privacy.model_dump(mode="json"),
        "prepare": {
            "file": FRAME,
            "text_column": text,
            "id_column": record_id,
            "user_column": user,
            "donated": FRAME if has_donated else None,
        },
    }
    if generator is not None:
        sections["generator"] = _generator_section(generator)
    return _project_settings(sections, settings)


def settings_of_run(
    prepared: ProjectSettings,
    *,
    method: Method,
    texts: int | None,
    seed: int,
    settings: Mapping[str, Any] | None,
) -> ProjectSettings:
    """Return the settings of a run on a corpus that was prepared with the settings `prepared`.

    Raises ParamsError if the corpus must be prepared again for these settings.
    """
    fields = prepared.model_dump(mode="json", by_alias=True, exclude_unset=True)
    changes: dict[str, Any] = {}
    if texts is not None:
        changes["release"] = {"texts": texts}
    if seed != 1:
        changes["seed"] = seed
    methods = {"methods": {method.name: method.model_dump(mode="json", by_alias=True)}}
    run = _project_settings({**fields, **_merged(fields, changes), **methods}, settings)
    _refuse_other_preparation(prepared, run)
    return run


def _project_settings(
    sections: Mapping[str, Any], overrides: Mapping[str, Any] | None
) -> ProjectSettings:
    """Return the settings for the API's arguments, after a merge with the caller's settings."""
    fields: dict[str, Any] = {}
    deep_merge(fields, sections)
    deep_merge(fields, dict(overrides or {}))
    return parse_params(fields, source="settings")


def _refuse_other_preparation(prepared: ProjectSettings, run: ProjectSettings) -> None:
    """Raise ParamsError if `run` differs from the settings that prepared the corpus.

    `prepare` limited the records per user. If `run` had another unit or a lower limit, the noise
    would be too small for the corpus.
    """
    was, now = prepared.privacy, run.privacy
    same_unit = (was.unit, was.records_per_user) == (now.unit, now.records_per_user)
    if not same_unit or prepared.prepare != run.prepare:
        raise ParamsError(
            "privacy.unit, privacy.records_per_user or section prepare differ from the settings "
            "that prepared the corpus. Prepare the corpus again with these settings"
        )
    if _public_sources(run) not in [_public_sources(prepared), ((), (), ())]:
        raise ParamsError(
            "the corpus may contain texts from the public files of this generator or of section "
            "pretrain. Prepare the corpus again with these settings, which removes these texts"
        )


def _public_sources(settings: ProjectSettings) -> tuple[tuple[Any, ...], ...]:
    """Return the settings that name public texts, which `prepare` removes from the records."""
    generator = settings.generator.chosen
    sources = getattr(generator, "sources", ())
    texts = (*sources, *getattr(generator, "texts", ()))
    return tuple(generator.public_files()), texts, settings.pretrain.sources


def _merged(fields: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {**fields.get(name, {}), **value} if isinstance(value, dict) else value
        for name, value in changes.items()
    }


def _generator_section(generator: GeneratorSettings) -> dict[str, Any]:
    return {
        "provider": generator.name,
        generator.name: generator.model_dump(mode="json", by_alias=True),
    }
