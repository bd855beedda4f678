"""Collects the facts on the release card from a run's settings and ledger entries."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from itertools import zip_longest
from pathlib import PureWindowsPath
from typing import Any, Protocol
from urllib.parse import urlsplit

from sugarbush.attributes.settings import ExtractMetadataSettings
from sugarbush.data.formats.names import formats_for
from sugarbush.data.mix import mix_sentence
from sugarbush.data.schema import Schema
from sugarbush.data.settings import FRAME, PrepareSettings
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.evolution.inputs import ReleaseSettings
from sugarbush.evolution.parts import Lineage
from sugarbush.evolution.starts import TABLE
from sugarbush.generators.interface import GeneratorFacts
from sugarbush.generators.settings import GeneratorSection
from sugarbush.methods.interface import Method, card_remarks
from sugarbush.paths import last_part
from sugarbush.privacy.budget import BudgetPlan
from sugarbush.privacy.entries import ACCEPTED
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.remarks import (
    DECLARED,
    DIFFERENT_SETTING,
    EMBEDDINGS,
    INTEGER_NOISE,
)
from sugarbush.privacy.settings import PrivacySettings
from sugarbush.privacy.spending import spending_of
from sugarbush.registry import ENCODERS, FORMATS, GENERATORS, METHODS, package_of
from sugarbush.report.model import PublicQuality, ReleaseFacts
from sugarbush.report.settings import PublicationSettings, ReportSettings
from sugarbush.tables.settings import SynthesizeMetadataSettings
from sugarbush.training.dpsgd.settings import TrainingSettings

_SOFTWARE = (
    "sugarbush",
    "dp-accounting",
    "opendp",
    "sentence-transformers",
    "torch",
    "transformers",
    "openai",
    "faiss-cpu",
    "numpy",
)
_ENCODERS = {
    "bundled": "all-MiniLM-L6-v2 (bundled)",
    "light": "light (bundled, learned from all-MiniLM-L6-v2)",
}


class FactSettings(Protocol):
    """The settings that a card shows. `ProjectSettings` has them."""

    @property
    def privacy(self) -> PrivacySettings: ...

    @property
    def prepare(self) -> PrepareSettings: ...

    @property
    def extract_metadata(self) -> ExtractMetadataSettings: ...

    @property
    def synthesize_metadata(self) -> SynthesizeMetadataSettings: ...

    @property
    def generator(self) -> GeneratorSection: ...

    @property
    def embedding(self) -> EmbeddingSettings: ...

    @property
    def training(self) -> TrainingSettings: ...

    @property
    def report(self) -> ReportSettings: ...

    @property
    def publication(self) -> PublicationSettings: ...

    @property
    def chosen(self) -> tuple[Method, ...]: ...

    @property
    def release(self) -> ReleaseSettings: ...

    @property
    def released(self) -> tuple[Method, ...]: ...

    @property
    def declared(self) -> Mapping[str, tuple[str, ...]]: ...


@dataclass(frozen=True, kw_only=True)
class ReleaseContents:
    """What a release contains: the counts of texts by method, and the number of donated texts.

    `engine` made the DP table, if there is one. `earlier` contains the methods of the other folders
    in data/released.
    """

    texts: Mapping[str, Mapping[str, int]]
    donated: int
    engine: str | None
    earlier: Sequence[Method] = ()


def release_facts(
    settings: FactSettings,
    schema: Schema,
    contents: ReleaseContents,
    *,
    ledger: Ledger,
    ledger_ids: Sequence[str],
    plan: BudgetPlan,
    quality: PublicQuality | None = None,
) -> ReleaseFacts:
    """Collect the facts of the release with the ledger entries in `ledger_ids`.

    The facts are those of the ledger as it is now, also if `ledger` is an earlier snapshot.
    """
    ledger = ledger.snapshot()  # another run may charge between the total and the head
    privacy, released = settings.privacy, settings.released
    earlier_runs = ledger.declared()  # the totals count their charges
    declared = {*settings.declared, *earlier_runs}
    asks = any(method.facts.asks_generator for method in released)
    starts = [
        method.facts.starts_from for method in released if method.facts.starts_from is not None
    ]
    encoder = settings.embedding.model
    return ReleaseFacts(
        title=settings.report.title or f"Synthetic {schema.subject}",
        dataset=privacy.dataset,
        purpose=privacy.purpose,
        unit=privacy.unit,
        records_per_unit=privacy.records_per_user,
        delta=privacy.delta,
        spending=spending_of(ledger, ledger_ids, delta=privacy.delta),
        ledger_head=ledger.head(),
        cap=ledger.cap,
        cap_raises=ledger.cap_raises(),
        different_from=_distinct(*privacy.different_from, *earlier_runs.get(DIFFERENT_SETTING, ())),
        accepted_charges=sum(entry.repair == ACCEPTED for entry in ledger.entries()),
        cancelled_charges=len(ledger.cancelled()),
        plan=plan,
        schema=schema,
        donated=contents.donated,
        generator=_without_paths(settings.generator.chosen.facts()) if asks else None,
        starts_from=starts[0] if starts else None,
        encoder=_ENCODERS.get(encoder) or last_part(encoder),
        methods=tuple(method.name for method in released),
        software=software_versions() | _plugin_versions(settings),
        created=datetime.now(UTC).date().isoformat(),
        engine=contents.engine,
        labels_endpoint=_hosts(settings.extract_metadata.label_endpoint.address)
        if schema.asked_of_llm
        else None,
        other_packages=_packages_with_private_texts(settings),
        texts=contents.texts,
        remarks=_distinct(
            *([mix_sentence(settings.release.mix)] if settings.release.mix else ()),
            *_remarks(
                (*released, *contents.earlier), schema, has_table=contents.engine is not None
            ),
            *((INTEGER_NOISE, EMBEDDINGS) if quality is not None else ()),
            *(remark for setting, remark in DECLARED.items() if setting in declared),
        ),
        settings=_shown_settings(settings),
        publication=settings.publication,
        quality=quality,
        shown=ledger.shown(),
    )


def _distinct(*texts: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _remarks(methods: Iterable[Method], schema: Schema, *, has_table: bool) -> tuple[str, ...]:
    """Return each remark of the DP table and of the methods once."""
    declared = [*(TABLE.remarks if has_table else ())]
    for method in methods:
        declared += card_remarks(method, schema)
    return tuple(dict.fromkeys(declared))


def text_counts(lineage: Lineage) -> dict[str, int]:
    """Count all texts of a release, texts that were scored, and texts after the last scores."""
    final = lineage.final
    afterwards = int((final.rounds > len(lineage.rounds)).sum())
    voted_on = 0 if lineage.last is None else len(final) - afterwards
    return {"released": len(final), "voted_on": voted_on, "written_afterwards": afterwards}


def _packages_with_private_texts(settings: FactSettings) -> tuple[str, ...]:
    """Return other authors' packages that read private texts: for a method, encoder, detector or
    format."""
    of_methods = (package for method in settings.chosen for package in method.facts.packages)
    return _distinct(*_packages(_readers_of_private_texts(settings)), *of_methods)


def _readers_of_private_texts(settings: FactSettings) -> Iterator[tuple[str, str]]:
    """Yield the group and the name of each plug-in that reads private texts.

    A method whose texts stay private reads them too.
    """
    for method in settings.chosen:
        yield METHODS, method.name
    yield ENCODERS, settings.embedding.model
    if settings.prepare.file != FRAME:
        for name in formats_for(settings.prepare.file):
            yield FORMATS, name


def _packages(plugins: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the package of each plug-in of another author."""
    for group, name in plugins:
        if (package := package_of(group, name)) is not None:
            yield package


def software_versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that affect the guarantee or the texts."""
    versions = {"python": platform.python_version()}
    for name in _SOFTWARE:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _plugin_versions(settings: FactSettings) -> dict[str, str]:
    generator = _packages([(GENERATORS, settings.generator.provider)])
    used = (*_packages_with_private_texts(settings), *generator)
    found = (package.rpartition(" ") for package in used)
    return {name: version for name, _, version in found}


def _shown_settings(settings: FactSettings) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "epsilon": settings.privacy.epsilon,
        "metadata_share": settings.privacy.metadata_share,
        "engine": settings.synthesize_metadata.engine.value,
        "methods": {method.name: dict(method.facts.card_settings) for method in settings.released},
        **({"mix": settings.release.mix} if settings.release.mix else {}),
    }
    generator = settings.generator.chosen
    asks = any(method.facts.asks_generator for method in settings.released)
    if asks and generator.allowed_for_any_texts:
        shown["generator"] = {generator.name: generator.model_dump(mode="json")}
    if any("generate" in method.stages for method in settings.released):
        shown["sampling"] = settings.training.sampling.model_dump()
    return dict(_settings_without_paths(shown))


def _without_paths(facts: GeneratorFacts) -> GeneratorFacts:
    """Keep the last part of each path, and the host of each address. Add the licence to each
    source."""
    known = zip_longest(map(last_part, facts.sources), facts.licences[: len(facts.sources)])
    return replace(
        facts,
        model=facts.model and last_part(facts.model),
        endpoint=facts.endpoint and _hosts(facts.endpoint),
        sources=tuple(f"{name} (licence: {own})" if own else name for name, own in known),
    )


def _hosts(addresses: str) -> str:
    """Return the hosts in `addresses`, because ports, paths and user names are private.

    >>> _hosts("https://ann@llm.example:8443/team/v1, http://localhost:8000/v1")
    'llm.example, localhost'
    """
    urls = addresses.split(", ")
    return ", ".join(dict.fromkeys(urlsplit(url).hostname or last_part(url) for url in urls))


def _settings_without_paths(value: Any) -> Any:
    """Keep the last part of each text that can be a path: absolute, or with no space in it."""
    if isinstance(value, dict):
        return {name: _settings_without_paths(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_settings_without_paths(inner) for inner in value]
    if isinstance(value, str) and (PureWindowsPath(value).anchor or not re.search(r"\s", value)):
        return last_part(value)
    return value
