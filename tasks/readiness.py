"""Before anything is spent: does the generator answer, and do the prompts fit it?"""

from __future__ import annotations

from pathlib import Path

from sugarbush.llm.build import build_generator
from sugarbush.llm.client import Request
from sugarbush.llm.estimate import planned_calls
from sugarbush.params import Params, Provider
from sugarbush.privacy.kinds import Released
from sugarbush.schema import Schema
from tasks.state import state_of


def check_generator(params: Params, base: Path, schema: Schema) -> None:
    """See that the generator can write with these settings; an endpoint is paid a few tokens.

    Raises ParamsError, InputError or GeneratorError saying what to change.
    """
    settings = params.generator
    if settings.provider is Provider.POOL:
        from tasks.pool import load_pool

        load_pool(settings.pool.sources, base=base)
        return
    generator = build_generator(
        settings, state=state_of(params, base), account=params.privacy.dataset, stage="check"
    )
    probe = getattr(generator, "check", None)
    if probe is not None:
        probe(Released(_longest_requests(params, schema)))


def _longest_requests(params: Params, schema: Schema) -> tuple[Request, ...]:
    """One of each batch, as long as settings and schema can make it; examples would give way."""
    return tuple(
        batch.request
        for method in params.methods
        for batch in planned_calls(params, method, schema=schema, donated=(), candidates=None)
    )
