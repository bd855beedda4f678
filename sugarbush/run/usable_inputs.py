"""Refuses a schema or a generator with which no release can be good, and a missing package, before
a run reads a record or spends budget.

The checks use only the settings and the schema, so they need no private data and no time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sugarbush.attributes.placeholders import placeholders
from sugarbush.data.mix import require_mix
from sugarbush.data.private_columns import refuse_private_columns
from sugarbush.data.remote import require_packages_of_source
from sugarbush.data.schema import Schema
from sugarbush.errors import ParamsError, SchemaError
from sugarbush.evolution.starts import LABELS, METADATA
from sugarbush.extras import require_extra
from sugarbush.paths import find_input
from sugarbush.privacy.settings import Purpose
from sugarbush.run import cluster, observers
from sugarbush.run.context import Project
from sugarbush.run.settings import ProjectSettings
from sugarbush.tables.settings import Engine

_ANOTHER_DOMAIN = """\
generator.provider: {name} writes texts of one fixed domain, whatever your texts are. No budget \
was spent. Choose a generator for your texts:
  openai       an endpoint, hosted or your own (generator.openai; in Python sb.OpenAI)
  huggingface  a language model on this machine (generator.huggingface; sb.HuggingFace)
  pool         public texts of the same kind (generator.pool; sb.Pool)
To try the tool with useless texts, set generator.{name}.any_texts: true (in Python \
sb.Simulator(any_texts=True)). A run spends budget then too"""


def require_packages(settings: ProjectSettings, base: Path) -> None:
    """Raise ParamsError if an optional package that the settings need is missing.

    The message names the extra. The packages are not imported, and no record is read.
    """
    for name in _sources(settings):
        require_packages_of_source(name)
    if any(method.facts.asks_generator for method in settings.chosen):
        settings.generator.chosen.require_packages()
    for method in settings.chosen:
        for extra, *packages in method.facts.extras:
            require_extra(extra, *packages)
    if settings.synthesize_metadata.engine is Engine.SMARTNOISE:
        from sugarbush.tables.smartnoise import require_smartnoise  # slow

        require_smartnoise()
    cluster.require_packages(settings.run.cluster)
    observers.require_packages(base)


def _sources(settings: ProjectSettings) -> Iterator[str]:
    """Yield the private and public files that the settings name."""
    yield settings.prepare.file
    yield from filter(None, [settings.prepare.donated])
    yield from settings.generator.chosen.public_files()
    for method in settings.chosen:
        yield from (name for name, _ in method.facts.files)
        if method.facts.pretrained is not None:
            yield from (source.file for source in settings.pretrain.sources)


def require_usable_inputs(settings: ProjectSettings, schema: Schema, *, source: str) -> None:
    """Raise ParamsError or SchemaError if no release can be good with these settings.

    `source` names the schema in the message.
    Raises InputError if a text or an attribute contains a private column.
    """
    require_histories(settings, schema)
    refuse_private_columns(schema, settings.prepare, settings.publication.private_columns)
    require_edited_schema(settings, schema, source=source)
    require_generator_for_texts(settings)
    require_possible_mix(settings, schema)


def require_possible_mix(settings: ProjectSettings, schema: Schema) -> None:
    """Raise ParamsError if a release cannot have the shares of `release.mix`."""
    mix = settings.release.mix
    require_mix(mix, schema)
    table = settings.synthesize_metadata.attributes
    label = settings.synthesize_metadata.label or schema.names[0]
    for method in settings.chosen if mix else ():
        drawn = {request.name for request in method.budget_requests()}
        known = [label] if LABELS in drawn else []
        if METADATA in drawn:
            known = list(schema.names if table is None else table)
        if missing := [name for name in mix if name not in known]:
            raise ParamsError(
                f"release.mix.{missing[0]}: method {method.name} draws no DP counts of this "
                f"attribute{': only of ' + ', '.join(known) if known else ''}. Remove the method, "
                "or the attribute from the mix. No budget was spent"
            )


def require_histories(settings: ProjectSettings, schema: Schema) -> None:
    """Raise ParamsError if the schema declares histories, and the settings do not make each user
    one record."""
    form = None if schema.text is None else schema.text.history
    if form is None:
        return
    if settings.prepare.user_column != form.person:  # which needs the unit user
        raise ParamsError(
            "the schema declares histories (text.history), so the unit is the person. Set "
            f"privacy.unit: user and prepare.user_column: {form.person} (text.history.person)"
        )
    if settings.privacy.records_per_user != 1:
        raise ParamsError(
            "privacy.records_per_user: a history is one record of its user, so set it to 1. "
            "text.history.most of the schema limits the records in a history"
        )


def require_usable_project(project: Project) -> None:
    """Raise ParamsError or SchemaError if a package is missing, or if no release can be good
    with the generator and the schema of a project."""
    settings = project.settings
    require_packages(settings, project.base)
    path = find_input(project.base, settings.prepare.schema_)
    require_usable_inputs(settings, project.schema, source=str(path))


def require_edited_schema(settings: ProjectSettings, schema: Schema, *, source: str) -> None:
    """Raise SchemaError if a method uses the schema and the schema is an unedited draft."""
    if not any(
        method.facts.asks_generator or method.facts.reads_codes for method in settings.chosen
    ):
        return
    if found := placeholders(schema):
        lines = "\n".join(f"  {line}" for line in found)
        raise SchemaError(
            f"{source}: this is an unedited draft, and no budget was spent. Edit it first:\n{lines}"
        )


def require_generator_for_texts(settings: ProjectSettings) -> None:
    """Raise ParamsError if a generator of one domain would write for other private texts.

    A benchmark may use such a generator, because its data is public. So may settings that allow
    the generator for any texts.
    """
    generator = settings.generator.chosen
    public = settings.privacy.purpose is Purpose.BENCHMARK
    if writes_another_domain(settings) and not (public or generator.allowed_for_any_texts):
        raise ParamsError(_ANOTHER_DOMAIN.format(name=generator.name))


def writes_another_domain(settings: ProjectSettings) -> bool:
    """Return whether a generator of one fixed domain writes for the user's own data."""
    own = settings.privacy.purpose is not Purpose.EXAMPLE
    asked = any(method.facts.asks_generator for method in settings.chosen)
    return own and asked and settings.generator.chosen.one_domain
