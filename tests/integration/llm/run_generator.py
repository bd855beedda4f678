"""Forks child processes that request texts, so that tests can kill these processes.

The parent imports everything once. Each line on stdin contains the arguments of `ask` as JSON. For
each line, the parent forks a child that writes the digests of its answers to `out` and its messages
to `out`.err. The parent prints the child's pid, waits for the child and prints its exit status.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import sys
from pathlib import Path

from sugarbush.errors import SugarbushError
from sugarbush.generators.openai.generator import OpenAiGenerator
from tests.integration.llm.conftest import endpoint_params, wishes


def ask(*, base_url: str, state: str, count: int, mode: str, out: str, limit: int | None) -> int:
    """Request texts and return the exit status. No file may become larger than `limit` bytes."""
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    generator = OpenAiGenerator(
        endpoint_params(base_url, mode=mode, concurrency=8),
        seed=1,
        state=Path(state),
        account="tickets",
        stage="evolve",
        say=lambda line: print(line, file=sys.stderr),
    )
    try:
        answers = generator.generate(wishes(count)).value
    except SugarbushError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    digests = [hashlib.sha256(str(answer.text).encode()).hexdigest() for answer in answers]
    Path(out).write_text("\n".join(digests))
    return 0


def child(line: str) -> None:
    """Do the work of the child, and end the process. The code after this call is for the parent."""
    status = 70
    try:
        fields = json.loads(line)
        with Path(f"{fields['out']}.err").open("w") as file:
            os.dup2(file.fileno(), 2)
            status = ask(**fields)
            sys.stderr.flush()
    finally:
        os._exit(status)


def main() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            child(line)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
