"""Before anything is spent: does the generator answer, and do the prompts fit it?"""

from __future__ import annotations

from pathlib import Path

from sugarbush.llm.build import build_generator
from sugarbush.llm.estimate import estimate, planned_calls
from sugarbush.params import Params, Provider
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
    if settings.provider is Provider.OPENAI:
        planned = [
            batch
            for method in params.methods
            for batch in planned_calls(params, method, schema=schema, donated=(), candidates=None)
        ]
        estimate(planned, settings.openai)
    generator = build_generator(
        settings, state=state_of(params, base), account=params.privacy.dataset, stage="check"
    )
    probe = getattr(generator, "check", None)
    if probe is not None:
        probe()
