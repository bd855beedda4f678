"""`sugarbush estimate`: what a run asks of its models, before anything is sent.

Of the generator from settings and public files alone. What labels take is counted on the private
texts: like every exact tally, for the operator's terminal only.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from sugarbush.cli.checks import schema_of
from sugarbush.generators.openai.cost import journal_path, read_journal, spending_by_batch
from sugarbush.generators.openai.settings import EndpointSettings
from sugarbush.pipeline.corpus import read_corpus, read_donated
from sugarbush.pipeline.estimate import Estimate, estimate, estimate_labels
from sugarbush.pipeline.project import Project
from sugarbush.pipeline.released import read_record_count


def show_estimate(project: Project, console: Console) -> None:
    """Print calls and tokens by stage, their cost where the model has a price, and the time that
    the endpoint's rate limits make it take."""
    schema, settings = schema_of(project), project.settings
    donated = tuple(read_donated(project)["text"])
    count = read_record_count(project.roots)
    if schema.asked_of_llm:
        labels, records = settings.extract_metadata.label_endpoint, read_corpus(project)
        texts = (record.text for record in (*records.train, *records.heldout))
        found = estimate_labels((*texts, *donated), schema.asked_of_llm, labels)
        _print(found, labels, console)
    for method in settings.chosen:
        if not method.asks_generator:
            console.print(f"{method.name} asks no generator: it trains a model here.")
    if not any(method.asks_generator for method in settings.chosen):
        return
    planned = [
        batch
        for method in settings.chosen
        for batch in method.planned_calls(
            schema=schema,
            donated=donated,
            length=settings.initialise.length,
            record_count=count,
        )
    ]
    endpoint = settings.generator.chosen.endpoint
    _print(estimate(planned, endpoint), endpoint, console)
    if endpoint is None:
        console.print(f"Provider '{settings.generator.provider}' runs here: no cost but time.")
    else:
        _print_paid(project, console)
    if count is None and any(getattr(m, "candidates", 0) is None for m in settings.chosen):
        console.print(
            "The DP record count is not drawn yet, so max_candidates was counted: the most it can "
            "be. Set evolve.<method>.candidates to fix the number of calls beforehand."
        )


def _print(found: Estimate, endpoint: EndpointSettings | None, console: Console) -> None:
    """A table of calls; with an endpoint also of tokens, their cost and the least time."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("stage")
    table.add_column("what")
    table.add_column("calls", justify="right")
    if endpoint is not None:
        for column in ("prompt tokens", "answer tokens", "at most"):
            table.add_column(column, justify="right")
    for line in found.lines:
        most = line.most_prompt_tokens + line.most_completion_tokens
        tokens = (f"{line.prompt_tokens:,}", f"{line.completion_tokens:,}", f"{most:,}")
        shown = tokens if endpoint is not None else ()
        table.add_row(line.stage, line.what, f"{line.calls:,}", *shown)
    console.print(table)
    if endpoint is None:
        console.print(f"{found.calls:,} calls")
        return
    console.print(f"{found.calls:,} calls to {endpoint.base_url}, model '{endpoint.model}'")
    if found.cost is None or found.most_cost is None:
        console.print(f"No price of it in {endpoint.setting}.prices: tokens, and no cost.")
    else:
        date = endpoint.prices[endpoint.model].date
        console.print(
            f"Cost: about {found.cost:.2f}, at most {found.most_cost:.2f}, at the prices of {date}"
        )
    console.print(f"Time: at least {found.minutes:.1f} minutes by the rate limits")
    for cap in _caps_in_the_way(found, endpoint):
        console.print(f"{endpoint.setting}.{cap} is less: a run would stop there")


def _caps_in_the_way(found: Estimate, endpoint: EndpointSettings) -> list[str]:
    """The caps that the planned calls alone would pass, whatever is paid already."""
    caps = []
    if endpoint.max_calls is not None and found.calls > endpoint.max_calls:
        caps.append(f"max_calls={endpoint.max_calls:,}")
    if endpoint.max_cost is not None and (found.cost or 0.0) > endpoint.max_cost:
        caps.append(f"max_cost={endpoint.max_cost:g}")
    return caps


def _print_paid(project: Project, console: Console) -> None:
    """What all runs on this dataset have paid; kept answers are not asked for again."""
    paid = read_journal(journal_path(project.state, project.settings.privacy.dataset))
    for spent in spending_by_batch(paid):
        tokens = spent.prompt_tokens + spent.completion_tokens
        cost = "no price" if spent.unpriced == spent.calls else f"cost {spent.cost:.4g}"
        console.print(
            f"Paid so far: {spent.stage} {spent.what}, {spent.calls:,} calls, {tokens:,} tokens, "
            f"{cost}"
        )
