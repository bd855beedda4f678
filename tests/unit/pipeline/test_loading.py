"""Tests that a stage imports only what it uses. Imports take most of the time of a small stage."""

import subprocess
import sys


def test_what_most_runs_do_not_need_is_not_loaded_with_the_stages() -> None:
    program = (
        "import sys;"
        "from sugarbush.pipeline.stages import prepare, extract_metadata, initialise, evolve;"
        "slow = {'torch', 'transformers', 'openai', 'dp_accounting', 'scipy.stats', 'sklearn'};"
        "print(*sorted(slow & set(sys.modules)))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True, timeout=900
    )
    assert loaded.stdout.split() == []
