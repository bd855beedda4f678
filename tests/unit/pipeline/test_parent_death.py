"""A stage that starts after the death of its DVC process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

START = """
import os
from sugarbush.pipeline.parent_death import die_with_dvc
os.getppid = lambda: {parent}
die_with_dvc()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only the Linux kernel ends a stage with DVC")
@pytest.mark.parametrize(
    ("parent", "stage", "code"), [(1, "evolve", 1), (7, "evolve", 0), (1, None, 0)]
)
def test_a_stage_ends_if_dvc_ended_before_it(parent: int, stage: str | None, code: int) -> None:
    """The kernel tells nobody of a death before the request, so the stage would spend budget."""
    environment = {k: v for k, v in os.environ.items() if k != "DVC_STAGE"}
    environment |= {"DVC_STAGE": stage} if stage else {}
    started = subprocess.run(
        [sys.executable, "-c", START.format(parent=parent)], env=environment, check=False
    )
    assert started.returncode == code
