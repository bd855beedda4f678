"""Collects the facts on the release card from a run's settings and ledger entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sugarbush.data.schema import Schema
from sugarbush.deep_merge import deep_merge
from sugarbush.evolution.population import Population
from sugarbush.pipeline.settings import ProjectSettings
from sugarbush.pipeline.shown_runs import shown_count
from sugarbush.privacy.budget import BudgetPlan
from sugarbush.privacy.ledger import Ledger
from sugarbush.registry import ENCODERS, GENERATORS, METHODS, package_of
from sugarbush.report.card import software_versions
from sugarbush.report.model import Release

_ENCODERS = {"bundled": "all-MiniLM-L6-v2 (bundled)"}


def release_facts(
    settings: ProjectSettings,
    schema: Schema,
    *,
    ledger: Ledger,
    ledger_ids: Sequence[str],
    donated: int,
    engine: str | None,
    plan: BudgetPlan,
    texts: Mapping[str, Mapping[str, int]],
) -> Release:
    """Collect the facts of the release with the ledger entries in `ledger_ids`."""
    privacy, released = settings.privacy, settings.released
    asks = any(method.asks_generator for method in released)
    starts = [method.starts_from for method in released if method.starts_from is not None]
    encoder = settings.embedding.model
    return Release(
        title=settings.report.title or f"Synthetic {schema.subject}",
        dataset=privacy.dataset,
        purpose=privacy.purpose,
        unit=privacy.unit,
        records_per_unit=privacy.records_per_user,
        delta=privacy.delta,
        entries=ledger.of(ledger_ids),
        dataset_epsilon=ledger.adaptive_total(),
        cap=privacy.cap,
        different_from=privacy.different_from,
        plan=plan,
        schema=schema,
        donated=donated,
        generator=settings.generator.chosen.facts() if asks else None,
        starts_from=starts[0] if starts else None,
        encoder=_ENCODERS.get(encoder, encoder),
        methods=tuple(method.name for method in released),
        software=software_versions() | _plugin_versions(settings),
        created=datetime.now(UTC).date().isoformat(),
        engine=engine,
        labels_endpoint=settings.extract_metadata.label_endpoint.address
        if schema.asked_of_llm
        else None,
        other_packages=_packages_with_private_texts(settings),
        texts=texts,
        settings=_shown_settings(settings),
        shown_runs=shown_count(ledger.state, f"{privacy.purpose}-{privacy.dataset}"),
    )


def text_counts(final: Population, rounds: int) -> dict[str, int]:
    """Count all texts of a release, texts from rounds, and texts after the last round."""
    afterwards = int((final.rounds > rounds).sum())
    voted_on = len(final) - afterwards if rounds else 0
    return {"released": len(final), "voted_on": voted_on, "written_afterwards": afterwards}


def _packages_with_private_texts(settings: ProjectSettings) -> tuple[str, ...]:
    """Return other authors' packages that add a method or an encoder and so read private texts."""
    used = [(METHODS, method.name) for method in settings.released]
    used.append((ENCODERS, settings.embedding.model))
    packages = (package_of(group, name) for group, name in used)
    return tuple(dict.fromkeys(package for package in packages if package is not None))


def _plugin_versions(settings: ProjectSettings) -> dict[str, str]:
    used = [(METHODS, method.name) for method in settings.released]
    used += [(GENERATORS, settings.generator.provider), (ENCODERS, settings.embedding.model)]
    packages = (package_of(group, name) for group, name in used)
    found = (package.rpartition(" ") for package in packages if package is not None)
    return {name: version for name, _, version in found}


def _shown_settings(settings: ProjectSettings) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "epsilon": settings.privacy.epsilon,
        "shares": settings.privacy.shares.model_dump(),
        "engine": settings.synthesize_metadata.engine.value,
        "evolve": {},
    }
    for method in settings.chosen:
        deep_merge(shown, method.card_settings())
    return shown
