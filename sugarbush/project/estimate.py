"""Estimates the calls, tokens and cost of a run, and sends nothing.

The number of the generator's calls depends only on settings and public files. The number of calls
for labels is an exact count of private texts, so only the operator may see this number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sugarbush.generators.openai.cost import journal_path, read_journal, spending_by_batch
from sugarbush.generators.openai.endpoint_settings import EndpointSettings
from sugarbush.preparation.corpus import read_corpus
from sugarbush.project.check import schema_of_project
from sugarbush.rehearsal.estimate import Estimate, estimate, estimate_labels
from sugarbush.rehearsal.preflight import planned_calls
from sugarbush.release.folders import read_record_count
from sugarbush.run.context import Project

NAMES = 2  # the first columns of a table contain names, and the others numbers
_TOKENS = ("prompt tokens", "answer tokens", "at most")


@dataclass(frozen=True, kw_only=True)
class EstimateTable:
    """A table of the calls of each stage, and sentences. The table may be empty."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    lines: tuple[str, ...]


def estimate_run(project: Project) -> Iterator[EstimateTable]:
    """Yield the calls and tokens of each stage. Also yield the cost and the least time that the
    rate limits allow, if they are known."""
    schema, settings = schema_of_project(project), project.settings
    donated = project.inputs.donated_texts()
    count = read_record_count(project.roots)
    if schema.asked_of_llm:
        labels = settings.extract_metadata.label_endpoint
        records = read_corpus(project).records() if settings.reads_codes else ()
        texts = (record.text for record in records)
        label_estimate = estimate_labels((*texts, *donated), schema.asked_of_llm, labels)
        yield _table(label_estimate, labels)
    if own := [each.name for each in settings.chosen if not each.facts.asks_generator]:
        text = "{} needs no generator, because it trains its own model."
        yield EstimateTable(lines=tuple(text.format(name) for name in own))
    if len(own) == len(settings.chosen):
        return
    planned = planned_calls(project, donated, record_count=count)
    endpoint = settings.generator.chosen.endpoint
    yield _table(estimate(planned, endpoint), endpoint)
    if endpoint is None:
        text = f"Provider '{settings.generator.provider}' runs on this machine: no cost but time."
        yield EstimateTable(lines=(text,))
    else:
        yield EstimateTable(lines=tuple(_paid_lines(project)))
    if count is None and planned != planned_calls(project, donated, record_count=0.0):
        text = (
            "The DP record count is not known yet, so the estimate assumes the most calls. To fix "
            "the number of calls, set methods.<method>.candidates and release.texts."
        )
        yield EstimateTable(lines=(text,))


def _table(forecast: Estimate, endpoint: EndpointSettings | None) -> EstimateTable:
    rows = []
    for line in forecast.lines:
        most = line.most_prompt_tokens + line.most_completion_tokens
        tokens = (f"{line.prompt_tokens:,}", f"{line.completion_tokens:,}", f"{most:,}")
        cells = (line.stage, line.what, f"{line.calls:,}")
        rows.append(cells if endpoint is None else (*cells, *tokens))
    return EstimateTable(
        columns=("stage", "what", "calls", *(() if endpoint is None else _TOKENS)),
        rows=tuple(rows),
        lines=tuple(_lines(forecast, endpoint)),
    )


def _lines(forecast: Estimate, endpoint: EndpointSettings | None) -> Iterator[str]:
    if endpoint is None:
        yield f"{forecast.calls:,} calls"
        return
    yield f"{forecast.calls:,} calls to {endpoint.address}, model '{endpoint.model}'"
    if forecast.cost is None or forecast.most_cost is None:
        yield f"No cost: {endpoint.setting}.prices has no price of this model."
    else:
        price = endpoint.prices[endpoint.model]
        yield (
            f"Cost: about {forecast.cost:.2f}, at most {forecast.most_cost:.2f}, at the prices of "
            f"{price.date}"
        )
        if price.cached is not None:
            prompts = sum(line.prompt_tokens for line in forecast.lines)
            share = sum(line.cached_prompt_tokens for line in forecast.lines) / max(prompts, 1)
            yield f"Of the prompt tokens, {share:.0%} can come from a prefix cache."
    yield f"Time: at least {forecast.minutes:.1f} minutes by the rate limits"
    for cap in _caps_in_the_way(forecast, endpoint):
        yield f"{endpoint.setting}.{cap} is less than a run needs. Raise it"


def _caps_in_the_way(forecast: Estimate, endpoint: EndpointSettings) -> list[str]:
    caps = []
    if endpoint.max_calls is not None and forecast.calls > endpoint.max_calls:
        caps.append(f"max_calls={endpoint.max_calls:,}")
    if endpoint.max_cost is not None and (forecast.cost or 0.0) > endpoint.max_cost:
        caps.append(f"max_cost={endpoint.max_cost:g}")
    return caps


def _paid_lines(project: Project) -> Iterator[str]:
    paid = read_journal(journal_path(project.state, project.settings.privacy.dataset))
    for spent in spending_by_batch(paid):
        tokens = spent.prompt_tokens + spent.completion_tokens
        cached = f" ({spent.cached_prompt_tokens:,} cached)" if spent.cached_prompt_tokens else ""
        cost = "no price" if spent.unpriced == spent.calls else f"cost {spent.cost:.4g}"
        yield (
            f"Paid so far: {spent.stage} {spent.what}, {spent.calls:,} calls, {tokens:,} tokens"
            f"{cached}, {cost}"
        )
