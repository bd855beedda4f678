"""`sugarbush check`: everything that can be known before anything is spent."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console

from sugarbush.cli.staleness import would_draw
from sugarbush.data.schema import Schema, load_schema
from sugarbush.errors import InputError, ParamsError
from sugarbush.evolution.settings import PromptContent
from sugarbush.paths import Roots, find_input
from sugarbush.pipeline.budget import open_ledger, plan_for
from sugarbush.pipeline.labeller import open_labeller
from sugarbush.pipeline.preflight import check_generator, check_model
from sugarbush.pipeline.settings import ProjectSettings
from sugarbush.pipeline.stages.prepare import prepared, unmatched_attributes
from sugarbush.pipeline.stages.synthesize_metadata import label_attribute
from sugarbush.privacy.settings import Purpose

TOY_NOTICE = (
    "           but the simulator writes customer-service texts whatever your own are.\n"
    "           For a result that is like them set generator.provider to openai, huggingface or\n"
    "           pool (README: Who writes the texts)"
)

SLIP_NOTICE = (
    "           but attribute '{}' is never told: no row's column holds a value that the schema\n"
    "           lists, so that every record falls into the bucket. Compare how they are written."
)


def generator_is_a_toy(params: ProjectSettings) -> bool:
    """Whether one's own data would be imitated by the example's generator."""
    own = params.privacy.purpose is not Purpose.EXAMPLE
    asked = bool(params.evolving) and params.generator.chosen.one_domain
    return own and asked


def goes_in_the_clear(base_url: str) -> bool:
    """Whether what is sent there can be read on the way: http, and not to this machine."""
    parts = urlsplit(base_url)
    if parts.scheme != "http" or parts.hostname == "localhost":
        return False
    try:
        return not ip_address(parts.hostname or "").is_loopback
    except ValueError:  # a name
        return True


def check(base: Path, params: ProjectSettings, console: Console) -> None:
    """Print one line a thing that is in order. Raises the first error of each that is not."""
    console.print("settings   ok")
    schema = schema_of(base, params)
    console.print(f"schema     ok: {len(schema.attributes)} attributes")
    label_attribute(params, schema)
    _prompts(params)
    if not example_is_made(base, params):
        console.print("data       the embedded example; its first stage makes it")
    else:
        parts = prepared(base, params, schema)
        console.print("data       ok")
        for name in unmatched_attributes(parts, schema):
            console.print(SLIP_NOTICE.format(name), soft_wrap=True)
    if (labeller := open_labeller(params, Roots(base), schema)) is not None:
        labeller.check()
        asked = params.extract_metadata.label_endpoint.base_url
        how = ", UNENCRYPTED over the network" if goes_in_the_clear(asked) else ""
        console.print(f"labels     ok: {asked} answers, and will be sent every private text{how}")
    if params.evolving:
        check_generator(params, base, schema)
        console.print(f"generator  ok: {params.generator.provider}")
    if params.trains:
        check_model(params, schema)
        console.print(f"model      ok: {params.finetune.chosen.model}")
    if params.redacts:
        from sugarbush.training.crt.start import check_start

        check_start(params.crt)
        console.print(f"model      ok: {params.crt.model} (crt)")
    if generator_is_a_toy(params):
        console.print(TOY_NOTICE, soft_wrap=True)
    plan = plan_for(params)
    ledger = open_ledger(params, base)
    if example_is_made(base, params) and not would_draw(base, params):
        console.print("budget     ok: what spends is up to date, a run draws nothing")
        return
    ledger.check([part.event for part in plan.allocations])
    console.print(
        f"budget     ok: a run plans epsilon {plan.epsilon:.4g} at delta {plan.delta:g}; "
        f"spent so far {ledger.total():.4g} of {ledger.cap:g}"
    )


def example_is_made(base: Path, params: ProjectSettings) -> bool:
    """False on a fresh checkout that is set to the example: its first stage makes the corpus."""
    return params.privacy.purpose is not Purpose.EXAMPLE or (base / params.prepare.file).exists()


def schema_of(base: Path, params: ProjectSettings) -> Schema:
    """The schema. Raises InputError where it is the example's, which is not made yet."""
    path = find_input(base, params.prepare.schema_)
    if not example_is_made(base, params):
        raise InputError(f"{path}: the example is not made yet; run: dvc repro make_example")
    return load_schema(path)


def _prompts(params: ProjectSettings) -> None:
    for method in params.evolving:
        prompt = params.evolve.of(method).prompt
        if prompt in {PromptContent.EXAMPLES, PromptContent.BOTH} and not params.prepare.donated:
            raise ParamsError(
                f"params.yaml: evolve.{method}.prompt={prompt} shows donated examples; set "
                "prepare.donated, or choose prompt: metadata"
            )
