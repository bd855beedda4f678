"""A process that pays for calls: `python -m tests.integration.llm.run_payer JSON`.

Tests run several such processes on one account. Each process waits for a line on stdin, so that all
start together, and then prints OK or the error.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from sugarbush.attributes.llm_labels import Labeller
from sugarbush.attributes.settings import LabelEndpoint
from sugarbush.data.schema import Attribute
from sugarbush.errors import SugarbushError
from sugarbush.generators.openai.generator import OpenAiGenerator
from tests.integration.llm.conftest import endpoint_params, wishes

MOOD = (Attribute(name="mood", values=("angry", "calm"), column="mood"),)


def label(*, base_url: str, state: str, texts: list[str], **changes: Any) -> None:
    """Read the labels of `texts` from the endpoint."""
    shared = endpoint_params(base_url).model_dump() | {"trusted": True} | changes
    params = LabelEndpoint.model_validate(shared)
    Labeller(params, MOOD, folder=Path(state), account="tickets").codes(texts)


def generate(*, base_url: str, state: str, count: int, **changes: Any) -> None:
    """Request `count` texts. The requests are the same in every process."""
    OpenAiGenerator(
        endpoint_params(base_url, **changes),
        seed=1,
        state=Path(state),
        account="tickets",
        stage="evolve",
        say=lambda line: print(line, file=sys.stderr),
    ).generate(wishes(count))


def main() -> None:
    fields = json.loads(sys.argv[1])
    run = {"label": label, "generate": generate}[fields.pop("run")]
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        run(**fields)
        print("OK")
    except SugarbushError as error:
        print(error)


if __name__ == "__main__":
    main()
