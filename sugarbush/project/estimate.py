"""`sugarbush estimate`: estimates the calls, tokens and cost of a run, and sends nothing.

The number of the generator's calls depends only on settings and public files. The number of calls
for labels is an exact count of private texts, so only the operator's terminal shows this number.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from sugarbush.generators.openai.cost import journal_path, read_journal, spending_by_batch
from sugarbush.generators.openai.endpoint_settings import EndpointSettings
from sugarbush.preparation.corpus import read_corpus
from sugarbush.project.check import schema_of_project
from sugarbush.rehearsal.estimate import Estimate, estimate, estimate_labels
from sugarbush.rehearsal.preflight import planned_calls
from sugarbush.release.folders import read_record_count
from sugarbush.run.context import Project


def show_estimate(project: Project, console: Console) -> None:
    """Print the calls and tokens of each stage. Also print the cost and the least time that the
    rate limits allow, if they are known."""
    schema, settings = schema_of_project(project), project.settings
    donated = project.inputs.donated_texts()
    count = read_record_count(project.roots)
    if schema.asked_of_llm:
        labels = settings.extract_metadata.label_endpoint
        records = read_corpus(project).records() if settings.reads_codes else ()
        texts = (record.text for record in records)
        label_estimate = estimate_labels((*texts, *donated), schema.asked_of_llm, labels)
        _print(label_estimate, labels, console)
    for method in settings.chosen:
        if not method.facts.asks_generator:
            console.print(f"{method.name} needs no generator, because it trains its own model.")
    if not any(method.facts.asks_generator for method in settings.chosen):
        return
    planned = planned_calls(project, donated, record_count=count)
    endpoint = settings.generator.chosen.endpoint
    _print(estimate(planned, endpoint), endpoint, console)
    if endpoint is None:
        console.print(
            f"Provider '{settings.generator.provider}' runs on this machine: no cost but time."
        )
    else:
        _print_paid(project, console)
    if count is None and planned != planned_calls(project, donated, record_count=0.0):
        console.print(
            "The DP record count is not known yet, so the estimate assumes the most calls. To fix "
            "the number of calls, set methods.<method>.candidates and release.texts."
        )


def _print(forecast: Estimate, endpoint: EndpointSettings | None, console: Console) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("stage", overflow="fold")
    table.add_column("what", overflow="fold")
    table.add_column("calls", justify="right")
    if endpoint is not None:
        for column in ("prompt tokens", "answer tokens", "at most"):
            table.add_column(column, justify="right")
    for line in forecast.lines:
        most = line.most_prompt_tokens + line.most_completion_tokens
        tokens = (f"{line.prompt_tokens:,}", f"{line.completion_tokens:,}", f"{most:,}")
        token_cells = tokens if endpoint is not None else ()
        table.add_row(line.stage, line.what, f"{line.calls:,}", *token_cells)
    console.print(table)
    if endpoint is None:
        console.print(f"{forecast.calls:,} calls")
        return
    console.print(f"{forecast.calls:,} calls to {endpoint.address}, model '{endpoint.model}'")
    if forecast.cost is None or forecast.most_cost is None:
        console.print(f"No cost: {endpoint.setting}.prices has no price of this model.")
    else:
        date = endpoint.prices[endpoint.model].date
        console.print(
            f"Cost: about {forecast.cost:.2f}, at most {forecast.most_cost:.2f}, at the prices of "
            f"{date}"
        )
        if endpoint.prices[endpoint.model].cached is not None:
            share = sum(line.cached_prompt_tokens for line in forecast.lines) / max(
                sum(line.prompt_tokens for line in forecast.lines), 1
            )
            console.print(f"Of the prompt tokens, {share:.0%} can come from a prefix cache.")
    console.print(f"Time: at least {forecast.minutes:.1f} minutes by the rate limits")
    for cap in _caps_in_the_way(forecast, endpoint):
        console.print(f"{endpoint.setting}.{cap} is less than a run needs. Raise it")


def _caps_in_the_way(forecast: Estimate, endpoint: EndpointSettings) -> list[str]:
    caps = []
    if endpoint.max_calls is not None and forecast.calls > endpoint.max_calls:
        caps.append(f"max_calls={endpoint.max_calls:,}")
    if endpoint.max_cost is not None and (forecast.cost or 0.0) > endpoint.max_cost:
        caps.append(f"max_cost={endpoint.max_cost:g}")
    return caps


def _print_paid(project: Project, console: Console) -> None:
    paid = read_journal(journal_path(project.state, project.settings.privacy.dataset))
    for spent in spending_by_batch(paid):
        tokens = spent.prompt_tokens + spent.completion_tokens
        cached = f" ({spent.cached_prompt_tokens:,} cached)" if spent.cached_prompt_tokens else ""
        cost = "no price" if spent.unpriced == spent.calls else f"cost {spent.cost:.4g}"
        console.print(
            f"Paid so far: {spent.stage} {spent.what}, {spent.calls:,} calls, {tokens:,} tokens"
            f"{cached}, {cost}"
        )
