"""A process that asks for texts, to be killed: BASE_URL STATE COUNT MODE [FILE_LIMIT_BYTES].

Prints each answer's digest once it has them all.
"""

from __future__ import annotations

import hashlib
import resource
import sys
from pathlib import Path

from sugarbush.errors import SugarbushError
from sugarbush.llm.openai import OpenAiGenerator
from tests.integration.llm.conftest import endpoint_params, wishes


def main(base_url: str, state: str, count: str, mode: str, file_limit: str = "") -> int:
    if file_limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(file_limit), int(file_limit)))
    generator = OpenAiGenerator(
        endpoint_params(base_url, mode=mode, concurrency=8),
        seed=1,
        state=Path(state),
        account="tickets",
        stage="evolve",
        say=lambda line: print(line, file=sys.stderr),
    )
    try:
        answers = generator.generate(wishes(int(count))).value
    except SugarbushError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    for answer in answers:
        print(hashlib.sha256(str(answer.text).encode()).hexdigest())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
