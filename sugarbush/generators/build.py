"""The generator that the settings name, its libraries loaded only then."""

from __future__ import annotations

import sys
from pathlib import Path

from sugarbush.errors import InvariantError
from sugarbush.generators.interface import Generator
from sugarbush.generators.settings import GeneratorSettings, Provider


def build_generator(
    params: GeneratorSettings, *, state: Path, account: str, stage: str
) -> Generator:
    """The generator of `params.provider`, ready to be asked; `pool` needs texts and is not built.

    `state` is the folder that holds the answers of `openai` and `huggingface`; `account` is whose
    caps on calls and cost hold (a `privacy.dataset`), `stage` what the journal of paid calls files
    them under: both matter to `openai` alone.
    """
    match params.provider:
        case Provider.SIMULATOR:
            from sugarbush.examples.simulator.writer import Simulator

            return Simulator(seed=params.seed)
        case Provider.HUGGINGFACE:
            from sugarbush.generators.huggingface import HuggingFaceGenerator

            return HuggingFaceGenerator(params.huggingface, seed=params.seed, state=state, say=_say)
        case Provider.OPENAI:
            from sugarbush.generators.openai.generator import OpenAiGenerator

            return OpenAiGenerator(
                params.openai,
                seed=params.seed,
                state=state,
                account=account,
                stage=stage,
                say=_say,
            )
        case Provider.POOL:
            raise InvariantError("a pool generator is built from its texts, not from settings")


def _say(line: str) -> None:
    """Beside the progress bar, on stderr."""
    print(line, file=sys.stderr, flush=True)
