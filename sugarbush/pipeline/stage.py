"""Declares a stage of the pipeline.

`Stage` says what a stage reads and writes, which settings its output depends on, and whether it
spends budget. dvc.yaml (`pipeline.dvc`), the skipped stages and the modules
`tasks/<name>.py` follow from this declaration.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sugarbush.paths import atomic_directory

if TYPE_CHECKING:
    from sugarbush.methods.interface import Method
    from sugarbush.run.settings import ProjectSettings

SKIP_MARKER = "not_needed.txt"
_OF_RECORDS = ("prepare", "train_texts", "extract_metadata", "train_codes")  # stamps


@dataclass(frozen=True, kw_only=True)
class Output:
    """A file or folder that a stage writes. `path` is relative to the project and may contain
    `{method}`.

    A `keyed` output contains random names of private inputs and keyed digests of public inputs. DVC
    does not copy such an output into its cache. With `persist`, DVC keeps the old output while the
    stage runs. Partly private outputs need `persist`, because DVC must not restore the public part
    alone. The outputs of methods also need `persist`, because they are private for a method without
    a DP guarantee.
    """

    path: str
    keyed: bool = False
    persist: bool = False


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage.

    `inputs` contains files and folders that DVC may see. The output of the stage depends on
    `settings` (sections of the resolved settings) and `plan` (requests of the budget plan), and on
    all code. A stage that spends budget declares a `version` instead of code, because an edited
    comment must not cost epsilon. With `by_method`, the stage runs once for each method. With
    `always`, it runs in every run, and decides itself whether its output is up to date.
    """

    name: str
    description: str
    inputs: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    plan: tuple[str, ...] = ()
    version: int | None = None
    outputs: tuple[Output, ...] = ()
    spends: bool = False
    by_method: bool = False
    always: bool = False

    @property
    def module(self) -> str:
        return f"sugarbush.pipeline.stages.{self.name}"

    @property
    def depends_on_code(self) -> bool:
        """Whether a change of the code makes the stage stale for DVC."""
        return not self.spends and not self.always

    @property
    def reads_records(self) -> bool:
        """Whether the output depends on the records that stage prepare wrote."""
        return any(Path(path).stem in _OF_RECORDS for path in self.inputs)

    def is_needed(self, settings: ProjectSettings, method: Method | None = None) -> bool:
        """Return whether the chosen methods need the stage."""
        if self.by_method:
            return method is not None and self.name in method.stages
        if self.name == "make_example":
            return settings.reads_example
        if self.name == "look":
            return settings.looks
        if self.name == "measure":
            return bool(settings.figures_share and settings.released)
        if self.name == "pretrain":
            return any(chosen.facts.pretrained for chosen in settings.chosen)
        return self.name != "audit" or settings.audit.enabled

    def skip(self, base: Path, method: Method | None = None) -> None:
        """Write a marker instead of each output, because DVC warns about an empty folder."""
        for output in self.outputs:
            path = base / output.path.format(method=method.name if method else "")
            with atomic_directory(path) as folder:
                (folder / SKIP_MARKER).write_text("No method of params.yaml needs this stage.\n")
