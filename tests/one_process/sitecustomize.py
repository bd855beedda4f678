"""If this folder is on PYTHONPATH, DVC runs its stages in its own process, and flows fork DVC.

The imports of a stage take seconds, and most stages import the same modules. If a test only checks
which stages DVC runs, it does not need a process per stage, and the modules are imported only once.
Python imports this file at its start.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def run_here(executable: str, cmd: str, *, cwd: str, env: dict[str, str], **_: Any) -> None:
    """Run the command of a stage here, in place of the shell that DVC would start."""
    from one_stage import run  # type: ignore[import-not-found]  # from the same folder

    run(cmd, cwd=cwd, env=env)


def in_one_process(module: ModuleType) -> None:
    """Make DVC run its stages here."""
    assert callable(module._run)
    module._run = run_here  # type: ignore[attr-defined]
    # DVC reads dvc.lock again after every stage. Reading it without keeping its comments, of which
    # it has none, is several times faster.
    from dvc.utils.serialize import _yaml

    _yaml.parse_yaml_for_update = _yaml.parse_yaml


def with_forks(module: ModuleType) -> None:
    """Make flows start DVC as forks of one process."""
    import forked  # type: ignore[import-not-found]  # from the same folder

    module.subprocess = forked  # type: ignore[attr-defined]


PATCHES = {"dvc.stage.run": in_one_process, "sugarbush.pipeline.flow": with_forks}


class _Patched:
    """Finds the modules that start other processes, and changes them after their import."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name not in PATCHES:
            return None
        patch = PATCHES.pop(name)
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.loader is not None
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            patch(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, _Patched())
